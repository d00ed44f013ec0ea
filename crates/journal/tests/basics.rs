//! The journal as its callers see it, on a disk that does as it is told.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use journal::simulated::{Fault, SimDisk};
use journal::{
    Appended, Disk, Durability, FileDisk, Journal, JournalError, JournalOptions, JournalPosition,
    LogEntry, copy,
};

const ID: [u8; 16] = *b"a store of tests";

/// The segment after the first.
const NEXT: &str = "00000000000000000002.journal";

fn options(segment_bytes: u64) -> JournalOptions {
    JournalOptions { segment_bytes, keep_bytes: 0, ..JournalOptions::new(ID) }
}

fn sim(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn payload(index: u64) -> Vec<u8> {
    let length = (index * 37 % 300) as usize;
    index.to_le_bytes().into_iter().cycle().take(length).collect()
}

fn entry(index: u64) -> Appended {
    Appended { place: JournalPosition { term: 1, index }, payload: payload(index).into() }
}

fn append(journal: &Journal, indexes: std::ops::RangeInclusive<u64>) {
    for index in indexes {
        journal.append_wait(vec![entry(index)], Durability::Synced).unwrap();
    }
}

#[track_caller]
fn check_read(journal: &Journal, from: u64, last: u64) {
    let entries: Vec<LogEntry> = journal.read(from).unwrap().map(Result::unwrap).collect();
    let indexes: Vec<u64> = entries.iter().map(|entry| entry.place.index).collect();
    assert_eq!(indexes, (from..=last).collect::<Vec<_>>());
    assert!(entries.iter().all(|entry| entry.payload == payload(entry.place.index)));
}

#[test]
fn what_it_makes_is_for_the_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(directory.path()));
    let journal = Journal::create(disk.clone(), options(1 << 20), 1).unwrap();
    append(&journal, 1..=3);
    let held = copy::hold(&*disk).unwrap();
    let mut modes = Vec::new();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        modes.push(file.unwrap().metadata().unwrap().permissions().mode() & 0o777);
    }
    assert_eq!(modes, vec![0o600; modes.len()]);
    assert!(modes.len() >= 3);
    drop((held, journal));
}

#[test]
fn entries_come_back_on_the_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(directory.path()));
    let journal = Journal::create(disk.clone(), options(1 << 20), 1).unwrap();
    assert!(matches!(Journal::open(disk.clone(), options(1 << 20)), Err(JournalError::InUse)));
    append(&journal, 1..=100);
    assert_eq!(journal.durable(), Some(JournalPosition { term: 1, index: 100 }));
    check_read(&journal, 1, 100);
    drop(journal);
    assert!(matches!(
        Journal::create(disk.clone(), options(1 << 20), 1),
        Err(JournalError::NotEmpty)
    ));
    let (journal, report) = Journal::open(disk, options(1 << 20)).unwrap();
    assert_eq!((report.torn, report.entries), (None, 100));
    assert_eq!(journal.last(), Some(JournalPosition { term: 1, index: 100 }));
    append(&journal, 101..=120);
    check_read(&journal, 50, 120);
}

#[test]
fn segments_follow_each_other() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(16 * 4096), 7).unwrap();
    append(&journal, 7..=200);
    assert!(journal.status().segments > 5);
    check_read(&journal, 7, 200);
    check_read(&journal, 123, 200);
    journal.close();
    let (journal, report) = Journal::open(sim(&disk), options(16 * 4096)).unwrap();
    assert_eq!((report.torn, report.entries), (None, 194));
    check_read(&journal, 7, 200);
    assert_eq!(journal.first(), 7);
    let report = Journal::verify(&disk, &options(16 * 4096), &mut |_, _| ());
    assert!(report.is_sound());
    assert_eq!(report.entries, 194);
}

