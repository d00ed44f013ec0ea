//! Groups of very many: their members are kept by number, and nobody sees a difference but their
//! order.

use std::collections::BTreeSet;

use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{DnKey, EntryId};

use crate::support::{Asked, Client, SUFFIX, Served};

const MANY: usize = 500;

fn person(number: usize) -> String {
    format!("uid=member-number-{number},ou=people,{SUFFIX}")
}

fn group(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(person).collect()
}

#[track_caller]
fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(name, attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn add_group(root: &mut Client, name: &str, members: &[String]) {
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    add(root, &group(name), &[("objectClass", &["groupOfNames"]), ("member", &members)]);
}

fn add_person(root: &mut Client, number: usize) {
    let classes = ("objectClass", &["inetOrgPerson"][..]);
    add(root, &person(number), &[classes, ("sn", &["x"]), ("cn", &["x"])]);
}

/// People, and a group of all of them and of one that there is not.
fn filled() -> Served {
    let served = Served::new();
    let mut root = served.root();
    let people = format!("ou=people,{SUFFIX}");
    add(&mut root, &people, &[("objectClass", &["organizationalUnit"])]);
    (0..MANY).for_each(|number| add_person(&mut root, number));
    add_group(&mut root, "many", &names(0..=MANY));
    served
}

fn members(client: &mut Client, name: &str) -> BTreeSet<String> {
    let (base, attributes) = (group(name), &["member"][..]);
    let answer =
        client.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let values = answer.entries[0].texts("member");
    let set: BTreeSet<String> = values.iter().cloned().collect();
    assert_eq!(set.len(), values.len(), "each is there once");
    set
}

/// How many members a group has by number, and how many by name.
fn kept(served: &Served, name: &str) -> (u64, usize) {
    let store = served.directory.store();
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let key = DnKey::from_text(view.schema(), &group(name)).unwrap();
    let store::Resolved::Found(id) = view.resolve(&key).unwrap() else { panic!("no {name}") };
    let entry = view.entry(id).unwrap().unwrap();
    let all = |list: store::ReferenceList<'_>| {
        list.after(EntryId::ROOT, usize::MAX).unwrap().len() as u64
    };
    let listed = entry.lists().map(|(_, list)| all(list)).sum();
    let mut of_record = entry.record_attributes();
    let of_record = of_record.find(|(description, _)| description.text() == "member");
    (listed, of_record.map_or(0, |(_, values)| values.iter().count()))
}

/// Compares many names; tells only which differ.
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

#[test]
fn members_come_and_go() {
    let served = filled();
    let mut root = served.root();
    assert_eq!(kept(&served, "many"), (MANY as u64, 1));
    let mut want: BTreeSet<String> = names(0..=MANY).into_iter().collect();
    same(&members(&mut root, "many"), &want);
    let many = group("many");
    let mut change =
        |operation, values: &[&str]| root.modify(&many, &[(operation, "member", values)]);
    // In whatever spelling.
    let (third, other) = (person(3), person(3).to_uppercase());
    for there in [&third, &other, &person(MANY)] {
        assert_eq!(change(Add, &[there]), ResultCode::AttributeOrValueExists);
    }
    assert_eq!(change(Delete, &[&person(MANY + 1)]), ResultCode::NoSuchAttribute);
    assert_eq!(change(Delete, &[&other, &person(4), &person(MANY)]), ResultCode::Success);
    assert_eq!(change(Delete, &[&third]), ResultCode::NoSuchAttribute);
    assert_eq!(change(Add, &[&third, &person(MANY + 7)]), ResultCode::Success);
    want.remove(&person(4));
    want.remove(&person(MANY));
    want.insert(person(MANY + 7));
    same(&members(&mut root, "many"), &want);
    assert_eq!(kept(&served, "many"), (MANY as u64 - 1, 1));
    // Who is replaced by all but some.
    let all = names(10..MANY);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(root.modify(&many, &[(Replace, "member", &all)]), ResultCode::Success);
    assert_eq!(members(&mut root, "many").len(), MANY - 10);
    // All of them go, and some come back, in one request and in two.
    let again = [(Delete, "member", &[][..]), (Add, "member", &[third.as_str()][..])];
    assert_eq!(root.modify(&many, &again), ResultCode::Success);
    assert_eq!(members(&mut root, "many"), BTreeSet::from([third.clone()]));
    assert_eq!(root.modify(&many, &[(Delete, "member", &[&third])]), ResultCode::Success);
    assert_eq!(kept(&served, "many"), (0, 0));
    assert_eq!(found(&mut root, "(&(cn=many)(member=*))"), [""; 0]);
    assert_eq!(root.modify(&many, &[(Add, "member", &all)]), ResultCode::Success);
    assert_eq!(found(&mut root, "(&(cn=many)(member=*))"), std::slice::from_ref(&many));
    assert_eq!(kept(&served, "many"), (MANY as u64 - 10, 0));
}

