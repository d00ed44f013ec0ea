//! Reading across the archive and the log.

#![allow(clippy::disallowed_methods, reason = "waits for a thread of the archive")]

use journal::simulated::SimDisk;
use journal::{Disk, Durability, Journal, JournalOptions};

use super::*;
use crate::archive::{ArchiveOptions, Archiver};
use crate::log::conformance::Ledger;
use crate::log::{Local, LogBatch, Reign, StateMachine};
use crate::test_support::records;

/// A log that gives up what it can, and an archive that has all.
struct Kept {
    disk: SimDisk,
    all: Vec<EncodedRecord>,
    journal: Arc<Journal>,
    log: Arc<dyn CommitLog>,
    archive: Arc<Archive>,
}

impl Kept {
    fn new(count: usize) -> Self {
        let disk = Arc::new(SimDisk::new(1)) as Arc<dyn Disk>;
        let options = JournalOptions {
            segment_bytes: 4 * 4096,
            keep_bytes: 0,
            ..JournalOptions::new([7; 16])
        };
        let journal = Arc::new(Journal::create(disk, options, 1).unwrap());
        let machine = Arc::new(Ledger::default()) as Arc<dyn StateMachine>;
        let log = Arc::new(Local::open(Arc::clone(&journal), machine)) as Arc<dyn CommitLog>;
        let options = ArchiveOptions {
            keep_age: Duration::MAX,
            file_bytes: 20_000,
            block_bytes: 2_000,
            delay: Duration::ZERO,
            ..ArchiveOptions::new(u64::MAX)
        };
        let disk = SimDisk::new(2);
        let archive = Archive::open(Arc::new(disk.clone()), [7; 16], options).unwrap();
        let mut kept = Self { disk, all: Vec::new(), journal, log, archive };
        kept.all = records(1, count);
        kept
    }

    fn commit(&self, from: usize, to: usize) {
        // A few at a time, so that they are in several segments.
        for records in self.all[from..to].chunks(5) {
            let (told, heard) = std::sync::mpsc::channel();
            let batch = LogBatch { records: records.to_vec(), durability: Durability::Synced };
            self.log.commit(Reign::ETERNAL, batch, Box::new(move |done| told.send(done).unwrap()));
            heard.recv().unwrap().unwrap();
        }
    }

    /// Has the archive follow the log to its end.
    fn archive(&self) {
        let last = self.log.applied();
        self.archive_until(&|archive| archive.last() == Some(last));
    }

