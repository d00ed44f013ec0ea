//! Posting lists against sets of ids: lists that grow, shrink and change their width while changes
//! lie over them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::base::lmdb::Snapshot;
use crate::index::ids::{IdGatherer, IdSet};
use crate::index::posting::{CHUNK_LENGTH_MAX_BYTES, Chunk, Head, Width};
use crate::overlay::deltas::{PostingChange, chunk_number};
use crate::overlay::flush::ListWriter;
use crate::overlay::merge::{merged_lists, together};
use crate::read::interrupt::{Interrupt, NEVER};
use crate::testing::{TestStore, fresh};

const INDEX: u16 = 0;
const KEYS: [&[u8]; 4] = [b"a", b"ab", b"b\x00", b"c"];

/// Ids with the same step between them come or go.
#[derive(Clone, Debug)]
struct Stroke {
    key: usize,
    first: u64,
    step: u64,
    count: u64,
    is_added: bool,
}

fn stroke() -> impl Strategy<Value = Stroke> {
    let first = prop::sample::select(vec![1_u64, 2, 60_001, 65_530, 1 << 20, (1 << 32) - 3000]);
    let step = prop::sample::select(vec![1_u64, 1, 2, 3, 17, 130, 1000]);
    let count = prop_oneof![1_u64..40, 40_u64..80, 400_u64..1400];
    let is_added = prop::sample::select(vec![true, true, false]);
    (0..KEYS.len(), first, step, count, is_added).prop_map(|(key, first, step, count, is_added)| {
        Stroke { key, first, step, count, is_added }
    })
}

#[derive(Clone, Debug)]
enum Step {
    /// A layer of these changes comes over the others.
    Layer(Vec<Stroke>),
    /// All layers get into the base.
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => prop::collection::vec(stroke(), 1..4).prop_map(Step::Layer),
        2 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 2..12)
}

/// Lists, and what they should be.
struct Bench {
    store: TestStore,
    layers: Vec<Arc<Layer>>,
    open: Memory,
    model: BTreeMap<&'static [u8], BTreeSet<u64>>,
}

impl Bench {
    fn new() -> Self {
        Self { store: fresh(), layers: Vec::new(), open: Memory::default(), model: BTreeMap::new() }
    }

    fn push(&mut self, strokes: &[Stroke]) {
        for Stroke { key, first, step, count, is_added } in strokes {
            let ids = self.model.entry(KEYS[*key]).or_default();
            for id in (0..*count).map(|at| first + at * step) {
                self.open.push(INDEX, KEYS[*key], PostingChange::new(id, *is_added));
                if *is_added {
                    ids.insert(id);
                } else {
                    ids.remove(&id);
                }
            }
        }
    }

    fn seal(&mut self) {
        self.layers.push(Arc::new(self.open.seal(Lsn(1), Counters::FIRST)));
        self.open.clear();
    }

    fn flush(&mut self) {
        let environment = self.store.base_environment();
        let mut txn = environment.write().unwrap();
        let mut writer = ListWriter::new(environment.tables.postings);
        let mut lists = merged_lists(&self.layers);
        let mut scratch = Vec::new();
        while let [list, ..] = *lists.next_group() {
            let changes = together(lists.group(), &mut scratch);
            writer.change(&mut txn, list.head, changes).unwrap();
        }
        txn.commit().unwrap();
        drop(lists);
        self.layers.clear();
    }

