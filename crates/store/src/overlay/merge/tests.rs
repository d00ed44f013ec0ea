//! A merged layer says of each key what its layers say one over the other.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::base::meta::Counters;
use crate::overlay::cells::row_hash;

/// What one layer changes: rows by table and key, and the ids of lists.
#[derive(Clone, Debug, Default)]
struct Changes {
    rows: BTreeMap<(usize, Vec<u8>), Option<Vec<u8>>>,
    lists: BTreeMap<Vec<u8>, BTreeMap<u64, bool>>,
}

fn changes() -> impl Strategy<Value = Changes> {
    // Keys of which some begin with others, or have the same beginning.
    let key = prop::sample::select(vec![
        &b"a"[..],
        b"a\0",
        b"a\0\0\0\0\0\0\0\0",
        b"ab",
        b"same beginning 1",
        b"same beginning 2",
        b"\xff",
    ])
    .prop_map(<[u8]>::to_vec);
    let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..4));
    let rows = prop::collection::btree_map((0_usize..5, key.clone()), value, 0..8);
    let ids = prop::collection::btree_map(1_u64..12, any::<bool>(), 1..6);
    let lists = prop::collection::btree_map(key, ids, 0..5);
    (rows, lists).prop_map(|(rows, lists)| Changes { rows, lists })
}

fn layer(changes: &Changes, lsn: u64) -> Arc<Layer> {
    let mut builder = LayerBuilder::default();
    for ((table, key), value) in &changes.rows {
        let row = Row { key, hash: row_hash(key), value: value.as_deref() };
        builder.row(PLAIN_TABLES[*table], row);
    }
    for (head, ids) in &changes.lists {
        let ids: Vec<PostingChange> =
            ids.iter().map(|(id, is_added)| PostingChange::new(*id, *is_added)).collect();
        builder.list(row_hash(head), head, &ids);
    }
    Arc::new(builder.finish(Lsn(lsn), Counters { lsn, ..Counters::FIRST }))
}

fn read(layer: &Layer) -> Changes {
    let mut changes = Changes::default();
    for (number, table) in PLAIN_TABLES.into_iter().enumerate() {
        for row in layer.rows(table).iter() {
            changes.rows.insert((number, row.key.to_vec()), row.value.map(<[u8]>::to_vec));
        }
    }
    for list in layer.lists().iter() {
        let ids = list.changes.iter().map(|change| (change.id(), change.is_added())).collect();
        changes.lists.insert(list.head.to_vec(), ids);
    }
    changes
}

proptest! {
    #[test]
    fn the_newest_counts(all in prop::collection::vec(changes(), 1..12)) {
        let mut want = Changes::default();
        for changes in &all {
            want.rows.extend(changes.rows.clone());
            for (head, ids) in &changes.lists {
                want.lists.entry(head.clone()).or_default().extend(ids);
            }
        }
        let layers: Vec<Arc<Layer>> =
            all.iter().zip(1..).map(|(changes, lsn)| layer(changes, lsn)).collect();
        let merged = merge(&layers, &mut || ()).unwrap();
        prop_assert_eq!(merged.first(), Lsn(1));
        prop_assert_eq!(merged.last(), Lsn(all.len() as u64));
        let got = read(&merged);
        prop_assert_eq!(&got.rows, &want.rows);
        prop_assert_eq!(&got.lists, &want.lists);
        for ((table, key), value) in &want.rows {
            let found = merged.get(PLAIN_TABLES[*table], row_hash(key), key);
            prop_assert_eq!(found, Some(value.as_deref()));
        }
        for head in want.lists.keys() {
            prop_assert!(merged.lists().get(row_hash(head), head).is_some());
        }
        // In two steps it is the same.
        let (old, new) = layers.split_at(layers.len() / 2);
        let parts = [old, new].into_iter().filter_map(|part| merge(part, &mut || ()));
        let parts: Vec<Arc<Layer>> = parts.map(Arc::new).collect();
        let again = read(&merge(&parts, &mut || ()).unwrap());
        prop_assert_eq!(again.rows, want.rows);
        prop_assert_eq!(again.lists, want.lists);
    }
}

#[test]
fn nothing_merges_to_nothing() {
    assert!(merge(&[], &mut || ()).is_none());
}

#[test]
fn eight_of_a_tier_are_due_with_what_is_between() {
    const SMALL: usize = 10 << 10;
    const LARGE: usize = 400 << 10;
    const HUGE: usize = 200 << 20;
    let all_due = |bytes: &[usize]| due(bytes, TIER_MAX);
    assert_eq!(all_due(&[]), None);
    assert_eq!(all_due(&[SMALL; 7]), None);
    assert_eq!(all_due(&[SMALL; 8]), Some((0..8, 0)));
    assert_eq!(all_due(&[&[LARGE][..], &[SMALL; 7]].concat()), None);
    assert_eq!(all_due(&[&[LARGE][..], &[SMALL; 8]].concat()), Some((1..9, 0)));
    let mixed = [&[HUGE, HUGE][..], &[LARGE; 4], &[SMALL], &[LARGE; 4], &[SMALL; 3]].concat();
    assert_eq!(all_due(&mixed), Some((2..11, 1)));
    assert_eq!(due(&mixed, 1), None);
    assert_eq!(all_due(&[HUGE; 20]), None);
    assert_eq!(layers_until_due(&[SMALL; 3]), 5);
    assert_eq!(layers_until_due(&[LARGE]), 8);
}

/// Layers come one by one, and are merged when they are due: there are never many, and each change
/// is copied a few times.
#[test]
fn there_are_few_layers_and_few_copies() {
    for size in [3 << 10, 30 << 10, 300 << 10] {
        let mut sizes: Vec<usize> = Vec::new();
        let (mut copied, mut most, mut sum) = (0, 0, 0);
        let count = (96 << 20) / size;
        for _ in 0..count {
            sizes.push(size);
            while let Some((run, _)) = due(&sizes, TIER_MAX) {
                let merged = sizes[run.clone()].iter().sum();
                copied += merged;
                sizes.splice(run, [merged]);
            }
            most = most.max(sizes.len());
            sum += sizes.len();
        }
        assert!(most <= 26, "{most} layers");
        let average = sum / count;
        assert!(average <= 15, "{average} layers");
        // Very small ones are copied more often, but few octets each time.
        let copies = copied / (count * size);
        assert!(copies <= if size < 30 << 10 { 9 } else { 4 }, "{copies} times");
    }
}
