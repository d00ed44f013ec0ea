//! Changes are kept and read with `ldapsearch`, also after the journal gave them up; `cn=monitor`
//! tells what there is. (`crash.rs` looks for every change after each kill.)

mod common;
mod demo;

use std::path::Path;
use std::process::{Command, Output};

use common::{check_all as check, roster};
use demo::Demo;

/// Whether the OpenLDAP tools are there, as they have to be in CI.
fn has_tools() -> bool {
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    required || Command::new("ldapsearch").arg("-VV").output().is_ok()
}

/// What a tool of OpenLDAP says as the administrator.
fn tool(demo: &Demo, name: &str, arguments: &[&str]) -> Output {
    Command::new(name)
        .args(["-x", "-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-w", &demo.admin_password])
        .args(arguments)
        .output()
        .expect("it runs")
}

fn search(demo: &Demo, arguments: &[&str]) -> String {
    let output = tool(demo, "ldapsearch", &[&["-LLL", "-o", "ldif-wrap=no"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("LDIF is ASCII")
}

/// The number in the line that begins so.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("it is a number")
}

fn modify(demo: &Demo, file: &Path, ldif: &str) {
    std::fs::write(file, ldif).expect("it is written");
    let output = tool(demo, "ldapmodify", &["-f", &file.display().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn changes_are_read_by_their_numbers() {
    if !has_tools() {
        return;
    }
    let settings = [("ROSTER_STORE__JOURNAL_KEEP_MIB", "0")];
    let demo = Demo::start_set(20, &[], &settings);
    let numbers = ["-b", "", "-s", "base", "firstChangeNumber", "lastChangeNumber"];
    let before = number(&search(&demo, &numbers), "lastChangeNumber");
    let file = demo.scratch().join("change.ldif");
    let name = "uid=user.3,ou=people,dc=example,dc=com";
    let ldif = |value: usize| {
        format!("dn: {name}\nchangetype: modify\nreplace: title\ntitle: Engineer {value}\n\n")
    };
    modify(&demo, &file, &(0..50).map(ldif).collect::<String>());
    let filter = format!("(&(changeNumber>={})(changeNumber<={}))", before + 11, before + 13);
    let told =
        search(&demo, &["-b", "cn=changelog", "-s", "one", &filter, "targetDN", "changeType"]);
    let expected = |number: u64| {
        format!("dn: changeNumber={number},cn=changelog\ntargetDN: {name}\nchangeType: modify\n\n")
    };
    assert_eq!(told, (11..=13).map(|more| expected(before + more)).collect::<String>());
    let told = search(&demo, &["-b", "cn=changelog", &filter, "changeInitiatorsName"]);
    assert!(told.contains("changeInitiatorsName: cn=Directory Manager\n"), "{told}");
    // By pages, as readers of long logs ask.
    let pages = ["-b", "cn=changelog", "-s", "one", "-E", "pr=7/noprompt", "changeNumber"];
    let told = search(&demo, &pages);
    assert_eq!(told.matches("\nchangeNumber: ").count(), told.matches("dn: changeNumber=").count());
    assert!(told.matches("dn: changeNumber=").count() >= 50, "{told}");
    let told = search(&demo, &["-b", "cn=archive,cn=monitor", "-s", "base", "+", "*"]);
    assert_eq!(number(&told, "roster-archive-missing-records"), 0);
    assert_eq!(number(&told, "roster-archive-failed"), 0);
}

#[test]
fn without_an_archive_the_journal_is_read() {
    if !has_tools() {
        return;
    }
    let demo = Demo::start_set(20, &[], &[("ROSTER_ARCHIVE__KEEP_DAYS", "0")]);
    let told = search(&demo, &["-b", "cn=changelog", "-s", "base", "firstChangeNumber"]);
    assert!(number(&told, "firstChangeNumber") > 0);
    let told = search(&demo, &["-b", "cn=archive,cn=monitor", "-s", "base", "+", "*"]);
    assert!(!told.contains("roster-archive-"), "{told}");
}

/// `roster` on a demo, as its administrator.
fn run(demo: &Demo, arguments: &[&str]) -> common::Run {
    let url = demo.url("ldap");
    roster(&[arguments, &["-H", &url, "-w", &demo.admin_password]].concat())
}

#[test]
fn the_commands_tell_changes_and_bring_back_what_was_deleted() {
    if !has_tools() {
        return;
    }
    let demo = Demo::start(20);
    let numbers = ["-b", "", "-s", "base", "lastChangeNumber"];
    let before = number(&search(&demo, &numbers), "lastChangeNumber").to_string();
    let file = demo.scratch().join("change.ldif");
    let name = "uid=user.3,ou=people,dc=example,dc=com";
    let group = "cn=friends,dc=example,dc=com";
    modify(
        &demo,
        &file,
        &format!(
            "dn: {group}\nchangetype: add\nobjectClass: groupOfNames\nmember: {name}\n\n\
             dn: {name}\nchangetype: modify\nreplace: title\ntitle: Pilot\n\n\
             dn: cn=box,{name}\nchangetype: add\nobjectClass: device\n\n\
             dn: {name}\nchangetype: modify\nreplace: userPassword\nuserPassword: a long secret\n\n"
        ),
    );
    let entry = ["-b", name, "-s", "base", "*", "entryUUID", "createTimestamp", "isMemberOf"];
    let was = search(&demo, &entry);
    let box_name = format!("cn=box,{name}");
    modify(
        &demo,
        &file,
        &format!("dn: {box_name}\nchangetype: delete\n\ndn: {name}\nchangetype: delete\n\n"),
    );
    // As LDIF, and as JSON.
    let from = (before.parse::<u64>().expect("a number") + 1).to_string();
    let told = run(&demo, &["changes", "--from", &from, "--once"]);
    let line = format!("dn: {name}\nchangetype: modify\ndelete: title\n");
    check(
        &told,
        0,
        &[&line, "add: title\ntitle: Pilot\n-\n", "changetype: delete", "# title: Pilot"],
    );
    // Without what only servers set.
    assert!(!told.output.contains("\nmodifyTimestamp: "), "{}", told.output);
    assert!(!told.output.contains("\nentryUUID: "), "{}", told.output);
    let filter = "(changeType=delete)";
    let told = run(&demo, &["changes", "--from", &from, "--once", "--json", filter]);
    check(&told, 0, &["\"type\":\"delete\"", "\"title\":[\"Pilot\"]"]);
    assert_eq!(told.output.lines().count(), 2, "{}", told.output);
    let told = run(&demo, &["history", name]);
    check(&told, 0, &["+ title: \"Pilot\"", &format!("{name} deleted")]);
    check(
        &run(&demo, &["history", "uid=nobody,dc=example,dc=com"]),
        1,
        &["no change of uid=nobody"],
    );
    // What is below an entry that was not deleted does not come back with it.
    let people = "ou=people,dc=example,dc=com";
    check(&run(&demo, &["undelete", "-r", people]), 1, &["no deletion of ou=people"]);
    // Back, with what it was and where it belonged.
    let told = run(&demo, &["undelete", "-n", name]);
    check(&told, 0, &[&format!("{name}: deleted at "), &format!("  member of {group}")]);
    check(&run(&demo, &["undelete", "-r", name]), 0, &["2 entries are back"]);
    assert_eq!(search(&demo, &entry), was);
    search(&demo, &["-b", &box_name, "-s", "base"]);
    check(&run(&demo, &["undelete", "-r", name]), 1, &["no deletion of uid=user.3"]);
    let bound = Command::new("ldapwhoami")
        .args(["-x", "-H", &demo.url("ldap"), "-D", name, "-w", "a long secret"])
        .output()
        .expect("it runs");
    assert!(bound.status.success(), "the password is back");
}
