//! Changes are kept and read with `ldapsearch`, also after the journal gave them up; `cn=monitor`
//! tells what there is. (`crash.rs` looks for every change after each kill.)

mod common;
mod demo;

use std::path::Path;
use std::process::{Command, Output};

use common::{check_all as check, have, roster};
use demo::Demo;

/// Whether the OpenLDAP tools are there.
fn has_tools() -> bool {
    have("ldapsearch", &["-VV"])
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

/// The number of the last change.
fn last(demo: &Demo) -> u64 {
    let numbers = ["-b", "", "-s", "base", "lastChangeNumber"];
    number(&search(demo, &numbers), "lastChangeNumber")
}

#[test]
fn what_was_in_a_large_group_is_in_it_again() {
    if !has_tools() {
        return;
    }
    let demo = Demo::start(600);
    let file = demo.scratch().join("change.ldif");
    let person =
        |number: usize, unit: &str| format!("uid=user.{number},ou={unit},dc=example,dc=com");
    let group = "cn=very many,dc=example,dc=com";
    let mut ldif = format!("dn: {group}\nchangetype: add\nobjectClass: groupOfNames\n");
    (0..600).for_each(|number| ldif.push_str(&format!("member: {}\n", person(number, "people"))));
    modify(&demo, &file, &format!("{ldif}\n"));
    let name = person(7, "people");
    modify(&demo, &file, &format!("dn: {name}\nchangetype: delete\n\n"));
    let members = |demo: &Demo| -> Vec<String> {
        let told = search(demo, &["-b", group, "-s", "base", "member"]);
        let members = told.lines().filter_map(|line| line.strip_prefix("member: "));
        members.map(str::to_owned).collect()
    };
    assert_eq!(members(&demo).len(), 599);
    // What is above it is called otherwise meanwhile.
    let rename = "dn: ou=people,dc=example,dc=com\nchangetype: modrdn\nnewrdn: ou=staff\n\
                  deleteoldrdn: 1\n\n";
    modify(&demo, &file, rename);
    let told = run(&demo, &["undelete", "-n", &name.to_uppercase()]);
    let now = person(7, "staff");
    check(&told, 0, &[&format!("{now}: deleted at "), &format!("  member of {group}")]);
    check(&run(&demo, &["undelete", &now]), 0, &["1 entries are back"]);
    let members = members(&demo);
    assert_eq!(members.len(), 600);
    assert!(members.contains(&now), "{now}");
}

#[test]
fn a_change_is_undone_by_its_number() {
    if !has_tools() {
        return;
    }
    let demo = Demo::start(20);
    let file = demo.scratch().join("change.ldif");
    let name = "uid=user.3,ou=people,dc=example,dc=com";
    let entry = ["-b", name, "-s", "base", "*", "entryUUID", "createTimestamp"];
    let title = |value: &str| {
        format!(
            "dn: {name}\nchangetype: modify\nreplace: title\ntitle: {value}\n-\n\
             add: description\ndescription: {value}\n\n"
        )
    };
    let was = search(&demo, &entry);
    modify(&demo, &file, &title("Pilot"));
    let pilot = last(&demo);
    modify(&demo, &file, &title("Cook"));
    let cook = last(&demo);
    let revert = |arguments: &[&str]| run(&demo, &[&["revert"], arguments].concat());
    let (pilot, cook) = (pilot.to_string(), cook.to_string());
    // What others did since stays, unless it is asked for.
    let later =
        format!("'title' of {name} has changed since: change {cook} (modify) by cn=Directory");
    check(&revert(&[&pilot]), 1, &[&later, "--force"]);
    let told = revert(&["-n", &cook]);
    let line = "\nchangetype: modify\ndelete: description\ndescription: Cook\n-\n";
    check(
        &told,
        0,
        &[
            &format!("dn: {name}\n"),
            line,
            "delete: title\ntitle: Cook\n-\nadd: title\ntitle: Pilot\n-\n",
        ],
    );
    check(&revert(&[&cook]), 0, &[&format!("{name} has the values of before")]);
    check(&revert(&[&pilot]), 0, &[]);
    assert_eq!(search(&demo, &entry), was);
    check(&revert(&[&pilot]), 0, &["nothing is left of change"]);
    // A name and a place.
    let moved = "uid=user.three,dc=example,dc=com";
    let rename = format!(
        "dn: {name}\nchangetype: modrdn\nnewrdn: uid=user.three\ndeleteoldrdn: 1\n\
         newsuperior: dc=example,dc=com\n\n"
    );
    modify(&demo, &file, &rename);
    let number = last(&demo).to_string();
    check(&revert(&[&number]), 0, &[&format!("{moved} has the name of before")]);
    assert_eq!(search(&demo, &entry), was);
    // A deletion with its references, and an addition.
    let group = "cn=friends,dc=example,dc=com";
    let add =
        format!("dn: {group}\nchangetype: add\nobjectClass: groupOfNames\nmember: {name}\n\n");
    modify(&demo, &file, &add);
    let added = last(&demo).to_string();
    modify(&demo, &file, &format!("dn: {name}\nchangetype: delete\n\n"));
    let number = last(&demo).to_string();
    check(
        &revert(&[&number]),
        0,
        &[&format!("{name} is back"), &format!("{group} has the values")],
    );
    assert_eq!(search(&demo, &entry), was);
    check(&revert(&[&number]), 1, &["is there again"]);
    check(&revert(&[&added]), 1, &["has changed since"]);
    check(&revert(&["--force", &added]), 0, &[&format!("{group} deleted")]);
    check(&revert(&[&added]), 1, &["is not there any more"]);
    let told = revert(&["--force", &added]);
    check(&told, 0, &["is not there any more", "nothing is left of change"]);
    // A rename with the reference that followed it.
    modify(&demo, &file, &add);
    let rename = format!("dn: {name}\nchangetype: modrdn\nnewrdn: uid=three\ndeleteoldrdn: 1\n\n");
    modify(&demo, &file, &rename);
    let number = last(&demo).to_string();
    check(&revert(&[&number]), 0, &["has the name of before"]);
    assert_eq!(search(&demo, &entry), was);
    let told = search(&demo, &["-b", group, "-s", "base", "member"]);
    assert!(told.contains(&format!("member: {name}\n")), "{told}");
    check(&revert(&["9999999"]), 1, &["changed no entry, or there is none yet"]);
}

#[test]
fn two_moments_differ_by_what_changed_between_them() {
    if !has_tools() {
        return;
    }
    let demo = Demo::start(20);
    let file = demo.scratch().join("change.ldif");
    let all = ["-b", "ou=people,dc=example,dc=com", "*"];
    let sorted = |demo: &Demo| {
        let text = search(demo, &all);
        let mut entries: Vec<Vec<String>> = text
            .split("\n\n")
            .map(|entry| {
                // Each has a salt of its own.
                let lines = entry.lines().filter(|line| !line.starts_with("userPassword"));
                let mut lines: Vec<String> = lines.map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            })
            .collect();
        entries.sort_unstable();
        entries
    };
    let person = |number: usize| format!("uid=user.{number},ou=people,dc=example,dc=com");
    // The log begins with a change.
    let begin = format!("dn: {}\nchangetype: modify\nreplace: title\ntitle: a\n\n", person(9));
    modify(&demo, &file, &begin);
    let (before, first) = (sorted(&demo), now());
    // Change logs tell whole seconds.
    wait_past(&first);
    modify(
        &demo,
        &file,
        &format!(
            "dn: {0}\nchangetype: modify\nreplace: title\ntitle: Cook\n\n\
             dn: {0}\nchangetype: modify\nreplace: title\ntitle: Pilot\n\n\
             dn: {1}\nchangetype: delete\n\n\
             dn: ou=new,ou=people,dc=example,dc=com\nchangetype: add\n\
             objectClass: organizationalUnit\n\n\
             dn: {2}\nchangetype: modrdn\nnewrdn: uid=two\ndeleteoldrdn: 1\n\
             newsuperior: ou=new,ou=people,dc=example,dc=com\n\n\
             dn: cn=short,ou=people,dc=example,dc=com\nchangetype: add\nobjectClass: device\n\n\
             dn: cn=short,ou=people,dc=example,dc=com\nchangetype: delete\n\n",
            person(1),
            person(2),
            person(3),
        ),
    );
    let (after, second) = (sorted(&demo), now());
    wait_past(&second);
    modify(
        &demo,
        &file,
        &format!("dn: {}\nchangetype: modify\nreplace: title\ntitle: x\n\n", person(5)),
    );
    let told = run(&demo, &["diff", "--at", &first, "--at", &second]);
    check(&told, 1, &["title: Pilot", "changetype: delete", "newrdn: uid=two", "ou: new"]);
    for gone in ["Cook", "cn=short", "entryUUID", &person(5)] {
        assert!(!told.output.contains(gone), "{gone}: {}", told.output);
    }
    let within = run(&demo, &["diff", "--at", &first, "-b", &person(5).to_uppercase()]);
    assert_eq!(within.output.matches("dn: ").count(), 1, "{}", within.output);
    // It turns the first into the second, here in another server.
    let other = Demo::start(20);
    modify(&other, &file, &begin);
    assert!(sorted(&other) == before);
    modify(&other, &file, &told.output);
    assert!(sorted(&other) == after);
    check(&run(&demo, &["diff", "--at", "3000d"]), 2, &["changes are kept from "]);
    check(&run(&demo, &["diff", "--at", &second, "--at", &first]), 2, &["is after the second"]);
}

/// Now, as change logs write it.
fn now() -> String {
    let output = Command::new("date").args(["-u", "+%Y%m%d%H%M%SZ"]).output().expect("it runs");
    String::from_utf8(output.stdout).expect("it is ASCII").trim().to_owned()
}

fn wait_past(time: &str) {
    while now() == time {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}
