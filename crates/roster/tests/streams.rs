//! Persistent search and content synchronisation with real clients: OpenLDAP's tools, python-ldap,
//! JNDI, and a slapd that keeps a copy.
//!
//! They come from Debian; `cargo xtask test` installs them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]
#![allow(clippy::disallowed_methods, reason = "asking programs again is the only way")]

mod common;
mod demo;

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::have;
use demo::Demo;

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const PYTHON: &str = "/usr/bin/python3";
const SLAPD: &str = "/usr/sbin/slapd";

/// One that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One of OpenLDAP's tools as the administrator.
fn tool(demo: &Demo, name: &str) -> Command {
    let mut command = Command::new(name);
    command
        .args(["-x", "-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-w", &demo.admin_password])
        .env("LDAPNOINIT", "1");
    command
}

fn change(demo: &Demo, ldif: &str) {
    let mut child =
        tool(demo, "ldapmodify").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(ldif.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{ldif}");
}

/// Waits until a text is as it has to be.
#[track_caller]
fn until(mut text: impl FnMut() -> String, is_so: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let found = text();
        if is_so(&found) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "{found}");
        sleep(Duration::from_millis(100));
    }
}

fn text(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

fn description(number: usize, value: &str) -> String {
    format!(
        "dn: uid=user.{number},{PEOPLE}\nchangetype: modify\nreplace: description\n\
         description: {value}\n\n"
    )
}

#[test]
fn ldapsearch_is_told_what_changes() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(20);
    let once = tool(&demo, "ldapsearch")
        .args(["-b", PEOPLE, "-E", "sync=ro", "(uid=user.1)", "cn"])
        .output()
        .unwrap();
    let once = text(&once);
    assert!(once.contains("dn: uid=user.1,") && once.contains("result: 0 Success"), "{once}");
    // Changes of all kinds, with what has happened.
    let changes = "!2.16.840.1.113730.3.4.3=::MAkCAQ8BAf8BAf8=";
    let [synchronized, persistent] = ["sync=rp", changes].map(|control| {
        let path = demo.scratch().join(format!("{}.log", control.len()));
        let child = tool(&demo, "ldapsearch")
            .args(["-b", PEOPLE, "-E", control, "(uid=user.1)", "description"])
            .stdout(File::create(&path).unwrap())
            .spawn()
            .unwrap();
        (Running(child), path)
    });
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    until(|| read(&synchronized.1), |text| text.contains("switching to persist stage"));
    // Nothing says that the other has begun: what it is to hear is said until it does.
    let mut round = 0;
    until(
        || {
            round += 1;
            change(&demo, &description(1, &format!("round {round}")));
            sleep(Duration::from_millis(300));
            read(&persistent.1)
        },
        |text| text.contains("persistentSearch: modify") && text.contains("description: round"),
    );
    until(|| read(&synchronized.1), |text| text.contains("modified\ndescription: round"));
    change(&demo, &format!("dn: uid=user.1,{PEOPLE}\nchangetype: delete\n"));
    until(|| read(&persistent.1), |text| text.contains("persistentSearch: delete"));
    let told = until(|| read(&synchronized.1), |text| text.contains("deleted\n"));
    assert!(told.contains("cookie: rid=000,csn=2"), "{told}");
}

#[test]
fn python_ldap_keeps_in_step() {
    if !have(PYTHON, &["-c", "import ldap"]) {
        return;
    }
    let demo = Demo::start(30);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/sync.py");
    let output = Command::new(PYTHON)
        .args([script, &demo.url("ldap"), &demo.admin_dn, &demo.admin_password])
        .output()
        .unwrap();
    assert!(text(&output).contains("all is in step"), "{}", text(&output));
}

#[test]
fn jndi_hears_naming_events() {
    if !have("java", &["-version"]) || !have("javac", &["-version"]) {
        return;
    }
    let demo = Demo::start(10);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/java/Events.java");
    let output = Command::new("java")
        .args([source, &demo.url("ldap"), &demo.admin_dn, &demo.admin_password])
        .output()
        .unwrap();
    assert!(text(&output).contains("all events heard"), "{}", text(&output));
}

/// A slapd that keeps a copy.
struct Copying<'d> {
    demo: &'d Demo,
    url: String,
    _slapd: Running,
}

