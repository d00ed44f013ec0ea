//! `roster constraint` against a real `roster demo`, with the OpenLDAP tools as the clients.

mod common;
mod demo;

use std::process::Command;

use common::{Run, check_all as check, roster};
use demo::Demo;

fn constraint(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-w", &demo.admin_password];
    roster(&[&["constraint"], arguments, &server].concat())
}

const MAIL: &str = "one-mail: unique mail below ou=people,dc=example,dc=com";

#[test]
fn constraints_are_added_listed_checked_and_dropped() {
    let demo = Demo::start(50);
    check(&constraint(&demo, &["list"]), 0, &["there are no constraints"]);
    check(&constraint(&demo, &["add", MAIL]), 0, &["one-mail: holds from now on\n", "0 of "]);
    let short = "short: length uid ..6 where (objectClass=person)";
    let run = constraint(&demo, &["add", short]);
    let line = "uid=user.10,ou=people,dc=example,dc=com: a value of 'uid' must have at most 6 \
                characters, not 7";
    check(&run, 0, &[line, "short: 41 of 50 entries break it", "what is there stays"]);
    check(&constraint(&demo, &["list"]), 0, &[MAIL, short]);
    let run = constraint(&demo, &["list", "--json"]);
    let listed: Vec<String> = serde_json::from_str(&run.output).expect("it is JSON");
    assert_eq!(listed, [MAIL, short]);
    check(&constraint(&demo, &["check", "one-mail"]), 0, &["one-mail: 0 of "]);
    check(&constraint(&demo, &["check"]), 1, &["constraints are broken"]);
    check(
        &constraint(&demo, &["add", "x: unique description"]),
        1,
        &["unwillingToPerform (53)", "roster index add 'equality description' --wait"],
    );
    let nowhere = "no: ascii uid below ou=nowhere,dc=example,dc=com";
    check(&constraint(&demo, &["add", nowhere]), 0, &["no entry yet for which 'no' holds"]);
    check(&constraint(&demo, &["drop", "NO"]), 0, &["no: dropped"]);
    check(&constraint(&demo, &["add", "unique mail"]), 1, &["it begins with a name"]);
    check(&constraint(&demo, &["drop", "no"]), 2, &["there is no constraint 'no'"]);
    check(&constraint(&demo, &["drop", "short"]), 0, &["short: dropped"]);
    check(&constraint(&demo, &["check"]), 0, &["one-mail: 0 of "]);
}

#[test]
fn ldapmodify_is_told_which_constraint_it_breaks() {
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    if !required && Command::new("ldapmodify").arg("-VV").output().is_err() {
        return;
    }
    let demo = Demo::start(10);
    check(&constraint(&demo, &["add", MAIL]), 0, &[]);
    let mail = Command::new("ldapsearch")
        .args(["-x", "-LLL", "-H", &demo.url("ldap"), "-b", "dc=example,dc=com"])
        .args(["(uid=user.1)", "mail"])
        .output()
        .expect("it runs");
    let mail = String::from_utf8_lossy(&mail.stdout).into_owned();
    let mail = mail.lines().find(|line| line.starts_with("mail: ")).expect("it has one").to_owned();
    let file = demo.scratch().join("change.ldif");
    let change = format!(
        "dn: uid=user.2,ou=people,dc=example,dc=com\nchangetype: modify\nreplace: mail\n{mail}\n"
    );
    std::fs::write(&file, change).expect("it is written");
    let run = Command::new("ldapmodify")
        .args(["-x", "-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-w", &demo.admin_password])
        .arg("-f")
        .arg(&file)
        .output()
        .expect("it runs");
    assert_eq!(run.status.code(), Some(19));
    let errors = String::from_utf8_lossy(&run.stderr);
    let why = "constraint 'one-mail': uid=user.1,ou=people,dc=example,dc=com has this value of \
               'mail' already";
    assert!(errors.contains(why), "{errors}");
}
