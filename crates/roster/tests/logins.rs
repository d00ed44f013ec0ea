//! People log in through TLS: LDAPS and StartTLS, with the certificate checked, by clients in C,
//! Python, Java and Go, and by SSSD as a Linux machine does.
//!
//! `cargo xtask test` installs what is missing of them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

mod demo;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use demo::Demo;

const BASE: &str = "dc=example,dc=com";
const USER: &str = "marie";
const NAME: &str = "uid=marie,ou=people,dc=example,dc=com";
const PASSWORD: &str = "radium";

/// Where a program is; none where it may be missing. Where clients are required (`cargo xtask test`
/// installs them) a missing one fails the test.
fn find(programs: &[&str]) -> Option<PathBuf> {
    let found = programs.iter().find(|program| Path::new(program).exists());
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    assert!(found.is_some() || !required, "{programs:?}: run cargo xtask test, which installs it");
    if found.is_none() {
        eprintln!("skipped: none of {programs:?} is here; cargo xtask test installs it");
    }
    found.map(PathBuf::from)
}

fn source(name: &str) -> String {
    format!("{}/tests/logins/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A demo with a user who is a Unix account, too.
struct Site {
    demo: Demo,
    certificate: PathBuf,
}

impl Site {
    fn start() -> Self {
        let demo = Demo::start(20);
        let mut connection = ldap3::LdapConn::new(&demo.url("ldap")).unwrap();
        connection.simple_bind(&demo.admin_dn, &demo.admin_password).unwrap().success().unwrap();
        let mut add = |name: &str, attributes: &[(&str, &[&str])]| {
            let attributes = attributes
                .iter()
                .map(|(name, values)| (*name, values.iter().copied().collect()))
                .collect();
            connection.add(name, attributes).unwrap().success().unwrap();
        };
        let person = [
            ("objectClass", &["inetOrgPerson", "posixAccount"][..]),
            ("uid", &[USER]),
            ("cn", &["Marie Curie"]),
            ("sn", &["Curie"]),
            ("uidNumber", &["5301"]),
            ("gidNumber", &["5300"]),
            ("homeDirectory", &["/home/marie"]),
            ("userPassword", &[PASSWORD]),
        ];
        add(NAME, &person);
        let group = [
            ("objectClass", &["posixGroup"][..]),
            ("cn", &["chemists"]),
            ("gidNumber", &["5300"]),
            ("memberUid", &[USER]),
        ];
        add("cn=chemists,dc=example,dc=com", &group);
        // As in RFC 2307bis: members by name, and a group in a group.
        let mut names = vec![NAME.to_owned()];
        names.extend((1..=15).map(|one| format!("uid=user.{one},ou=people,{BASE}")));
        let physicists: Vec<&str> = names.iter().map(String::as_str).collect();
        for (cn, gid, members) in [
            ("physicists", "5310", &*physicists),
            ("laboratory", "5311", &["cn=physicists,dc=example,dc=com"]),
        ] {
            let group = [
                ("objectClass", &["groupOfNames", "posixGroup"][..]),
                ("cn", &[cn]),
                ("gidNumber", &[gid]),
                ("member", members),
            ];
            add(&format!("cn={cn},{BASE}"), &group);
        }
        let certificate = certificate(&demo.scratch());
        Self { demo, certificate }
    }

    fn port(&self, scheme: &str) -> String {
        self.demo.url(scheme).rsplit(':').next().unwrap().to_owned()
    }

    /// Runs a client with the arguments that all of them take.
    fn log_in(&self, command: &mut Command) -> Output {
        command
            .args([self.port("ldap"), self.port("ldaps")])
            .arg(&self.certificate)
            .args([BASE, USER, PASSWORD])
            .env("LDAPNOINIT", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}

/// The certificate that the demo made for itself: `DATA/tls/cert.pem` somewhere below.
fn certificate(folder: &Path) -> PathBuf {
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = folders.map(|data| data.join("tls/cert.pem")).filter(|path| path.exists());
    found.next().unwrap()
}

#[track_caller]
fn check(output: &Output) {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}", text.concat());
    assert!(text[0].contains("all checks passed"), "{}", text.concat());
}

#[test]
fn with_the_openldap_tools() {
    let Some(whoami) = find(&["/usr/bin/ldapwhoami"]) else { return };
    let site = Site::start();
    for (scheme, tls) in [("ldaps", "-x"), ("ldap", "-ZZ")] {
        let ask = |password: &str| {
            let url = format!("{scheme}://localhost:{}", site.port(scheme));
            Command::new(&whoami)
                .args(["-x", tls, "-H", &url, "-D", NAME, "-w", password])
                .env("LDAPTLS_CACERT", &site.certificate)
                .env("LDAPTLS_REQCERT", "demand")
                .output()
                .unwrap()
        };
        let output = ask(PASSWORD);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("dn:{NAME}\n"), "{output:?}");
        assert_eq!(ask("polonium").status.code(), Some(49));
    }
}

#[test]
fn with_python() {
    let Some(python) = find(&["/usr/bin/python3"]) else { return };
    let site = Site::start();
    check(&site.log_in(Command::new(python).arg(source("login.py"))));
}

#[test]
fn with_java() {
    let Some(compiler) = find(&["/usr/bin/javac"]) else { return };
    let site = Site::start();
    let classes = site.demo.scratch().join("classes");
    let compiled =
        Command::new(compiler).arg("-d").arg(&classes).arg(source("Login.java")).output().unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    check(&site.log_in(Command::new("/usr/bin/java").arg("-cp").arg(&classes).arg("Login")));
}

#[test]
fn with_go() {
    let Some(go) = find(&["/usr/bin/go", "/usr/local/go/bin/go"]) else { return };
    let site = Site::start();
    check(&site.log_in(Command::new(go).args(["run", "."]).current_dir(source(""))));
}

#[test]
fn with_sssd() {
    let Some(_) = find(&["/usr/sbin/sssd"]) else { return };
    let Some(_) = find(&["/usr/bin/pamtester"]) else { return };
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        eprintln!("skipped: only root can start SSSD");
        return;
    }
    let site = Site::start();
    let scratch = site.demo.scratch().join("sssd");
    fs::create_dir(&scratch).unwrap();
    let script = "exec \"$0\" \"$@\" \"$SCRATCH\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, &source("sssd.sh")]).env("SCRATCH", &scratch);
    check(&site.log_in(&mut command));
}
