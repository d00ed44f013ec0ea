//! Walks agree with a naive order of all entries, over the base and the layers above it.

use std::collections::BTreeMap;
use std::sync::Arc;

use schema::{Change, EntryId, EntryRead as _, Schema};

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::base::position::{LogPosition, Lsn};
use crate::conformance::{Chance, History, contexts};
use crate::index::IndexConfig;
use crate::read::interrupt::NEVER;
use crate::store::Store;

/// The entries of each value, by the beginning that the index keeps of it.
type Naive = BTreeMap<Vec<u8>, Vec<u64>>;

const ATTRIBUTES: [&str; 4] = ["cn", "sn", "objectClass", "description"];

fn indexes() -> IndexConfig {
    ATTRIBUTES.iter().fold(IndexConfig::none(), |config, attribute| {
        config.with(attribute, &[IndexKind::Equality, IndexKind::Presence])
    })
}

fn naive(view: &View<'_>, asked: &AttributeDescription, rule: &MatchingRule) -> Naive {
    let mut groups = Naive::new();
    for entry in view.scan(0).unwrap() {
        let entry = entry.unwrap();
        entry.visit_values(asked, &mut |_, value| {
            let mut key = Vec::new();
            if (rule.prepare)(view.schema(), value, &mut key).is_ok() {
                key.truncate(INDEX_VALUE_KEPT_BYTES);
                let ids = groups.entry(key).or_default();
                if ids.last() != Some(&entry.id().0) {
                    ids.push(entry.id().0);
                }
            }
            true
        });
    }
    groups
}

fn walked(mut groups: OrderedGroups<'_>) -> Vec<(Vec<u8>, Vec<u64>)> {
    let mut all = Vec::new();
    let mut group = OrderedGroup::default();
    while groups.next_into(&mut group, NEVER).unwrap() {
        assert_eq!(group.is_whole(), group.value().len() < INDEX_VALUE_KEPT_BYTES);
        let ids: Vec<u64> = group.ids().map(|id| id.0).collect();
        if !ids.is_empty() {
            all.push((group.value().to_vec(), ids));
        }
    }
    all
}

fn check(view: &View<'_>, chance: &mut Chance) {
    for name in ATTRIBUTES {
        let asked = view.schema().describe(name).unwrap();
        let rule = asked.kind.equality.unwrap();
        let Some(index) = view.ordering_index(&asked, rule) else { panic!("{name} has an index") };
        let want = naive(view, &asked, rule);
        let forward: Vec<(Vec<u8>, Vec<u64>)> =
            want.iter().map(|(value, ids)| (value.clone(), ids.clone())).collect();
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        assert_eq!(walked(view.ordered_groups(index, false, None).unwrap()), forward, "{name}");
        assert_eq!(walked(view.ordered_groups(index, true, None).unwrap()), backward, "{name}");
        let mut from = match forward.get(chance.below(forward.len().max(1))) {
            Some((value, _)) => value.clone(),
            None => b"m".to_vec(),
        };
        match chance.below(4) {
            0 => from.push(b'a'),
            1 => drop(from.pop()),
            2 => from.extend([0, 7]),
            _ => {}
        }
        let kept = &from[..from.len().min(INDEX_VALUE_KEPT_BYTES)];
        let after: Vec<_> = forward.iter().filter(|(v, _)| v.as_slice() >= kept).cloned().collect();
        assert_eq!(
            walked(view.ordered_groups(index, false, Some(&from)).unwrap()),
            after,
            "{name}"
        );
        let mut before: Vec<_> =
            forward.iter().filter(|(v, _)| v.as_slice() <= kept).cloned().collect();
        before.reverse();
        assert_eq!(
            walked(view.ordered_groups(index, true, Some(&from)).unwrap()),
            before,
            "{name}"
        );
        check_members(view, index, &forward);
    }
}

