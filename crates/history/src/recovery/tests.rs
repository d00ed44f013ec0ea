//! Recovery from a journal on a disk that fails, and what leads to the same entries.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};

use journal::simulated::SimDisk;
use journal::{Appended, Durability, JournalPosition};
use ldap::dn::Dn;
use proptest::prelude::*;
use schema::{Change, EntryId, EntryRead as _, Schema};
use store::{Applied, IndexConfig, Lsn, StoreOptions};
use tempfile::TempDir;

use super::check::{Checked, check};
use super::*;
use crate::log::{CommitLog, Local, LogBatch, Reign};
use crate::test_support::{self, History};

/// A data directory whose journal is on a simulated disk.
pub(super) struct Fixture {
    pub(super) dir: TempDir,
    pub(super) disk: SimDisk,
}

impl Fixture {
    pub(super) fn new(seed: u64) -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap(), disk: SimDisk::new(seed) };
        create(&fixture.data());
        fixture
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(super) fn store(&self) -> Arc<Store> {
        let options = StoreOptions::default();
        Arc::new(Store::open(&self.data(), &options, Schema::builtin()).unwrap())
    }

    pub(super) fn options(store: &Store) -> JournalOptions {
        JournalOptions { segment_bytes: 16 * 4096, ..JournalOptions::new(store.id()) }
    }

    pub(super) fn open(&self, store: &Store) -> Result<(Journal, Recovered), HistoryError> {
        let disk = Arc::new(self.disk.clone());
        open(store, disk, Self::options(store), &mut |_| Ok(()))
    }

    /// Everything that is there, as LDIF; the store must be closed.
    fn ldif(&self) -> String {
        let store = self.store();
        store.flush().unwrap();
        ldif(&store)
    }

    /// Commits records as the writer does, `size` at a time, flushing now and then.
    pub(super) fn commit(&self, history: &mut History, count: usize, flush_every: usize) -> Lsn {
        let store = self.store();
        let (journal, _) = self.open(&store).unwrap();
        let machine = Arc::new(StoreMachine::new(Arc::clone(&store)));
        let log = Local::open(Arc::new(journal), machine);
        let mut committed = Lsn(0);
        for round in 0..count {
            let record = history.next(&store.tentative());
            let mut batch = store.begin().unwrap();
            let record = test_support::decide(&mut batch, record);
            batch.seal();
            let (told, heard) = mpsc::channel();
            let batch = LogBatch { records: vec![record], durability: Durability::Synced };
            let done = Box::new(move |outcome| told.send(outcome).unwrap());
            log.commit(Reign::ETERNAL, batch, done);
            committed = heard.recv().unwrap().unwrap();
            assert_eq!(store.published().lsn, committed, "what is answered is visible");
            if flush_every > 0 && round % flush_every == flush_every - 1 {
                store.flush().unwrap();
            }
        }
        committed
    }

    /// The message of an opening that must fail, and leaves the data as they were.
    fn refusal(&self) -> String {
        let store = self.store();
        let before = store.base();
        let error = self.open(&store).map(|(_, recovered)| recovered).unwrap_err();
        assert_eq!(store.base(), before);
        error.to_string()
    }

    /// Changes the journal behind the back of the directory.
    fn tamper(&self, act: impl FnOnce(&Journal)) {
        let store = self.store();
        let disk = Arc::new(self.disk.clone());
        let (journal, _) = Journal::open(disk, Self::options(&store)).unwrap();
        act(&journal);
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let store = self.store();
        let options = Self::options(&store);
        let checked = Checked {
            schema: store.schema(),
            base: store.base(),
            has_journal: store.has_journal(),
            has_members: !store.membership().unwrap().is_empty(),
            copied: store.copied().unwrap(),
        };
        check(&checked, &self.disk, &options, &mut |_, _, _| ()).findings
    }
}

pub(super) fn create(data: &Path) {
    let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
    let (options, indexes) = (StoreOptions::default(), IndexConfig::default());
    Store::create(data, &options, Schema::builtin(), indexes, &contexts).unwrap();
}

