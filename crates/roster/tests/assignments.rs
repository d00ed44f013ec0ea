//! `roster assignment` against a real `roster demo`, with the OpenLDAP tools as the clients.

mod common;
mod demo;

use std::process::Command;

use common::{Run, check_all as check, roster};
use demo::Demo;

fn assignment(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-w", &demo.admin_password];
    roster(&[&["assignment"], arguments, &server].concat())
}

const UIDS: &str =
    "uids: number uidNumber,gidNumber 10000..59999 for -1 where (objectClass=posixAccount)";

#[test]
fn numbers_are_given_to_who_is_added_and_told() {
    let demo = Demo::start(20);
    check(&assignment(&demo, &["list"]), 0, &["there are no assignments"]);
    let refused = assignment(&demo, &["add", "x: number uidNumber 1..9"]);
    check(&refused, 1, &["it would be about every entry"]);
    let unindexed = assignment(&demo, &["add", "x: number roomNumber 1..9 where (l=a)"]);
    check(&unindexed, 1, &["roster index add 'equality roomNumber' --wait"]);
    check(&assignment(&demo, &["add", UIDS]), 0, &["uids: holds from now on\n"]);
    check(&assignment(&demo, &["list"]), 0, &[UIDS]);
    let entry = demo.scratch().join("new.ldif");
    let text = "dn: uid=new,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\n\
                objectClass: posixAccount\nuid: new\ncn: new\nsn: new\nhomeDirectory: /home/new\n";
    std::fs::write(&entry, text).unwrap();
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    if !required && Command::new("ldapadd").arg("-VV").output().is_err() {
        return;
    }
    let added = Command::new("ldapadd")
        .args(["-x", "-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-w", &demo.admin_password])
        .args(["-e", "!postread=uidNumber,gidNumber", "-f"])
        .arg(&entry)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&added.stdout).into_owned();
    assert!(added.status.success(), "{added:?}");
    assert!(told.contains("uidNumber: 10000") && told.contains("gidNumber: 10000"), "{told}");
    let run = assignment(&demo, &["list"]);
    check(&run, 0, &[UIDS, "uids: the next number is 10001"]);
    check(&assignment(&demo, &["drop", "UIDS"]), 0, &["uids: dropped"]);
    check(&assignment(&demo, &["drop", "uids"]), 2, &["there is no assignment 'uids'"]);
}
