//! `roster why` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use common::{Run, roster};
use demo::Demo;

const PERSON: &str = "uid=user.42,ou=People,dc=example,dc=com";

/// Runs the program as the administrator of the demo.
fn why(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    roster(&[&["why"], arguments, &server].concat())
}

#[track_caller]
fn check(run: &Run, code: i32, want: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    let all = format!("{}{}", run.output, run.errors);
    for line in want {
        assert!(all.contains(line), "{all}\nlacks\n{line}");
    }
}

#[test]
fn who_may_do_what_is_answered_with_the_aci_that_decides() {
    let demo = Demo::start(100);
    let run = why(&demo, &["", "read", PERSON, "mail"]);
    let place = "of cn=Access Control Handler,cn=config";
    check(&run, 0, &["allowed\n", &format!("{place} allows it:\n    (targetattr")]);
    let run = why(&demo, &["", "read", PERSON, "userPassword"]);
    check(
        &run,
        0,
        &["denied\n  no ACI allows it\n", &format!("{place}: is not about the attribute")],
    );
    let run = why(&demo, &[PERSON, "write", PERSON, "userPassword", "--add", "x"]);
    check(&run, 0, &["allowed\n"]);
    let run = why(&demo, &[&demo.admin_dn, "delete", PERSON]);
    check(&run, 0, &["allowed\n", "bypass-acl"]);
    let run = why(&demo, &["", "delete", PERSON, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!((&json["allowed"], &json["decided_by"]), (&false.into(), &serde_json::Value::Null));
    check(&why(&demo, &["", "fly", PERSON]), 1, &["'fly' is no right"]);
    check(&why(&demo, &["", "read", "uid=nobody,dc=example,dc=com"]), 1, &["noSuchObject (32)"]);
}
