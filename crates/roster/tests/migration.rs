//! Moving here from a real slapd and a real 389 Directory Server: both are set up, filled and
//! exported by the tests, and what they did by themselves is done here afterwards.
//!
//! Where such a server is not installed the test ends at once, unless `ROSTER_TEST_CLIENTS` says
//! that it is required.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail the test when something is not as it must be"
)]

mod common;
mod demo;
mod ds389;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Run, check_all, roster};
use demo::Demo;
use ds389::{Ds389, has, program, run, text};
use machine::Machine;
use testing::crash::server::ADMIN_PASSWORD;

/// Ends with its value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of others tells nobody that it is ready.
#[allow(clippy::disallowed_methods, reason = "asking again is the only way")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// A slapd with overlays, filled over LDAP, so that it has made what it makes; its entries and its
/// configuration as it exports them.
fn exported_by_slapd(folder: &Path) -> (PathBuf, PathBuf) {
    let inside = |name: &str| folder.join(name);
    for name in ["db", "config"] {
        fs::create_dir(inside(name)).unwrap();
    }
    let head = format!("directory {}/db\n", folder.display());
    let conf = inside("slapd.conf");
    fs::write(&conf, include_str!("migration/slapd.conf").replace("directory HERE\n", &head))
        .unwrap();
    let url = format!("ldapi://{}", text(&inside("socket")).replace('/', "%2F"));
    let slapd = program("/usr/sbin/slapd", &["-d", "0", "-h", &url, "-f", text(&conf)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut running = Running(slapd);
    let people = inside("people.ldif");
    fs::write(&people, include_str!("migration/people.ldif")).unwrap();
    let admin = ["-x", "-H", &url, "-D", "cn=admin,dc=example,dc=com", "-w", "secret"];
    let ask = || {
        let who = program("/usr/bin/ldapwhoami", &admin).output().unwrap();
        who.status.success()
    };
    while !ask() {
        assert!(running.0.try_wait().unwrap().is_none(), "slapd has ended");
        pause();
    }
    run(program("/usr/bin/ldapadd", &admin).args(["-f", text(&people)]));
    drop(running);
    let (entries, config) = (inside("export.ldif"), inside("config.ldif"));
    run(&mut program("/usr/sbin/slapcat", &["-f", text(&conf), "-l", text(&entries)]));
    let database = inside("config");
    run(&mut program("/usr/sbin/slaptest", &["-f", text(&conf), "-F", text(&database)]));
    let all = ["-F", text(&database), "-n", "0", "-l", text(&config)];
    run(&mut program("/usr/sbin/slapcat", &all));
    (entries, config)
}

/// A server here, and the password of its administrator.
#[derive(Clone, Copy)]
struct Asked<'s> {
    url: &'s str,
    password: &'s str,
}

impl Asked<'_> {
    fn tool(&self, path: &str) -> Command {
        let admin = ["-x", "-H", self.url, "-D", "cn=Directory Manager", "-w", self.password];
        program(path, &admin)
    }

    /// The values of an attribute of an entry, as ldapsearch prints them.
    #[track_caller]
    fn read(&self, base: &str, attribute: &str) -> String {
        let mut search = self.tool("/usr/bin/ldapsearch");
        search.args(["-LLL", "-o", "ldif-wrap=no", "-s", "base", "-b", base, attribute]);
        run(&mut search)
    }

    /// Changes by ldapmodify; whether they were made, and what it has said.
    fn modify(&self, ldif: &str) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("changes.ldif");
        fs::write(&file, ldif).unwrap();
        let output = self.tool("/usr/bin/ldapmodify").args(["-f", text(&file)]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Applies a file of settings as the how-to says: the indexes that it names, then the rest by
    /// ldapmodify, which goes on after what is set already. Nothing else is refused.
    #[track_caller]
    fn apply(&self, settings: &Path) {
        let file = fs::read_to_string(settings).unwrap();
        let indexes =
            file.lines().find_map(|line| line.strip_prefix("# roster index add ")).unwrap();
        let names: Vec<&str> = indexes.split('\'').skip(1).step_by(2).collect();
        assert!(indexes.ends_with(" --if-missing --wait"), "{indexes}");
        let server =
            ["index", "add", "-H", self.url, "-w", self.password, "--if-missing", "--wait"];
        let run = roster(&[&server[..], &names].concat());
        check_all(&run, 0, &["building  equality ", "there already  equality uid\n"]);

        let mut tool = self.tool("/usr/bin/ldapmodify");
        let output = tool.args(["-c", "-f", text(settings)]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let refused: Vec<&str> = said.lines().filter(|line| line.starts_with("ldap_")).collect();
        let is_there = |line: &&str| line.contains("exists (20)") || line.contains("exists (68)");
        assert!(refused.iter().all(is_there), "{said}\n{file}");
        // Some of them are new here.
        assert!(refused.len() < file.matches("changetype: ").count(), "{said}\n{file}");
    }
}

const ANNA: &str = "uid=anna,ou=people,dc=example,dc=com";

/// What slapd did by itself is done in a directory that is served, from the end of the import on.
#[test]
fn what_slapd_was_set_to_do_is_done_here() {
    if !has(&["/usr/sbin/slapd", "/usr/bin/ldapadd", "/usr/lib/ldap/memberof.so"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (entries, config) = exported_by_slapd(folder.path());
    let exported = fs::read_to_string(&entries).unwrap();
    assert!(exported.contains("\nmemberOf: cn=staff,"), "slapd has stored it: {exported}");
    let demo = Demo::start(10);
    let url = demo.url("ldap");
    let here = Asked { url: &url, password: &demo.admin_password };
    let import = |config: &Path, files: &[&str]| -> Run {
        let server = ["import", "-H", &url, "-w", &demo.admin_password, "--replace-existing"];
        roster(&[&server, &["--configuration", text(config)][..], files].concat())
    };
    let run = import(&config, &[text(&entries)]);
    check_all(
        &run,
        0,
        &[
            "rejected 0",
            "Configuration of OpenLDAP, ",
            "roster-member-of: direct (cn=Groups,cn=config)",
            "roster-reference: secretary (cn=References,cn=config)",
            "unique-mail-uid: unique mail,uid below ou=people,dc=example,dc=com",
            "regex-uid: pattern uid /[a-z][a-z0-9.]*/",
            "[limits] size_limit_entries = 2500",
            "[password_policy] default_dn = \"cn=default,ou=policies,dc=example,dc=com\"",
            "olcAccess: 1 access rule in the language of OpenLDAP",
            " 0 refused",
        ],
    );
    assert!(!run.errors.contains("warning"), "{run:?}");

    check_as_slapd(here);

    // Once more changes nothing; and a policy that leads nowhere is not passed over.
    check_all(&import(&config, &[]), 0, &["Settings: 0 made, ", " 0 refused"]);
    let other = folder.path().join("other.ldif");
    let nowhere = fs::read_to_string(&config).unwrap().replace("cn=default,", "cn=nowhere,");
    fs::write(&other, nowhere).unwrap();
    check_all(&import(&other, &[]), 0, &["'cn=nowhere,ou=policies,dc=example,dc=com' is not in"]);

    // The same by hand: a file of settings, which OpenLDAP's own client applies.
    let by_hand = Demo::start(10);
    let url = by_hand.url("ldap");
    let settings = folder.path().join("settings.ldif");
    let server = ["import", "-H", &url, "-w", &by_hand.admin_password, "--replace-existing"];
    let told = ["--configuration", text(&config), "--settings-file", text(&settings)];
    let run = roster(&[&server[..], &told, &[text(&entries)]].concat());
    check_all(&run, 0, &["rejected 0", "unique-mail-uid: unique mail,uid", " are not made"]);
    let here = Asked { url: &url, password: &by_hand.admin_password };
    assert!(!here.read("cn=Constraints,cn=config", "roster-constraint").contains("unique-mail"));
    here.apply(&settings);
    check_as_slapd(here);
}

/// What slapd did is done by a server that was given its entries and its settings.
#[track_caller]
fn check_as_slapd(here: Asked<'_>) {
    // What follows renames by default does so still.
    let references = here.read("cn=References,cn=config", "roster-reference");
    for name in ["member", "owner", "secretary"] {
        assert!(references.contains(&format!("roster-reference: {name}\n")), "{references}");
    }
    // Groups are looked up: what was stored there is not there any more.
    let staff = "memberOf: cn=staff,ou=groups,dc=example,dc=com\n";
    assert!(here.read(ANNA, "memberOf").contains(staff));
    let change = "dn: cn=staff,ou=groups,dc=example,dc=com\nchangetype: modify\ndelete: member\n";
    assert!(here.modify(&format!("{change}member: {ANNA}\n")).0);
    assert!(!here.read(ANNA, "memberOf").contains("memberOf:"));
    // A value that somebody has is refused, and one that names nobody goes.
    let taken = "dn: uid=bert,ou=people,dc=example,dc=com\nchangetype: modify\nreplace: mail\n\
                 mail: anna@example.com\n";
    let (is_done, why) = here.modify(taken);
    assert!(!is_done && why.contains("unique-mail-uid"), "{why}");
    assert!(here.read("uid=bert,ou=people,dc=example,dc=com", "secretary").contains(ANNA));
    assert!(here.modify(&format!("dn: {ANNA}\nchangetype: delete\n")).0);
    assert!(!here.read("uid=bert,ou=people,dc=example,dc=com", "secretary").contains(ANNA));
}

/// All entries of a fresh 389 DS load, with its own schema file as it is, and its plugins and
/// policies become settings.
#[test]
fn what_389_was_set_to_do_is_done_here() {
    let is_root = run(&mut program("id", &["-u"])).trim() == "0";
    if !is_root || !has(&["/usr/sbin/dscreate", "/usr/sbin/ns-slapd", "/usr/bin/ldapmodify"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ds = Ds389::create(folder.path());
    ds.modify(folder.path(), include_str!("migration/plugins.ldif"));
    ds.modify(folder.path(), include_str!("migration/entries.ldif"));
    let people = "ou=people,dc=example,dc=com";
    ds.local_policy(&["addsubtree", "--pwdminlen", "12", "--pwdchecksyntax", "on", people]);
    ds.local_policy(&["adduser", "--pwdminlen", "15", "--pwdchecksyntax", "on", ANNA]);
    ds.tool("/usr/sbin/dsctl", &["rostertest", "stop"]);
    let entries = folder.path().join("export.ldif");
    ds.tool(
        "/usr/sbin/dsctl",
        &["rostertest", "db2ldif", "--replication", "userroot", text(&entries)],
    );
    let exported = fs::read_to_string(&entries).unwrap();
    assert!(exported.contains("\nmemberOf: "), "it has stored it: {exported}");

    let mut machine = Machine::new(folder.path(), "data");
    let data = machine.data.clone();
    let password = machine.password.display().to_string();
    let suffix = ["--suffix", "dc=example,dc=com", "--admin-password-file", &password];
    check_all(&roster(&[&["init", "--data", text(&data)], &suffix[..]].concat()), 0, &[]);
    fs::create_dir_all(data.join("schema")).unwrap();
    fs::copy(ds.config().join("schema/99user.ldif"), data.join("schema/99user.ldif")).unwrap();
    let config = ds.config().join("dse.ldif");
    let all = ["import", "--data", text(&data), "--report", "--configuration", text(&config)];
    let run = roster(&[&all, &[text(&entries)][..]].concat());
    let count = exported.matches("\ndn: ").count();
    check_all(
        &run,
        0,
        &[
            &format!("Processed {count} entries, imported {count}, skipped 0, rejected 0"),
            "389-container: 1",
            "389-subtree-policy: 1",
            "computed-attributes: 1",
            "Configuration of 389 Directory Server",
            "7-bit: ascii uid,mail below dc=example,dc=com",
            "attribute-uniqueness: unique uid below dc=example,dc=com",
            "staff: member member of cn=demo_group,ou=groups,dc=example,dc=com below ou=people",
            "uids: number uidNumber,gidNumber 10001..59999 for -1 below ou=people",
            "roster-reference: manager",
            "index equality employeeType",
            "entry cn=Global Password Policy,dc=example,dc=com",
            "MemberOf Plugin: memberOf is computed",
            " 0 refused",
        ],
    );
    assert!(!run.errors.contains("warning: "), "{run:?}");
    let found = roster(&["export", "--data", text(&data)]).output.replace("\n ", "");
    for part in [
        "\nsubtreeSpecification: { }\nobjectClass: top\nobjectClass: ldapsubentry\n",
        "\ncn: Global Password Policy\n",
        "\npasswordMaxFailure: 5\n",
        "\nobjectClass: nsFilteredRoleDefinition\n",
        "\nobjectClass: nsMemberOf\n",
    ] {
        assert!(found.contains(part), "{part}");
    }
    assert!(!found.contains("\nmemberOf: "));
    // Nothing is set twice.
    check_all(&roster(&all), 0, &["Settings: 0 made, ", " 0 refused"]);
    machine.serve();
    check_served(Asked { url: &machine.url(), password: ADMIN_PASSWORD });
    drop(machine);

    // The same by hand: a file of settings, which 389's own client applies.
    let mut machine = Machine::new(folder.path(), "by-hand");
    let data = machine.data.clone();
    check_all(&roster(&[&["init", "--data", text(&data)], &suffix[..]].concat()), 0, &[]);
    fs::create_dir_all(data.join("schema")).unwrap();
    fs::copy(ds.config().join("schema/99user.ldif"), data.join("schema/99user.ldif")).unwrap();
    let settings = folder.path().join("settings.ldif");
    let told = ["--configuration", text(&config), "--settings-file", text(&settings)];
    let all = [&["import", "--data", text(&data)], &told[..], &[text(&entries)]].concat();
    check_all(&roster(&all), 0, &["rejected 0", "attribute-uniqueness: ", " are not made"]);
    machine.serve();
    let here = Asked { url: &machine.url(), password: ADMIN_PASSWORD };
    here.apply(&settings);
    check_served(here);
}

/// What 389 did is done by a server of the imported directory.
#[track_caller]
fn check_served(here: Asked<'_>) {
    // Policies: of the user, of the subtree, of all.
    let policy = |name: &str| here.read(name, "pwdPolicySubentry");
    assert!(policy(ANNA).contains("nsPwPolicyEntry_user"), "{}", policy(ANNA));
    let service = "dn: cn=web,ou=services,dc=example,dc=com\nchangetype: add\n\
                   objectClass: netscapeServer\ncn: web\nuserPassword: secret-Web1\n";
    assert_eq!(here.modify(service), (true, String::new()));
    let all = policy("cn=web,ou=services,dc=example,dc=com");
    assert!(all.contains("cn=Global Password Policy,dc=example,dc=com"), "{all}");
    // Groups and roles.
    let group = "memberOf: cn=demo_group,ou=groups,dc=example,dc=com";
    assert!(here.read(ANNA, "memberOf").contains(group));
    assert!(here.read(ANNA, "nsRole").contains("cn=filtered,dc=example,dc=com"));
    // A new account gets the next number and becomes a member; its name is that of nobody else.
    let account = |name: &str| {
        format!(
            "dn: cn={name},ou=people,dc=example,dc=com\nchangetype: add\nobjectClass: nsPerson\n\
             objectClass: posixAccount\ncn: {name}\ndisplayName: {name}\nuid: zoe\n\
             uidNumber: -1\ngidNumber: -1\nhomeDirectory: /home/zoe\n\
             userPassword: secret-Zoe-12345\n"
        )
    };
    assert_eq!(here.modify(&account("zoe")), (true, String::new()));
    let zoe = "cn=zoe,ou=people,dc=example,dc=com";
    assert!(here.read(zoe, "uidNumber").contains("uidNumber: 10001\n"));
    assert!(here.read(zoe, "memberOf").contains(group));
    assert!(policy(zoe).contains("nsPwPolicyEntry_subtree"), "{}", policy(zoe));
    let (is_done, why) = here.modify(&account("other"));
    assert!(!is_done && why.contains("attribute-uniqueness"), "{why}");
}