#[test]
fn they_are_found_and_compared() {
    let served = filled();
    let mut root = served.root();
    add_group(&mut root, "outer", &[group("many")]);
    let many = group("many");
    for number in [0, 7, MANY] {
        let filter = format!("(member={})", person(number));
        assert_eq!(found(&mut root, &filter), std::slice::from_ref(&many), "{filter}");
        let filter = format!("(&(objectClass=groupOfNames)(cn=*m*)(member={}))", person(number));
        assert_eq!(found(&mut root, &filter), std::slice::from_ref(&many), "{filter}");
        assert_eq!(root.compare(&many, "member", &person(number)), ResultCode::CompareTrue);
    }
    for number in [7, MANY] {
        for rule in ["distinguishedNameMatch", "2.5.13.1"] {
            let filter = format!("(member:{rule}:={})", person(number));
            assert_eq!(found(&mut root, &filter), std::slice::from_ref(&many), "{filter}");
            let filter = format!("(&(cn=m*)(!(member:{rule}:={})))", person(number));
            assert_eq!(found(&mut root, &filter), [""; 0], "{filter}");
        }
        let filter = format!("(&(cn=many)(:2.5.13.1:={}))", person(number));
        assert_eq!(found(&mut root, &filter), std::slice::from_ref(&many), "{filter}");
    }
    let nobody = person(MANY + 1);
    assert_eq!(root.compare(&many, "member", &nobody), ResultCode::CompareFalse);
    assert_eq!(found(&mut root, &format!("(member={nobody})")), [""; 0]);
    let filter = format!("(&(objectClass=groupOfNames)(!(member={})))", person(7));
    assert_eq!(found(&mut root, &filter), [group("outer")]);
    // The groups of somebody, and the people of a group.
    let (base, attributes) = (person(7), &["isMemberOf"][..]);
    let answer =
        root.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.entries[0].texts("isMemberOf"), [many.clone(), group("outer")]);
    assert_eq!(found(&mut root, &format!("(isMemberOf={})", group("outer"))).len(), MANY + 1);
    let filter = format!("(&(isDirectMemberOf={many})(uid=member-number-9))");
    assert_eq!(found(&mut root, &filter), [person(9)]);
    // Nobody reads them who asks for something else.
    let asked = Asked { base: &many, scope: Scope::Base, attributes: &["cn"], ..Asked::default() };
    let answer = root.search(&asked);
    let there: Vec<&String> = answer.entries[0].attributes.keys().collect();
    assert_eq!(there, ["cn"]);
}

#[test]
fn they_follow_what_becomes_of_those_they_name() {
    let served = filled();
    let mut root = served.root();
    let many = group("many");
    assert_eq!(root.delete(&person(5)), ResultCode::Success);
    assert_eq!(root.rename(&person(6), "uid=somebody", true, None), ResultCode::Success);
    let mut want: BTreeSet<String> = names(0..=MANY).into_iter().collect();
    want.retain(|name| *name != person(5) && *name != person(6));
    want.insert(format!("uid=somebody,ou=people,{SUFFIX}"));
    same(&members(&mut root, "many"), &want);
    // Another one of that name is no member.
    add_person(&mut root, 5);
    same(&members(&mut root, "many"), &want);
    assert_eq!(found(&mut root, &format!("(member={})", person(5))), [""; 0]);
    // Who gets a name that is there already is named once.
    let renamed = root.rename(&person(8), &format!("uid=member-number-{MANY}"), true, None);
    assert_eq!(renamed, ResultCode::Success);
    want.remove(&person(8));
    same(&members(&mut root, "many"), &want);
    // With all that is below it.
    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.rename(&people, "ou=staff", true, None), ResultCode::Success);
    let moved = |name: &String| name.replace("ou=people", "ou=staff");
    let want: BTreeSet<String> = want.iter().map(moved).collect();
    same(&members(&mut root, "many"), &want);
    // The group itself.
    assert_eq!(root.rename(&many, "cn=all", true, None), ResultCode::Success);
    same(&members(&mut root, "all"), &want);
    let somebody = format!("uid=somebody,ou=staff,{SUFFIX}");
    assert_eq!(found(&mut root, &format!("(member={somebody})")), [group("all")]);
    assert_eq!(root.delete(&group("all")), ResultCode::Success);
    assert_eq!(found(&mut root, &format!("(member={somebody})")), [""; 0]);
    let report = served.directory.store();
    report.flush().unwrap();
    assert_eq!(report.check(&mut |_, _, _| {}).unwrap().findings, []);
}