#[test]
fn purged_segments_are_used_again() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(16 * 4096), 1).unwrap();
    for round in 0..20 {
        append(&journal, round * 50 + 1..=round * 50 + 50);
        journal.purge(round * 50 + 40).unwrap();
    }
    assert!(disk.used_bytes() <= 8 * 16 * 4096, "{}", disk.used_bytes());
    let first = journal.first();
    assert!(first > 900 && first <= 991, "{first}");
    assert_eq!(journal.read(1).unwrap_err(), JournalError::Gone { first });
    check_read(&journal, first, 1000);
    journal.close();
    let (journal, _) = Journal::open(sim(&disk), options(16 * 4096)).unwrap();
    assert_eq!(journal.status().purged, Some(JournalPosition { term: 1, index: 990 }));
    check_read(&journal, journal.first(), 1000);
}

#[test]
fn what_is_before_the_newest_bytes_is_known_after_a_start_too() {
    let disk = SimDisk::new(1);
    let segment_bytes = 16 * 4096;
    let keep = 5 * segment_bytes;
    let mut journal = Journal::create(sim(&disk), options(segment_bytes), 1).unwrap();
    assert_eq!(journal.before_newest(keep), 0);
    let mut last = 0;
    for round in 0..16 {
        append(&journal, round * 30 + 1..=round * 30 + 30);
        // Each life writes less than is kept.
        assert!(journal.status().written_bytes < keep);
        drop(journal);
        journal = Journal::open(sim(&disk), options(segment_bytes)).unwrap().0;
        let before = journal.before_newest(keep);
        assert!(before >= last, "it goes forward");
        last = before;
        if before > 0 {
            journal.purge(before).unwrap();
        }
        // One beyond what is kept, and the one that is written.
        assert!(journal.status().bytes <= keep + 3 * segment_bytes, "{}", journal.status().bytes);
    }
    assert!(last > 100, "{last}");
    assert_eq!(journal.before_newest(u64::MAX), 0);
    assert!(journal.before_newest(1) < 480);
    check_read(&journal, last + 1, 480);
}

#[test]
fn a_hold_keeps_segments() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(8 * 4096), 1).unwrap();
    append(&journal, 1..=50);
    let hold = copy::hold(&disk).unwrap();
    journal.purge(50).unwrap();
    check_read(&journal, 1, 50);
    let source = copy::open(&disk, ID).unwrap();
    assert_eq!((source.first(), source.last()), (1, Some(JournalPosition { term: 1, index: 50 })));
    assert_eq!(source.read(10).unwrap().count(), 41);
    drop(hold);
    journal.purge(50).unwrap();
    assert!(journal.first() > 40);
}

#[test]
fn a_truncated_suffix_is_replaced() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(8 * 4096), 1).unwrap();
    append(&journal, 1..=60);
    journal.truncate_suffix(30).unwrap();
    assert_eq!(journal.last(), Some(JournalPosition { term: 1, index: 30 }));
    let other = |index| Appended {
        place: JournalPosition { term: 2, index },
        payload: vec![9; index as usize].into(),
    };
    for index in 31..=50 {
        journal.append_wait(vec![other(index)], Durability::Synced).unwrap();
    }
    journal.truncate_suffix(40).unwrap();
    journal.truncate_suffix(20).unwrap();
    append_term(&journal, 3, 21..=45);
    let check = |journal: &Journal| {
        let terms: Vec<(u64, u64)> = journal
            .read(1)
            .unwrap()
            .map(Result::unwrap)
            .map(|entry| (entry.place.index, entry.place.term))
            .collect();
        let want = (1..=45).map(|index| (index, if index <= 20 { 1 } else { 3 }));
        assert_eq!(terms, want.collect::<Vec<_>>());
        assert_eq!(journal.read(33).unwrap().count(), 13);
    };
    check(&journal);
    drop(journal);
    let (journal, _) = Journal::open(sim(&disk), options(8 * 4096)).unwrap();
    check(&journal);
    journal.truncate_suffix(0).unwrap();
    assert_eq!(journal.last(), None);
    append(&journal, 1..=3);
    check_read(&journal, 1, 3);
}

