//! Changes of the configuration: listed with who made them and why, compared, and undone.

mod common;
mod demo;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Run, check_all as check, have, roster};
use demo::Demo;

const ADMINISTRATOR: &str = "cn=Directory Manager";

/// The administrator's calls of one demo.
struct Calls {
    url: String,
    password: String,
}

impl Calls {
    fn of(demo: &Demo) -> Self {
        Self { url: demo.url("ldap"), password: demo.admin_password.clone() }
    }

    fn call(&self, arguments: &[&str]) -> Run {
        let login = ["-H", &self.url, "-D", ADMINISTRATOR, "-w", &self.password];
        roster(&[arguments, &login].concat())
    }

    fn config(&self, arguments: &[&str]) -> Run {
        self.call(&[&["config"], arguments].concat())
    }

    /// The changes that are listed, each as an object.
    fn history(&self) -> Vec<serde_json::Value> {
        let run = self.config(&["history", "--json"]);
        assert_eq!(run.code, 0, "{run:?}");
        let parsed = run.output.lines().map(|line| serde_json::from_str(line).expect("it is JSON"));
        parsed.collect()
    }

    /// Changes something with OpenLDAP's tool.
    fn modify(&self, ldif: &str) {
        let mut child = Command::new("ldapmodify")
            .args(["-x", "-H", &self.url, "-D", ADMINISTRATOR, "-w", &self.password])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("it is installed");
        child.stdin.take().expect("it is piped").write_all(ldif.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{ldif}");
    }

    /// The number of the last change.
    fn last(&self) -> String {
        self.history().last().expect("there is one")["number"].to_string()
    }
}

#[test]
fn every_change_of_the_configuration_is_listed_with_who_made_it_and_why() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    let before = calls.history().len();
    let size = "limits.size_limit_entries";
    let why = "imports of the archive; ticket 7";
    let set = ["set", &format!("{size}=5000"), "limits.time_limit_s=30", "--message", why];
    check(&calls.config(&set), 0, &[]);
    check(&calls.config(&["set", &format!("{size}=7000")]), 0, &[]);
    check(&calls.config(&["reset", "limits.time_limit_s", "-m", "no need"]), 0, &[]);
    let add = ["constraint", "add", "numbers: unique employeeNumber"];
    check(&calls.call(&add), 0, &[]);
    check(&calls.call(&["index", "add", "substring description"]), 0, &[]);
    check(&calls.call(&["index", "rebuild", "description.substring"]), 0, &[]);
    check(&calls.call(&["index", "drop", "description.substring"]), 0, &[]);
    check(&calls.call(&["schema", "add", "samba"]), 0, &[]);
    let all = calls.history();
    let own = &all[before..];
    let what: Vec<String> =
        own.iter().map(|one| one["what"][0].as_str().expect("it is text").to_owned()).collect();
    let set = [format!("{size} = 5000"), format!("{size} 5000 -> 7000")];
    assert_eq!(what[..2], set, "{own:#?}");
    assert_eq!(own[0]["what"][1], "limits.time_limit_s = 30");
    assert_eq!(what[2], "limits.time_limit_s reset, was 30");
    assert_eq!(what[3], "constraint numbers added");
    assert_eq!(what[4], "index substring description added");
    assert_eq!(what[5], "index substring description rebuilt");
    assert_eq!(what[6], "index substring description dropped");
    assert!(what[7..].iter().any(|one| one.starts_with("attribute type ")), "{own:#?}");
    assert!(own.iter().all(|one| one["by"] == ADMINISTRATOR), "{own:#?}");
    let messages: Vec<_> = own.iter().map(|one| one["message"].as_str()).collect();
    assert_eq!(messages[..4], [Some(why), None, Some("no need"), None]);
    // For people, and only what is looked for.
    let run = calls.config(&["history", "TICKET 7"]);
    check(&run, 0, &[why, &format!("{size} = 5000; limits.time_limit_s = 30")]);
    let lines = run.output.lines().filter(|line| !line.is_empty());
    assert_eq!(lines.count(), 2, "{run:?}");
    // What one did, and what differs between two states.
    let number = |at: usize| own[at]["number"].to_string();
    let run = calls.config(&["diff", &number(1)]);
    let lines = format!(
        "cn=Settings,cn=config\n- roster-setting: {size}=5000\n+ roster-setting: {size}=7000\n"
    );
    check(&run, 0, &[&lines]);
    let run = calls.config(&["diff", &number(0), "now"]);
    let lines = ["- roster-setting: limits.time_limit_s=30\n", "+ roster-constraint: numbers: "];
    check(&run, 0, &lines);
    // What came and went in between is no difference.
    assert!(!run.output.contains("roster-index-definition"), "{run:?}");
    let back = calls.config(&["diff", &number(2), &number(0)]);
    check(&back, 0, &[&format!("- roster-setting: {size}=7000\n"), "limits.time_limit_s=30\n"]);
    check(&calls.config(&["diff", &number(7), &number(7)]), 0, &["nothing differs"]);
    // Numbers of changes that are none of the configuration.
    check(&calls.config(&["diff", "999999"]), 1, &["none of the configuration"]);
    // The other lists tell why, too.
    check(&calls.call(&["history", "cn=Settings,cn=config"]), 0, &[why, "limits.time_limit_s=30"]);
    let from = number(0);
    check(&calls.call(&["changes", "--once", "--from", &from]), 0, &[why]);
    check(&calls.call(&["revert", &from]), 1, &[&format!("'roster config undo {from}'")]);
}