/// The values of `member` that an answer has, and what the attribute is called there.
fn ranged(client: &mut Client, asked: &str) -> (String, Vec<String>) {
    let (base, attributes) = (group("many"), &[asked, "cn"][..]);
    let answer =
        client.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let entry = &answer.entries[0];
    let called = entry.attributes.keys().find(|name| name.starts_with("member"));
    let called = called.cloned().unwrap_or_default();
    let values = if called.is_empty() { Vec::new() } else { entry.texts(&called) };
    (called, values)
}

#[test]
fn a_part_of_the_values_can_be_read() {
    let served = filled();
    let mut root = served.root();
    let all: Vec<String> = {
        let (base, attributes) = (group("many"), &["member"][..]);
        let scope = Scope::Base;
        let answer = root.search(&Asked { base: &base, scope, attributes, ..Asked::default() });
        answer.entries[0].texts("member").to_vec()
    };
    let (called, first) = ranged(&mut root, "member;range=0-99");
    assert_eq!((called.as_str(), &first[..]), ("member;range=0-99", &all[..100]));
    let (called, next) = ranged(&mut root, "member;range=100-*");
    assert_eq!((called.as_str(), &next[..]), ("member;range=100-*", &all[100..]));
    let (called, one) = ranged(&mut root, "MEMBER;Range=499-499");
    assert_eq!((called.as_str(), &one[..]), ("member;range=499-499", &all[499..500]));
    let (called, last) = ranged(&mut root, "member;range=500-600");
    assert_eq!((called.as_str(), &last[..]), ("member;range=500-*", &all[500..]));
    for none in ["member;range=501-600", "member;range=5-4", "member;range=x", "sn;range=0-1"] {
        assert_eq!(ranged(&mut root, none), (String::new(), Vec::new()), "{none}");
    }
    // Who asks for all gets all.
    let base = group("many");
    let attributes = &["*", "member;range=0-1"][..];
    let answer =
        root.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.entries[0].texts("member").len(), MANY + 1);
    // Short attributes, too.
    let attributes = &["cn;range=0-*"][..];
    let answer =
        root.search(&Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.entries[0].texts("cn;range=0-*"), ["many"]);
    // Nobody reads so what he may not read.
    let hidden = "(targetattr=\"member\")(version 3.0; acl \"hidden\"; deny (read) \
                  userdn=\"ldap:///anyone\";)";
    let mut stranger = served.client();
    assert_eq!(ranged(&mut stranger, "member;range=0-9").1.len(), 10);
    assert_eq!(root.modify(&base, &[(Add, "aci", &[hidden])]), ResultCode::Success);
    assert_eq!(ranged(&mut stranger, "member;range=0-9").1, [""; 0]);
}

#[test]
fn a_name_that_is_there_twice_goes_at_once() {
    let served = filled();
    let mut root = served.root();
    let (many, config) = (group("many"), "cn=References,cn=config");
    let owner = [(Replace, "roster-reference", &["owner"][..])];
    assert_eq!(root.modify(config, &owner), ResultCode::Success);
    // It was a name of nobody, and now it is that of a member.
    let named = format!("uid=member-number-{MANY}");
    assert_eq!(root.rename(&person(8), &named, true, None), ResultCode::Success);
    assert_eq!(root.compare(&many, "member", &person(MANY)), ResultCode::CompareTrue);
    let change = root.modify(&many, &[(Delete, "member", &[&person(MANY)])]);
    assert_eq!(change, ResultCode::Success);
    assert_eq!(root.compare(&many, "member", &person(MANY)), ResultCode::CompareFalse);
    assert_eq!(members(&mut root, "many").len(), MANY - 1);
    let store = served.directory.store();
    store.flush().unwrap();
    assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
}

#[test]
fn indexes_that_would_lack_them_are_refused() {
    let served = filled();
    let store = served.directory.store();
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let against = |line: &str| {
        let definition = store::IndexDefinition::parse(line).unwrap();
        let found = view.dictionary().lists_against(&definition);
        found.map(|description| description.text().to_owned())
    };
    for line in [
        "equality member with cn",
        "equality cn with member",
        "equality cn where (member=*)",
        "presence member where (cn=a)",
    ] {
        assert_eq!(against(line), Some("member".to_owned()), "{line}");
    }
    for line in ["equality member", "presence member", "equality owner with cn", "equality cn"] {
        assert_eq!(against(line), None, "{line}");
    }
    // A client is told why.
    let mut root = served.root();
    let cn = "ds-cfg-attribute=cn,cn=Index,cn=config";
    let add = |root: &mut Client, line: &str| {
        root.try_modify(cn, &[(Add, "roster-index-definition", &[line])])
    };
    let refused = add(&mut root, "equality cn with member");
    assert_eq!(refused.code(), ResultCode::UnwillingToPerform);
    let why = "entries have very many values of 'member'";
    assert!(refused.diagnostic.contains(why), "{}", refused.diagnostic);
    let fine = add(&mut root, "equality cn with sn");
    assert_eq!(fine.code(), ResultCode::Success, "{}", fine.diagnostic);
}

