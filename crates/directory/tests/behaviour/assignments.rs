//! Assignments: numbers that the server gives, and memberships that follow what entries are like.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const CONFIG: &str = "cn=Assignments,cn=config";
const UIDS: &str = "uids: number uidNumber,gidNumber 1000..1009 for -1 below \
                    ou=people,dc=example,dc=org where (objectClass=posixAccount)";
const STAFF: &str = "staff: member member of cn=staff,dc=example,dc=org below \
                     ou=people,dc=example,dc=org where (employeeType=staff)";

/// People and guests below the suffix, and numbers can be looked up.
fn served() -> (Served, Client) {
    let served = Served::new();
    let mut root = served.root();
    for unit in ["people", "guests"] {
        let unit = format!("ou={unit},{SUFFIX}");
        assert_eq!(root.add(&unit, &[("objectClass", &["organizationalUnit"])]), OK);
    }
    for attribute in ["uidNumber", "gidNumber"] {
        let entry = format!("ds-cfg-attribute={attribute},cn=Index,cn=config");
        let answer = root.try_add(
            &entry,
            &[
                ("objectClass", &["top", "ds-cfg-backend-index"]),
                ("ds-cfg-attribute", &[attribute]),
                ("ds-cfg-index-type", &["equality"]),
            ],
        );
        assert!(
            matches!(answer.code(), OK | ResultCode::EntryAlreadyExists),
            "{}",
            answer.diagnostic
        );
    }
    let group = format!("cn=staff,{SUFFIX}");
    assert_eq!(root.add(&group, &[("objectClass", &["groupOfEntries"])]), OK);
    (served, root)
}

#[track_caller]
fn put(root: &mut Client, text: &str) {
    // An index takes a moment to be built.
    loop {
        let answer = root.try_modify(CONFIG, &[(Add, "roster-assignment", &[text])]);
        if answer.diagnostic.contains("no equality index that is complete") {
            thread::yield_now();
            continue;
        }
        assert_eq!(answer.code(), OK, "{text}: {}", answer.diagnostic);
        return;
    }
}

fn refused_put(root: &mut Client, text: &str) -> (ResultCode, String) {
    let answer = root.try_modify(CONFIG, &[(Add, "roster-assignment", &[text])]);
    (answer.code(), answer.diagnostic)
}

fn name(uid: &str) -> String {
    format!("uid={uid},ou=people,{SUFFIX}")
}

fn person(root: &mut Client, uid: &str, more: &[(&str, &[&str])]) -> Answer {
    let of_all: [(&str, &[&str]); 4] = [
        ("objectClass", &["inetOrgPerson", "posixAccount"]),
        ("cn", &["Anna"]),
        ("sn", &["Ekström"]),
        ("homeDirectory", &["/home/a"]),
    ];
    root.try_add(&name(uid), &[&of_all[..], more].concat())
}

#[track_caller]
fn added(root: &mut Client, uid: &str, more: &[(&str, &[&str])]) {
    let answer = person(root, uid, more);
    assert_eq!(answer.code(), OK, "{uid}: {}", answer.diagnostic);
}

fn values(client: &mut Client, base: &str, attribute: &str) -> Vec<String> {
    let attributes = &[attribute][..];
    let found = client.search(&Asked { base, scope: Scope::Base, attributes, ..Asked::default() });
    found.entries.first().map(|entry| entry.texts(attribute)).unwrap_or_default()
}

fn numbers(client: &mut Client, uid: &str) -> (Vec<String>, Vec<String>) {
    (values(client, &name(uid), "uidNumber"), values(client, &name(uid), "gidNumber"))
}

fn members(client: &mut Client) -> BTreeSet<String> {
    values(client, &format!("cn=staff,{SUFFIX}"), "member").into_iter().collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|uid| name(uid)).collect()
}

fn text(number: u64) -> (Vec<String>, Vec<String>) {
    (vec![number.to_string()], vec![number.to_string()])
}

const OK: ResultCode = ResultCode::Success;

