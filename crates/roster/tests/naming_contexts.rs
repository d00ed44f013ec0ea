//! `roster naming-context` against a real `roster demo` and on data directories.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;

use std::fs;
use std::path::Path;

use common::{Run, check_all as check, roster};
use demo::Demo;

fn asked(demo: &Demo, command: &[&str]) -> Run {
    let url = demo.url("ldap");
    roster(&[command, &["-H", &url, "-w", &demo.admin_password]].concat())
}

fn contexts(demo: &Demo, arguments: &[&str]) -> Run {
    asked(demo, &[&["naming-context"], arguments].concat())
}

#[test]
fn they_come_and_go_under_a_running_server() {
    let demo = Demo::start(50);
    check(&contexts(&demo, &["list", "--count"]), 0, &["dc=example,dc=com       52\n"]);
    check(&contexts(&demo, &["list"]), 0, &["dc=example,dc=com     some\n"]);
    let run = contexts(&demo, &["add", "o=Partners", "dc=far,dc=org", "-m", "for the fair"]);
    check(
        &run,
        0,
        &["o=Partners: added, with its entry\n", "dc=far,dc=org: added, with its entry"],
    );
    check(&contexts(&demo, &["add", "uid=x,o=bare"]), 0, &["added, without an entry"]);
    let run = contexts(&demo, &["list", "--count", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    let names = [("dc=example,dc=com", 52), ("o=Partners", 1), ("dc=far,dc=org", 1)];
    for (at, (name, entries)) in names.into_iter().chain([("uid=x,o=bare", 0)]).enumerate() {
        assert_eq!(listed[at], serde_json::json!({ "name": name, "entries": entries }));
    }
    // Nothing of what cannot be together comes: neither the name nor its entry.
    check(&contexts(&demo, &["add", "o=new", "o=bare"]), 1, &["above", "'uid=x,o=bare'"]);
    check(&contexts(&demo, &["add", "ou=x,o=partners"]), 1, &["lies within", "add an entry there"]);
    check(&contexts(&demo, &["add", "cn=config", "--no-entry"]), 1, &["the server's own entries"]);
    // Who changed it, and why, is known, and undone like every other change.
    let run = asked(&demo, &["config", "history"]);
    check(&run, 0, &["o=Partners", "for the fair"]);
    let constraint = "mails: unique mail below dc=far,dc=org";
    check(&asked(&demo, &["constraint", "add", constraint]), 0, &["holds"]);
    let run = contexts(&demo, &["rename", "dc=far,dc=org", "dc=near,dc=org"]);
    let note = format!("constraint '{constraint}' names the old one still");
    check(&run, 0, &["dc=far,dc=org: is dc=near,dc=org now\n", &note]);
    check(&contexts(&demo, &["rename", "uid=x,o=bare", "uid=y,o=bare"]), 0, &["is uid=y,o=bare"]);
    check(&contexts(&demo, &["rename", "dc=near,dc=org", "o=near"]), 1, &["--keep-old-rdn"]);
    let run = contexts(&demo, &["rename", "DC=Near,dc=org", "o=near", "--keep-old-rdn"]);
    check(&run, 0, &["dc=near,dc=org: is o=near now\n"]);
    check(&contexts(&demo, &["rename", "o=no", "o=nobody"]), 2, &["no naming context 'o=no'"]);
    check(&contexts(&demo, &["drop", "o=near"]), 1, &["has entries", "--with-entries"]);
    check(&contexts(&demo, &["drop", "o=near", "--with-entries"]), 0, &["o=near: dropped\n"]);
    check(&contexts(&demo, &["drop", "uid=y,o=bare"]), 0, &["uid=y,o=bare: dropped\n"]);
    // The desired state has them.
    let file = demo.scratch().join("state.toml");
    let run = asked(&demo, &["config", "export"]);
    check(&run, 0, &[]);
    let text = run.output;
    assert!(text.contains("\"o=Partners\""), "{text}");
    fs::write(&file, text.replace("\"o=Partners\"", "\"o=Partners\",\n    \"o=More\"")).unwrap();
    let run = asked(&demo, &["config", "apply", file.to_str().unwrap()]);
    check(&run, 0, &["o=More"]);
    check(&contexts(&demo, &["list"]), 0, &["o=More "]);
    let run = contexts(&demo, &["drop", "dc=example,dc=com", "o=partners", "--with-entries"]);
    check(&run, 0, &["dc=example,dc=com: dropped\no=Partners: dropped\n"]);
    check(&contexts(&demo, &["drop", "o=more"]), 0, &["o=More: dropped\n"]);
    check(&contexts(&demo, &["list"]), 0, &["there are no naming contexts"]);
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let run = roster(arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
    run.output
}

/// One is exported, emptied and imported again; the other is not touched.
#[test]
fn one_is_taken_back_from_its_export_beside_another() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path(), "data");
    succeed(&["init", "--data", &data, "--suffix", "dc=example,dc=com"]);
    succeed(&["naming-context", "add", "o=Partners", "--data", &data]);
    let people = |suffix: &str| {
        let one = |at| {
            format!(
                "dn: cn=p{at},{suffix}\nobjectClass: person\ncn: p{at}\nsn: x\n\
                 seeAlso: cn=p0,o=Partners\n\n"
            )
        };
        (0..20).map(one).collect::<String>()
    };
    let file = path(folder.path(), "people.ldif");
    fs::write(&file, people("o=Partners") + &people("dc=example,dc=com")).unwrap();
    succeed(&["import", "--data", &data, &file]);
    let export = |base: &str| {
        let text = succeed(&["export", "--data", &data, "-b", base, "--sort"]);
        assert_eq!(text.matches("dn: ").count(), 21, "{text}");
        text
    };
    let (partners, rest) = (export("o=Partners"), export("dc=example,dc=com"));
    let backup = path(folder.path(), "partners.ldif");
    succeed(&["export", "--data", &data, "-b", "o=Partners", "-o", &backup]);
    succeed(&["naming-context", "empty", "o=partners", "--data", &data]);
    let listed = succeed(&["naming-context", "list", "--count", "--data", &data]);
    assert!(listed.contains("dc=example,dc=com       21\no=Partners"), "{listed}");
    assert!(listed.trim_end().ends_with(" 0"), "{listed}");
    succeed(&["import", "--data", &data, &backup]);
    assert!(export("o=Partners") == partners, "with all operational attributes");
    // What named an entry that was deleted names it no more: an export of both takes that back.
    let without = rest.replace("seeAlso: cn=p0,o=Partners\n", "");
    let same = |text: &str| {
        let stamps = ["modifyTimestamp: ", "modifiersName: ", "entryCSN: "];
        let lines = text.lines();
        lines.filter(|line| !stamps.iter().any(|one| line.starts_with(one))).collect::<String>()
    };
    assert_eq!(same(&export("dc=example,dc=com")), same(&without));
    // A load of all replaces entries, not naming contexts.
    let both = path(folder.path(), "both.ldif");
    succeed(&["export", "--data", &data, "-o", &both]);
    succeed(&["import", "--clear", "--data", &data, &both]);
    let listed = succeed(&["naming-context", "list", "--count", "--data", &data]);
    assert!(listed.contains("o=Partners              21\n"), "{listed}");
    succeed(&["check", "--data", &data]);
    // So do a backup and its restore.
    let (saved, back) = (path(folder.path(), "saved"), path(folder.path(), "back"));
    succeed(&["backup", "--data", &data, "--to", &saved]);
    succeed(&["restore", "--data", &back, "--from", &saved]);
    let listed = succeed(&["naming-context", "list", "--data", &back]);
    assert!(listed.contains("o=Partners"), "{listed}");
}
