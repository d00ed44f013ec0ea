//! Loads of entries with very many values that name others.

use super::*;

fn group(members: impl Iterator<Item = usize>) -> String {
    let members = members.map(|number| format!("\nmember: cn=Person {number},dc=example,dc=com"));
    let members: String = members.collect();
    format!("cn=Group,dc=example,dc=com\nobjectClass: groupOfNames\ncn: Group{members}")
}

fn load(store: &Store, held: Held, texts: &[String]) {
    let mut loader = store.bulk_load(&LoadOptions { held, ..LoadOptions::default() }).unwrap();
    for text in texts {
        loader.load(&entry(text), 1).unwrap();
    }
    loader.commit().unwrap();
}

/// How many members the group has in a list, and how many in all.
fn counts(store: &Arc<Store>) -> (usize, usize) {
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let member = view.schema().describe("member").unwrap();
    let group = view.entries_after(EntryId::ROOT).unwrap().map(Result::unwrap);
    let group = { group }.find(|entry| entry.rdn() == "cn=Group").unwrap();
    let listed = group.lists().map(|(_, list)| list.after(EntryId::ROOT, 1_000).unwrap().len());
    (listed.sum(), group.values(&member).iter().count())
}

#[test]
fn members_of_large_groups_are_put_into_lists() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let context = "dc=example,dc=com\nobjectClass: domain\ndc: example".to_owned();
    let person = |number: usize| {
        let name = format!("cn=Person {number}");
        format!("{name},dc=example,dc=com\nobjectClass: person\ncn: Person {number}\nsn: x")
    };
    // The group comes before those that it names.
    let mut texts = vec![context, group(0..60)];
    texts.extend((0..50).map(person));
    load(&store, Held::Clear, &texts);
    assert_eq!(counts(&store), (50, 60));
    let check = || store.check(&mut |_, _, _| {}).unwrap().findings;
    assert_eq!(check(), []);
    // What is there stays.
    load(&store, Held::Keep, &(50..55).map(person).collect::<Vec<_>>());
    assert_eq!(counts(&store), (50, 60));
    assert_eq!(check(), []);
    // Another group takes its place; those that it names are replaced, too.
    let mut texts = vec![group(10..40)];
    texts.extend((0..20).map(person));
    load(&store, Held::Replace, &texts);
    assert_eq!(counts(&store), (30, 30));
    assert_eq!(check(), []);
}
