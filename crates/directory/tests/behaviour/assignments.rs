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
    for attribute in ["uidNumber", "gidNumber", "secretary", "seeAlso"] {
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
fn whoever_makes_an_account_needs_no_right_on_the_number() {
    const ADDS: &str = concat!(
        r#"(targetattr!="uidNumber || gidNumber")(version 3.0; acl "adds"; "#,
        r#"allow (add,write) userdn="ldap:///all";)"#,
    );
    const DELETES: &str = concat!(
        r#"(targetattr="uidNumber")"#,
        r#"(targattrfilters="add=uidNumber:(uidNumber=0),del=uidNumber:(uidNumber=*)")"#,
        r#"(version 3.0; acl "deletes"; allow (write) userdn="ldap:///all";)"#,
    );
    let (served, mut root) = served();
    put(&mut root, UIDS);
    added(&mut root, "clerk", &[("userPassword", &["secret"])]);
    let mut clerk = served.client();
    assert_eq!(clerk.bind(&name("clerk"), "secret"), OK);
    let denied = person(&mut clerk, "a", &[]);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights, "{}", denied.diagnostic);
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[ADDS])]), OK);
    added(&mut clerk, "a", &[]);
    assert_eq!(numbers(&mut root, "a"), text(1001));
    let plain: &[(&str, &[&str])] =
        &[("objectClass", &["inetOrgPerson"]), ("cn", &["e"]), ("sn", &["e"])];
    assert_eq!(clerk.add(&name("e"), plain), OK);
    let class: &[(ModifyOperation, &str, &[&str])] =
        &[(Add, "objectClass", &["posixAccount"]), (Add, "homeDirectory", &["/"])];
    let answer = clerk.try_modify(&name("e"), class);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    assert_eq!(numbers(&mut root, "e"), text(1002));
    // A number that is there is changed by who may: not by the value that stands for none, and not
    // by deleting it.
    let none: &[(ModifyOperation, &str, &[&str])] = &[(Replace, "uidNumber", &["-1"])];
    assert_eq!(clerk.modify(&name("e"), none), ResultCode::InsufficientAccessRights);
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[DELETES])]), OK);
    let delete: &[(ModifyOperation, &str, &[&str])] = &[(Delete, "uidNumber", &[])];
    let denied = clerk.try_modify(&name("e"), delete);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights, "{}", denied.diagnostic);
    assert_eq!(numbers(&mut root, "e"), text(1002));
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

/// A name so long that some hundred of them are kept by number.
fn long(number: usize) -> String {
    format!("member-of-a-group-of-very-many-who-has-a-name-as-long-as-this-{number}")
}

#[test]
fn a_group_of_very_many_follows_as_well() {
    let (served, mut root) = served();
    let number: &[(&str, &[&str])] = &[("uidNumber", &["1"]), ("gidNumber", &["1"])];
    let staff: &[(&str, &[&str])] = &[("employeeType", &["staff"])];
    put(&mut root, STAFF);
    let all: Vec<String> = (0..300).map(long).collect();
    all.iter().for_each(|uid| added(&mut root, uid, &[number, staff].concat()));
    let everybody: BTreeSet<String> = all.iter().map(|uid| name(uid)).collect();
    assert!(members(&mut root) == everybody);
    let group = format!("cn=staff,{SUFFIX}");
    let listed = {
        let store = served.directory.store();
        let mut reader = store.reader();
        let view = reader.view().unwrap();
        let key = schema::DnKey::from_text(&schema::Schema::builtin(), &group).unwrap();
        let store::Resolved::Found(id) = view.resolve(&key).unwrap() else { panic!() };
        view.entry(id).unwrap().unwrap().lists().count()
    };
    assert_eq!(listed, 1, "they are kept by number");
    // Who moves away leaves, who comes back joins; who was in it by hand is not in it twice.
    let (people, guests) = (format!("ou=people,{SUFFIX}"), format!("ou=guests,{SUFFIX}"));
    let rdn = format!("uid={}", long(7));
    let answer = root.rename(&name(&long(7)), &rdn, true, Some(&guests));
    assert_eq!(answer, OK);
    assert!(members(&mut root).len() == 299);
    let there = format!("{rdn},{guests}");
    assert_eq!(root.modify(&group, &[(Add, "member", &[&there])]), OK);
    assert_eq!(root.rename(&there, &rdn, true, Some(&people)), OK);
    let attributes = &["member"][..];
    let asked = Asked { base: &group, scope: Scope::Base, attributes, ..Asked::default() };
    let found = root.search(&asked).entries[0].texts("member");
    assert!(found.len() == 300 && found.into_iter().collect::<BTreeSet<_>>() == everybody);
    assert_eq!(root.modify(&name(&long(7)), &[(Delete, "employeeType", &[])]), OK);
    assert_eq!(root.rename(&name(&long(8)), "uid=short", true, None), OK);
    assert_eq!(root.modify(&name("short"), &[(Delete, "employeeType", &[])]), OK);
    assert_eq!(members(&mut root).len(), 298);
}

