//! `roster virtual-attribute` against a real `roster demo`, with the OpenLDAP tools as the clients.

mod common;
mod demo;

use std::process::Command;

use common::{Run, check_all as check, roster};
use demo::Demo;

fn virtual_attribute(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-w", &demo.admin_password];
    roster(&[&["virtual-attribute"], arguments, &server].concat())
}

const LINE: &str = "place: constant preferredLanguage (fi) where (objectClass=person)";

#[test]
fn what_is_defined_is_seen_by_clients_and_left_out_of_exports() {
    let demo = Demo::start(20);
    check(&virtual_attribute(&demo, &["list"]), 0, &["there are no virtual attributes"]);
    let refused = virtual_attribute(&demo, &["add", "x: constant userPassword (x) below dc=x"]);
    check(&refused, 1, &["is secret"]);
    check(&virtual_attribute(&demo, &["add", LINE]), 0, &["place: holds from now on\n"]);
    check(&virtual_attribute(&demo, &["list"]), 0, &[LINE]);
    let url = demo.url("ldap");
    let exported =
        roster(&["export", "-H", &url, "-w", &demo.admin_password, "-b", "dc=example,dc=com"]);
    check(&exported, 0, &["uid: "]);
    assert!(!exported.output.contains("preferredLanguage: fi"), "what is not stored is exported");
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    if required || Command::new("ldapsearch").arg("-VV").output().is_ok() {
        let found = Command::new("ldapsearch")
            .args(["-x", "-LLL", "-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password])
            .args(["-b", "dc=example,dc=com", "(&(uid=*)(preferredLanguage=FI))"])
            .arg("preferredLanguage")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&found.stdout).into_owned();
        assert!(found.status.success(), "{found:?}");
        assert!(told.matches("preferredLanguage: fi").count() >= 20, "{told}");
    }
    check(&virtual_attribute(&demo, &["drop", "PLACE"]), 0, &["place: dropped"]);
    let gone = virtual_attribute(&demo, &["drop", "place"]);
    check(&gone, 2, &["there is no virtual attribute 'place'", "'roster virtual-attribute list'"]);
}