/// Each entry has its turn in the group of its least value.
fn check_members(view: &View<'_>, index: OrderingIndex, groups: &[(Vec<u8>, Vec<u64>)]) {
    let mut want = Vec::new();
    for (_, ids) in groups {
        want.extend(
            ids.iter().copied().filter(|id| id % 3 != 0 && !want.contains(id)).collect::<Vec<_>>(),
        );
    }
    let all: Vec<EntryId> = view.scan(0).unwrap().map(|entry| entry.unwrap().id()).collect();
    let mut members = Members::of(all.iter().copied().filter(|id| id.0 % 3 != 0));
    let count = members.len();
    let (mut walk, mut group) =
        (view.ordered_groups(index, false, None).unwrap(), OrderedGroup::default());
    let mut taken = Vec::new();
    while walk.next_into(&mut group, NEVER).unwrap() {
        members.take(&group, &mut taken);
    }
    assert_eq!(taken.iter().map(|id| id.0).collect::<Vec<_>>(), want);
    assert_eq!(members.left(), count - taken.len() as u64);
    assert_eq!(members.ids().filter(|id| !members.is_taken(*id)).count() as u64, members.left());
}

#[test]
fn walks_agree_with_a_naive_order() {
    for seed in 1..=3 {
        let directory = tempfile::tempdir().unwrap();
        let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
        let store =
            Store::create(directory.path(), &options, Schema::builtin(), indexes(), contexts());
        let store = Arc::new(store.unwrap());
        let (mut history, mut chance) = (History::default(), Chance::new(seed));
        let mut reader = store.reader();
        let mut next = EntryId(1);
        for round in 0..60 {
            let count = 1 + chance.below(4);
            let mut changes = history.batch(next, count, &mut chance);
            // The history's indexes are not those of this test.
            changes.retain(|change| !matches!(change, Change::Index(_)));
            let mut batch = store.begin().unwrap();
            // The indexes are this test's own, and stay.
            let is_of_entries = |change: &&Change| !matches!(change, Change::Index(_));
            for change in changes.iter().filter(is_of_entries) {
                batch.apply(change).unwrap();
                if let Change::Add(add) = change {
                    next = EntryId(next.0.max(add.id.0 + 1));
                }
            }
            if round % 7 == 0 {
                check(&batch.view(), &mut chance);
            }
            let upto = batch.seal().lsn;
            store.publish(upto, LogPosition { term: 1, index: upto.0 });
            if chance.below(5) == 0 {
                store.flush().unwrap();
            }
            if round % 5 == 0 {
                check(reader.view().unwrap(), &mut chance);
            }
        }
        assert!(reader.view().unwrap().lsn() > Lsn(0));
    }
}

#[test]
fn long_values_that_begin_alike_and_zeros_are_walked_in_order() {
    let store = crate::testing::fresh();
    let mut batch = store.begin().unwrap();
    let long = "x".repeat(INDEX_VALUE_KEPT_BYTES);
    let values = [format!("{long}b"), "y".to_owned(), format!("{long}{long}a"), "wz".to_owned()];
    let context = schema::DnKey::from_text(store.schema().as_ref(), "o=Other").unwrap();
    let mut entry = String::from("o=Other\nobjectClass: organization\no: Other");
    values.iter().for_each(|value| entry.push_str(&format!("\no: {value}")));
    let entry = crate::testing::entry(&entry);
    let key = schema::RdnKey::of_naming_context(&context);
    let add = schema::AddChange { id: EntryId(1), parent: EntryId::ROOT, key, entry };
    batch.apply(&Change::Add(add)).unwrap();
    let view = batch.view();
    let asked = view.schema().describe("o").unwrap();
    let rule = asked.kind.equality.unwrap();
    let index = view.ordering_index(&asked, rule).unwrap();
    let found = walked(view.ordered_groups(index, false, None).unwrap());
    let values: Vec<&[u8]> = found.iter().map(|(value, _)| value.as_slice()).collect();
    assert_eq!(values, [b"other", b"wz".as_slice(), long.as_bytes(), b"y"]);
    for head in [&[0, 1, b'a', 0, 0][..], &[0, 1, 0, 0xff, b'b', 0, 0], &[0, 1, 0, 0]] {
        assert!(is_head(head));
        assert!(!is_head(&[head, &[0; 7]].concat()));
    }
    let mut value = Vec::new();
    append_value(&[0, 1, 0, 0xff, b'b', 0, 0xff, 0, 0], &mut value);
    assert_eq!(value, [0, b'b', 0]);
}