fn append_term(journal: &Journal, term: u64, indexes: std::ops::RangeInclusive<u64>) {
    for index in indexes {
        let entry =
            Appended { place: JournalPosition { term, index }, payload: payload(index).into() };
        journal.append_wait(vec![entry], Durability::Synced).unwrap();
    }
}

#[test]
fn votes_and_committed_places_stay() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(8 * 4096), 1).unwrap();
    journal.save_vote(b"term 3 for node 2").unwrap();
    journal.save_committed(JournalPosition { term: 1, index: 20 }).unwrap();
    append(&journal, 1..=50);
    assert_eq!(journal.committed(), Some(JournalPosition { term: 1, index: 20 }));
    journal.reset(1000).unwrap();
    append(&journal, 1000..=1010);
    let disk = disk.crash();
    let (journal, report) = Journal::open(sim(&disk), options(8 * 4096)).unwrap();
    assert_eq!(journal.vote().as_deref(), Some(&b"term 3 for node 2"[..]));
    assert_eq!((journal.first(), report.entries), (1000, 11));
    check_read(&journal, 1000, 1010);
}

#[test]
fn no_space_is_no_end() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(8 * 4096), 1).unwrap();
    append(&journal, 1..=1);
    disk.limit_space(Some(disk.used_bytes()));
    let mut last = 1;
    let error = loop {
        match journal.append_wait(vec![entry(last + 1)], Durability::Synced) {
            Ok(place) => last = place.index,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, JournalError::NoSpace { .. }), "{error}");
    assert!(journal.status().is_full && journal.status().is_poisoned.is_none());
    check_read(&journal, 1, last);
    let error = journal.append_wait(vec![entry(last + 1)], Durability::Synced).unwrap_err();
    assert!(matches!(error, JournalError::NoSpace { .. }), "{error}");
    disk.limit_space(None);
    append(&journal, last + 1..=last + 30);
    assert!(!journal.status().is_full);
    drop(journal);
    let (journal, _) = Journal::open(sim(&disk.crash()), options(8 * 4096)).unwrap();
    check_read(&journal, 1, last + 30);
}

/// A process that is killed between giving a segment its name and making that durable leaves a
/// name that the next one reads, and that a power cut takes away.
#[test]
fn a_segment_with_a_name_that_is_not_durable_yet_is_not_lost() {
    for seed in 0..8 {
        let disk = SimDisk::new(seed);
        Journal::create(sim(&disk), options(8 * 4096), 1).unwrap().close();
        disk.rename(NEXT, "unnamed").unwrap();
        disk.sync_names().unwrap();
        disk.rename("unnamed", NEXT).unwrap();
        let disk = disk.kill();
        let (journal, _) = Journal::open(sim(&disk), options(8 * 4096)).unwrap();
        // No other segment is made, which would make all names durable.
        disk.limit_space(Some(disk.used_bytes()));
        let mut last = 0;
        while journal.status().segments < 2 {
            append(&journal, last + 1..=last + 1);
            last += 1;
        }
        let crashed = disk.crash();
        drop(journal);
        let (journal, _) = Journal::open(sim(&crashed), options(8 * 4096)).unwrap();
        check_read(&journal, 1, last);
    }
}

#[test]
fn a_failed_sync_poisons() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(64 * 4096), 1).unwrap();
    append(&journal, 1..=10);
    // The next segment is made beside the appends; its sync must not be the one that fails.
    while !disk.list().unwrap().contains(&NEXT.to_owned()) {
        std::thread::yield_now();
    }
    disk.fail(Fault::Sync, 0, 1, std::io::ErrorKind::Other);
    for _ in 0..3 {
        let error = journal.append_wait(vec![entry(11)], Durability::Synced).unwrap_err();
        assert!(matches!(error, JournalError::Poisoned { .. }), "{error}");
    }
    assert!(journal.save_vote(b"x").is_err());
    assert!(journal.status().is_poisoned.is_some());
    assert_eq!(journal.durable(), Some(JournalPosition { term: 1, index: 10 }));
    let read: Vec<LogEntry> = journal.read(1).unwrap().take(10).map(Result::unwrap).collect();
    assert_eq!(read.len(), 10);
}

