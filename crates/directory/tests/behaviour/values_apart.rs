//! Very many values of an attribute that name no entries: they are rows of their own, and nobody
//! sees a difference but their order.

use std::collections::BTreeSet;

use environment::SystemClock;
use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::message::Scope;
use ldap::result::ResultCode;
use offline::{ExportOptions, ImportOptions, Source, export, import};
use schema::DnKey;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const MANY: usize = 1_500;

fn user(number: usize) -> String {
    format!("user.number.{number}")
}

fn users(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(user).collect()
}

fn group(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

fn add_group(root: &mut Client, name: &str, values: &[String]) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let classes = ("objectClass", &["posixGroup"][..]);
    let mut attributes = vec![classes, ("gidNumber", &["5"][..])];
    if !values.is_empty() {
        attributes.push(("memberUid", &values));
    }
    let answer = root.try_add(&group(name), &attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn filled() -> Served {
    let served = Served::new();
    let mut root = served.root();
    add_group(&mut root, "many", &users(0..MANY));
    add_group(&mut root, "few", &users(0..3));
    served
}

fn read(client: &mut Client, name: &str, attributes: &[&str]) -> Answer {
    let base = group(name);
    client.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() })
}

fn values(client: &mut Client, name: &str) -> BTreeSet<String> {
    let answer = read(client, name, &["memberUid"]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let values = answer.entries[0].texts("memberUid").to_vec();
    let set: BTreeSet<String> = values.iter().cloned().collect();
    assert_eq!(set.len(), values.len(), "each is there once");
    set
}

/// How many values a group has in rows of their own, and how many in its record.
fn kept(served: &Served, name: &str) -> (u64, usize) {
    let store = served.directory.store();
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let key = DnKey::from_text(view.schema(), &group(name)).unwrap();
    let store::Resolved::Found(id) = view.resolve(&key).unwrap() else { panic!("no {name}") };
    let entry = view.entry(id).unwrap().unwrap();
    let apart = entry.apart_values().unwrap().iter().map(|(_, values)| values.count()).sum();
    let mut of_record = entry.record_attributes();
    let of_record = of_record.find(|(description, _)| description.text() == "memberUid");
    (apart, of_record.map_or(0, |(_, values)| values.iter().count()))
}

#[track_caller]
fn same(got: &BTreeSet<String>, want: &BTreeSet<String>) {
    let differ: Vec<&String> = got.symmetric_difference(want).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

fn found(client: &mut Client, filter: &str) -> Vec<String> {
    let answer = client.search(&Asked { filter, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Success, "{filter}: {}", answer.diagnostic);
    answer.names().into_iter().map(str::to_owned).collect()
}

fn clean(served: &Served) {
    let store = served.directory.store();
    store.flush().unwrap();
    assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
}

#[test]
fn values_come_and_go() {
    let served = filled();
    let mut root = served.root();
    assert_eq!((kept(&served, "many"), kept(&served, "few")), ((MANY as u64, 0), (0, 3)));
    let mut want: BTreeSet<String> = users(0..MANY).into_iter().collect();
    same(&values(&mut root, "many"), &want);
    let many = group("many");
    let mut change =
        |operation, values: &[&str]| root.modify(&many, &[(operation, "memberUid", values)]);
    let (third, new) = (user(3), user(MANY));
    assert_eq!(change(Add, &[&third]), ResultCode::AttributeOrValueExists);
    assert_eq!(change(Add, &[&new, &new]), ResultCode::AttributeOrValueExists);
    assert_eq!(change(Delete, &[&new]), ResultCode::NoSuchAttribute);
    assert_eq!(change(Delete, &[&third, &user(4)]), ResultCode::Success);
    assert_eq!(change(Delete, &[&third]), ResultCode::NoSuchAttribute);
    assert_eq!(change(Add, &[&third, &new]), ResultCode::Success);
    want.remove(&user(4));
    want.insert(new);
    same(&values(&mut root, "many"), &want);
    assert_eq!(kept(&served, "many"), (MANY as u64, 0));
    clean(&served);
    // One request that does several things to the same values.
    let (seven, eight) = (user(7), user(8));
    let both = [
        (Delete, "memberUid", &[seven.as_str()][..]),
        (Add, "memberUid", &[seven.as_str()][..]),
        (Delete, "memberUid", &[eight.as_str()][..]),
        (Replace, "gidNumber", &["7"][..]),
    ];
    assert_eq!(root.modify(&many, &both), ResultCode::Success);
    want.remove(&user(8));
    same(&values(&mut root, "many"), &want);
    // All but some go, then all, and some come back.
    let all = users(10..MANY);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(root.modify(&many, &[(Replace, "memberUid", &all)]), ResultCode::Success);
    assert_eq!(values(&mut root, "many").len(), MANY - 10);
    let again = [(Delete, "memberUid", &[][..]), (Add, "memberUid", &[third.as_str()][..])];
    assert_eq!(root.modify(&many, &again), ResultCode::Success);
    assert_eq!(values(&mut root, "many"), BTreeSet::from([third.clone()]));
    assert_eq!(root.modify(&many, &[(Delete, "memberUid", &[&third])]), ResultCode::Success);
    assert_eq!(kept(&served, "many"), (0, 0));
    assert_eq!(found(&mut root, "(&(cn=many)(memberUid=*))"), [""; 0]);
    // Those that come one by one are in the record until there are many.
    for value in all.chunks(100) {
        assert_eq!(root.modify(&many, &[(Add, "memberUid", value)]), ResultCode::Success);
    }
    assert_eq!(kept(&served, "many"), (MANY as u64 - 10, 0));
    assert_eq!(found(&mut root, "(&(cn=many)(memberUid=*))"), std::slice::from_ref(&many));
    clean(&served);
}

#[test]
fn they_are_found_and_compared() {
    let served = filled();
    let mut root = served.root();
    let (many, few) = (group("many"), group("few"));
    for number in [0, 7, MANY - 1] {
        let filter = format!("(memberUid={})", user(number));
        let want = if number == 0 { vec![many.clone(), few.clone()] } else { vec![many.clone()] };
        assert_eq!(found(&mut root, &filter), want, "{filter}");
        let filter = format!("(&(objectClass=posixGroup)(cn=*m*)(memberUid={}))", user(number));
        assert_eq!(found(&mut root, &filter), std::slice::from_ref(&many), "{filter}");
        assert_eq!(root.compare(&many, "memberUid", &user(number)), ResultCode::CompareTrue);
    }
    let filter = format!("(&(cn=m*)(!(memberUid={})))", user(7));
    assert_eq!(found(&mut root, &filter), [""; 0]);
    // The letters count.
    let other = user(7).to_uppercase();
    assert_eq!(root.compare(&many, "memberUid", &other), ResultCode::CompareFalse);
    assert_eq!(found(&mut root, &format!("(&(cn=many)(memberUid={other}))")), [""; 0]);
    // By another rule, and in part, all of them are gone through.
    let filter = format!("(&(cn=m*)(memberUid:caseIgnoreIA5Match:={other}))");
    assert_eq!(found(&mut root, &filter), std::slice::from_ref(&many));
    let filter = "(&(objectClass=posixGroup)(memberUid=*number.1234))";
    assert_eq!(found(&mut root, filter), std::slice::from_ref(&many));
    assert_eq!(root.compare(&many, "memberUid", &user(MANY)), ResultCode::CompareFalse);
    // What was found before the change is not found after it.
    let seven = user(7);
    let gone = [(Delete, "memberUid", &[seven.as_str()][..])];
    assert_eq!(root.modify(&many, &gone), ResultCode::Success);
    assert_eq!(found(&mut root, &format!("(memberUid={})", user(7))), [""; 0]);
    assert_eq!(root.compare(&many, "memberUid", &user(7)), ResultCode::CompareFalse);
}

#[test]
fn they_go_along_with_their_entry() {
    let served = filled();
    let mut root = served.root();
    assert_eq!(root.rename(&group("many"), "cn=more", true, None), ResultCode::Success);
    assert_eq!(found(&mut root, &format!("(memberUid={})", user(9))), [group("more")]);
    // One of them may come to name it.
    let named = format!("memberUid={}+cn=more", user(9));
    assert_eq!(root.rename(&group("more"), &named, false, None), ResultCode::Success);
    let name = format!("{named},{SUFFIX}");
    let gone = [(Delete, "memberUid", &[][..])];
    assert_eq!(root.modify(&name, &gone), ResultCode::NotAllowedOnRdn);
    let nine = user(9);
    let gone = [(Delete, "memberUid", &[nine.as_str()][..])];
    assert_eq!(root.modify(&name, &gone), ResultCode::NotAllowedOnRdn);
    assert_eq!(found(&mut root, &format!("(memberUid={})", user(8))).len(), 1);
    assert_eq!(root.delete(&name), ResultCode::Success);
    assert_eq!(found(&mut root, &format!("(memberUid={})", user(8))), [""; 0]);
    assert_eq!(found(&mut root, &format!("(memberUid={})", user(2))), [group("few")]);
    clean(&served);
}

/// The values that an answer has, and what the attribute is called there.
fn ranged(client: &mut Client, asked: &str) -> (String, Vec<String>) {
    let answer = read(client, "many", &[asked, "cn"]);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let entry = &answer.entries[0];
    let called = entry.attributes.keys().find(|name| name.starts_with("memberUid"));
    let called = called.cloned().unwrap_or_default();
    let values = if called.is_empty() { Vec::new() } else { entry.texts(&called).to_vec() };
    (called, values)
}

#[test]
fn a_part_of_the_values_can_be_read() {
    let served = filled();
    let mut root = served.root();
    let all = read(&mut root, "many", &["memberUid"]).entries[0].texts("memberUid").to_vec();
    assert!(all.is_sorted(), "they come in the order of what they are compared by");
    let (called, first) = ranged(&mut root, "memberUid;range=0-99");
    assert_eq!((called.as_str(), &first[..]), ("memberUid;range=0-99", &all[..100]));
    let (called, next) = ranged(&mut root, "memberUid;range=100-*");
    assert_eq!((called.as_str(), &next[..]), ("memberUid;range=100-*", &all[100..]));
    let (called, last) = ranged(&mut root, "memberUid;range=1499-1600");
    assert_eq!((called.as_str(), &last[..]), ("memberUid;range=1499-*", &all[1499..]));
    assert_eq!(ranged(&mut root, "memberUid;range=1500-1600"), (String::new(), Vec::new()));
    assert!(read(&mut root, "many", &["1.1"]).entries[0].attributes.is_empty());
    // Nobody reads so what he may not read.
    let hidden = "(targetattr=\"memberUid\")(version 3.0; acl \"hidden\"; deny (read) \
                  userdn=\"ldap:///anyone\";)";
    let mut stranger = served.client();
    assert_eq!(ranged(&mut stranger, "memberUid;range=0-9").1.len(), 10);
    assert_eq!(root.modify(&group("many"), &[(Add, "aci", &[hidden])]), ResultCode::Success);
    assert_eq!(ranged(&mut stranger, "memberUid;range=0-9").1, [""; 0]);
}

#[test]
fn very_many_come_in_one_modify_and_go_one_by_one() {
    const COUNT: usize = 100_000;
    let served = filled();
    let mut root = served.root();
    let more = users(MANY..MANY + COUNT);
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let many = group("many");
    assert_eq!(root.modify(&many, &[(Add, "memberUid", &more)]), ResultCode::Success);
    assert_eq!(kept(&served, "many"), ((MANY + COUNT) as u64, 0));
    let last = more[COUNT - 1];
    assert_eq!(root.compare(&many, "memberUid", last), ResultCode::CompareTrue);
    assert_eq!(root.modify(&many, &[(Delete, "memberUid", &[last])]), ResultCode::Success);
    assert_eq!(root.compare(&many, "memberUid", last), ResultCode::CompareFalse);
    // More than can be told of goes by its names.
    let refused = root.try_modify(&many, &[(Delete, "memberUid", &[])]);
    assert_eq!(refused.code(), ResultCode::AdminLimitExceeded);
    assert!(refused.diagnostic.contains("delete them by name first"), "{}", refused.diagnostic);
    assert_eq!(root.delete(&many), ResultCode::Success);
    clean(&served);
}

#[test]
fn a_right_that_looks_at_values_does() {
    let served = filled();
    let mut root = served.root();
    let many = group("many");
    let helper = format!("cn=helper,{SUFFIX}");
    let person: &[(&str, &[&str])] =
        &[("objectClass", &["person"]), ("sn", &["x"]), ("userPassword", &["secret"])];
    assert_eq!(root.add(&helper, person), ResultCode::Success);
    let some = "(targattrfilters=\"add=memberUid:(memberUid=user.guest*),\
                del=memberUid:(memberUid=user.guest*)\")(version 3.0; acl \"some\"; \
                allow (write) userdn=\"ldap:///cn=helper,dc=example,dc=com\";)"
        .replace("dc=example,dc=com", SUFFIX);
    assert_eq!(root.modify(&many, &[(Add, "aci", &[&some])]), ResultCode::Success);
    let mut client = served.client();
    assert_eq!(client.bind(&helper, "secret"), ResultCode::Success);
    let mut change =
        |operation, value: &str| client.modify(&many, &[(operation, "memberUid", &[value])]);
    assert_eq!(change(Add, "user.guest.1"), ResultCode::Success);
    assert_eq!(change(Delete, "user.guest.1"), ResultCode::Success);
    assert_eq!(change(Add, "user.other"), ResultCode::InsufficientAccessRights);
    assert_eq!(change(Delete, &user(5)), ResultCode::InsufficientAccessRights);
    assert_eq!(kept(&served, "many"), (MANY as u64, 0));
}

#[test]
fn they_are_counted_where_there_may_be_so_many() {
    let served = filled();
    let mut root = served.root();
    let limit = format!("no-more: count memberUid ..{MANY}");
    let config = "cn=Constraints,cn=config";
    let set = root.try_modify(config, &[(Add, "roster-constraint", &[&limit])]);
    assert_eq!(set.code(), ResultCode::Success, "{}", set.diagnostic);
    let many = group("many");
    let (new, old) = (user(MANY), user(1));
    let add = [(Add, "memberUid", &[new.as_str()][..])];
    assert_eq!(root.modify(&many, &add), ResultCode::ConstraintViolation);
    let both = [(Delete, "memberUid", &[old.as_str()][..]), add[0]];
    assert_eq!(root.modify(&many, &both), ResultCode::Success);
    assert_eq!(kept(&served, "many"), (MANY as u64, 0));
}

#[test]
fn an_index_that_would_need_all_of_them_is_refused() {
    let served = filled();
    let mut root = served.root();
    let index = "ds-cfg-attribute=memberUid,cn=Index,cn=config";
    let mut add = |line: &str| root.try_modify(index, &[(Add, "roster-index-definition", &[line])]);
    let refused = add("substring memberUid");
    assert_eq!(refused.code(), ResultCode::UnwillingToPerform);
    let why = "entries have very many values of 'memberUid'";
    assert!(refused.diagnostic.contains(why), "{}", refused.diagnostic);
    let there = add("presence memberUid");
    assert_eq!(there.code(), ResultCode::AttributeOrValueExists, "{}", there.diagnostic);
}

#[test]
fn groups_are_imported_and_exported_whole() {
    const COUNT: usize = 20_000;
    let served = Served::new();
    let (options, data) = served.pulled();
    let mut ldif = format!("dn: {}\nobjectClass: posixGroup\ngidNumber: 5\n", group("all"));
    users(0..COUNT).iter().for_each(|user| ldif += &format!("memberUid: {user}\n"));
    let path = data.path().join("data");
    let sources = vec![Source::new("groups", ldif.as_bytes())];
    let asked = ImportOptions::default();
    let report = import(&path, sources, &asked, &SystemClock::new(), &mut ()).unwrap();
    assert_eq!(report.imported, 1);
    let mut out = Vec::new();
    export(&path, &ExportOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap().replace("\n ", "");
    let exported: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("memberUid: ")).collect();
    let want = users(0..COUNT);
    assert_eq!(exported, want.iter().map(String::as_str).collect());
    let served = Served::opened(options, data);
    assert_eq!(kept(&served, "all"), (COUNT as u64, 0));
    let mut root = served.root();
    assert_eq!(found(&mut root, &format!("(memberUid={})", user(17))), [group("all")]);
    clean(&served);
}
