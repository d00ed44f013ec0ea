//! `roster account` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use common::{Run, check_all as check, roster};
use demo::Demo;

const PERSON: &str = "uid=user.42,ou=people,dc=example,dc=com";

/// Runs the program as the administrator of the demo.
fn account(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    roster(&[&["account"], arguments, &server].concat())
}

#[test]
fn an_account_is_shown_switched_off_locked_and_ended() {
    let demo = Demo::start(100);
    let show = |want: &[&str]| check(&account(&demo, &["show", "user.42"]), 0, want);
    show(&[&format!("{PERSON}\n  can sign in\n"), "policy           none governs this account"]);
    check(&account(&demo, &["disable", PERSON]), 0, &[&format!("{PERSON}: disabled\n")]);
    let mend = format!("roster account enable {PERSON}");
    show(&["  cannot sign in\n    - the account is disabled\n", &mend]);
    check(&account(&demo, &["lock", "user.42"]), 0, &["locked until it is unlocked"]);
    let json = account(&demo, &["show", "--json", PERSON]);
    let json: serde_json::Value = serde_json::from_str(&json.output).unwrap();
    assert_eq!(json[0]["can_sign_in"], false);
    assert_eq!(json[0]["problems"].as_array().unwrap().len(), 2);
    assert_eq!(json[0]["problems"][0]["mend"], mend);
    // What is done is told together with what still is in the way.
    check(
        &account(&demo, &["unlock", PERSON]),
        0,
        &[
            "unlocked\n  still cannot sign in: the account is disabled\n",
            "account show uid=user.42",
        ],
    );
    let enabled = account(&demo, &["enable", PERSON]);
    check(&enabled, 0, &["enabled\n"]);
    assert!(!enabled.output.contains("still"), "{enabled:?}");
    check(&account(&demo, &["expire", PERSON, "--in", "30d"]), 0, &["expires 2", "(in 29 days)"]);
    show(&["  can sign in\n", "  valid until      2"]);
    check(&account(&demo, &["expire", PERSON]), 0, &["expires 2"]);
    show(&["cannot sign in\n    - the account expired on ", "account expire --never uid=user.42"]);
    check(&account(&demo, &["expire", PERSON, "--never"]), 0, &["does not expire\n"]);
    show(&["  can sign in\n"]);
    check(&account(&demo, &["expire", PERSON, "--password"]), 0, &["pwdMustChange is not TRUE"]);
}

#[test]
fn a_new_password_is_made_and_works() {
    let demo = Demo::start(100);
    let run = account(&demo, &["reset", PERSON]);
    check(&run, 0, &[&format!("{PERSON}: the new password is ")]);
    let made = run.output.trim().rsplit(' ').next().unwrap().to_owned();
    let mut connection = ldap3::LdapConn::new(&demo.url("ldap")).unwrap();
    connection.simple_bind(PERSON, &made).unwrap().success().unwrap();
    let file = demo.scratch().join("new");
    std::fs::write(&file, "correct horse battery staple\n").unwrap();
    let file = file.to_str().unwrap();
    check(&account(&demo, &["reset", PERSON, "--new-password-file", file]), 0, &["new password"]);
    connection.simple_bind(PERSON, "correct horse battery staple").unwrap().success().unwrap();
}

#[test]
fn one_account_that_fails_does_not_keep_the_others() {
    let demo = Demo::start(100);
    let run = account(&demo, &["disable", "nobody", "uid=x,dc=example,dc=com", "user.7"]);
    let want =
        ["no entry that you may see has the uid 'nobody'", "noSuchObject (32)", ": disabled"];
    check(&run, 1, &want);
    let url = demo.url("ldap");
    let run = roster(&["account", "show", PERSON, "-H", &url]);
    check(&run, 1, &["insufficientAccessRights (50)", "the privilege password-reset"]);
    check(&account(&demo, &["expire", PERSON, "--at", "soon"]), 2, &["such as 2027-01-31"]);
}

/// A policy that locks for an hour after two failures.
const POLICY: &str = "cn=staff,dc=example,dc=com";

#[test]
fn accounts_that_cannot_sign_in_are_listed_with_since_until_and_policy() {
    let demo = Demo::start(100);
    let url = demo.url("ldap");
    let mut root = ldap3::LdapConn::new(&url).unwrap();
    root.simple_bind(&demo.admin_dn, &demo.admin_password).unwrap().success().unwrap();
    let policy = [
        ("objectClass", &["top", "subentry", "pwdPolicy"][..]),
        ("cn", &["staff"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdLockout", &["TRUE"]),
        ("pwdMaxFailure", &["2"]),
        ("pwdLockoutDuration", &["3600"]),
        ("pwdMustChange", &["TRUE"]),
    ];
    let policy = policy.map(|(name, values)| (name, values.iter().copied().collect()));
    root.add(POLICY, policy.to_vec()).unwrap().success().unwrap();
    let list = |arguments: &[&str]| account(&demo, &[&["list"], arguments].concat());
    check(&list(&["--locked"]), 0, &["no such account"]);
    for _ in 0..2 {
        let mut connection = ldap3::LdapConn::new(&url).unwrap();
        assert_eq!(connection.simple_bind(PERSON, "wrong password").unwrap().rc, 49);
    }
    check(&account(&demo, &["lock", "user.7"]), 0, &["locked until"]);
    check(&account(&demo, &["disable", "user.8"]), 0, &["disabled"]);
    check(&account(&demo, &["expire", "user.9"]), 0, &["expires"]);
    check(&account(&demo, &["expire", "--password", "user.10"]), 0, &["must change"]);
    let json = list(&["--locked", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.output).unwrap();
    let all = json.as_array().unwrap();
    assert_eq!(all.len(), 2, "{json:#}");
    let person = all.iter().find(|one| one["dn"] == PERSON).unwrap();
    assert_eq!((&person["state"], &person["policy"]), (&"locked".into(), &POLICY.into()));
    let (since, until) = (person["since"].as_str().unwrap(), person["until"].as_str().unwrap());
    assert!(since < until, "{json:#}");
    // By hand: nobody knows when it ends.
    let other = all.iter().find(|one| one["dn"] != PERSON).unwrap();
    assert!(other["until"].is_null(), "{json:#}");
    check(&list(&["--disabled"]), 0, &["uid=user.8,", "disabled", "1 account;"]);
    check(&list(&["--expired"]), 0, &["uid=user.9,", "expired", "1 account;"]);
    check(&list(&["--must-change"]), 0, &["uid=user.10,", "must change", "1 account;"]);
    check(&list(&["--locked", "--disabled", "--expired"]), 0, &["4 accounts;", "account show"]);
    check(
        &list(&["--locked", "--base", "uid=user.1,ou=people,dc=example,dc=com"]),
        0,
        &["no such account"],
    );
    // Nobody is told that all is well who may not know.
    let run = roster(&["account", "list", "--locked", "-H", &url]);
    check(&run, 1, &["the privilege password-reset"]);
    check(&list(&[]), 2, &["required"]);
}
