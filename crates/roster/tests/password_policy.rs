//! Password policies as people with OpenLDAP's tools meet them: the control in words.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use std::process::{Command, Output};

use common::roster;
use demo::Demo;

const PERSON: &str = "uid=marie,ou=people,dc=example,dc=com";
const POLICY: &str = "cn=staff,dc=example,dc=com";

/// A demo with a policy and an account.
fn site() -> Demo {
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
    let policy = [
        ("objectClass", &["top", "subentry", "pwdPolicy"][..]),
        ("cn", &["staff"]),
        ("subtreeSpecification", &["{}"]),
        ("pwdAttribute", &["userPassword"]),
        ("pwdLockout", &["TRUE"]),
        ("pwdMaxFailure", &["2"]),
        ("pwdMustChange", &["TRUE"]),
        ("pwdMaxAge", &["86400"]),
        ("pwdExpireWarning", &["86400"]),
        ("pwdCheckQuality", &["1"]),
        ("pwdMinLength", &["12"]),
    ];
    add(POLICY, &policy);
    let person = [
        ("objectClass", &["inetOrgPerson"][..]),
        ("uid", &["marie"]),
        ("cn", &["Marie Curie"]),
        ("sn", &["Curie"]),
        ("userPassword", &["polonium and radium"]),
    ];
    add(PERSON, &person);
    demo
}

/// Runs one of OpenLDAP's tools as the account, with the control.
fn tool(demo: &Demo, name: &str, password: &str, arguments: &[&str]) -> Output {
    Command::new(name)
        .args(["-x", "-H", &demo.url("ldap"), "-D", PERSON, "-w", password, "-e", "ppolicy"])
        .args(arguments)
        .env("LDAPNOINIT", "1")
        .output()
        .unwrap()
}

#[track_caller]
fn check(output: &Output, succeeds: bool, want: &str) {
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert_eq!(output.status.success(), succeeds, "{text}");
    assert!(text.contains(want), "{text}\nlacks\n{want}");
}

#[test]
fn the_openldap_tools_say_what_is_the_matter() {
    if Command::new("ldapwhoami").arg("-VV").output().is_err() {
        eprintln!("skipped: there is no ldapwhoami; cargo xtask test installs it");
        return;
    }
    let demo = site();
    let whoami = |password: &str| tool(&demo, "ldapwhoami", password, &[]);
    check(&whoami("polonium and radium"), true, "Password expires in");
    let passwd = |old: &str, new: &str| tool(&demo, "ldappasswd", old, &["-s", new]);
    check(&passwd("polonium and radium", "short"), false, "Password is too short for policy");
    check(&passwd("polonium and radium", "two nobel prizes"), true, "");
    check(&whoami("polonium and radium"), false, "Invalid credentials");
    check(&whoami("polonium and radium"), false, "Invalid credentials");
    check(&whoami("two nobel prizes"), false, "Account locked");
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    let account = |arguments: &[&str]| roster(&[&["account"], arguments, &server].concat());
    let shown = account(&["show", "marie"]);
    for line in [
        "  cannot sign in\n    - the account is locked since",
        &format!("policy           {POLICY}"),
    ] {
        assert!(shown.output.contains(line), "{shown:?}");
    }
    assert!(account(&["unlock", "marie"]).output.contains(": unlocked\n"));
    check(&whoami("two nobel prizes"), true, "Password expires in");
    let reset = account(&["reset", "marie"]);
    assert!(reset.output.contains("has to be changed before anything else"), "{reset:?}");
    let first = reset.output.lines().next().unwrap();
    let made = first.rsplit(' ').next().unwrap();
    check(&whoami(made), true, "Password must be changed");
    check(&passwd(made, "three nobel prizes"), true, "");
    let shown = account(&["show", "marie"]);
    assert!(shown.output.contains(&format!("{PERSON}\n  can sign in\n")), "{shown:?}");
}