#[test]
fn numbers_are_given_and_never_twice() {
    let (served, mut root) = served();
    // Two are taken already; and one elsewhere, which does not matter.
    added(&mut root, "x", &[("uidNumber", &["1000"]), ("gidNumber", &["5"])]);
    added(&mut root, "y", &[("uidNumber", &["5"]), ("gidNumber", &["1001"])]);
    put(&mut root, UIDS);
    added(&mut root, "a", &[]);
    assert_eq!(numbers(&mut root, "a"), text(1002));
    // What stands for none, and what is given by hand.
    added(&mut root, "b", &[("uidNumber", &["-1"]), ("gidNumber", &["100"])]);
    let found = numbers(&mut root, "b");
    assert_eq!(found, (vec!["1003".to_owned()], vec!["100".to_owned()]));
    added(&mut root, "c", &[("uidNumber", &["1004"]), ("gidNumber", &["1005"])]);
    added(&mut root, "d", &[]);
    assert_eq!(numbers(&mut root, "d"), text(1006));
    // Who is gone leaves its number unused, after a restart as well.
    assert_eq!(root.delete(&name("d")), OK);
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    added(&mut root, "d", &[]);
    assert_eq!(numbers(&mut root, "d"), text(1007));
    let next = "cn=uids,cn=Assignments,cn=monitor";
    assert_eq!(values(&mut root, next, "roster-assignment-next"), ["1008"]);
    // A new class brings one, and the value that stands for none; a missing one alone does not.
    let plain: &[(&str, &[&str])] =
        &[("objectClass", &["inetOrgPerson"]), ("cn", &["e"]), ("sn", &["e"])];
    assert_eq!(root.add(&name("e"), plain), OK);
    assert_eq!(root.modify(&name("e"), &[(Add, "title", &["cook"])]), OK);
    assert_eq!(numbers(&mut root, "e"), (vec![], vec![]));
    let changes: &[(ModifyOperation, &str, &[&str])] =
        &[(Add, "objectClass", &["posixAccount"]), (Add, "homeDirectory", &["/"])];
    assert_eq!(root.modify(&name("e"), changes), OK);
    assert_eq!(numbers(&mut root, "e"), text(1008));
    assert_eq!(root.modify(&name("e"), &[(Replace, "gidNumber", &["-1"])]), OK);
    let found = numbers(&mut root, "e");
    assert_eq!(found, (vec!["1008".to_owned()], vec!["1009".to_owned()]));
    // None is left; those by hand and elsewhere go on.
    let answer = person(&mut root, "f", &[]);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert!(
        answer.diagnostic.contains("has no number of 1000..1009 left"),
        "{}",
        answer.diagnostic
    );
    added(&mut root, "f", &[("uidNumber", &["7"]), ("gidNumber", &["7"])]);
    // Dropped and put again it goes on where it was.
    assert_eq!(root.modify(CONFIG, &[(Delete, "roster-assignment", &[UIDS])]), OK);
    assert_eq!(person(&mut root, "g", &[]).code(), ResultCode::ObjectClassViolation);
    put(&mut root, &UIDS.replace("1009", "2000"));
    added(&mut root, "g", &[]);
    assert_eq!(numbers(&mut root, "g"), text(1010));
}

#[test]
fn no_two_get_the_same_number_at_the_same_time() {
    let (served, mut root) = served();
    put(&mut root, &UIDS.replace("1009", "9999"));
    let (served, barrier) = (Arc::new(served), Arc::new(Barrier::new(4)));
    let begin = |thread: usize| {
        let (served, barrier) = (Arc::clone(&served), Arc::clone(&barrier));
        thread::spawn(move || {
            let mut root = served.root();
            barrier.wait();
            (0..25).for_each(|number| added(&mut root, &format!("p{thread}-{number}"), &[]));
        })
    };
    let threads: Vec<_> = (0..4).map(begin).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let attributes = &["uidNumber"][..];
    let found = root.search(&Asked { attributes, ..Asked::default() });
    let given: Vec<String> =
        found.entries.iter().flat_map(|entry| entry.texts("uidNumber")).collect();
    let want: BTreeSet<String> = (1000..1100).map(|number: u32| number.to_string()).collect();
    assert_eq!((given.len(), given.into_iter().collect::<BTreeSet<_>>()), (100, want));
}

#[test]
fn whoever_may_add_needs_no_right_on_the_number() {
    const ADDS: &str = concat!(
        r#"(targetattr!="uidNumber || gidNumber")(version 3.0; acl "adds"; "#,
        r#"allow (add,write) userdn="ldap:///all";)"#,
    );
    let (served, mut root) = served();
    put(&mut root, UIDS);
    added(&mut root, "clerk", &[("userPassword", &["secret"])]);
    let mut clerk = served.client();
    assert_eq!(clerk.bind(&name("clerk"), "secret"), OK);
    // A stranger to the range learns nothing of it.
    let mut fill = |count: usize| {
        (0..count).for_each(|number| added(&mut root, &format!("fill{number}"), &[]));
    };
    fill(3);
    let denied = person(&mut clerk, "a", &[]);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights, "{}", denied.diagnostic);
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[ADDS])]), OK);
    added(&mut clerk, "a", &[]);
    assert_eq!(numbers(&mut root, "a"), text(1004));
    // The value that stands for none is one that the client writes.
    let changes: &[(ModifyOperation, &str, &[&str])] = &[(Replace, "uidNumber", &["-1"])];
    assert_eq!(clerk.modify(&name("a"), changes), ResultCode::InsufficientAccessRights);
    assert_eq!(root.modify(SUFFIX, &[(Delete, "aci", &[ADDS])]), OK);
    (0..5).for_each(|number| added(&mut root, &format!("more{number}"), &[]));
    let denied = person(&mut clerk, "b", &[]);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights, "{}", denied.diagnostic);
}

