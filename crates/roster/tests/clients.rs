//! Real clients against a real `roster demo`: OpenLDAP's tools, python-ldap and the ldap3 crate.
//!
//! The clients come from Debian's `ldap-utils` and `python3-ldap`; `cargo xtask test` installs
//! them.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use common::have;
use demo::Demo;

/// Runs one of OpenLDAP's tools as the administrator.
fn tool(demo: &Demo, name: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(name)
        .args(["-x", "-H", &demo.url("ldap"), "-D", &demo.admin_dn, "-w", &demo.admin_password])
        .args(arguments)
        .env("LDAPNOINIT", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{name} (Debian package ldap-utils): {error}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn check(output: &Output, code: i32, want: &str) {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(want), "expected '{want}' in: {text}");
}

/// Debian's own interpreter: python3-ldap is installed for it, not for others on the path.
const PYTHON: &str = "/usr/bin/python3";

const MARIE: &str = "dn: uid=marie,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: marie
cn: Marie Curie
sn: Curie
title: Physicist
userPassword: radium
";

#[test]
fn the_openldap_tools_do_their_work() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(100);
    let base = "ou=people,dc=example,dc=com";
    let marie = "uid=marie,ou=people,dc=example,dc=com";
    check(&tool(&demo, "ldapadd", &[], MARIE), 0, "adding new entry");
    check(&tool(&demo, "ldapadd", &[], MARIE), 68, "Already exists");
    let found = tool(&demo, "ldapsearch", &["-LLL", "-b", base, "(uid=marie)", "cn"], "");
    check(&found, 0, "cn: Marie");
    check(
        &tool(&demo, "ldapsearch", &["-LLL", "-b", base, "(uid=user.7)", "uid"], ""),
        0,
        "uid: user.7",
    );
    let paged = tool(&demo, "ldapsearch", &["-b", base, "-E", "pr=10/noprompt"], "");
    check(&paged, 0, "numEntries: 102");
    let narrow = |control: &str, filter: &str| {
        tool(&demo, "ldapsearch", &["-LLL", "-b", base, "-E", control, filter, "cn", "sn"], "")
    };
    let values = narrow("!mv=((cn=Marie*))", "(uid=marie)");
    check(&values, 0, "cn: Marie");
    assert!(!String::from_utf8_lossy(&values.stdout).contains("sn:"), "{values:?}");
    let subentries = narrow("!subentries=true", "(objectClass=*)");
    check(&subentries, 0, "");
    assert_eq!(String::from_utf8_lossy(&subentries.stdout).trim(), "");
    // An empty sequence; the answer says how many there are, and is base64 of 30 03 81 01 66.
    let count = tool(
        &demo,
        "ldapsearch",
        &["-b", base, "-E", "!1.3.6.1.4.1.30221.2.5.36=::MAA=", "(objectClass=*)"],
        "",
    );
    check(&count, 0, "1.3.6.1.4.1.30221.2.5.37 false MAOBAWY=");
    let unindexed = tool(
        &demo,
        "ldapsearch",
        &["-b", "dc=example,dc=com", "-E", "!1.3.6.1.4.1.30221.2.5.54", "(roomNumber=x*)"],
        "",
    );
    check(&unindexed, 53, "roomNumber");
    check(&tool(&demo, "ldapsearch", &["-b", "dc=nowhere"], ""), 32, "No such object");
    let change = format!("dn: {marie}\nchangetype: modify\nreplace: title\ntitle: Chemist\n");
    check(&tool(&demo, "ldapmodify", &[], &change), 0, "modifying entry");
    check(&tool(&demo, "ldapcompare", &[marie, "title:chemist"], ""), 6, "TRUE");
    check(&tool(&demo, "ldapcompare", &[marie, "title:physicist"], ""), 5, "FALSE");
    check(&tool(&demo, "ldapmodrdn", &["-r", marie, "uid=curie"], ""), 0, "");
    let curie = "uid=curie,ou=people,dc=example,dc=com";
    check(&tool(&demo, "ldappasswd", &["-s", "polonium", curie], ""), 0, "");
    check(&tool(&demo, "ldappasswd", &[curie], ""), 0, "New password: ");
    check(&tool(&demo, "ldappasswd", &["-s", "polonium", curie], ""), 0, "");
    let who = Command::new("ldapwhoami")
        .args(["-x", "-H", &demo.url("ldap"), "-D", curie, "-w", "polonium"])
        .output()
        .unwrap();
    check(&who, 0, "dn:uid=curie,ou=people,dc=example,dc=com");
    let wrong = Command::new("ldapwhoami")
        .args(["-x", "-H", &demo.url("ldap"), "-D", curie, "-w", "radium"])
        .output()
        .unwrap();
    check(&wrong, 49, "Invalid credentials");
    check(&tool(&demo, "ldapdelete", &[base], ""), 66, "not allowed on non-leaf");
    check(&tool(&demo, "ldapdelete", &[curie], ""), 0, "");
    check(&tool(&demo, "ldapsearch", &["-b", curie], ""), 32, &format!("matchedDN: {base}"));
}

