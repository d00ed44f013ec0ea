//! `roster why` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use common::{Run, check_all as check, roster};
use demo::Demo;

const PERSON: &str = "uid=user.42,ou=People,dc=example,dc=com";

/// Runs the program as the administrator of the demo.
fn why(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    roster(&[&["why"], arguments, &server].concat())
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
    check(&why(&demo, &["", "fly", PERSON]), 1, &["'fly' is not a right"]);
    check(&why(&demo, &["", "read", "uid=nobody,dc=example,dc=com"]), 1, &["noSuchObject (32)"]);
}

// It said "allowed" where the change was refused for a privilege that was missing.
#[test]
fn privileges_that_are_missing_deny_what_acis_allow() {
    const DESK: &str = "ou=desk,dc=example,dc=com";
    const PLAIN: &str = "uid=plain,ou=desk,dc=example,dc=com";
    const HELPER: &str = "uid=helper,ou=desk,dc=example,dc=com";
    const CHIEF: &str = "uid=chief,ou=desk,dc=example,dc=com";
    let demo = Demo::start(1);
    let account = |uid: &str, more: &str| {
        format!(
            "dn: uid={uid},{DESK}\nobjectClass: account\nobjectClass: simpleSecurityObject\n\
             uid: {uid}\nuserPassword: secret-{uid}\n{more}\n"
        )
    };
    let ldif = [
        format!(
            "dn: {DESK}\nobjectClass: organizationalUnit\nou: desk\n\
             aci: (targetattr=\"* || +\")(version 3.0; acl \"desk\"; \
             allow (all,export,import,proxy) userdn=\"ldap:///{PLAIN}\" \
             or userdn=\"ldap:///{HELPER}\";)\n\n"
        ),
        account("plain", ""),
        account("helper", "ds-privilege-name: password-reset\n"),
        account("chief", "ds-privilege-name: config-write\n"),
    ]
    .concat();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("desk.ldif").display().to_string();
    std::fs::write(&file, ldif).unwrap();
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    check(&roster(&[&["import", &file], &server[..]].concat()), 0, &["imported 4"]);

    let denied = |who: &str, asked: &[&str], privilege: &str| {
        let line = format!("  privilege {privilege}: missing; ");
        check(&why(&demo, &[&[who], asked].concat()), 0, &["denied\n", &line]);
    };
    let allowed = |who: &str, asked: &[&str], line: &str| {
        check(&why(&demo, &[&[who], asked].concat()), 0, &["allowed\n", line]);
    };
    let reset = ["write", PLAIN, "userPassword", "--add", "x"];
    let of_helper = ["write", HELPER, "userPassword", "--add", "x"];
    denied(PLAIN, &of_helper, "password-reset");
    allowed(PLAIN, &reset, "\"desk\" of ou=desk");
    allowed(
        HELPER,
        &reset,
        "  privilege password-reset: had; the attribute signs in another entry",
    );
    // One who has a privilege is not reset by who lacks it.
    denied(HELPER, &["write", CHIEF, "userPassword", "--add", "x"], "config-write");
    denied(PLAIN, &["write", DESK, "aci"], "modify-acl");
    denied(PLAIN, &["write", CHIEF, "ds-privilege-name"], "privilege-change");
    denied(PLAIN, &["write", CHIEF, "pwdAccountLockedTime"], "password-reset");
    denied(HELPER, &["write", HELPER, "pwdAccountLockedTime"], "every one");
    denied(PLAIN, &["proxy", HELPER], "proxied-auth");
    denied(PLAIN, &["write", "cn=schema", "attributeTypes"], "update-schema");
    denied(PLAIN, &["read", "cn=monitor", "cn"], "config-read");
    denied(PLAIN, &["write", "cn=Index,cn=config"], "config-write");
    allowed(CHIEF, &["write", "cn=Index,cn=config"], "  privilege config-write: had; ");
    denied(CHIEF, &["write", "cn=Access Control Handler,cn=config"], "modify-acl");
    allowed(PLAIN, &["write", CHIEF, "description"], "\"desk\" of ou=desk");
    let run = why(&demo, &[PLAIN, "proxy", HELPER, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(json["privileges"][0]["privilege"], "proxied-auth");
    assert_eq!(json["privileges"][0]["has"], false);
}
