//! Indexes added, built anew and dropped on a real server under load, with OpenLDAP's tools; a
//! build that is killed goes on when the server starts again.
//!
//! The tools come from Debian's `ldap-utils`; `cargo xtask test` installs them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, now, pause};

const PEOPLE: usize = 3000;
const DESCRIPTION: &str = "ds-cfg-attribute=description,cn=Index,cn=config";

/// As in `clients.rs`.
fn have_tools() -> bool {
    let found = Command::new("ldapmodify").arg("-VV").stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    assert!(found || !required, "ldapmodify is missing: run cargo xtask test, which installs it");
    if !found {
        eprintln!("skipped: ldapmodify is not installed; cargo xtask test installs it");
    }
    found
}

fn tool(server: &Running, name: &str, arguments: &[&str], input: &str) -> Child {
    let mut child = Command::new(name)
        .args(["-x", "-H", &format!("ldap://{}", server.address), "-D", ADMIN_DN])
        .args(["-w", ADMIN_PASSWORD])
        .args(arguments)
        .env("LDAPNOINIT", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{name} (Debian package ldap-utils): {error}"));
    // Its answers fit into the pipe; a server that is killed closes the other end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child
}

/// Runs a tool to its end, which must be a success.
#[track_caller]
fn done(server: &Running, name: &str, arguments: &[&str], input: &str) -> String {
    let output = tool(server, name, arguments, input).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn count(server: &Running, filter: &str) -> usize {
    let base = ["-LLL", "-b", "dc=example,dc=com", filter, "1.1"];
    done(server, "ldapsearch", &base, "").matches("dn: ").count()
}

/// The values of an attribute of an index, under its name.
fn status(server: &Running, name: &str, attribute: &str) -> Vec<String> {
    let base = format!("cn={name},cn=index,cn=monitor");
    let found = tool(server, "ldapsearch", &["-LLL", "-b", &base, "-s", "base", attribute], "");
    let output = found.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let prefix = format!("{attribute}: ");
    text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

#[track_caller]
fn wait_for(server: &Running, name: &str, states: &[&str]) {
    let begin = now();
    while status(server, name, "roster-index-state") != states {
        assert!(begin.elapsed().as_secs() < 120, "{name} is not {states:?}");
        pause(std::time::Duration::from_millis(20));
    }
}

/// Changes of descriptions, all over the directory.
fn load(round: usize) -> String {
    let mut changes = String::new();
    for number in (0..PEOPLE).step_by(7) {
        let _ = write!(
            changes,
            "dn: uid=p{number},dc=example,dc=com\nchangetype: modify\n\
             replace: description\ndescription: round {round} of {number}\n\n"
        );
    }
    changes
}

fn place(folder: &tempfile::TempDir, percent: u8) -> Place {
    let percent = ("ROSTER_STORE__INDEX_BUILD_PERCENT".to_owned(), percent.to_string());
    let place = Place {
        roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
        folder: folder.path().join("server"),
        environment: vec![percent],
    };
    place.init().unwrap();
    let mut people = String::new();
    for number in 0..PEOPLE {
        let _ = write!(
            people,
            "dn: uid=p{number},dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: p{number}\n\
             cn: Person {number}\nsn: {number}\ndescription: at first {number}\n\n"
        );
    }
    let file = folder.path().join("people.ldif");
    std::fs::write(&file, people).unwrap();
    place.offline(&["import", file.to_str().unwrap()]).unwrap();
    place
}

#[test]
fn indexes_come_and_go_under_load() {
    if !have_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = place(&folder, 100);
    let server = place.start().unwrap();
    let writes = tool(&server, "ldapmodify", &[], &load(1));
    let index = format!(
        "dn: {DESCRIPTION}\nchangetype: add\nobjectClass: ds-cfg-backend-index\n\
         ds-cfg-attribute: description\nds-cfg-index-type: equality\nds-cfg-index-type: substring\n"
    );
    done(&server, "ldapmodify", &[], &index);
    wait_for(&server, "description.substring", &["valid"]);
    let writes = writes.wait_with_output().unwrap();
    assert!(writes.status.success(), "{}", String::from_utf8_lossy(&writes.stderr));
    let changed = PEOPLE.div_ceil(7);
    assert_eq!(count(&server, "(description=*ound 1*)"), changed);
    assert_eq!(count(&server, "(description=at first*)"), PEOPLE - changed);
    // Built anew, while it is written and read.
    let writes = tool(&server, "ldapmodify", &[], &load(2));
    let rebuild = format!(
        "dn: {DESCRIPTION}\nchangetype: modify\nadd: roster-index-rebuild\n\
         roster-index-rebuild: substring\n"
    );
    done(&server, "ldapmodify", &[], &rebuild);
    while status(&server, "description.substring building", "roster-index-state").len() == 1 {
        assert_eq!(status(&server, "description.substring", "roster-index-state"), ["valid"]);
        assert_eq!(count(&server, "(description=*t first*)"), PEOPLE - changed);
    }
    assert!(writes.wait_with_output().unwrap().status.success());
    assert_eq!(count(&server, "(description=*ound 2*)"), changed);
    assert_eq!(status(&server, "description.substring", "roster-index-verify"), ["ok"]);
    let drop_one = format!(
        "dn: {DESCRIPTION}\nchangetype: modify\ndelete: ds-cfg-index-type\n\
         ds-cfg-index-type: substring\n"
    );
    done(&server, "ldapmodify", &[], &drop_one);
    wait_for(&server, "description.substring", &[]);
    assert_eq!(count(&server, "(description=round 2 of 7)"), 1);
    server.stop().unwrap();
    place.offline(&["check"]).unwrap();
}

#[test]
fn a_build_that_is_killed_goes_on() {
    if !have_tools() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let slow = place(&folder, 1);
    let server = slow.start().unwrap();
    let index = format!(
        "dn: {DESCRIPTION}\nchangetype: add\nobjectClass: ds-cfg-backend-index\n\
         ds-cfg-attribute: description\nds-cfg-index-type: substring\n"
    );
    done(&server, "ldapmodify", &[], &index);
    let writes = tool(&server, "ldapmodify", &["-c"], &load(1));
    let begin = now();
    let done_so_far = || {
        let progress = status(&server, "description.substring", "roster-index-progress").concat();
        progress.split('/').next().and_then(|done| done.parse::<usize>().ok()).unwrap_or(0)
    };
    while done_so_far() == 0 {
        assert!(begin.elapsed().as_secs() < 120, "nothing is built");
    }
    server.kill().unwrap();
    let _ = writes.wait_with_output();
    slow.offline(&["check"]).unwrap();
    let fast = Place {
        environment: vec![("ROSTER_STORE__INDEX_BUILD_PERCENT".to_owned(), "100".to_owned())],
        ..slow
    };
    let server = fast.start().unwrap();
    wait_for(&server, "description.substring", &["valid"]);
    assert_eq!(status(&server, "description.substring", "roster-index-verify"), ["ok"]);
    let (first, later) =
        (count(&server, "(description=at first*)"), count(&server, "(description=*ound 1*)"));
    assert_eq!(first + later, PEOPLE);
    server.stop().unwrap();
    fast.offline(&["check"]).unwrap();
}