#[test]
fn what_waits_shares_a_sync() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(64 * 4096), 1).unwrap();
    let before = disk.syncs();
    disk.hold_syncs(true);
    let (sender, outcomes) = crossbeam_channel::unbounded();
    for index in 1..=50 {
        let sender = sender.clone();
        let done =
            move |place: Result<JournalPosition, _>| sender.send(place.unwrap().index).unwrap();
        journal.append(vec![entry(index)], Durability::Synced, Box::new(done));
    }
    disk.wait_for_held_syncs(1);
    disk.hold_syncs(false);
    let order: Vec<u64> = outcomes.iter().take(50).collect();
    assert_eq!(order, (1..=50).collect::<Vec<_>>());
    // One for those that were first, one for all others; and one for the next segment.
    assert!(disk.syncs() - before <= 4, "{}", disk.syncs() - before);
}

#[test]
fn order_and_sizes_are_checked() {
    let disk = SimDisk::new(1);
    let limits = JournalOptions { record_max_bytes: 100, ..options(8 * 4096) };
    let journal = Journal::create(sim(&disk), limits, 1).unwrap();
    let wrong = journal.append_wait(vec![entry(2)], Durability::Synced).unwrap_err();
    let found = JournalPosition { term: 1, index: 2 };
    assert_eq!(wrong, JournalError::OutOfOrder { expected: 1, found });
    let place = JournalPosition { term: 1, index: 1 };
    let large = Appended { place, payload: vec![0; 101].into() };
    let wrong = journal.append_wait(vec![large], Durability::Synced).unwrap_err();
    assert!(matches!(wrong, JournalError::TooLarge { .. }));
    assert_eq!(journal.append_wait(vec![], Durability::Synced), Ok(JournalPosition::default()));
    journal.close();
    let closed = journal.append_wait(vec![], Durability::Synced);
    assert_eq!(closed, Err(JournalError::Closed));
}

#[test]
fn an_append_larger_than_a_segment_gets_a_larger_one() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(sim(&disk), options(8 * 4096), 1).unwrap();
    append(&journal, 1..=3);
    let place = |index| JournalPosition { term: 1, index };
    let large = |index| Appended { place: place(index), payload: vec![7; 30_000].into() };
    journal.append_wait((4..=9).map(large).collect(), Durability::Synced).unwrap();
    append(&journal, 10..=100);
    drop(journal);
    let (journal, _) = Journal::open(sim(&disk), options(8 * 4096)).unwrap();
    assert_eq!(journal.read(1).unwrap().map(Result::unwrap).count(), 100);
}

#[test]
fn a_foreign_journal_is_refused() {
    let disk = SimDisk::new(1);
    drop(Journal::create(sim(&disk), options(8 * 4096), 1).unwrap());
    let other = JournalOptions { id: [1; 16], ..options(8 * 4096) };
    assert!(matches!(Journal::open(sim(&disk), other), Err(JournalError::Foreign { .. })));
    assert!(matches!(
        Journal::open(sim(&SimDisk::new(1)), options(8 * 4096)),
        Err(JournalError::Missing)
    ));
}

#[test]
fn what_is_only_written_is_synced_soon_though_more_of_it_comes_all_the_time() {
    let disk = SimDisk::new(31);
    let journal = Journal::create(sim(&disk), options(16 << 20), 1).unwrap();
    let mut index = 0;
    while journal.durable().is_none() {
        index += 1;
        assert!(index < 10_000, "nothing was synced");
        journal.append_wait(vec![entry(index)], Durability::Written).unwrap();
        // Often enough that the journal is never idle, and not so often that a segment is filled.
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}
