//! The end of a load: from sorted runs to a base that takes the place of the other.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use schema::EntryId;
use xxhash_rust::xxh3::xxh3_64;

use super::budget::Budget;
use super::held::HeldTable;
use super::loader::BulkLoader;
use super::merge::{Merge, Rows, Worker};
use super::rows::{NameRows, PostingRows, Tally};
use super::run::Run;
use super::target::{Piece, Target, To, Written};
use super::{BulkError, BulkReport, Held, Phase};
use crate::base::lmdb::Environment;
use crate::base::meta::{self, COUNTERS, Counters};
use crate::base::position::LogPosition;
use crate::base::swap::OtherBase;
use crate::error::StoreError;
use crate::rows::apart;
use crate::rows::dictionary::Dictionary;

/// A load at its end.
pub(super) struct Finish<'f, 's> {
    pub(super) loader: &'f mut BulkLoader<'s>,
    pub(super) progress: &'f mut dyn FnMut(Phase, u64, u64) -> ControlFlow<()>,
}

impl Finish<'_, '_> {
    pub(super) fn run(mut self) -> Result<BulkReport, BulkError> {
        let replaced = self.loader.replaced_count();
        let entries = self.loader.loaded + replaced;
        let Some(target) = self.loader.target.take() else {
            return Ok(BulkReport { entries, replaced, ..BulkReport::default() });
        };
        let tally = Arc::new(Tally::default());
        let dictionary = self.loader.shared.dictionary();
        let written = self.write(&target, &tally, &dictionary, entries);
        let path = target.path().to_owned();
        let (counters, written) = match (written, target) {
            (Ok(counters), target) => {
                self.tell(Phase::Sync, 0, 1)?;
                (counters, target.finish()?)
            }
            // When the writer has ended, it tells itself why.
            (Err(BulkError::Store(error)), target) => {
                return Err(target.finish().err().unwrap_or(error).into());
            }
            (Err(error), _) => return Err(error),
        };
        self.tell(Phase::Sync, 1, 1)?;
        self.verify(&tally, &written)?;
        let report = BulkReport {
            entries,
            replaced,
            record_bytes: written.record_bytes,
            lists: tally.lists.load(Ordering::Relaxed),
            spilled_bytes: self.loader.place.spilled_bytes(),
        };
        let environment = Environment::open(&path, &self.loader.before.options())?;
        let snapshot = environment.snapshot()?;
        if Counters::read(environment.tables.meta, snapshot.txn())? != counters {
            return Err(wrong("the counters").into());
        }
        let index_epoch = meta::index_epoch(environment.tables.meta, snapshot.txn())?;
        drop(snapshot);
        self.tell(Phase::Verify, 1, 1)?;
        let dictionary = Arc::unwrap_or_clone(dictionary);
        let other = OtherBase { environment, dictionary, counters, index_epoch };
        self.loader.store.swap_alone(other, &path)?;
        Ok(report)
    }

    fn tell(&mut self, phase: Phase, done: u64, of: u64) -> Result<(), BulkError> {
        if (self.progress)(phase, done, of).is_break() { Err(BulkError::Stopped) } else { Ok(()) }
    }

    /// Writes all but the records, most of which are there.
    fn write(
        &mut self,
        target: &Target,
        tally: &Arc<Tally>,
        dictionary: &Arc<Dictionary>,
        entries: u64,
    ) -> Result<Counters, BulkError> {
        let loader = &mut *self.loader;
        target.send(loader.records.take())?;
        target.send(loader.other_records.take())?;
        loader.tree.seal()?;
        loader.name_rows.seal()?;
        // It is large, and of no more use.
        loader.give_up_names();
        self.names(target, tally)?;
        self.children(target)?;
        self.values(target)?;
        self.postings(target, tally, dictionary)?;
        Ok(self.settings(target, dictionary, entries)?)
    }

    /// Whether entries of the base go on.
    fn keeps(&self) -> bool {
        self.loader.options.held != Held::Clear && self.loader.held_count > 0
    }

    fn names(&mut self, target: &Target, tally: &Arc<Tally>) -> Result<(), BulkError> {
        let runs = self.loader.name_runs.take();
        let (mut workers, budget) = (Vec::new(), Arc::clone(&self.loader.budget));
        let threads = budget.merging_threads(read_bytes(&runs));
        for _ in 0..threads {
            let held = match self.keeps() {
                true => Some(HeldTable::names(&self.loader.before)?),
                false => None,
            };
            let rows = NameRows { tally: Arc::clone(tally), long: &self.loader.long };
            workers.push(Worker { rows, held, piece: Piece::appended(To::Names) });
        }
        let merge = Merge {
            runs: &runs,
            fixes: &super::merge::Fixes::default(),
            range_bytes: range_bytes(&runs, &budget, threads),
            pieces_ahead: budget.pieces_ahead(),
        };
        run(&merge, &mut workers, target, &mut |done, of| (self.progress)(Phase::Names, done, of))
    }

    fn children(&self, target: &Target) -> Result<(), StoreError> {
        let mut counts: Vec<(u64, u64)> =
            self.loader.children.iter().map(|(id, count)| (*id, *count)).collect();
        counts.sort_unstable();
        let mut piece = Piece::appended(To::Children);
        for (parent, count) in counts {
            piece.push(&parent.to_be_bytes(), &count.to_be_bytes());
            if piece.is_full() {
                target.send(piece.take())?;
            }
        }
        target.send(piece)
    }

