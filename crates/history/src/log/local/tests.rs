//! The suite over the journal, on a disk that fails.

use std::io::ErrorKind;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use journal::simulated::{Fault, SimDisk};
use journal::{Disk, Journal, JournalOptions};
use store::LogPosition;

use super::super::conformance::{Bench, Ledger, check, check_faults};
use super::super::{ApplyError, Durability, EncodedRecord, ReadLevel};
use super::*;
use crate::record::RECORD_LENGTH_MAX_BYTES;
use crate::test_support::Hooked;

/// A journal on a simulated disk.
struct JournalBench {
    disk: SimDisk,
}

impl JournalBench {
    fn new(seed: u64) -> Self {
        Self { disk: SimDisk::new(seed) }
    }
}

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 16 * 4096, ..JournalOptions::new([7; 16]) }
}

fn open_journal(disk: &SimDisk) -> Arc<Journal> {
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    Arc::new(match Journal::open(Arc::clone(&disk), options()) {
        Ok((journal, _)) => journal,
        Err(JournalError::Missing) => Journal::create(disk, options(), 1).unwrap(),
        Err(error) => panic!("{error}"),
    })
}

impl Bench for JournalBench {
    fn start(&mut self, machine: &Arc<Ledger>) -> Arc<dyn CommitLog> {
        let journal = open_journal(&self.disk);
        let from = journal.first();
        for entry in journal.read(from).unwrap() {
            let entry = entry.unwrap();
            let head = crate::record::RecordHead::read(&entry.payload).unwrap();
            let bytes = entry.payload.into();
            let record = EncodedRecord { lsn: head.lsn, hash: head.hash, bytes };
            let position = LogPosition { term: entry.place.term, index: entry.place.index };
            machine.apply(Decided::Elsewhere, &[record], position).unwrap();
        }
        let machine = Arc::clone(machine) as Arc<dyn StateMachine>;
        Arc::new(Local::open(journal, machine))
    }

    fn lose_power(&mut self, _: u64) {
        self.disk = self.disk.crash();
    }

    fn break_medium(&mut self, after: u64) -> bool {
        // Either the writing or only the syncing, so that both are met.
        let fault = if after.is_multiple_of(2) { Fault::Sync } else { Fault::Write };
        self.disk.fail(fault, after, u64::MAX, ErrorKind::Other);
        true
    }

    fn mend_medium(&mut self) {
        // A broken disk that is mended under a running engine would be another disk to it.
        self.disk = self.disk.kill();
    }

    fn fill_medium(&mut self, is_full: bool) -> bool {
        let used = self.disk.used_bytes();
        self.disk.limit_space(is_full.then_some(used));
        true
    }
}

#[test]
fn the_journal_engine_conforms() {
    check(&|| Box::new(JournalBench::new(1)));
}

#[test]
fn the_journal_engine_survives_faults() {
    for seed in 0..40 {
        check_faults(&|| Box::new(JournalBench::new(seed)), seed);
    }
}

/// A machine that refuses.
fn broken() -> Arc<dyn StateMachine> {
    Arc::new(Hooked::new(Ledger::default()).before_apply(|records| {
        let lsn = records.last().map_or(Lsn(0), |last| last.lsn);
        Err(ApplyError::Diverged { lsn, reason: "a test".to_owned() })
    }))
}

fn record(lsn: u64) -> EncodedRecord {
    EncodedRecord { lsn: Lsn(lsn), hash: 0, bytes: vec![0; 10].into() }
}

fn commit(log: &Local, records: Vec<EncodedRecord>) -> mpsc::Receiver<Result<Lsn, CommitError>> {
    let (told, heard) = mpsc::channel();
    let batch = LogBatch { records, durability: Durability::Synced };
    log.commit(Reign::ETERNAL, batch, Box::new(move |outcome| told.send(outcome).unwrap()));
    heard
}

#[test]
fn what_cannot_be_applied_is_unknown_and_ends_the_log() {
    let log = Local::open(open_journal(&SimDisk::new(1)), broken());
    let outcome = commit(&log, vec![record(1)]).recv().unwrap();
    assert!(outcome.is_err_and(|error| error.is_unknown()));
    assert_eq!(log.applied(), Lsn(0));
    let outcome = commit(&log, vec![record(2)]).recv().unwrap();
    assert!(matches!(outcome, Err(CommitError::Fatal(_))));
    let mut tail = log.tail(Lsn(1)).unwrap();
    assert!(tail.next_within(Duration::ZERO).is_err(), "what was not applied is not shown");
}

#[test]
fn a_record_that_is_too_long_is_refused() {
    let log = Local::open(open_journal(&SimDisk::new(1)), Arc::new(Ledger::default()));
    let bytes = RECORD_LENGTH_MAX_BYTES + 1;
    let long = EncodedRecord { lsn: Lsn(1), hash: 0, bytes: vec![0; bytes].into() };
    let outcome = commit(&log, vec![long]).recv().unwrap();
    let limit_bytes = RECORD_LENGTH_MAX_BYTES;
    assert_eq!(outcome, Err(CommitError::TooLarge { bytes, limit_bytes }));
    assert_eq!(log.in_flight(), 0);
}

#[test]
fn nothing_is_visible_before_the_sync() {
    let disk = SimDisk::new(1);
    let mut bench = JournalBench { disk: disk.clone() };
    let ledger = Arc::new(Ledger::default());
    let log = bench.start(&ledger);
    let mut tail = log.tail(Lsn(1)).unwrap();
    disk.hold_syncs(true);
    let records = super::super::conformance::records(3);
    let (told, heard) = mpsc::channel();
    let batch = LogBatch { records, durability: Durability::Synced };
    log.commit(Reign::ETERNAL, batch, Box::new(move |outcome| told.send(outcome).unwrap()));
    disk.wait_for_held_syncs(1);
    assert!(heard.try_recv().is_err());
    assert_eq!((ledger.last(), log.applied(), log.in_flight()), (Lsn(0), Lsn(0), 1));
    assert_eq!(tail.next_within(Duration::ZERO), Ok(None));
    disk.hold_syncs(false);
    assert_eq!(heard.recv().unwrap(), Ok(Lsn(3)));
    assert_eq!((ledger.last(), log.applied(), log.in_flight()), (Lsn(3), Lsn(3), 0));
    assert!(tail.next_within(Duration::ZERO).is_ok_and(|record| record.is_some()));
}

#[test]
fn purged_records_are_gone() {
    let disk = SimDisk::new(1);
    let disk_dyn = Arc::new(disk) as Arc<dyn Disk>;
    let options = JournalOptions { keep_bytes: 0, ..options() };
    let journal = Arc::new(Journal::create(disk_dyn, options, 1).unwrap());
    let ledger = Arc::new(Ledger::default());
    let log = Local::open(Arc::clone(&journal), ledger);
    for record in super::super::conformance::records(400) {
        commit(&log, vec![record]).recv().unwrap().unwrap();
    }
    let mut late = log.tail(Lsn(1)).unwrap();
    log.forget(LogPosition { term: 1, index: 390 });
    let first = Lsn(journal.first());
    assert!(first > Lsn(1), "a segment at least was purged");
    assert_eq!(log.tail(Lsn(1)).map(|_| ()).unwrap_err().first, first);
    let gone = late.next_within(Duration::ZERO).unwrap_err();
    assert_eq!(gone.first, first);
    assert!(log.tail(first).is_ok());
    let level = ReadLevel::AtLeast(Lsn(400));
    log.barrier(level, Box::new(|outcome| assert_eq!(outcome, Ok(Lsn(400)))));
}