impl<'d> Copying<'d> {
    fn start(demo: &'d Demo) -> Self {
        let folder = demo.scratch().join("copy");
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        fs::create_dir_all(folder.join("db")).unwrap();
        let conf = folder.join("slapd.conf");
        let lines = format!(
            "include /etc/ldap/schema/core.schema\n\
             include /etc/ldap/schema/cosine.schema\n\
             include /etc/ldap/schema/inetorgperson.schema\n\
             modulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             database mdb\ndirectory {}/db\nsuffix \"dc=example,dc=com\"\n\
             rootdn \"cn=admin,dc=example,dc=com\"\nrootpw secret\nindex entryUUID eq\n\
             syncrepl rid=007 provider={} type=refreshAndPersist retry=\"1 +\"\n  \
             searchbase=\"dc=example,dc=com\" schemachecking=off attrs=\"*,+\"\n  \
             bindmethod=simple binddn=\"{}\" credentials={}\n",
            folder.display(),
            demo.url("ldap"),
            demo.admin_dn,
            demo.admin_password
        );
        // What only this server knows is not for a copy.
        let lines = lines.replace("attrs=\"*,+\"", &format!("attrs=\"{ATTRIBUTES}\""));
        fs::write(&conf, lines).unwrap();
        let url = format!("ldap://{free}");
        let slapd = Command::new(SLAPD)
            .args(["-d", "0", "-h", &url, "-f"])
            .arg(&conf)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { demo, url, _slapd: Running(slapd) }
    }

    /// What it has of people, or what the server has.
    fn people(&self, is_copy: bool) -> String {
        let mut search = match is_copy {
            true => {
                let mut search = Command::new("ldapsearch");
                let admin = ["-D", "cn=admin,dc=example,dc=com", "-w", "secret"];
                search.args(["-x", "-H", &self.url]).args(admin).env("LDAPNOINIT", "1");
                search
            }
            false => tool(self.demo, "ldapsearch"),
        };
        let filter = "(objectClass=inetOrgPerson)";
        let base = "dc=example,dc=com";
        search.args(["-LLL", "-o", "ldif-wrap=no", "-b", base, filter, "uid", "description"]);
        let found = text(&search.args(["entryUUID"]).output().unwrap());
        let mut entries: Vec<Vec<&str>> = found
            .split("\n\n")
            .map(|entry| {
                let mut lines: Vec<_> = entry.lines().collect();
                lines.sort_unstable();
                lines
            })
            .collect();
        entries.sort_unstable();
        entries.iter().map(|entry| entry.join("\n")).collect::<Vec<_>>().join("\n\n")
    }

    #[track_caller]
    fn is_in_step(&self) {
        let want = self.people(false);
        until(|| self.people(true), |found| found == want);
    }
}

const ATTRIBUTES: &str = "*,structuralObjectClass,entryUUID,entryCSN,creatorsName,\
                          createTimestamp,modifiersName,modifyTimestamp";

#[test]
fn a_slapd_keeps_a_copy() {
    if !have(SLAPD, &["-VV"]) || !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(30);
    let copying = Copying::start(&demo);
    copying.is_in_step();
    let renamed = format!(
        "dn: uid=user.3,{PEOPLE}\nchangetype: modrdn\nnewrdn: uid=other\ndeleteoldrdn: 1\n\n"
    );
    let deleted = |number| format!("dn: uid=user.{number},{PEOPLE}\nchangetype: delete\n\n");
    change(&demo, &format!("{}{}{renamed}", description(1, "a"), deleted(2)));
    copying.is_in_step();
    // It comes back, with what it has kept of the cookie, and gets what it missed.
    drop(copying);
    change(&demo, &format!("{}{}", description(4, "b"), deleted(5)));
    let copying = Copying::start(&demo);
    copying.is_in_step();
    // A branch gets another name: it begins again by itself.
    let branch = "dn: ou=people,dc=example,dc=com\nchangetype: modrdn\nnewrdn: ou=persons\n\
                  deleteoldrdn: 1\n";
    change(&demo, branch);
    copying.is_in_step();
}

#[test]
fn copies_are_the_same_after_random_changes_and_kills() {
    if !have(SLAPD, &["-VV"]) || !have(PYTHON, &["-c", "import ldap"]) {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/long-sync.py");
    let roster = env!("CARGO_BIN_EXE_roster");
    let output = Command::new(PYTHON).args([script, roster, "300", "12", "4711"]).output().unwrap();
    let told = text(&output);
    eprintln!("{told}");
    assert!(output.status.success() && told.matches(": the same").count() == 3, "{told}");
}