/// All entries, in order of their numbers.
pub(super) fn ldif(store: &Store) -> String {
    let mut text = String::new();
    let batch = store.begin().unwrap();
    for entry in batch.view().entries_after(EntryId::ROOT).unwrap() {
        let entry = entry.unwrap();
        writeln!(text, "# id: {}\ndn: {}", entry.id().0, entry.dn()).unwrap();
        entry.visit_attributes(&mut |description, values| {
            for value in values.iter() {
                let value = String::from_utf8_lossy(value);
                writeln!(text, "{}: {value}", description.text()).unwrap();
            }
        });
    }
    text
}

/// What the same history leads to in a store of its own, record after record.
fn expected(seed: u64, count: u64) -> (String, Mark) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    create(&data);
    let store = Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
    let mut history = History::new(seed);
    for _ in 0..count {
        let record = history.next(&store.tentative());
        let mut batch = store.begin().unwrap();
        test_support::decide(&mut batch, record);
        let mark = batch.seal();
        store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
    }
    let mark = store.flush().unwrap();
    (ldif(&store), mark)
}

#[track_caller]
fn check_recovered(fixture: &Fixture, seed: u64, count: u64) {
    let store = fixture.store();
    let base = store.base().lsn.0;
    let (journal, recovered) = fixture.open(&store).unwrap();
    assert_eq!(recovered.records, count - base);
    assert_eq!(journal.last().map(|last| last.index), Some(count));
    let published = store.published();
    assert_eq!(store.flush().unwrap(), published);
    drop((store, journal));
    let (entries, mark) = expected(seed, count);
    assert_eq!(published, mark);
    assert_eq!(fixture.ldif(), entries);
    assert_eq!(fixture.findings(), [""; 0]);
}

#[test]
fn what_was_committed_is_there_after_a_kill() {
    for (seed, flush_every) in [(1, 0), (2, 7), (3, 40)] {
        let mut fixture = Fixture::new(seed);
        let mut history = History::new(seed);
        assert_eq!(fixture.commit(&mut history, 60, flush_every), Lsn(60));
        fixture.disk = fixture.disk.kill();
        // Nothing was flushed at the end, and it is started twice.
        assert_eq!(fixture.commit(&mut history, 20, 0), Lsn(80));
        fixture.disk = fixture.disk.kill();
        check_recovered(&fixture, seed, 80);
    }
}

#[test]
fn what_was_committed_is_there_after_a_power_cut() {
    for seed in 10..14 {
        let mut fixture = Fixture::new(seed);
        fixture.commit(&mut History::new(seed), 50, 20);
        fixture.disk = fixture.disk.crash();
        check_recovered(&fixture, seed, 50);
    }
}

/// Whether a change is in the base or in the journal alone: once there was a journal, none is a
/// loss. Before that there is none.
#[test]
fn a_missing_journal_is_refused() {
    for flush_every in [0, 5] {
        let mut fixture = Fixture::new(1);
        assert_eq!(fixture.findings(), [""; 0]);
        fixture.commit(&mut History::new(1), 5, flush_every);
        fixture.disk = SimDisk::new(2);
        let refusal = fixture.refusal();
        let want = format!("the journal is missing: what was written after record {flush_every}");
        assert!(refusal.contains(&want) && refusal.contains("--accept-loss"), "{refusal}");
        assert_eq!(fixture.findings(), [refusal]);
    }
}

/// The base takes up what is durable in the journal: a journal that ends before it has lost its
/// end, though no group of it is torn.
#[test]
fn a_journal_that_ends_before_the_base_is_refused() {
    let mut fixture = Fixture::new(1);
    let mut history = History::new(1);
    fixture.commit(&mut history, 5, 0);
    let before = fixture.disk.kill();
    fixture.commit(&mut history, 5, 5);
    fixture.disk = before;
    let refusal = fixture.refusal();
    assert!(refusal.contains("it ends with record 5, and the data with 10"), "{refusal}");
    assert_eq!(fixture.findings(), [refusal]);
}