#[test]
fn who_comes_to_be_of_a_kind_comes_into_the_group() {
    let (served, mut root) = served();
    put(&mut root, STAFF);
    let number: &[(&str, &[&str])] = &[("uidNumber", &["1"]), ("gidNumber", &["1"])];
    let staff: &[(&str, &[&str])] = &[("employeeType", &["staff"])];
    added(&mut root, "a", &[number, staff].concat());
    added(&mut root, "b", number);
    assert_eq!(members(&mut root), set(&["a"]));
    assert_eq!(root.modify(&name("b"), &[(Add, "employeeType", &["Staff"])]), OK);
    assert_eq!(members(&mut root), set(&["a", "b"]));
    // Another change of the same does nothing: who was taken out by hand stays out.
    let group = format!("cn=staff,{SUFFIX}");
    assert_eq!(root.modify(&group, &[(Delete, "member", &[&name("b")])]), OK);
    assert_eq!(root.modify(&name("b"), &[(Add, "title", &["cook"])]), OK);
    assert_eq!(members(&mut root), set(&["a"]));
    assert_eq!(root.modify(&name("b"), &[(Replace, "employeeType", &["staff", "guest"])]), OK);
    assert_eq!(members(&mut root), set(&["a"]));
    assert_eq!(root.modify(&name("b"), &[(Delete, "employeeType", &[])]), OK);
    assert_eq!(root.modify(&name("b"), &[(Add, "employeeType", &["staff"])]), OK);
    assert_eq!(members(&mut root), set(&["a", "b"]));
    assert_eq!(values(&mut root, &name("b"), "isMemberOf"), [group.as_str()]);
    // A new name is one of the same; elsewhere it is none.
    assert_eq!(root.rename(&name("b"), "uid=c", true, None), OK);
    assert_eq!(members(&mut root), set(&["a", "c"]));
    let guests = format!("ou=guests,{SUFFIX}");
    assert_eq!(root.rename(&name("c"), "uid=c", true, Some(&guests)), OK);
    assert_eq!(members(&mut root), set(&["a"]));
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.rename(&format!("uid=c,{guests}"), "uid=d", true, Some(&people)), OK);
    assert_eq!(members(&mut root), set(&["a", "d"]));
    assert_eq!(root.modify(&name("d"), &[(Delete, "employeeType", &[])]), OK);
    assert_eq!(members(&mut root), set(&["a"]));
    assert_eq!(root.delete(&name("a")), OK);
    assert_eq!(members(&mut root), set(&[]));
    // All of it is in the log.
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    assert_eq!(members(&mut root), set(&[]));
    // Without the group nothing follows.
    assert_eq!(root.delete(&group), OK);
    added(&mut root, "a", &[number, staff].concat());
}

#[test]
fn what_is_no_assignment_is_refused() {
    let (_served, mut root) = served();
    for (text, code, why) in [
        ("a: number uidNumber 1..2", ResultCode::InvalidAttributeSyntax, "about every entry"),
        (
            "a: number roomNumber 1..9 where (cn=*)",
            ResultCode::UnwillingToPerform,
            "no equality index that is complete",
        ),
        ("a: number userPassword 1..9 where (cn=*)", ResultCode::InvalidAttributeSyntax, "secret"),
        ("a: number uidNumber 5.. where (cn=*)", ResultCode::InvalidAttributeSyntax, "last number"),
        ("a: number mail 5 where (cn=*)", ResultCode::InvalidAttributeSyntax, "is no range"),
    ] {
        let (got, told) = refused_put(&mut root, text);
        assert!(got == code && told.contains(why), "{text}: {got:?} {told}");
    }
    put(&mut root, UIDS);
    let (code, why) = refused_put(&mut root, "UIDS: number uidNumber 1..9 where (cn=*)");
    assert!(code == ResultCode::AttributeOrValueExists && why.contains("already"), "{why}");
    // It needs its index, and the names in it.
    let index = "ds-cfg-attribute=gidNumber,cn=Index,cn=config";
    let answer = root.try_modify(index, &[(Delete, "ds-cfg-index-type", &["equality"])]);
    assert!(answer.diagnostic.contains("assignment 'uids'"), "{}", answer.diagnostic);
    let parts = [("objectClass", &["inetOrgPerson"][..]), ("cn", &["x"]), ("sn", &["x"])];
    let secret = ("userPassword", &["secret"][..]);
    let powers = ("ds-privilege-name", &["config-read", "config-write"][..]);
    let all = [&parts[..], &[secret, powers]].concat();
    assert_eq!(root.add(&name("x"), &all), OK);
    let mut half = _served.client();
    assert_eq!(half.bind(&name("x"), "secret"), OK);
    let denied = half.try_modify(CONFIG, &[(Add, "roster-assignment", &[STAFF])]);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights, "{}", denied.diagnostic);
}