#[test]
fn a_change_is_undone_unless_what_it_changed_has_changed_since() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    let get = |name: &str| calls.config(&["get", name]).output;
    let size = "limits.size_limit_entries";
    check(&calls.config(&["set", &format!("{size}=5000"), "limits.time_limit_s=30"]), 0, &[]);
    let first = calls.last();
    check(&calls.config(&["set", &format!("{size}=7000")]), 0, &[]);
    let second = calls.last();
    // Not in another order.
    let refused = format!("setting {size} has changed since: change {second} by {ADMINISTRATOR}");
    check(&calls.config(&["undo", &first]), 1, &[&refused, &format!("undo {second}")]);
    assert_eq!(get("limits.time_limit_s"), "30\n");
    check(&calls.config(&["undo", "-n", &second]), 0, &["add: roster-setting\n"]);
    assert_eq!(get(size), "7000\n");
    check(&calls.config(&["undo", &second, "-m", "too much"]), 0, &["cn=Settings,cn=config"]);
    assert_eq!(get(size), "5000\n");
    check(&calls.config(&["undo", &second]), 0, &["nothing is left of change"]);
    let undoing = calls.last();
    assert_eq!(calls.history().last().expect("there is one")["message"], "too much");
    // Undoing is a change, and undone like any.
    check(&calls.config(&["undo", &undoing]), 0, &[]);
    assert_eq!(get(size), "7000\n");
    check(&calls.config(&["undo", &calls.last()]), 0, &[]);
    check(&calls.config(&["undo", &first]), 0, &[]);
    check(&calls.config(&["list", "--changed", "limits"]), 0, &[]);
    assert_eq!(get("limits.time_limit_s"), "60\n");

    // A schema of many kinds of definitions is taken back as one.
    check(&calls.call(&["schema", "add", "samba"]), 0, &[]);
    check(&calls.config(&["undo", &calls.last()]), 0, &["cn=schema has the values of before"]);
    let run = calls.call(&["schema", "add", "samba"]);
    check(&run, 0, &[]);

    // Lines with names, rules, indexes, and the schema.
    check(&calls.call(&["constraint", "add", "a: unique employeeNumber"]), 0, &[]);
    let added = calls.last();
    check(&calls.call(&["constraint", "drop", "a"]), 0, &[]);
    let dropped = calls.last();
    check(&calls.call(&["constraint", "add", "a: unique mail"]), 0, &[]);
    let anew = format!("constraint a has changed since: change {}", calls.last());
    check(&calls.config(&["undo", &dropped]), 1, &[&anew]);
    check(&calls.config(&["undo", &added]), 1, &["constraint a has changed since"]);
    check(&calls.call(&["constraint", "drop", "a"]), 0, &[]);
    check(&calls.config(&["undo", &dropped]), 0, &[]);
    check(&calls.call(&["constraint", "list"]), 0, &["a: unique employeeNumber\n"]);

    check(&calls.call(&["index", "add", "substring description", "--wait"]), 0, &[]);
    let added = calls.last();
    check(&calls.call(&["index", "rebuild", "description.substring", "--wait"]), 0, &[]);
    check(&calls.config(&["undo", &calls.last()]), 0, &["nothing is left"]);
    check(&calls.config(&["undo", &added]), 0, &["ds-cfg-attribute=description"]);
    let dropped = calls.last();
    let run = calls.config(&["history", "substring description"]);
    check(&run, 0, &["index substring description dropped"]);
    check(&calls.config(&["undo", &dropped]), 0, &[]);
    check(&calls.call(&["index", "status", "description.substring"]), 0, &[]);

    if !have("ldapmodify", &["-VV"]) {
        return;
    }
    let text = "dn: cn=schema\nchangetype: modify\nadd: attributeTypes\n\
                attributeTypes: ( 1.3.6.1.4.1.55555.7.1 NAME 'shoeSize' SYNTAX \
                1.3.6.1.4.1.1466.115.121.1.15 )\n";
    calls.modify(text);
    let added = calls.last();
    let run = calls.config(&["diff", &added]);
    check(&run, 0, &["+ attributeTypes: ( 1.3.6.1.4.1.55555.7.1 NAME 'shoeSize'"]);
    check(&calls.config(&["undo", &added]), 0, &["cn=schema"]);
    let run = calls.config(&["history", "shoesize"]);
    check(&run, 0, &["attribute type shoeSize added", "attribute type shoeSize dropped"]);
}