/// Whatever a power cut leaves, at any step of making a journal, writing and flushing, is no loss:
/// there is no false alarm, and `check` finds nothing.
#[test]
fn no_power_cut_is_taken_for_a_loss() {
    for seed in 0..40 {
        let mut fixture = Fixture::new(seed);
        let mut history = History::new(seed);
        fixture.disk.cut_power_after(seed);
        let store = fixture.store();
        // It may fail, at any step.
        drop(fixture.open(&store));
        drop(store);
        fixture.disk = fixture.disk.crash();
        let findings = fixture.findings();
        assert_eq!(findings, [""; 0], "seed {seed}");
        let mut count = 0;
        for round in 0..3_u64 {
            let more = (seed + round) % 13 + 1;
            fixture.commit(&mut history, more as usize, (seed % 4) as usize);
            count += more;
            fixture.disk = if round % 2 == 0 { fixture.disk.crash() } else { fixture.disk.kill() };
            assert_eq!(fixture.findings(), [""; 0], "seed {seed}");
        }
        let store = fixture.store();
        let (journal, _) = fixture.open(&store).unwrap();
        assert_eq!(store.published().lsn, Lsn(count), "seed {seed}");
        assert!(store.has_journal());
        drop(journal);
    }
}

#[test]
fn a_journal_behind_the_base_begins_anew() {
    let fixture = Fixture::new(1);
    fixture.commit(&mut History::new(1), 5, 5);
    // As an import does it: changes without records.
    let store = fixture.store();
    let mut history = History::new(1);
    (0..5).for_each(|_| drop(history.next(&Mark::default())));
    let mut batch = store.begin().unwrap();
    history.next(&store.base()).changes().iter().for_each(|one| batch.apply(one).unwrap());
    let mut mark = batch.last();
    // A load has no place in a log.
    mark.lsn.0 += 1;
    mark.position = LogPosition { term: 0, index: mark.lsn.0 };
    assert_eq!(batch.record(mark).unwrap(), Applied::Done);
    batch.commit().unwrap();
    let next = store.base().lsn.0 + 1;
    let (journal, recovered) = fixture.open(&store).unwrap();
    assert!(recovered.is_restarted);
    assert_eq!((journal.first(), journal.last()), (next, None));
    drop(journal);
    // Once: it needs no room to open what is as it should be. The segment of before is a spare file
    // until the next one is made of it, or goes when the journal is opened again.
    let segments = || {
        let mut names = fixture.disk.list().unwrap();
        names.retain(|name| !name.ends_with(".spare"));
        names
    };
    let before = segments();
    let (journal, recovered) = fixture.open(&store).unwrap();
    assert!(!recovered.is_restarted);
    assert_eq!(segments(), before);
    drop((store, journal));
    assert_eq!(fixture.findings(), [""; 0]);
}

#[test]
fn a_journal_that_begins_after_the_base_is_refused() {
    let fixture = Fixture::new(1);
    fixture.tamper_new(9);
    let refusal = fixture.refusal();
    assert!(
        refusal.contains("end with change record 0, and the journal begins with 9"),
        "{refusal}"
    );
    assert!(refusal.contains("restore"), "{refusal}");
}

impl Fixture {
    /// A journal that begins with `first`.
    fn tamper_new(&self, first: u64) {
        let store = self.store();
        let disk = Arc::new(self.disk.clone());
        let journal = Journal::create(disk, Self::options(&store), first).unwrap();
        append(&journal, first, b"whatever");
    }
}

fn append(journal: &Journal, index: u64, payload: &[u8]) {
    let place = JournalPosition { term: 1, index };
    let entry = Appended { place, payload: payload.into() };
    journal.append_wait(vec![entry], Durability::Synced).unwrap();
}

