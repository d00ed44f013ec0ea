//! One engine as a case drives it: makes records that follow each other, and knows which of them
//! must be there.

use std::sync::{Arc, mpsc};

use aci::Permitted;
use environment::Timestamp;
use schema::{Change, SchemaChange};
use store::Lsn;

use super::super::{
    CommitError, CommitLog, Durability, EncodedRecord, LogBatch, NotNow, ReadLevel, Reign, Role,
};
use super::{Bench, Ledger, PATIENCE};
use crate::Csn;
use crate::record::{Origin, RecordDraft};

pub(super) struct Script {
    /// `None` between a stop and the next start.
    log: Option<Arc<dyn CommitLog>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) reign: Reign,
    maker: Maker,
}

/// Makes records that follow each other.
struct Maker {
    origin: Origin,
    /// What was made and not forgotten.
    records: Vec<EncodedRecord>,
    /// Counts the records ever made, so that no two are equal.
    made: u64,
}

/// The first `count` records of a history.
pub fn records(count: usize) -> Vec<EncodedRecord> {
    let mut maker = Maker::new();
    (0..count).map(|at| maker.make(Reign::ETERNAL, 20 + at % 700)).collect()
}

/// The record that follows the one with number `last` and running hash `prev_hash`; `line` is all
/// that it does.
///
/// # Panics
/// When the line is longer than a record may be.
pub fn record_after(
    last: Lsn,
    prev_hash: u64,
    reign: Reign,
    origin: &Origin,
    line: String,
) -> EncodedRecord {
    let change = Change::Schema(SchemaChange { added: vec![line], removed: Vec::new() });
    record_of(last, prev_hash, reign, origin, change)
}

/// The record after `last`, of `reign`, that makes a change.
///
/// # Panics
/// When the change is longer than a record may be.
pub fn record_of(
    last: Lsn,
    prev_hash: u64,
    reign: Reign,
    origin: &Origin,
    change: Change,
) -> EncodedRecord {
    let lsn = Lsn(last.0 + 1);
    let draft = RecordDraft {
        lsn,
        prev_hash,
        reign,
        csn: Csn::at(Timestamp(lsn.0)),
        origin,
        changes: &[Permitted::internal(change)],
    };
    let mut bytes = Vec::new();
    let hash = draft.encode(&mut bytes).expect("the record is small");
    EncodedRecord { lsn, hash, bytes: bytes.into() }
}

impl Script {
    pub(super) fn start(bench: &mut dyn Bench) -> Self {
        let (log, ledger) = begin(bench);
        let reign = deciding(&*log);
        Self { log: Some(log), ledger, reign, maker: Maker::new() }
    }

    pub(super) fn log(&self) -> &Arc<dyn CommitLog> {
        self.log.as_ref().expect("the engine was started again")
    }

    /// A batch of `size` records that follow those made before.
    pub(super) fn batch(&mut self, size: usize, durability: Durability) -> LogBatch {
        let lengths = (0..size).map(|at| 20 + at * 50 + self.maker.made as usize % 700);
        let records = lengths
            .collect::<Vec<_>>()
            .into_iter()
            .map(|length| self.maker.make(self.reign, length));
        LogBatch { records: records.collect(), durability }
    }

    /// One that fills the medium faster.
    pub(super) fn large_batch(&mut self) -> LogBatch {
        LogBatch {
            records: vec![self.maker.make(self.reign, 100_000)],
            durability: Durability::Synced,
        }
    }

    /// Commits `size` records, which must work.
    pub(super) fn commit(&mut self, size: usize) {
        let batch = self.batch(size, Durability::Synced);
        assert_eq!(self.commit_in(self.reign, batch), Ok(self.last()));
    }