    /// Values that are rows of their own, of entries that stay as they were.
    fn values(&self, target: &Target) -> Result<(), StoreError> {
        let Some(table) = self.loader.before.tables.values.filter(|_| self.keeps()) else {
            return Ok(());
        };
        let snapshot = self.loader.before.snapshot()?;
        let mut piece = Piece::appended(To::Values);
        for row in table.iter(snapshot.txn())? {
            let (key, row) = row?;
            let entry = apart::parts(key).map(|(_, id, _)| id);
            if entry.is_some_and(|id| self.loader.replaced.contains_key(&id)) {
                continue;
            }
            piece.push(key, row);
            if piece.is_full() {
                target.send(piece.take())?;
            }
        }
        target.send(piece)
    }

    fn postings(
        &mut self,
        target: &Target,
        tally: &Arc<Tally>,
        dictionary: &Arc<Dictionary>,
    ) -> Result<(), BulkError> {
        let runs = self.loader.shared.runs.take();
        let (mut workers, budget) = (Vec::new(), Arc::clone(&self.loader.budget));
        let threads = budget.merging_threads(read_bytes(&runs));
        for _ in 0..threads {
            let held = match self.keeps() {
                true => Some(HeldTable::postings(&self.loader.before, dictionary)?),
                false => None,
            };
            let rows = PostingRows::new(Arc::clone(tally));
            workers.push(Worker { rows, held, piece: Piece::appended(To::Postings) });
        }
        let merge = Merge {
            runs: &runs,
            fixes: &self.loader.fixes,
            range_bytes: range_bytes(&runs, &budget, threads),
            pieces_ahead: budget.pieces_ahead(),
        };
        run(&merge, &mut workers, target, &mut |done, of| (self.progress)(Phase::Indexes, done, of))
    }

    /// Writes `meta` and `attributes`.
    fn settings(
        &self,
        target: &Target,
        dictionary: &Dictionary,
        entries: u64,
    ) -> Result<Counters, StoreError> {
        let before = &self.loader.before;
        let snapshot = before.snapshot()?;
        let mut piece = Piece::anywhere(To::Meta);
        for row in before.tables.meta.iter(snapshot.txn())? {
            let (key, value) = row?;
            piece.push(key, value);
        }
        for (key, row) in &self.loader.settings {
            piece.push(key.as_bytes(), row);
        }
        if let Some(compression) = dictionary.compression() {
            for (key, value) in compression.rows() {
                piece.push(key.as_bytes(), value);
            }
        }
        let mut counters = self.loader.counters;
        // A load of nothing is a step, too: with the number of before and another hash, the data
        // would not belong to the journal.
        counters.lsn += entries.max(1);
        // What was loaded is in no log: whoever compares the base with the log sees it by the term.
        counters.position = LogPosition { term: 0, index: counters.lsn };
        counters.hash = bulk_hash(&counters);
        counters.entry_count = self.loader.held_count + self.loader.loaded;
        counters.names_moved += 1;
        // A server of a cluster makes it anew.
        counters.digest = None;
        piece.push(COUNTERS.as_bytes(), &counters.row());
        target.send(piece)?;
        let mut piece = Piece::appended(To::Attributes);
        for id in 0..dictionary.len() as u32 {
            let text = dictionary.description(id).expect("ids count without gaps").text();
            piece.push(&id.to_be_bytes(), text.as_bytes());
        }
        target.send(piece)?;
        Ok(counters)
    }

    /// What was written must agree with what was loaded, and with itself.
    fn verify(&mut self, tally: &Tally, written: &Written) -> Result<(), BulkError> {
        self.tell(Phase::Verify, 0, 1)?;
        let loader = &*self.loader;
        let want = loader.held_count + loader.loaded;
        let read = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
        let below: u64 = loader.children.values().sum();
        let superiors = |(id, count): &(&u64, &u64)| **id != EntryId::ROOT.0 && **count > 0;
        let superiors = loader.children.iter().filter(superiors).count() as u64;
        let agrees = [
            ("the number of records", written.entries == want),
            ("the number of names", read(&tally.names) == want && written.names <= want),
            ("the numbers of subordinates", below == want),
            ("the rows of subordinates", written.children == loader.children.len() as u64),
            ("the lists of levels", read(&tally.below) == want),
            ("the lists of branches", read(&tally.branches) == superiors),
            ("the posting lists", written.postings >= read(&tally.lists)),
        ];
        match agrees.into_iter().find(|(_, agrees)| !agrees) {
            Some((what, _)) => Err(wrong(what).into()),
            None => Ok(()),
        }
    }
}

fn run<R: Rows>(
    merge: &Merge<'_>,
    workers: &mut [Worker<R>],
    target: &Target,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), BulkError> {
    merge.run(workers, &mut |piece| target.send(piece), progress)
}

/// What a reader of all runs has of them in memory at a time.
fn read_bytes(runs: &[Run]) -> u64 {
    runs.iter().map(Run::block_bytes).sum()
}

/// Ranges are so small that each thread gets several, and so large that it reads more of each run
/// than the block in which the range begins.
fn range_bytes(runs: &[Run], budget: &Budget, threads: usize) -> u64 {
    let all: u64 = runs.iter().map(Run::len).sum();
    let most = budget.range_bytes().max(read_bytes(runs) * RANGE_BLOCKS);
    (all / (threads as u64 * 8)).clamp(RANGE_MIN_BYTES, most)
}

const RANGE_MIN_BYTES: u64 = 64 << 10;
/// A range has at least about so many blocks of each run.
const RANGE_BLOCKS: u64 = 8;

/// The running hash after a load. What was loaded is no record of the history, so whoever has the
/// history before cannot go on to the one after: the hashes must differ.
fn bulk_hash(counters: &Counters) -> u64 {
    let numbers = [counters.hash, counters.lsn, counters.next_entry_id].map(u64::to_le_bytes);
    xxh3_64(numbers.as_flattened())
}

fn wrong(what: &str) -> StoreError {
    StoreError::Lmdb(format!("{what} that the load has written are wrong; nothing was loaded"))
}
