//! `roster schema` on data directories and against a real `roster demo`.

mod common;
mod demo;

use common::{Run, check_all as check, roster};
use demo::Demo;

fn schema(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-w", &demo.admin_password];
    roster(&[&["schema"], arguments, &server].concat())
}

/// What a schema is listed as.
fn state(run: &Run, name: &str) -> String {
    let line = run.output.lines().find(|line| line.starts_with(&format!("{name} ")));
    let (_, rest) = line.expect("it is listed").split_once(' ').expect("there is more");
    rest.trim_start().split("  ").next().unwrap_or_default().to_owned()
}

#[test]
fn schemas_are_switched_on_in_a_running_server() {
    let demo = Demo::start(10);
    let run = schema(&demo, &["list"]);
    check(&run, 0, &["Samba accounts, groups and domains"]);
    for (name, is) in [("samba", "off"), ("sudo", "always on"), ("389", "off")] {
        assert_eq!(state(&run, name), is, "{name}");
    }
    check(&schema(&demo, &["add", "Samba", "dsee"]), 0, &["samba, dsee: ", "hold from now on\n"]);
    let run = schema(&demo, &["list"]);
    for (name, is) in [("samba", "on"), ("dsee", "on"), ("389", "in part"), ("kerberos", "off")] {
        assert_eq!(state(&run, name), is, "{name}");
    }
    check(&schema(&demo, &["add", "samba"]), 0, &["all definitions are there already"]);
    // What two have in common is added once.
    check(&schema(&demo, &["add", "389", "kerberos", "heimdal", "dua-profile", "sudo"]), 0, &[]);
    let run = schema(&demo, &["list", "--json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&run.output).expect("it is JSON");
    assert_eq!(listed.len(), 9);
    for one in &listed {
        assert!(["on", "always on"].contains(&one["state"].as_str().expect("a state")), "{one}");
    }
    check(&schema(&demo, &["add", "sambal"]), 2, &["there is no such schema; there are: 389, "]);
}

#[test]
fn schemas_are_switched_on_before_an_import() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, ldif) = (path("data"), path("a.ldif"));
    let init = ["init", "--data", &data, "--suffix", "dc=example,dc=com"];
    check(&roster(&init), 0, &[]);
    std::fs::write(
        &ldif,
        "dn: uid=a,dc=example,dc=com\nobjectClass: account\nobjectClass: sambaSamAccount\n\
         uid: a\nsambaSID: S-1-5-21-1-2-3-1000\n\n\
         dn: cn=p,dc=example,dc=com\nobjectClass: DUAConfigProfile\n\
         defaultSearchBase: dc=example,dc=com\n",
    )
    .expect("it can be written");
    let import = ["import", "--data", &data, &ldif];
    check(&roster(&import), 2, &["sambaSID"]);
    let add = |names: &[&str]| roster(&[&["schema", "add", "--data", &data], names].concat());
    check(&add(&["samba", "dua-profile"]), 0, &["hold from the next start or import on\n"]);
    check(&add(&["samba"]), 0, &["all definitions are there already"]);
    check(&roster(&import), 0, &["imported 2"]);
    let run = roster(&["schema", "list", "--data", &data]);
    assert_eq!((state(&run, "samba"), state(&run, "dsee")), ("on".into(), "off".into()));
    // Both need what they have in common, which is there once.
    check(&add(&["dsee"]), 0, &[]);
    check(&add(&["389"]), 0, &[]);
    check(&roster(&["check", "--data", &data]), 0, &[]);
    // One's own definition of the same is in the way, and nothing is written.
    let own = "attributeTypes: ( 1.1.1.1 NAME 'krbPrincipalName' SYNTAX \
               1.3.6.1.4.1.1466.115.121.1.15 )\n";
    std::fs::write(format!("{data}/schema/99-own.ldif"), own).expect("it can be written");
    check(&add(&["kerberos"]), 2, &["krbPrincipalName"]);
    assert!(!std::fs::exists(format!("{data}/schema/60-kerberos.ldif")).expect("it can be read"));
    // Nor is a file of one's own with that name written over.
    std::fs::remove_file(format!("{data}/schema/99-own.ldif")).expect("it is there");
    let taken = format!("{data}/schema/60-kerberos.ldif");
    let own = own.replace("krbPrincipalName", "ownName");
    std::fs::write(&taken, &own).expect("it can be written");
    check(&add(&["kerberos"]), 2, &["60-kerberos.ldif is there already", "another name"]);
    assert_eq!(std::fs::read_to_string(&taken).expect("it is there"), own);
    std::fs::rename(&taken, format!("{data}/schema/99-own.ldif")).expect("it is there");
    check(&add(&["kerberos"]), 0, &["hold from the next start or import on\n"]);
    let nowhere = path("nowhere");
    check(&roster(&["schema", "add", "samba", "--data", &nowhere]), 2, &["roster init"]);
    check(&roster(&["schema", "add", "samba"]), 2, &["--data"]);
}