#[test]
fn a_journal_of_another_history_is_refused() {
    let fixture = Fixture::new(1);
    fixture.commit(&mut History::new(1), 5, 5);
    let mut other = Fixture::new(2);
    other.commit(&mut History::new(2), 8, 0);
    // The journal of the other, under the name of this store.
    let records = payloads(&other);
    other.disk = SimDisk::new(3);
    let fixture = Fixture { disk: other.disk, ..fixture };
    let store = fixture.store();
    let disk = Arc::new(fixture.disk.clone());
    let journal = Journal::create(disk, Fixture::options(&store), 1).unwrap();
    records.iter().zip(1..).for_each(|(payload, index)| append(&journal, index, payload));
    drop((store, journal));
    let refusal = fixture.refusal();
    assert!(refusal.contains("have different records 5"), "{refusal}");
    let findings = fixture.findings();
    assert!(findings.iter().any(|finding| finding.contains("record 5 does not belong")));
}

fn payloads(fixture: &Fixture) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    fixture.tamper(|journal| {
        payloads.extend(journal.read(1).unwrap().map(|entry| entry.unwrap().payload));
    });
    payloads
}

#[test]
fn a_journal_of_another_store_is_refused() {
    let fixture = Fixture::new(1);
    fixture.commit(&mut History::new(1), 5, 0);
    let other = Fixture { disk: fixture.disk.kill(), ..Fixture::new(2) };
    let refusal = other.refusal();
    assert!(refusal.contains("belongs to another store"), "{refusal}");
    assert!(!other.findings().is_empty());
}

#[test]
fn damage_in_the_middle_is_reported_with_its_place() {
    let mut fixture = Fixture::new(1);
    fixture.commit(&mut History::new(1), 150, 0);
    fixture.disk = fixture.disk.kill();
    let payload = payloads(&fixture).swap_remove(20);
    fixture.disk = fixture.disk.kill();
    let find = |name: &String| {
        let bytes = fixture.disk.bytes(name).unwrap();
        bytes.windows(payload.len()).position(|window| window == payload)
    };
    let names = fixture.disk.list().unwrap();
    let (segment, at) = names.iter().find_map(|name| Some((name, find(name)?))).unwrap();
    fixture.disk.flip(segment, at as u64 + 60);
    let refusal = fixture.refusal();
    assert!(refusal.contains(segment) && refusal.contains("damaged"), "{refusal}");
    let findings = fixture.findings();
    assert!(findings[0].contains(segment), "{findings:?}");
}

#[test]
fn a_record_of_a_newer_release_ends_recovery() {
    let fixture = Fixture::new(1);
    fixture.commit(&mut History::new(1), 5, 3);
    let mut newer = payloads(&fixture)[0].clone();
    newer[1] = 9;
    fixture.tamper(|journal| append(journal, 6, &newer));
    let refusal = fixture.refusal();
    assert!(refusal.contains("entry 6 of the journal"), "{refusal}");
    assert!(refusal.contains("record format 9 is not known to this release"), "{refusal}");
    assert!(fixture.findings()[0].contains("record format 9"));
}

#[test]
fn data_with_records_of_a_later_level_are_not_opened() {
    let fixture = Fixture::new(1);
    let apply = |level: u16| {
        let store = fixture.store();
        let mut batch = store.begin().unwrap();
        batch.apply(&Change::Level(level)).unwrap();
        batch.commit().unwrap();
        store.flush().unwrap();
    };
    apply(RECORD_LEVEL);
    assert!(fixture.open(&fixture.store()).is_ok());
    apply(RECORD_LEVEL + 1);
    let refusal = fixture.refusal();
    assert!(refusal.contains("install the release that the other members run"), "{refusal}");
    let store = fixture.store();
    let disk = Arc::new(fixture.disk.clone());
    let refused = open_unapplied(&store, disk, Fixture::options(&store)).unwrap_err();
    assert_eq!(refused.to_string(), refusal);
}