    /// Commits a batch and waits for what comes of it.
    pub(super) fn commit_in(&self, reign: Reign, batch: LogBatch) -> Result<Lsn, CommitError> {
        let (told, heard) = mpsc::channel();
        let done = move |outcome| told.send(outcome).expect("the script listens");
        self.log().commit(reign, batch, Box::new(done));
        heard.recv_timeout(PATIENCE).expect("every batch is done")
    }

    pub(super) fn barrier(&self, level: ReadLevel) -> mpsc::Receiver<Result<Lsn, NotNow>> {
        let (told, heard) = mpsc::channel();
        let done = move |outcome| {
            // The case may have ended without asking.
            let _ = told.send(outcome);
        };
        self.log().barrier(level, Box::new(done));
        heard
    }

    /// Waits until the engine would take one more batch.
    pub(super) fn wait_for_window(&self) {
        if self.log().in_flight() >= self.log().window() {
            let last = self.barrier(ReadLevel::AtLeast(self.last()));
            assert!(last.recv_timeout(PATIENCE).is_ok(), "every batch is applied");
        }
    }

    /// The number of the last record made.
    pub(super) fn last(&self) -> Lsn {
        self.maker.records.last().map_or(Lsn(0), |last| last.lsn)
    }

    pub(super) fn records(&self) -> Vec<EncodedRecord> {
        self.maker.records.clone()
    }

    /// The records after `last` did not happen.
    pub(super) fn forget_after(&mut self, last: Lsn) {
        self.maker.records.retain(|record| record.lsn <= last);
    }

    /// Exactly what was made is applied.
    pub(super) fn check_ledger(&self) {
        let applied = self.ledger.records();
        let numbers = |records: &[EncodedRecord]| records.last().map(|last| last.lsn);
        assert_eq!(numbers(&applied), numbers(&self.maker.records), "all that was made is applied");
        assert!(applied == self.maker.records, "what is applied is what was made");
    }

    /// After a failure: everything up to `acknowledged` is there, and of the rest so much as
    /// follows without a hole.
    pub(super) fn adopt_ledger(&mut self, acknowledged: Lsn) {
        let applied = self.ledger.records();
        let last = self.ledger.last();
        assert!(last >= acknowledged, "{acknowledged:?} was acknowledged, {last:?} is the last");
        self.forget_after(last);
        assert!(applied == self.maker.records, "what is applied is what was made, in order");
    }

    /// Ends the engine in good order.
    pub(super) fn stop(&mut self) {
        self.log().close();
        self.log = None;
    }

    /// Takes the power from the medium, then ends the engine, which does not know.
    pub(super) fn cut(&mut self, bench: &mut dyn Bench, seed: u64) {
        bench.lose_power(seed);
        self.stop();
    }

    /// Starts the engine again, with a ledger that knows nothing.
    pub(super) fn restart(&mut self, bench: &mut dyn Bench) {
        let (log, ledger) = begin(bench);
        self.reign = deciding(&*log);
        (self.log, self.ledger) = (Some(log), ledger);
    }
}

impl Maker {
    fn new() -> Self {
        Self { origin: Origin::of_server([7; 16]), records: Vec::new(), made: 0 }
    }

    fn make(&mut self, reign: Reign, length: usize) -> EncodedRecord {
        self.made += 1;
        let (lsn, prev_hash) = self.records.last().map_or((0, 0), |last| (last.lsn.0, last.hash));
        let line = format!("{}{}", self.made, "x".repeat(length));
        let record = record_after(Lsn(lsn), prev_hash, reign, &self.origin, line);
        self.records.push(record.clone());
        record
    }
}

fn begin(bench: &mut dyn Bench) -> (Arc<dyn CommitLog>, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::default());
    let log = bench.start(&ledger);
    assert_eq!(log.applied(), ledger.last(), "a log starts where its machine is");
    (log, ledger)
}

fn deciding(log: &dyn CommitLog) -> Reign {
    match log.role() {
        Role::Deciding(reign) => reign,
        role => panic!("the engine does not decide: {role:?}"),
    }
}