#[test]
fn the_openldap_tools_use_the_controls_for_updates() {
    if !have("ldapmodify", &["-VV"]) {
        return;
    }
    let demo = Demo::start(20);
    let user = "uid=user.7,ou=people,dc=example,dc=com";
    let change =
        |title: &str| format!("dn: {user}\nchangetype: modify\nreplace: title\ntitle: {title}\n");
    let modify = |options: &[&str], title: &str| tool(&demo, "ldapmodify", options, &change(title));
    let title_is = |title: &str| {
        check(&tool(&demo, "ldapcompare", &[user, &format!("title:{title}")], ""), 6, "TRUE");
    };
    check(&modify(&[], "First"), 0, "modifying entry");
    let read = modify(&["-e", "preread=title", "-e", "!postread=title"], "Second");
    check(&read, 0, "title: First");
    check(&read, 0, "title: Second");
    check(&modify(&["-e", "!assert=(title=First)"], "Third"), 122, "Assertion Failed");
    check(&modify(&["-e", "!assert=(title=Second)"], "Third"), 0, "");
    check(&modify(&["-e", "!noop"], "Fourth"), 16654 & 0xff, "No Operation");
    title_is("Third");
    let old = format!(
        "dn: {user}\nchangetype: modify\nreplace: createTimestamp\n\
         createTimestamp: 20010101000000Z\n"
    );
    check(&tool(&demo, "ldapmodify", &[], &old), 19, "Constraint violation");
    check(&tool(&demo, "ldapmodify", &["-e", "!relax"], &old), 0, "");
    let again = format!("dn: {user}\nchangetype: modify\nadd: title\ntitle: Third\n");
    check(&tool(&demo, "ldapmodify", &[], &again), 20, "Type or value exists");
    let permissive = ["-e", "!1.2.840.113556.1.4.1413"];
    check(&tool(&demo, "ldapmodify", &permissive, &again), 0, "");

    // Two updates in one transaction: together, or not at all.
    let unit = "ou=more,dc=example,dc=com";
    let add = format!("dn: {unit}\nchangetype: add\nobjectClass: organizationalUnit\n\n");
    let bad = format!("{add}dn: ou=people,dc=example,dc=com\nchangetype: delete\n");
    check(&tool(&demo, "ldapmodify", &["-E", "txn=commit"], &bad), 66, "");
    check(&tool(&demo, "ldapsearch", &["-b", unit], ""), 32, "No such object");
    let both = format!("{add}{}", change("Fifth"));
    check(&tool(&demo, "ldapmodify", &["-E", "txn=abort"], &both), 0, "");
    check(&tool(&demo, "ldapsearch", &["-b", unit], ""), 32, "No such object");
    title_is("Third");
    check(&tool(&demo, "ldapmodify", &["-E", "txn=commit"], &both), 0, "");
    check(&tool(&demo, "ldapsearch", &["-LLL", "-b", unit, "ou"], ""), 0, "ou: more");
    title_is("Fifth");

    let people = "ou=people,dc=example,dc=com";
    check(&tool(&demo, "ldapdelete", &[people], ""), 66, "not allowed on non-leaf");
    check(&tool(&demo, "ldapdelete", &["-e", "!1.2.840.113556.1.4.805", people], ""), 0, "");
    check(&tool(&demo, "ldapsearch", &["-b", people], ""), 32, "No such object");
}

/// The values of `uid` in LDIF, in the order they came.
fn uids(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_prefix("uid: ")).map(str::to_owned).collect()
}

#[test]
fn the_openldap_tools_dereference() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(5);
    let group = "dn: cn=two,dc=example,dc=com\nobjectClass: groupOfNames\ncn: two\n\
                 member: uid=user.1,ou=people,dc=example,dc=com\n\
                 member: uid=nobody,ou=people,dc=example,dc=com\n";
    check(&tool(&demo, "ldapadd", &[], group), 0, "");
    let base = ["-o", "ldif-wrap=no", "-b", "dc=example,dc=com"];
    let asked = ["-E", "!deref=member:uid", "(cn=two)", "cn"];
    let found = tool(&demo, "ldapsearch", &[&base[..], &asked].concat(), "");
    check(&found, 0, "# member: <uid=user.1>;uid=user.1,ou=people,dc=example,dc=com");
    check(&found, 0, "# member: uid=nobody,ou=people,dc=example,dc=com");
    let wrong = ["-b", "dc=example,dc=com", "-E", "!deref=cn:uid", "(cn=two)"];
    check(&tool(&demo, "ldapsearch", &wrong, ""), 2, "values of 'cn' name no entries to follow");
}

