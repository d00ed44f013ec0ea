//! `roster session` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use common::{Run, check_all as check, roster};
use demo::Demo;
use ldap3::LdapConn;

const PERSON: &str = "uid=user.42,ou=people,dc=example,dc=com";

/// Runs the program as the administrator of the demo.
fn session(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    roster(&[&["session"], arguments, &server].concat())
}

/// A connection of somebody with a password of their own.
fn signed_in(demo: &Demo) -> LdapConn {
    let mut connection = LdapConn::new(&demo.url("ldap")).unwrap();
    connection.simple_bind(PERSON, "correct horse battery").unwrap().success().unwrap();
    connection
}

fn is_open(connection: &mut LdapConn) -> bool {
    connection.compare(PERSON, "uid", "user.42").is_ok()
}

#[test]
fn sessions_are_listed_and_closed() {
    let demo = Demo::start(100);
    let url = demo.url("ldap");
    let file = demo.scratch().join("new");
    std::fs::write(&file, "correct horse battery").unwrap();
    let reset = [
        &["account", "reset", PERSON, "--new-password-file", file.to_str().unwrap()],
        &["-H", &*url, "-D", &demo.admin_dn, "-w", &demo.admin_password][..],
    ];
    check(&roster(&reset.concat()), 0, &["new password"]);
    let (mut one, mut two) = (signed_in(&demo), signed_in(&demo));
    let list = session(&demo, &["list"]);
    check(&list, 0, &["number", PERSON, "cn=Directory Manager", "127.0.0.1:", "3 sessions"]);
    let json = session(&demo, &["list", "--json", "--identity", &PERSON.to_uppercase()]);
    let json: serde_json::Value = serde_json::from_str(&json.output).unwrap();
    let all = json.as_array().unwrap();
    assert_eq!(all.len(), 2, "{json:#}");
    assert_eq!((&all[0]["listener"], &all[0]["tls"]), (&"ldap".into(), &().into()));
    let number = all[0]["number"].to_string();
    check(&session(&demo, &["close", &number]), 0, &[&format!("{number}: closed\n")]);
    // As the numbers are in the order in which they came.
    assert!(!is_open(&mut one));
    assert!(is_open(&mut two));
    let run = session(&demo, &["close", "999999", &number]);
    check(&run, 1, &["there is no session 999999", &format!("no session {number}")]);
    let run = session(&demo, &["close", "--identity", PERSON]);
    check(&run, 0, &[&format!(": closed, {PERSON} at 127.0.0.1:")]);
    assert!(!is_open(&mut two));
    let run = session(&demo, &["close", "--identity", PERSON]);
    check(&run, 1, &["there is no such session", "roster session list"]);
    // The own one too, and that is no failure.
    check(&session(&demo, &["close", "--address", "127.0.0.1"]), 0, &[": closed, cn=Directory"]);
    // Who may not.
    check(&roster(&["session", "list", "-H", &url]), 1, &["only to its administrator"]);
    let run = roster(&["session", "close", "1", "-H", &url]);
    check(&run, 1, &["insufficientAccessRights (50)", "the privilege disconnect-client"]);
    check(&session(&demo, &["close"]), 2, &["required"]);
    check(&session(&demo, &["close", "1", "--address", "x"]), 2, &["cannot be used with"]);
    // The owner of the process, through the Unix socket.
    let local = roster(&["session", "list", "--address", "local", "-H", &demo.url("ldapi")]);
    check(&local, 0, &["ldapi", "cn=Directory Manager", "1 session\n"]);
}