#[test]
fn a_list_that_was_changed_since_is_left_alone() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    let name = "authentication.name_attributes";
    let set = |value: &str| {
        check(&calls.config(&["set", &format!("{name}={value}")]), 0, &[]);
        calls.last()
    };
    set("mail,uid");
    let one = set("uid");
    let other = set("uid,cn");
    let refused = format!("setting {name} has changed since: change {other} by");
    check(&calls.config(&["undo", &one]), 1, &[&refused]);
    assert_eq!(calls.config(&["get", name]).output, "uid\ncn\n");
    // In their order, they are undone.
    check(&calls.config(&["undo", &other]), 0, &[]);
    check(&calls.config(&["undo", &one]), 0, &[]);
    let lines = calls.call(&["config", "export"]).output;
    assert!(lines.contains("\"uid\"") && lines.contains("\"mail\""), "{lines}");
    assert!(!lines.contains("\"cn\""), "{lines}");
}

#[test]
fn rules_are_undone_and_messages_have_limits() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    let handler = "cn=Access Control Handler,cn=config";
    let rule = "(targetattr=\"mail\")(version 3.0; acl \"mail for all\"; allow (read) \
                userdn=\"ldap:///anyone\";)";
    if !have("ldapmodify", &["-VV"]) {
        return;
    }
    calls.modify(&format!(
        "dn: {handler}\nchangetype: modify\nadd: ds-cfg-global-aci\nds-cfg-global-aci: {rule}\n"
    ));
    let added = calls.last();
    // The rules of before, which were those by default, are no part of the change.
    let run = calls.config(&["diff", &added]);
    let want = format!("{handler}\n+ ds-cfg-global-aci: {rule}\n");
    assert!(run.output.ends_with(&want), "{run:?}");
    check(&calls.config(&["history"]), 0, &["global ACI mail for all added"]);
    check(&calls.config(&["undo", &added]), 0, &[handler]);
    check(&calls.config(&["undo", &added]), 0, &["nothing is left"]);
    // What is no line, and what is too long.
    let long = "x".repeat(1_025);
    for message in ["", "two\nlines", &long, "x\" who=\"y", "x\\", "x\u{202e}y"] {
        let run = calls.config(&["set", "limits.time_limit_s=9", "--message", message]);
        check(&run, 2, &["a message is one line of up to 1024 bytes"]);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "another process has to come so far")]
fn the_audit_log_says_why_and_tells_a_change_once() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("audit.log");
    let name = path.to_str().expect("it is text");
    let settings = [("ROSTER_AUDIT_LOG__FORMAT", "ldif"), ("ROSTER_AUDIT_LOG__PATH", name)];
    let demo = Demo::start_set(10, &[], &settings);
    let calls = Calls::of(&demo);
    check(&calls.config(&["set", "limits.time_limit_s=30"]), 0, &[]);
    check(&calls.config(&["set", "limits.time_limit_s=31", "-m", "a 'quoted' reason"]), 0, &[]);
    let add = ["constraint", "add", "numbers: unique employeeNumber", "-m", "at last"];
    check(&calls.call(&add), 0, &[]);
    let begin = Instant::now();
    let mut text = String::new();
    while !text.contains("at last") {
        assert!(begin.elapsed() < Duration::from_secs(30), "{text}");
        std::thread::sleep(Duration::from_millis(50));
        text = fs::read_to_string(&path).unwrap_or_default();
    }
    assert_eq!(text.matches("limits.time_limit_s=30\n").count(), 1, "{text}");
    let reason = text.lines().find(|line| line.contains("purpose=")).expect("there is one");
    assert!(reason.ends_with(r#" purpose="a 'quoted' reason""#), "{reason}");
    assert!(text.contains("change=1/1") && !text.contains("change=2/"), "{text}");
}