#[test]
fn a_record_that_does_not_follow_ends_recovery() {
    let fixture = Fixture::new(1);
    fixture.commit(&mut History::new(1), 5, 0);
    let mut other = payloads(&fixture)[4].clone();
    // Its number is right, what was before it is not.
    other[11] = 6;
    fixture.tamper(|journal| append(journal, 6, &other));
    let refusal = fixture.refusal();
    assert!(refusal.contains("change record 6 does not follow from the data"), "{refusal}");
    let findings = fixture.findings();
    assert!(
        findings[0].contains("record 6: the hash of the record before differs"),
        "{findings:?}"
    );
    assert!(findings[1].contains("record 6 is not later"), "{findings:?}");
}

#[test]
fn many_records_are_flushed_on_the_way() {
    let fixture = Fixture::new(4);
    fixture.commit(&mut History::new(4), 120, 0);
    let store = fixture.store();
    let disk = Arc::new(fixture.disk.kill());
    let flushed = Mutex::new(0);
    let options = Fixture::options(&store);
    let (_, recovered) = open(&store, disk, options, &mut |store| {
        *flushed.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        store.flush()?;
        Ok(())
    })
    .unwrap();
    assert_eq!(recovered.records, 120);
    assert!(flushed.into_inner().unwrap() >= 1);
    assert_eq!(store.base().lsn, Lsn(120));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever is applied together, whenever it is flushed or opened again.
    #[test]
    fn the_same_records_lead_to_the_same_entries(
        seed: u64,
        steps in prop::collection::vec((1_usize..30, 0_u8..4), 1..8),
    ) {
        let count: usize = steps.iter().map(|(size, _)| size).sum();
        let (entries, mark) = expected(seed, count as u64);
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        create(&data);
        let open = || Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
        let mut store = open();
        let records = test_support::records(seed, count);
        let mut rest = &records[..];
        for (size, action) in steps {
            let (now, later) = rest.split_at(size);
            let mut replay = Replay::begin(&store).unwrap();
            for record in now {
                let position = LogPosition { term: 1, index: record.lsn.0 };
                replay.record(&record.bytes, position).unwrap();
            }
            replay.publish();
            if action >= 2 {
                store.flush().unwrap();
            }
            if action == 3 {
                drop(store);
                store = open();
            }
            rest = later;
        }
        prop_assert_eq!(store.flush().unwrap(), mark);
        prop_assert_eq!(ldif(&store), entries);
    }
}

/// `cargo test --release -p history -- --ignored --nocapture recovery_costs`
#[test]
#[ignore = "a measurement, for an optimised build"]
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement")]
fn recovery_costs() {
    let count = std::env::var("RECORDS").map_or(100_000, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    create(&data);
    let store = Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
    let directory = dir.path().join(JOURNAL_DIRECTORY);
    std::fs::create_dir(&directory).unwrap();
    let options = JournalOptions::new(store.id());
    let disk = Arc::new(FileDisk::new(directory));
    let journal = Journal::create(disk.clone(), options.clone(), 1).unwrap();
    let (mut bytes, mut batch) = (0, Vec::new());
    for record in test_support::people(count) {
        bytes += record.bytes.len();
        let place = JournalPosition { term: 1, index: record.lsn.0 };
        batch.push(Appended { place, payload: record.bytes });
        if batch.len() == 1000 || place.index == count {
            journal.append_wait(std::mem::take(&mut batch), Durability::Written).unwrap();
        }
    }
    drop(journal);
    let started = std::time::Instant::now();
    let mut flushes = 0;
    let (_, recovered) = open(&store, disk, options, &mut |store| {
        if store.overlay_bytes() > 128 << 20 {
            flushes += 1;
            store.flush()?;
        }
        Ok(())
    })
    .unwrap();
    let took = started.elapsed();
    let per_second = recovered.records as f64 / took.as_secs_f64();
    println!(
        "{} adds of {bytes} octets: {took:?}, {per_second:.0} a second, {flushes} flushes, overlay \
         of {} octets",
        recovered.records,
        store.overlay_bytes()
    );
}
