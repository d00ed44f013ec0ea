//! Backups of directories whose history is made up by chance, and what is restored of them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::{fs, io};

use environment::{Clock as _, ManualClock, Timestamp};
use history::JOURNAL_DIRECTORY;
use history::log::{CommitLog as _, Local, LogBatch, Reign};
use history::recovery::{self, StoreMachine};
use history::test_support::{self, History};
use journal::{Durability, FileDisk, Journal, JournalOptions};
use ldap::dn::Dn;
use schema::Schema;
use store::{IndexConfig, Mark, Store, StoreOptions};
use tempfile::TempDir;

use super::*;
use crate::export::{ExportOptions, export};

struct Fixture {
    dir: TempDir,
    history: History,
    clock: ManualClock,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let fixture = Self {
            dir: tempfile::tempdir().unwrap(),
            history: History::new(seed),
            clock: ManualClock::at(Timestamp(NOW_MICROS)),
        };
        let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
        let (options, indexes) = (StoreOptions::default(), IndexConfig::default());
        Store::create(&fixture.data(), &options, Schema::builtin(), indexes, &contexts).unwrap();
        fs::create_dir(fixture.data().join(JOURNAL_DIRECTORY)).unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Commits records as the server does; what is not flushed stays in the journal alone.
    fn commit(&mut self, count: usize, flush: Flush) -> Mark {
        let store = Store::open(&self.data(), &StoreOptions::default(), Schema::builtin());
        let store = Arc::new(store.unwrap());
        let disk = Arc::new(FileDisk::new(self.data().join(JOURNAL_DIRECTORY)));
        let small = JournalOptions {
            segment_bytes: SEGMENT_BYTES,
            keep_bytes: 0,
            ..JournalOptions::new(store.id())
        };
        let (journal, _) = recovery::open(&store, disk, small, &mut |_| Ok(())).unwrap();
        let journal = Arc::new(journal);
        let machine = Arc::new(StoreMachine::new(Arc::clone(&store)));
        let log = Local::open(Arc::clone(&journal), machine);
        for _ in 0..count {
            let record = self.history.next(&store.tentative());
            let mut batch = store.begin().unwrap();
            let record = test_support::decide(&mut batch, record);
            batch.seal();
            let (told, heard) = mpsc::channel();
            let batch = LogBatch { records: vec![record], durability: Durability::Written };
            log.commit(Reign::ETERNAL, batch, Box::new(move |outcome| told.send(outcome).unwrap()));
            heard.recv().unwrap().unwrap();
        }
        let mark = store.published();
        if let Flush::Yes | Flush::AndPurge = flush {
            store.flush().unwrap();
        }
        if let Flush::AndPurge = flush {
            Journal::purge(&journal, mark.position.index).unwrap();
        }
        log.close();
        journal.close();
        mark
    }

    fn backup(&self, full: bool) -> Result<BackupReport, BackupError> {
        self.backup_of("data", full)
    }

    fn backup_of(&self, data: &str, full: bool) -> Result<BackupReport, BackupError> {
        let (data, to) = (self.path(data), self.path("backup"));
        let options = BackupOptions { data: &data, to: &to, full, store: StoreOptions::default() };
        backup(&options, &self.clock, &mut |_| {})
    }

    fn restore(&self, name: &str, until: Until) -> Result<RestoreReport, BackupError> {
        let (from, data) = (self.path("backup"), self.path(name));
        let options =
            RestoreOptions { from: &from, data: &data, until, store: StoreOptions::default() };
        restore(&options, &mut |_| {})
    }

