//! What a machine shows, whoever decided what is committed, however batches are cut and whenever
//! the lead is lost: the same as a plain replay of the committed records.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use environment::{Chance, SeededChance};
use schema::Schema;
use store::StoreOptions;
use tempfile::TempDir;

use super::super::replay::Replay;
use super::super::tests::{create, ldif};
use super::*;
use crate::log::Reign;
use crate::test_support::{self, History};

/// A store in a directory of its own.
struct Node {
    _dir: TempDir,
    store: Arc<Store>,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        create(&data);
        let store = Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
        Self { _dir: dir, store: Arc::new(store) }
    }
}

/// Two machines and a log: one decides in some reigns and is told of the others, the other one
/// replays what is committed.
struct Run {
    chance: SeededChance,
    node: Node,
    machine: StoreMachine,
    /// What the follower of the machine was told.
    told: Arc<Told>,
    plain: Node,
    /// The state of the history after each committed record.
    histories: BTreeMap<u64, History>,
    reign: Reign,
    index: u64,
    voids: u64,
}

/// A follower that checks what it is told.
#[derive(Default)]
struct Told(Mutex<Mark>);

impl Follower for Told {
    fn dropped(&self, published: &Mark) {
        *self.0.lock().unwrap() = *published;
    }

    fn replacing(&self, mark: &Mark, view: &View<'_>) -> Result<(), ApplyError> {
        assert_eq!(view.lsn(), mark.lsn);
        *self.0.lock().unwrap() = *mark;
        Ok(())
    }

    fn applied(&self, mark: &Mark, record: &Record, view: &View<'_>) -> Result<(), ApplyError> {
        let mut last = self.0.lock().unwrap();
        assert_eq!((record.lsn, mark.lsn.0), (mark.lsn, last.lsn.0 + 1), "none is left out");
        assert_eq!(view.mark(), *mark);
        assert!(!record.changes.is_empty());
        *last = *mark;
        Ok(())
    }

    fn published(&self) {}
}

impl Run {
    fn new(seed: u64) -> Self {
        let (node, plain) = (Node::new(), Node::new());
        let told = Arc::new(Told::default());
        let machine = StoreMachine::new(Arc::clone(&node.store))
            .followed_by(Arc::clone(&told) as Arc<dyn Follower>);
        let histories = BTreeMap::from([(0, History::new(seed))]);
        let (chance, reign) = (SeededChance(seed), Reign(0));
        Self { chance, node, machine, told, plain, histories, reign, index: 0, voids: 0 }
    }

    fn upto(&mut self, limit: u64) -> u64 {
        let mut octets = [0; 8];
        self.chance.fill(&mut octets);
        u64::from_le_bytes(octets) % limit
    }

    fn history(&mut self, lsn: u64) -> History {
        let seed = self.upto(u64::MAX);
        self.histories[&lsn].fork(seed)
    }

    fn round(&mut self) {
        self.reign.0 += 1 + self.upto(2);
        // The first entry of a reign is no record.
        self.index += 1;
        if self.upto(4) > 0 {
            self.stale_batch();
        }
        let is_told = self.upto(3) > 0;
        if is_told {
            self.apply(Decided::Elsewhere, &[]);
        }
        match self.upto(2) {
            0 => self.foreign_reign(),
            _ => {
                if !is_told {
                    self.apply(Decided::Elsewhere, &[]);
                }
                self.own_reign();
            }
        }
        if self.upto(3) == 0 {
            self.node.store.flush().unwrap();
        }
    }

    /// Another decides: the plain store is its.
    fn foreign_reign(&mut self) {
        let count = self.upto(12);
        let mut history = self.history(self.plain.store.published().lsn.0);
        history.in_reign(self.reign);
        let mut records = Vec::new();
        for _ in 0..count {
            let undone = history.next(&self.plain.store.tentative());
            let mut batch = self.plain.store.begin_on_published().unwrap();
            records.push(test_support::decide(&mut batch, undone));
            let mark = batch.publish();
            let seed = self.upto(u64::MAX);
            self.histories.insert(mark.lsn.0, history.fork(seed));
        }
        self.commit(Decided::Elsewhere, &records);
    }