    fn with_view<R>(&self, look: impl FnOnce(&View<'_>) -> R) -> R {
        let environment = self.store.base_environment();
        let snapshot = Snapshot::Read(environment.read().unwrap(), None);
        let (lsn, tables) = (Lsn(0), environment.tables);
        let ground = Ground { snapshot, number: 0, lsn, index_epoch: 0, tables, remembered: None };
        let names = RefCell::new(NameCache::default());
        look(&View::of_batch(BatchParts {
            ground: &ground,
            layers: self.layers.clone().into(),
            memory: &self.open,
            dictionary: self.store.dictionary(),
            counters: Counters::FIRST,
            names: &names,
            uses: &Uses::default(),
        }))
    }

    /// The view must say what the model holds.
    fn compare(&self, others: &[BTreeSet<u64>]) {
        self.with_view(|view| {
            for key in KEYS {
                let want = self.model.get(key).cloned().unwrap_or_default();
                let Some(list) = view.list(INDEX, key).unwrap() else {
                    assert!(want.is_empty());
                    continue;
                };
                assert_eq!(listed(&view.load(&list, NEVER).unwrap()), want);
                assert!(list.count() >= want.len() as u64);
                if self.layers.is_empty() {
                    assert_eq!(list.count(), want.len() as u64);
                }
                self.walk(view, &list, &want);
                for other in others {
                    let set = IdSet::from_unsorted(other.iter().copied().collect());
                    let (mut both, mut rest) = (set.clone(), set);
                    view.intersect(&mut both, &list, NEVER).unwrap();
                    assert_eq!(listed(&both), other & &want);
                    view.subtract(&mut rest, &list, NEVER).unwrap();
                    assert_eq!(listed(&rest), other - &want);
                }
            }
            self.compare_ranges(view);
        });
    }

    fn walk(&self, view: &View<'_>, list: &List<'_>, want: &BTreeSet<u64>) {
        for ids_min in [1, 700] {
            let (mut seen, mut after) = (BTreeSet::new(), 0);
            loop {
                let window = view.window(list, after, ids_min, NEVER).unwrap();
                let ids = listed(&window.ids);
                let upto = window.upto.unwrap_or(u64::MAX);
                assert!(upto > after && ids.iter().all(|id| (after + 1..=upto).contains(id)));
                seen.extend(ids);
                if window.upto.is_none() {
                    break;
                }
                after = upto;
            }
            assert_eq!(&seen, want);
        }
    }

    fn compare_ranges(&self, view: &View<'_>) {
        let key = |value: &[u8]| RowKey::postings_from(INDEX, value);
        for (from, to) in [(&b"a"[..], &b"d"[..]), (b"ab", b"b\x01"), (b"b", b"c"), (b"c", b"a")] {
            let within = || self.model.iter().filter(|(key, _)| from <= **key && **key < to);
            let union: BTreeSet<u64> = within().flat_map(|(_, ids)| ids).copied().collect();
            let sum: u64 = within().map(|(_, ids)| ids.len() as u64).sum();
            let lists = within().filter(|(_, ids)| !ids.is_empty()).count() as u64;
            let (from, to) = (key(from), key(to));
            let (from, to) = (from.as_bytes(), to.as_bytes());
            let found = view.range(from, to, u64::MAX, NEVER).unwrap().unwrap();
            assert_eq!(listed(&found), union);
            let count = view.range_count(from, to, u64::MAX, NEVER).unwrap();
            assert!(count.is_exact && count.ids >= sum && count.lists >= lists);
            if self.layers.is_empty() {
                assert_eq!((count.lists, count.ids), (lists, sum));
                let at_most = view.range(from, to, sum, NEVER).unwrap();
                assert_eq!(at_most.map(|set| listed(&set)), Some(union));
                if sum > 0 {
                    assert!(view.range(from, to, sum - 1, NEVER).unwrap().is_none());
                }
                let few = view.range_count(from, to, 1, NEVER).unwrap();
                assert_eq!((few.is_exact, few.lists), (lists <= 1, lists.min(1)));
            }
        }
        let mut gatherer = IdGatherer::default();
        for key in KEYS {
            if let Some(list) = view.list(INDEX, key).unwrap() {
                view.gather(&mut gatherer, &list, NEVER).unwrap();
            }
        }
        let all: BTreeSet<u64> = self.model.values().flatten().copied().collect();
        assert_eq!(listed(&gatherer.finish()), all);
    }

    /// Every row is as a writer makes it, and the counts are right; returns the widths.
    fn rows_are_right(&self) -> Vec<Width> {
        let environment = self.store.base_environment();
        let txn = environment.read().unwrap();
        let mut lists: Vec<(Vec<u8>, u64, Option<Width>, u64)> = Vec::new();
        for row in environment.tables.postings.iter(&txn).unwrap() {
            let (key, row) = row.unwrap();
            if let Some((head, _, Some(width), found)) = lists.last_mut()
                && chunk_number(head, key).is_some()
            {
                let chunk = Chunk::read(row).unwrap();
                assert!(chunk.is_well_formed(*width) && row.len() <= CHUNK_LENGTH_MAX_BYTES);
                *found += chunk.count() as u64;
                continue;
            }
            let head = Head::read(row).unwrap();
            assert!(head.is_well_formed());
            lists.push(match head {
                Head::Inline(_) => (key.to_vec(), head.count(), None, head.count()),
                Head::Chunked(count, width) => (key.to_vec(), count, Some(width), 0),
            });
        }
        assert!(lists.iter().all(|(_, count, _, found)| count == found));
        lists.into_iter().filter_map(|(_, _, width, _)| width).collect()
    }
}

fn listed(set: &IdSet) -> BTreeSet<u64> {
    let ids: Vec<u64> = set.iter_after(0).collect();
    assert!(ids.is_sorted_by(|one, next| one < next));
    assert_eq!(ids.len() as u64, set.len());
    ids.into_iter().collect()
}

/// Ids as a search may have them already: few, a handful far apart, many.
fn others() -> Vec<BTreeSet<u64>> {
    vec![
        BTreeSet::new(),
        [1, 2, 65_531, 1 << 20, 1 << 40].into(),
        (0..3000).map(|at| 1 + at * 53).collect(),
        (60_000..62_000).chain((1 << 32) - 3000..(1 << 32) + 100).collect(),
        (1..20_000).collect(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn lists_are_what_was_put_in_whatever_lies_over_them(steps in steps()) {
        let mut bench = Bench::new();
        for step in steps {
            match step {
                Step::Flush => bench.flush(),
                Step::Layer(strokes) => {
                    bench.push(&strokes);
                    bench.seal();
                }
            }
        }
        let others = others();
        bench.compare(&others);
        bench.rows_are_right();
        bench.push(&[Stroke { key: 1, first: 5, step: 3, count: 90, is_added: true }]);
        bench.seal();
        bench.compare(&others);
        bench.flush();
        bench.compare(&others);
        bench.rows_are_right();
    }
}

#[test]
fn a_list_becomes_narrower_as_it_becomes_denser_and_keeps_its_ids() {
    let mut bench = Bench::new();
    let mut widths = BTreeSet::new();
    let others = others();
    for (first, step) in [(7, 1000), (3, 250), (1, 160), (2, 100), (4, 12), (5, 3)] {
        bench.push(&[Stroke { key: 0, first, step, count: 190_000 / step, is_added: true }]);
        bench.seal();
        bench.compare(&others[..3]);
        bench.flush();
        bench.compare(&others[..3]);
        widths.extend(bench.rows_are_right());
    }
    assert_eq!(widths.into_iter().map(Width::bits).collect::<Vec<_>>(), [13, 14, 15, 16]);
    // And it becomes short again.
    bench.push(&[Stroke { key: 0, first: 40, step: 1, count: 200_000, is_added: false }]);
    bench.seal();
    bench.flush();
    bench.compare(&others[..3]);
    assert_eq!(bench.rows_are_right(), []);
}

#[test]
fn a_sparse_list_takes_few_rows() {
    let mut bench = Bench::new();
    bench.push(&[Stroke { key: 0, first: 1, step: 1000, count: 2000, is_added: true }]);
    bench.seal();
    bench.flush();
    let environment = bench.store.base_environment();
    let txn = environment.read().unwrap();
    assert_eq!(environment.tables.postings.len(&txn).unwrap(), 1 + 31);
}

#[test]
fn whoever_interrupts_gets_no_answer() {
    let mut bench = Bench::new();
    // Chunks of one id each.
    bench.push(&[Stroke { key: 0, first: 1, step: 1 << 16, count: 5000, is_added: true }]);
    bench.seal();
    bench.flush();
    bench.with_view(|view| {
        let list = view.list(INDEX, KEYS[0]).unwrap().unwrap();
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > 1
        };
        let interrupt: Interrupt<'_> = &stop;
        let is_interrupted =
            |done: Result<(), StoreError>| matches!(done, Err(StoreError::Interrupted));
        assert!(is_interrupted(view.load(&list, interrupt).map(drop)));
        let mut set = IdSet::Few((0..5000).map(|at| 1 + (at << 16)).collect());
        assert!(is_interrupted(view.intersect(&mut set, &list, interrupt)));
        assert!(is_interrupted(view.subtract(&mut set, &list, interrupt)));
        assert!(is_interrupted(view.window(&list, 0, 10_000, interrupt).map(drop)));
        let (from, to) = (RowKey::postings_from(INDEX, b"a"), RowKey::postings_from(INDEX, b"b"));
        let range = view.range(from.as_bytes(), to.as_bytes(), u64::MAX, interrupt);
        assert!(is_interrupted(range.map(drop)));
        assert_eq!(view.load(&list, NEVER).unwrap().len(), 5000);
    });
}