#[test]
fn of_several_for_one_group_each_is_enough() {
    let (_served, mut root) = served();
    let number: &[(&str, &[&str])] = &[("uidNumber", &["1"]), ("gidNumber", &["1"])];
    put(&mut root, STAFF);
    put(&mut root, "cooks: member member of CN=Staff,dc=example,dc=org where (title=cook)");
    put(&mut root, "owners: member owner of cn=staff,dc=example,dc=org where (title=cook)");
    let both: &[(&str, &[&str])] = &[("employeeType", &["staff"]), ("title", &["cook"])];
    added(&mut root, "a", &[number, both].concat());
    assert_eq!(members(&mut root), set(&["a"]));
    let group = format!("cn=staff,{SUFFIX}");
    assert_eq!(values(&mut root, &group, "owner"), [name("a")]);
    assert_eq!(root.modify(&name("a"), &[(Delete, "employeeType", &[])]), OK);
    assert_eq!(members(&mut root), set(&["a"]), "as a cook");
    let other: &[(ModifyOperation, &str, &[&str])] =
        &[(Delete, "title", &[]), (Add, "employeeType", &["staff"])];
    assert_eq!(root.modify(&name("a"), other), OK);
    assert_eq!(members(&mut root), set(&["a"]), "as staff");
    assert_eq!(values(&mut root, &group, "owner"), [""; 0]);
    assert_eq!(root.modify(&name("a"), &[(Delete, "employeeType", &[])]), OK);
    assert_eq!(members(&mut root), set(&[]));
}