    /// This machine decides, and may lose the lead with a part of it committed.
    fn own_reign(&mut self) {
        let first = self.node.store.published().lsn.0;
        assert_eq!(first, self.plain.store.published().lsn.0, "a reign begins with all before it");
        let mut history = self.history(first);
        history.in_reign(self.reign);
        let mut records = Vec::new();
        let mut after = BTreeMap::new();
        let store = Arc::clone(&self.node.store);
        for _ in 0..self.upto(5) {
            let mut batch = store.begin().unwrap();
            for _ in 0..1 + self.upto(4) {
                let undone = history.next(&batch.last());
                let record = test_support::decide(&mut batch, undone);
                let seed = self.upto(u64::MAX);
                after.insert(record.lsn.0, history.fork(seed));
                records.push(record);
            }
            batch.seal();
        }
        let committed = self.upto(records.len() as u64 + 1);
        let here = self.upto(committed + 1);
        records.truncate(committed as usize);
        let (here, elsewhere) = records.split_at(here as usize);
        after.retain(|lsn, _| *lsn <= first + committed);
        self.histories.append(&mut after);
        self.replay_plainly(&records);
        self.commit(Decided::Here, here);
        if self.upto(2) == 0 {
            self.node.store.drop_tentative();
        }
        // The rest is committed in the next reign, by whoever leads then.
        self.commit(Decided::Elsewhere, elsewhere);
    }

    /// The writer decided in a reign that is over, and does not know.
    fn stale_batch(&mut self) {
        if self.upto(2) == 0 {
            self.node.store.drop_tentative();
        }
        let (published, tentative) = (self.node.store.published(), self.node.store.tentative());
        if published != tentative {
            return;
        }
        let mut history = self.history(published.lsn.0);
        let mut batch = self.node.store.begin().unwrap();
        let undone = history.next(&batch.last());
        let _ = test_support::decide(&mut batch, undone);
        batch.seal();
    }

    fn replay_plainly(&self, records: &[EncodedRecord]) {
        let mut replay = Replay::begin(&self.plain.store).unwrap();
        for (record, index) in records.iter().zip(self.index + 1..) {
            let position = LogPosition { term: self.reign.0, index };
            assert!(matches!(replay.record(&record.bytes, position), Ok(Outcome::Done(_))));
        }
        replay.publish();
    }

    /// Has the log commit records, in parts.
    fn commit(&mut self, decided: Decided, mut records: &[EncodedRecord]) {
        while !records.is_empty() {
            let (part, rest) = records.split_at(1 + self.upto(records.len() as u64) as usize);
            records = rest;
            self.index += part.len() as u64;
            self.apply(decided, part);
            let last = part.last().unwrap().lsn;
            if decided == Decided::Elsewhere {
                assert_eq!(self.machine.applied(), last);
                if rest.is_empty() {
                    self.void(&part[0]);
                }
            }
            assert!(self.machine.applied() <= last);
            if self.upto(8) == 0 {
                // The writer hears of a lost lead late.
                self.node.store.drop_tentative();
            }
        }
    }

    /// A record that comes once more is void, and so is one of another reign.
    fn void(&mut self, record: &EncodedRecord) {
        if self.upto(4) > 0 {
            return;
        }
        let last = self.plain.store.published();
        let mut history = self.history(last.lsn.0);
        history.in_reign(Reign(self.reign.0 - 1));
        let undone = history.next(&last);
        let store = Arc::clone(&self.plain.store);
        let stale = test_support::decide(&mut store.begin().unwrap(), undone);
        for record in [record, &stale] {
            self.index += 1;
            self.voids += 1;
            self.apply(Decided::Elsewhere, std::slice::from_ref(record));
        }
    }

    fn apply(&self, decided: Decided, records: &[EncodedRecord]) {
        let position = LogPosition { term: self.reign.0, index: self.index };
        self.machine.apply(decided, records, position).unwrap();
    }

    fn check(&self) {
        let (shown, plain) = (self.node.store.published(), self.plain.store.published());
        // The plain store did not number the entries of foreign reigns.
        assert_eq!((shown.lsn, shown.hash, shown.time_us), (plain.lsn, plain.hash, plain.time_us));
        assert_eq!(self.machine.voids.load(Ordering::Relaxed), self.voids);
        self.node.store.drop_tentative();
        assert!(ldif(&self.node.store) == ldif(&self.plain.store), "the entries are the same");
        assert!(self.told.0.lock().unwrap().lsn <= shown.lsn);
    }
}