    fn ldif(&self, name: &str) -> String {
        let mut out = Vec::new();
        export(&self.path(name), &ExportOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}

#[derive(Clone, Copy)]
enum Flush {
    No,
    Yes,
    AndPurge,
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[test]
fn what_is_restored_is_what_was_there_at_each_point() {
    for seed in 1..=2 {
        let mut fixture = Fixture::new(seed);
        let mut states = Vec::new();
        for (round, flush) in
            [Flush::No, Flush::Yes, Flush::No, Flush::No, Flush::Yes].into_iter().enumerate()
        {
            let mark = fixture.commit(25, flush);
            let report = fixture.backup(false).unwrap();
            let want = if round == 0 { Some(WhyFull::First) } else { None };
            assert_eq!((report.full, report.records), (want, 25), "round {round}");
            assert_eq!(report.manifest.last().lsn, mark.lsn.0);
            states.push((mark, fixture.ldif("data")));
        }
        let verified = verify_backup(&fixture.path("backup"), &mut |_| {}).unwrap();
        assert_eq!(verified.records, 125);
        for (round, (mark, ldif)) in states.iter().enumerate() {
            let name = format!("lsn-{round}");
            let report = fixture.restore(&name, Until::Lsn(mark.lsn.0)).unwrap();
            assert_eq!((report.last.lsn, report.last.hash), (mark.lsn.0, mark.hash));
            assert_eq!(report.entries, ldif.matches("dn: ").count() as u64);
            assert!(fixture.ldif(&name) == *ldif, "seed {seed}, round {round}");
            if round % 2 == 0 {
                continue;
            }
            let time = Moment::from_micros(mark.time_us);
            let name = format!("time-{round}");
            assert_eq!(fixture.restore(&name, Until::Time(time)).unwrap(), report);
            assert!(fixture.ldif(&name) == *ldif, "seed {seed}, round {round}");
        }
        let last = fixture.restore("last", Until::End).unwrap();
        assert_eq!(last.last, last.last_of_backup);
        assert!(fixture.ldif("last") == states.last().unwrap().1);
        assert!(
            crate::check(&fixture.path("last"), None, &mut |_, _, _| {}).unwrap().faults() == 0
        );
    }
}

#[test]
fn records_that_are_gone_make_the_next_backup_a_full_one() {
    let mut fixture = Fixture::new(7);
    fixture.commit(10, Flush::Yes);
    fixture.backup(false).unwrap();
    // Enough for segments to be given up.
    for _ in 0..4 {
        fixture.commit(300, Flush::AndPurge);
    }
    let report = fixture.backup(false).unwrap();
    assert_eq!(report.full, Some(WhyFull::Purged));
    let asked = fixture.backup(true).unwrap();
    assert_eq!(asked.full, Some(WhyFull::Asked));
    assert_eq!(asked.manifest.last(), report.manifest.last());
    assert_eq!(fs::read_dir(fixture.path("backup")).unwrap().count(), 3, "base, manifest, lock");
    fixture.restore("new", Until::End).unwrap();
    assert!(fixture.ldif("new") == fixture.ldif("data"));
}

#[test]
fn another_history_is_not_added_to_a_backup() {
    let mut fixture = Fixture::new(9);
    fixture.commit(10, Flush::No);
    copy_directory(&fixture.data(), &fixture.path("before")).unwrap();
    let other = fixture.history.fork(10);
    fixture.commit(10, Flush::No);
    fixture.backup(false).unwrap();
    // Somebody puts back the files of before: the directory is behind the backup.
    let report = fixture.backup_of("before", false).unwrap();
    assert_eq!((report.full, report.manifest.last().lsn), (Some(WhyFull::Forked), 10));
    assert_eq!(fixture.backup(false).unwrap().full, None);
    // Or it has gone on since, to where the backup is and further.
    fs::remove_dir_all(fixture.data()).unwrap();
    fs::rename(fixture.path("before"), fixture.data()).unwrap();
    fixture.history = other;
    fixture.commit(20, Flush::No);
    let report = fixture.backup(false).unwrap();
    assert_eq!((report.full, report.manifest.last().lsn), (Some(WhyFull::Forked), 30));
    fixture.restore("new", Until::End).unwrap();
    assert!(fixture.ldif("new") == fixture.ldif("data"));
}

#[test]
fn points_outside_of_a_backup_are_refused_with_the_range() {
    let mut fixture = Fixture::new(4);
    fixture.commit(5, Flush::Yes);
    fixture.backup(false).unwrap();
    let mark = fixture.commit(5, Flush::No);
    fixture.backup(false).unwrap();
    let refusal = |until| fixture.restore("new", until).unwrap_err().to_string();
    for lsn in [4, 11] {
        let want = "the backup can be restored to any point from 5 to 10";
        assert_eq!(refusal(Until::Lsn(lsn)), want);
    }
    let now = Moment::from_micros(fixture.clock.now().0);
    for micros in [0, now.micros() + 1] {
        let text = refusal(Until::Time(Moment::from_micros(micros)));
        assert!(text.ends_with(&format!(" to {now}")), "{text}");
    }
    assert!(!fixture.path("new").exists());
    assert_eq!(fixture.restore("new", Until::Time(now)).unwrap().last.lsn, mark.lsn.0);
}

/// Later than all records of made-up histories.
const NOW_MICROS: u64 = 2_000_000_000_000_000;
/// So that segments are given up soon.
const SEGMENT_BYTES: u64 = 16 * 4096;