#[test]
fn entries_that_are_linked_name_each_other() {
    let (served, mut root) = served();
    let number: &[(&str, &[&str])] = &[("uidNumber", &["1"]), ("gidNumber", &["1"])];
    put(&mut root, "desk: link secretary to seeAlso below ou=people,dc=example,dc=org");
    for uid in ["boss", "other", "clerk"] {
        added(&mut root, uid, number);
    }
    let (boss, other, clerk) = (name("boss"), name("other"), name("clerk"));
    let linked = |root: &mut Client| values(root, &name("clerk"), "seeAlso");
    assert_eq!(root.modify(&boss, &[(Add, "secretary", &[&clerk])]), OK);
    assert_eq!(linked(&mut root), [boss.as_str()]);
    let again: &[(ModifyOperation, &str, &[&str])] = &[
        (Delete, "secretary", &[&clerk]),
        (Add, "secretary", &["UID=Clerk,ou=people,dc=example,dc=org"]),
    ];
    assert_eq!(root.modify(&boss, again), OK);
    assert_eq!(linked(&mut root), [boss.as_str()], "as before");
    assert_eq!(root.modify(&other, &[(Add, "secretary", &[&clerk, &boss])]), OK);
    assert_eq!(linked(&mut root), [boss.as_str(), other.as_str()]);
    assert_eq!(values(&mut root, &boss, "seeAlso"), [other.as_str()]);
    // Both ways names follow; who is gone is linked with nobody.
    assert_eq!(root.rename(&boss, "uid=chief", true, None), OK);
    let both: BTreeSet<String> = linked(&mut root).into_iter().collect();
    assert_eq!(both, [name("chief"), other.clone()].into());
    assert_eq!(root.rename(&clerk, "uid=clark", true, None), OK);
    assert_eq!(values(&mut root, &other, "secretary").len(), 2);
    assert_eq!(values(&mut root, &name("clark"), "seeAlso").len(), 2);
    assert_eq!(root.modify(&other, &[(Replace, "secretary", &[&name("chief")])]), OK);
    assert_eq!(values(&mut root, &name("clark"), "seeAlso"), [name("chief")]);
    assert_eq!(root.delete(&name("chief")), OK);
    assert_eq!(values(&mut root, &name("clark"), "seeAlso"), [""; 0]);
    assert_eq!(values(&mut root, &other, "secretary"), [""; 0]);
    // A new entry is linked at once; nobody, and what has no such attribute, is not.
    let nobody = name("nobody");
    let unit = format!("ou=people,{SUFFIX}");
    let all: &[(&str, &[&str])] = &[("secretary", &[&name("clark"), &nobody, &unit, SUFFIX])];
    added(&mut root, "new", &[number, all].concat());
    assert_eq!(values(&mut root, &name("clark"), "seeAlso"), [name("new")]);
    assert_eq!(values(&mut root, SUFFIX, "seeAlso"), [name("new")]);
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    assert_eq!(values(&mut root, &name("clark"), "seeAlso"), [name("new")]);
    // More than a record takes is refused, and does nothing.
    let many: Vec<String> = (0..1_001).map(|number| name(&format!("m{number}"))).collect();
    for uid in 0..1_001 {
        added(&mut root, &format!("m{uid}"), number);
    }
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let refused = root.try_modify(&other, &[(Add, "secretary", &many)]);
    assert_eq!(refused.code(), ResultCode::AdminLimitExceeded, "{}", refused.diagnostic);
    assert_eq!(values(&mut root, &other, "secretary"), [""; 0]);
    assert_eq!(root.modify(&other, &[(Add, "secretary", &many[..1_000])]), OK);
    assert_eq!(values(&mut root, &name("m999"), "seeAlso"), [other.as_str()]);
}

#[test]
fn what_follows_from_other_entries_counts_too() {
    let (_served, mut root) = served();
    let number: &[(&str, &[&str])] = &[("uidNumber", &["1"]), ("gidNumber", &["1"])];
    // The group itself may be one of those that are meant; and who has a manager.
    put(&mut root, "self: member member of cn=staff,dc=example,dc=org where (description=x)");
    put(
        &mut root,
        "led: member member of cn=staff,dc=example,dc=org \
         where (manager=uid=boss,ou=people,dc=example,dc=org)",
    );
    let group = format!("cn=staff,{SUFFIX}");
    let answer = root.try_modify(&group, &[(Add, "description", &["x"])]);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    assert_eq!(members(&mut root), [group.clone()].into());
    assert_eq!(root.modify(&group, &[(Replace, "description", &["y"])]), OK);
    assert_eq!(members(&mut root), set(&[]));
    added(&mut root, "boss", number);
    let led: &[(&str, &[&str])] = &[("manager", &[&name("boss")])];
    added(&mut root, "a", &[number, led].concat());
    assert_eq!(members(&mut root), set(&["a"]));
    assert_eq!(root.delete(&name("boss")), OK);
    assert_eq!(values(&mut root, &name("a"), "manager"), [""; 0]);
    assert_eq!(members(&mut root), set(&[]), "its manager is gone, in the same record");
    // What is no group gets no members.
    put(&mut root, "none: member member of ou=guests,dc=example,dc=org where (title=guest)");
    added(&mut root, "b", &[number, &[("title", &["guest"])]].concat());
    assert_eq!(values(&mut root, &format!("ou=guests,{SUFFIX}"), "member"), [""; 0]);
}

#[test]
fn what_is_no_assignment_is_refused() {
    let (served, mut root) = served();
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
        (
            "a: member distinguishedName of cn=a,dc=example,dc=org where (cn=*)",
            ResultCode::UnwillingToPerform,
            "cn=References,cn=config",
        ),
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
    let mut half = served.client();
    assert_eq!(half.bind(&name("x"), "secret"), OK);
    let denied = half.try_modify(CONFIG, &[(Add, "roster-assignment", &[STAFF])]);
    assert_eq!(denied.code(), ResultCode::InsufficientAccessRights, "{}", denied.diagnostic);
}