    fn archive_until(&self, is_done: &dyn Fn(&Archive) -> bool) {
        let clock = Arc::new(environment::SystemClock::new()) as Arc<dyn environment::Clock>;
        let archiver = Archiver::new(&self.archive, &self.log, &clock, Box::new(|| false));
        let stop = archiver.stopper();
        let working = std::thread::spawn(move || archiver.work());
        for _ in 0..6_000 {
            if is_done(&self.archive) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.stop();
        working.join().unwrap();
        assert!(is_done(&self.archive));
    }

    /// The same, with the archive opened again.
    fn with_archive(self, options: ArchiveOptions) -> Self {
        let Self { disk, all, journal, log, archive } = self;
        drop(archive);
        let archive = Archive::open(Arc::new(disk.clone()), [7; 16], options).unwrap();
        Self { disk, all, journal, log, archive }
    }

    fn changes(&self) -> Changes {
        Changes::new(Arc::clone(&self.log), Some(Arc::clone(&self.archive)))
    }
}

fn rest(reader: &mut ChangeReader) -> Vec<EncodedRecord> {
    let mut found = Vec::new();
    while let Some(record) = reader.next_within(Duration::ZERO).unwrap() {
        found.push(record);
    }
    found
}

#[test]
fn records_are_read_from_the_archive_and_then_from_the_log() {
    let kept = Kept::new(600);
    kept.commit(0, 500);
    kept.archive();
    kept.journal.purge(490).unwrap();
    assert!(kept.journal.first() > 100);
    kept.commit(500, 600);
    let changes = kept.changes();
    assert_eq!((changes.first(), changes.last()), (Lsn(1), Lsn(600)));
    for from in [1, 2, 99, 499, 500, 501, 600] {
        let mut reader = changes.read(Lsn(from)).unwrap();
        assert_eq!(rest(&mut reader), kept.all[from as usize - 1..], "{from}");
        assert_eq!(reader.position(), Lsn(601));
    }
    for at in [1, 250, 500, 501, 599] {
        let since = changes.first_since(Timestamp(at * 1_000_000), &mut || false).unwrap();
        assert_eq!(since, Some(Lsn(at)));
    }
    let never = changes.first_since(Timestamp(u64::MAX), &mut || false).unwrap();
    assert_eq!(never, Some(Lsn(601)));
    assert_eq!(changes.first_since(Timestamp(u64::MAX), &mut || true).unwrap(), None);
    // Without an archive there is what the log has.
    let alone = Changes::new(Arc::clone(&kept.log), None);
    let gone = alone.read(Lsn(1)).unwrap_err();
    assert_eq!((gone.first, alone.first()), (Lsn(kept.journal.first()), gone.first));
}

#[test]
fn a_slow_reader_goes_from_the_log_to_the_archive_and_back() {
    let kept = Kept::new(900);
    kept.commit(0, 10);
    let mut reader = kept.changes().read(Lsn(1)).unwrap();
    assert_eq!(reader.next_within(Duration::ZERO).unwrap().unwrap(), kept.all[0]);
    kept.commit(10, 800);
    kept.archive();
    kept.journal.purge(790).unwrap();
    kept.commit(800, 900);
    assert_eq!(rest(&mut reader), kept.all[1..]);
}

#[test]
fn a_reader_who_comes_back_goes_on_in_the_same_history_only() {
    let kept = Kept::new(300);
    kept.commit(0, 250);
    kept.archive();
    kept.journal.purge(240).unwrap();
    let changes = kept.changes();
    for last in [1_u64, 100, 249, 250] {
        let hash = kept.all[last as usize - 1].hash;
        let mut reader = changes.read_after(Lsn(last), hash).unwrap();
        assert_eq!(rest(&mut reader), kept.all[last as usize..250], "{last}");
        assert!(changes.read_after(Lsn(last), hash ^ 1).is_err(), "{last}");
    }
    // Before the first record there was nothing, whose hash is 0.
    assert_eq!(rest(&mut changes.read_after(Lsn(0), 0).unwrap()), kept.all[..250]);
    let gone = changes.read_after(Lsn(0), 1).map(|mut reader| reader.next_within(Duration::ZERO));
    assert!(gone.is_err() || gone.unwrap().is_err());
    // Nobody has read what is to come.
    assert!(changes.read_after(Lsn(251), kept.all[250].hash).is_err());
}

#[test]
fn what_is_missing_between_archive_and_log_is_told() {
    let kept = Kept::new(900);
    kept.commit(0, 100);
    kept.archive();
    kept.commit(100, 900);
    kept.journal.purge(890).unwrap();
    let first = Lsn(kept.journal.first());
    assert!(first > Lsn(101));
    let changes = kept.changes();
    assert_eq!(changes.first(), first, "the archive does not reach the log");
    let mut reader = changes.read(Lsn(50)).unwrap();
    let mut read = 0;
    let gone = loop {
        match reader.next_within(Duration::ZERO) {
            Ok(record) => {
                assert_eq!(record.unwrap(), kept.all[49 + read]);
                read += 1;
            }
            Err(gone) => break gone,
        }
    };
    assert_eq!((read, gone.first), (51, first), "up to where the archive ends");
}

#[test]
fn a_log_that_goes_back_further_than_the_archive_is_looked_through() {
    let kept = Kept::new(300);
    kept.commit(0, 200);
    kept.archive();
    let status = kept.archive.status();
    assert!(status.files > 3, "{status:?}");
    // The oldest files go.
    let options = ArchiveOptions { keep_bytes: status.bytes / 2, ..kept.archive.options().clone() };
    let kept = kept.with_archive(options);
    kept.archive_until(&|archive| archive.first() > Some(Lsn(50)));
    let first = kept.archive.first().unwrap();
    let changes = kept.changes();
    for at in [1, 30, 50, first.0, 150, 200] {
        let since = changes.first_since(Timestamp(at * 1_000_000), &mut || false).unwrap();
        assert_eq!(since, Some(Lsn(at)));
    }
}