#[test]
fn what_takes_long_to_read_is_not_read_for_other_values() {
    let served = filled();
    let mut root = served.root();
    let owners = names(0..400);
    let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
    let many = group("many");
    assert_eq!(root.modify(&many, &[(Add, "owner", &owners)]), ResultCode::Success);
    let (base, attributes) = (many.as_str(), &["owner"][..]);
    let answer = root.search(&Asked { base, scope: Scope::Base, attributes, ..Asked::default() });
    assert_eq!(answer.entries[0].texts("owner").len(), 400);
    assert!(!answer.entries[0].attributes.contains_key("member"));
    assert_eq!(found(&mut root, &format!("(owner={})", person(3))), std::slice::from_ref(&many));
}

fn clean(served: &Served) {
    let store = served.directory.store();
    store.flush().unwrap();
    assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
}

#[test]
fn what_many_groups_name_is_kept_by_number_before_it_is_renamed() {
    let served = filled();
    let mut root = served.root();
    // More groups than change in one record, each small.
    let of_group = |number: usize| names((0..8).map(|one| (number * 7 + one * 61) % MANY));
    for number in 0..300 {
        add_group(&mut root, &format!("small-{number}"), &of_group(number));
    }
    // Whom nobody has added yet is named below it, too.
    let nobody = format!("uid=nobody,ou=people,{SUFFIX}");
    let some = [person(3), nobody];
    add_group(&mut root, "some", &some);
    let stamp = |client: &mut Client| {
        let (base, attributes) = (group("small-7"), &["modifyTimestamp", "etag"][..]);
        let asked = Asked { base: &base, scope: Scope::Base, attributes, ..Asked::default() };
        client.search(&asked).entries[0].clone()
    };
    let before = stamp(&mut root);
    assert_eq!(kept(&served, "small-7"), (0, 8));
    let last = || served.directory.store().published().lsn.0;
    let records = last();

    let people = format!("ou=people,{SUFFIX}");
    assert_eq!(root.rename(&people, "ou=staff", true, None), ResultCode::Success);
    assert!(last() > records + 2, "it is prepared in steps");
    assert_eq!(kept(&served, "small-7"), (8, 0));
    assert_eq!(kept(&served, "some"), (1, 1));
    let renamed = |names: &[String]| -> BTreeSet<String> {
        names.iter().map(|name| name.replace("ou=people", "ou=staff")).collect()
    };
    for number in [0, 7, 299] {
        same(&members(&mut root, &format!("small-{number}")), &renamed(&of_group(number)));
    }
    same(&members(&mut root, "some"), &renamed(&some));
    same(&members(&mut root, "many"), &renamed(&names(0..=MANY)));
    assert_eq!(stamp(&mut root), before, "the values are what they were");
    let filter = format!("(member={})", renamed(&[person(7)]).first().unwrap());
    let want = 1 + (0..300).filter(|number| of_group(*number).contains(&person(7))).count();
    assert_eq!(found(&mut root, &filter).len(), want);
    // Now one record is enough.
    let records = last();
    let people = format!("ou=staff,{SUFFIX}");
    assert_eq!(root.rename(&people, "ou=people", true, None), ResultCode::Success);
    assert_eq!(last(), records + 1);
    same(&members(&mut root, "small-0"), &of_group(0).into_iter().collect());
    clean(&served);
}

#[test]
fn a_large_group_of_old_is_kept_by_number_when_a_member_is_renamed() {
    let served = filled();
    let mut root = served.root();
    // They come after the group, so nothing has looked for them.
    let late = 1000..4000;
    add_group(&mut root, "early", &names(late.clone()));
    (1000..1040).for_each(|number| add_person(&mut root, number));
    assert_eq!(kept(&served, "early"), (0, 3000));
    let to = "uid=renamed";
    assert_eq!(root.rename(&person(1007), to, true, None), ResultCode::Success);
    assert_eq!(kept(&served, "early"), (40, 2960));
    let mut want: BTreeSet<String> = names(late).into_iter().collect();
    want.remove(&person(1007));
    want.insert(format!("{to},ou=people,{SUFFIX}"));
    same(&members(&mut root, "early"), &want);
    clean(&served);
}