#[test]
fn the_openldap_tools_sort_and_scroll() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(100);
    let base = "ou=people,dc=example,dc=com";
    let search = |options: &[&str]| {
        let always = ["-LLL", "-b", base, "-s", "one"];
        tool(&demo, "ldapsearch", &[&always, options].concat(), "")
    };
    let mut want = uids(&search(&["(uid=user.1*)", "uid"]));
    want.sort_by(|one, other| other.cmp(one));
    assert!(want.len() > 10, "{want:?}");
    let sorted = search(&["-E", "!sss=-uid:2.5.13.3", "(uid=user.1*)", "uid"]);
    check(&sorted, 0, "uid: user.1");
    assert_eq!(uids(&sorted), want);
    let paged = ["-E", "!sss=-uid", "-E", "pr=4/noprompt", "(uid=user.1*)", "uid"];
    assert_eq!(uids(&search(&paged)), want);
    let unsorted = search(&["-E", "!sss=shoeSize", "(uid=user.1*)", "uid"]);
    check(&unsorted, 12, "shoeSize");
    let mut all = uids(&search(&["(uid=user.*)", "uid"]));
    all.sort();
    let place = 1 + all.iter().position(|uid| uid == "user.12").unwrap();
    // The tool asks for the next part until its input, or the list, is at its end.
    for (part, first) in [("vlv=0/2/1/0", 1), ("vlv=0/2:user.12", place), ("vlv=1/1/5/100", 4)] {
        let shown = search(&["-E", "!sss=uid", "-E", part, "(uid=user.*)", "uid"]);
        assert_eq!(uids(&shown)[..3], all[first - 1..first + 2], "{part}: {shown:?}");
    }
}

#[test]
fn the_openldap_tools_speak_tls_and_the_unix_socket() {
    if !have("ldapsearch", &["-VV"]) {
        return;
    }
    let demo = Demo::start(10);
    for (url, more) in [(demo.url("ldap"), "-ZZ"), (demo.url("ldaps"), "-x")] {
        let output = Command::new("ldapwhoami")
            .args(["-x", more, "-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password])
            .env("LDAPTLS_REQCERT", "never")
            .output()
            .unwrap();
        check(&output, 0, "dn:cn=Directory Manager");
    }
    let socket = demo.url("ldapi");
    let output =
        Command::new("ldapwhoami").args(["-Q", "-Y", "EXTERNAL", "-H", &socket]).output().unwrap();
    check(&output, 0, "dn:cn=Directory Manager");
}

#[test]
fn python_ldap_works() {
    if !have(PYTHON, &["-c", "import ldap"]) {
        return;
    }
    let demo = Demo::start(50);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");
    let output = Command::new(PYTHON)
        .args([script, &demo.url("ldap"), &demo.admin_dn, &demo.admin_password])
        .output()
        .expect("python3 with python3-ldap (Debian)");
    check(&output, 0, "all checks passed");
}

#[test]
fn the_ldap3_crate_works() {
    use ldap3::{LdapConn, Mod, Scope, SearchEntry};
    use std::collections::HashSet;

    let demo = Demo::start(20);
    let mut connection = LdapConn::new(&demo.url("ldap")).unwrap();
    connection.simple_bind(&demo.admin_dn, &demo.admin_password).unwrap().success().unwrap();
    let dn = "cn=ada,ou=people,dc=example,dc=com";
    let set = |value: &'static str| HashSet::from([value]);
    connection
        .add(dn, vec![("objectClass", set("person")), ("cn", set("ada")), ("sn", set("Lovelace"))])
        .unwrap()
        .success()
        .unwrap();
    let (entries, _) = connection
        .search("dc=example,dc=com", Scope::Subtree, "(sn=lovelace)", vec!["cn", "sn"])
        .unwrap()
        .success()
        .unwrap();
    assert_eq!(entries.len(), 1);
    let entry = SearchEntry::construct(entries.into_iter().next().unwrap());
    assert_eq!(entry.dn, dn);
    assert_eq!(entry.attrs.get("sn"), Some(&vec!["Lovelace".to_owned()]));
    assert!(connection.compare(dn, "sn", "LOVELACE").unwrap().equal().unwrap());
    connection
        .modify(dn, vec![Mod::Replace("description", set("countess"))])
        .unwrap()
        .success()
        .unwrap();
    connection.modifydn(dn, "cn=ada king", true, None).unwrap().success().unwrap();
    connection.delete("cn=ada king,ou=people,dc=example,dc=com").unwrap().success().unwrap();
    assert_eq!(connection.delete(dn).unwrap().rc, 32);
    connection.unbind().unwrap();
}
