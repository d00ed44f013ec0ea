//! The store and the naive engine pass the suite.

use std::sync::Arc;

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::base::position::LogPosition;
use crate::read::view::Memories;
use crate::store::Store;

struct OnLmdb {
    directory: tempfile::TempDir,
    store: Option<Arc<Store>>,
}

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

impl OnLmdb {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema::Schema::builtin();
        let store =
            Store::create(directory.path(), &options(), schema, indexes(), contexts()).unwrap();
        Self { directory, store: Some(Arc::new(store)) }
    }

    fn store(&self) -> &Arc<Store> {
        self.store.as_ref().unwrap()
    }
}

impl Engine for OnLmdb {
    fn next_entry_id(&self) -> EntryId {
        self.store().begin().unwrap().next_entry_id()
    }

    fn write(&mut self, changes: &[Change]) {
        let mut batch = self.store().begin().unwrap();
        for change in changes {
            // What is rolled back leaves nothing.
            batch.savepoint();
            batch.apply(change).unwrap();
            batch.rollback();
            batch.apply(change).unwrap();
        }
        batch.seal();
    }

    fn write_and_drop(&mut self, changes: &[Change]) {
        let mut batch = self.store().begin().unwrap();
        changes.iter().for_each(|change| batch.apply(change).unwrap());
    }

    fn publish(&mut self, upto: Lsn) {
        self.store().publish(upto, LogPosition { term: 1, index: upto.0 + 7 });
        assert_eq!(self.store().published().position.index, upto.0 + 7);
    }

    fn drop_tentative(&mut self) {
        self.store().drop_tentative();
    }

    fn flush(&mut self) {
        let mark = self.store().flush().unwrap();
        assert_eq!(mark, self.store().published());
        assert_eq!(mark, self.store().base());
        assert_eq!(self.store().check(&mut |_, _, _| ()).unwrap().findings, []);
    }

    fn tidy(&mut self) {
        for size in 1..4 {
            self.store().index_step(size).unwrap();
        }
        // All layers, few as they are.
        let layers = self.store().versions.load().layers.clone();
        if let Some(merged) = crate::overlay::merge::merge(&layers, &mut || ()) {
            assert!(self.store().versions.replace_layers(&layers, Arc::new(merged)));
        }
    }

    fn reopen(&mut self) -> Lsn {
        self.store = None;
        let schema = schema::Schema::builtin();
        let store = Store::open(self.directory.path(), &options(), schema).unwrap();
        self.store = Some(Arc::new(store));
        self.store().published().lsn
    }

    fn view(&self) -> Box<dyn Rows> {
        Box::new(self.store().snapshot(Memories::default()).unwrap())
    }

    fn with_tentative(&self, look: &mut dyn FnMut(&dyn Rows)) {
        look(&self.store().begin().unwrap().view());
    }
}

#[test]
fn the_naive_engine_conforms() {
    for seed in 0..4 {
        check(&mut Naive::default(), seed, 150);
    }
}

#[test]
fn the_store_conforms() {
    for seed in 0..6 {
        check(&mut OnLmdb::new(), seed, 150);
    }
}

/// A reader that is asked again and again, over random writes, flushes, merges, and a base that
/// another takes the place of.
#[test]
fn what_a_reader_remembers_is_what_there_is() {
    for seed in 20..24 {
        let (mut engine, mut history) = (OnLmdb::new(), History::default());
        let mut chance = Chance::new(seed);
        let mut reader = engine.store().reader();
        for step in 0..150 {
            match chance.below(8) {
                _ if step == 75 => {
                    let mut other = OnLmdb::new();
                    history = History::default();
                    (0..40).for_each(|_| publish_some(&mut other, &mut history, &mut chance));
                    other.flush();
                    other.store = None;
                    let schema = schema::Schema::builtin();
                    let mark = engine.store().swap_base(other.directory.path(), &options(), schema);
                    assert_eq!(mark.unwrap().lsn, history.last());
                }
                0..3 => publish_some(&mut engine, &mut history, &mut chance),
                3 | 4 => engine.flush(),
                5 => engine.tidy(),
                6 => reader.release(),
                _ => {}
            }
            for _ in 0..2 {
                let contents = history.at(history.last());
                agree(reader.view().unwrap(), contents);
                agree(&*engine.view(), contents);
            }
        }
        assert!(reader.view().unwrap().remembered_hits() > 1000);
    }
}

fn publish_some(engine: &mut OnLmdb, history: &mut History, chance: &mut Chance) {
    let changes = history.batch(engine.next_entry_id(), 1 + chance.below(4), chance);
    engine.write(&changes);
    engine.publish(history.last());
}

#[test]
fn a_compressed_store_conforms() {
    let compression = crate::measure::made_up_compression();
    let mut counts = (0, 0);
    for seed in 10..14 {
        let mut engine = OnLmdb::new();
        engine.store().adopt_compression(&compression).unwrap();
        check(&mut engine, seed, 150);
        assert!(engine.store().is_compressed());
        let (compressed, plain) = crate::testing::record_versions(engine.store());
        counts = (counts.0 + compressed, counts.1 + plain);
    }
    assert!(counts.0 > 0, "some records are compressed: {counts:?}");
}
