//! Names of lists: along the records, one by one, with changes over them, and in parts.

use ldap::dn::Dn;
use schema::{AttributeDelta, Change, DnKey, RenameChange, Schema};

use super::*;
use crate::bulk::LoadOptions;
use crate::read::interrupt::NEVER;
use crate::read::view::Memories;
use crate::testing::{TestStore, entry, fresh};

const CONTEXT: &str = "dc=example,dc=com";
const PEOPLE: usize = 500;

fn person(number: usize) -> String {
    let branch = if number.is_multiple_of(3) { "one" } else { "two" };
    format!("cn=Person {number},ou={branch},{CONTEXT}")
}

/// Two branches of people, who come in no order of theirs, and groups of every first, second and
/// so on.
fn filled(steps: &[usize]) -> TestStore {
    let store = fresh();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    let mut load = |text: &str| loader.load(&entry(text), 1).unwrap();
    load(&format!("{CONTEXT}\nobjectClass: domain\ndc: example"));
    for branch in ["one", "two"] {
        load(&format!("ou={branch},{CONTEXT}\nobjectClass: organizationalUnit\nou: {branch}"));
    }
    for number in 0..PEOPLE {
        load(&format!("{}\nobjectClass: person\nsn: x\ncn: Person {number}", person(number)));
    }
    for step in steps {
        let members = (0..PEOPLE).step_by(*step);
        let members: String = members.map(|one| format!("\nmember: {}", person(one))).collect();
        load(&format!("cn=g{step},{CONTEXT}\nobjectClass: groupOfNames\ncn: g{step}{members}"));
    }
    loader.commit().unwrap();
    store
}

fn rename(store: &TestStore, number: usize) {
    let schema = Schema::builtin();
    let key = |text: &str| DnKey::from_text(&schema, text).unwrap();
    let (old, new) = (person(number), person(number).replace("Person", "Somebody else"));
    let view = store.snapshot(Memories::default()).unwrap();
    let Resolved::Found(id) = view.resolve(&key(&old)).unwrap() else { panic!("no {old}") };
    let new_parent = view.entry(id).unwrap().unwrap().parent();
    drop(view);
    let text = |name: &str| vec![format!("{name} {number}").into_bytes()];
    let deltas = vec![AttributeDelta {
        description: schema.describe("cn").unwrap(),
        removed: text("Person"),
        added: text("Somebody else"),
    }];
    let mut batch = store.begin_on_published().unwrap();
    let new_dn = Dn::parse(&new).unwrap();
    let change = RenameChange {
        id,
        old_dn: Dn::parse(&old).unwrap(),
        new_parent,
        new_rdn: new_dn.rdns()[0].clone(),
        new_dn,
        key: key(&new).leaf().unwrap(),
        deltas,
    };
    batch.apply(&Change::Rename(change)).unwrap();
    batch.publish();
}

#[test]
fn names_are_the_same_whole_in_parts_and_one_by_one() {
    let steps = [1, 2, 3, 4, 5, 7, 40];
    let store = filled(&steps);
    for round in 0..3 {
        let view = store.snapshot(Memories::default()).unwrap();
        for step in steps {
            let key = DnKey::from_text(view.schema(), &format!("cn=g{step},{CONTEXT}")).unwrap();
            let Resolved::Found(id) = view.resolve(&key).unwrap() else { panic!("no {step}") };
            let stored = view.entry(id).unwrap().unwrap();
            let (_, list) = stored.lists().next().unwrap();
            let ids = list.after(EntryId::ROOT, usize::MAX).unwrap();
            assert_eq!(ids.len(), PEOPLE.div_ceil(step));
            let want: Vec<String> = ids.iter().map(|id| view.dn(*id).unwrap()).collect();
            let mut names = Vec::new();
            list.names(&mut |name| {
                names.push(name.to_owned());
                true
            })
            .unwrap();
            assert_eq!(names, want, "{round} {step}");
            let mut whole = Vec::new();
            want.iter().for_each(|name| {
                Writer::new(&mut whole).octets(Tag::OCTET_STRING, name.as_bytes());
            });
            assert_eq!(list.octets(NEVER).unwrap(), whole.len() as u64);
            for bytes in [1, 100, 7_000] {
                let (mut last, mut out, mut parts) = (Some(EntryId::ROOT), Vec::new(), 0);
                while let Some(after) = last {
                    let mut part = Vec::new();
                    last = list.write_after(after, &mut part, bytes).unwrap();
                    assert!(part.len() < bytes + 100);
                    out.extend(part);
                    parts += 1;
                }
                assert!(out == whole, "{round} {step} {bytes}");
                assert!(parts > whole.len() / (bytes + 100));
            }
        }
        drop(view);
        // Some are called otherwise: above the base, then in it.
        match round {
            0 => (0..60).for_each(|number| rename(&store, number)),
            1 => drop(store.flush().unwrap()),
            _ => {}
        }
    }
}