#[test]
fn whatever_is_committed_in_whatever_parts_is_what_a_replay_gives() {
    for seed in 0..24 {
        let mut run = Run::new(seed);
        for _ in 0..12 {
            run.round();
        }
        run.reign.0 += 1;
        run.apply(Decided::Elsewhere, &[]);
        run.check();
        run.node.store.flush().unwrap();
        let report = run.node.store.check(&mut |_, _, _| ()).unwrap();
        assert_eq!(report.findings, [], "seed {seed}");
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The writer drops what is tentative on its own thread, at any moment.
#[test]
fn dropping_at_any_moment_loses_nothing() {
    for seed in 100..104 {
        let mut run = Run::new(seed);
        let (store, is_over) = (Arc::clone(&run.node.store), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    store.drop_tentative();
                    std::thread::yield_now();
                }
            });
            // The other thread ends also when this one fails.
            let _over = Over(&is_over);
            for _ in 0..10 {
                run.reign.0 += 1;
                run.index += 1;
                run.apply(Decided::Elsewhere, &[]);
                run.foreign_reign();
            }
        });
        run.check();
    }
}

#[test]
fn a_part_of_a_batch_becomes_visible_with_the_rest() {
    let node = Node::new();
    let machine = StoreMachine::new(Arc::clone(&node.store));
    let mut history = History::new(1);
    let mut batch = node.store.begin().unwrap();
    let mut decide = || {
        let undone = history.next(&batch.last());
        test_support::decide(&mut batch, undone)
    };
    let records = [decide(), decide(), decide()];
    batch.seal();
    let at = |index| LogPosition { term: 1, index };
    machine.apply(Decided::Here, &records[..2], at(12)).unwrap();
    assert_eq!((machine.applied(), node.store.published().lsn), (Lsn(0), Lsn(0)));
    machine.apply(Decided::Here, &records[2..], at(13)).unwrap();
    assert_eq!((machine.applied(), machine.position()), (Lsn(3), at(13)));
}

#[test]
fn what_was_decided_here_and_dropped_becomes_visible_at_once() {
    let node = Node::new();
    let machine = StoreMachine::new(Arc::clone(&node.store));
    let records = test_support::records(1, 3);
    let position = LogPosition { term: 1, index: 3 };
    machine.apply(Decided::Here, &records, position).unwrap();
    assert_eq!((machine.applied(), machine.position()), (Lsn(3), position));
}

/// A machine whose data are others than those that a record was made on stops, and keeps what was
/// right before.
#[test]
fn a_record_of_another_history_is_refused() {
    let node = Node::new();
    let machine = StoreMachine::new(Arc::clone(&node.store));
    let (own, other) = (test_support::records(1, 6), test_support::records(2, 6));
    let records: Vec<_> = own[..4].iter().chain(&other[4..]).cloned().collect();
    let position = LogPosition { term: 1, index: 6 };
    let error = machine.apply(Decided::Elsewhere, &records, position).unwrap_err();
    assert!(matches!(error, ApplyError::Diverged { lsn: Lsn(5), .. }), "{error}");
    assert_eq!(machine.position(), LogPosition { term: 1, index: 4 });
    assert_eq!(node.store.published().hash, own[3].hash);
}

/// It failed the log, and was answered from all the same.
#[test]
fn a_record_that_does_not_fit_the_rows_is_of_another_state() {
    let node = Node::new();
    let machine = StoreMachine::new(Arc::clone(&node.store));
    let records: Vec<_> = test_support::people(3).collect();
    let at = |index| LogPosition { term: 1, index };
    machine.apply(Decided::Elsewhere, &records[..1], at(1)).unwrap();
    let second = Record::decode(&records[1].bytes, &Schema::builtin()).unwrap();
    node.store.plant(&second.changes[0]).unwrap();
    let error = machine.apply(Decided::Elsewhere, &records[1..], at(3)).unwrap_err();
    assert!(matches!(error, ApplyError::Diverged { lsn: Lsn(2), .. }), "{error}");
    assert!(error.to_string().contains("is there before it is added"), "{error}");
    assert_eq!((machine.applied(), machine.position()), (Lsn(1), at(1)));
}

#[test]
fn a_record_of_a_later_release_is_refused() {
    let node = Node::new();
    let machine = StoreMachine::new(Arc::clone(&node.store));
    let mut records = test_support::records(1, 2);
    let mut bytes = records[1].bytes.to_vec();
    bytes[0] = 0x7f;
    records[1].bytes = bytes.into();
    let position = LogPosition { term: 1, index: 2 };
    let error = machine.apply(Decided::Elsewhere, &records, position).unwrap_err();
    assert!(matches!(error, ApplyError::Record { lsn: Lsn(2), .. }), "{error}");
    assert_eq!(machine.applied(), Lsn(1));
}
