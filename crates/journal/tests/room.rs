//! A disk without room for the journal, and writes that wait for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use journal::simulated::{Fault, SimDisk};
use journal::{
    Appended, Disk, Durability, Journal, JournalError, JournalOptions, JournalPosition, LogEntry,
};

const ID: [u8; 16] = *b"a store of tests";
const BLOCK: u64 = 4096;
/// How often the disk is tried again.
const EVERY: Option<Duration> = Some(Duration::from_millis(1));
/// More than a full disk takes.
const MANY: u64 = 600;

type Answer = (u64, Result<JournalPosition, JournalError>);

fn options(blocks: u64) -> JournalOptions {
    JournalOptions { segment_bytes: blocks * BLOCK, keep_bytes: 0, ..JournalOptions::new(ID) }
}

fn create(disk: &SimDisk, blocks: u64) -> Journal {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Journal::create(disk, options(blocks), 1).unwrap()
}

fn open(disk: &SimDisk) -> Journal {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Journal::open(disk, options(8)).unwrap().0
}

fn entry(index: u64, length: usize) -> Appended {
    let place = JournalPosition { term: 1, index };
    Appended { place, payload: vec![index as u8; length].into() }
}

/// A journal on a full disk, which has been asked to append [`MANY`] entries; those of which it
/// does not tell wait.
fn full(disk: &SimDisk) -> (Journal, Receiver<Answer>) {
    let journal = create(disk, 8);
    journal.wait_for_room(EVERY);
    journal.append_wait(vec![entry(1, 100)], Durability::Synced).unwrap();
    disk.limit_space(Some(disk.used_bytes()));
    let (told, answers) = unbounded();
    for index in 2..=MANY {
        let told = told.clone();
        let done = move |answer| told.send((index, answer)).unwrap();
        journal.append(vec![entry(index, 200)], Durability::Synced, Box::new(done));
    }
    wait_until_full(&journal);
    (journal, answers)
}

fn wait_until_full(journal: &Journal) {
    while !journal.status().is_full {
        std::thread::yield_now();
    }
}

/// It is made by another thread, which writes and syncs, too.
fn wait_for_the_next_segment(disk: &SimDisk) {
    while disk.list().unwrap().iter().filter(|it| it.ends_with(".journal")).count() < 2 {
        std::thread::yield_now();
    }
}

#[track_caller]
fn check_entries(journal: &Journal, last: u64) {
    let entries: Vec<LogEntry> = journal.read(1).unwrap().map(Result::unwrap).collect();
    assert!(entries.iter().map(|entry| entry.place.index).eq(1..=last));
    assert!(entries.iter().all(|entry| entry.payload.starts_with(&[entry.place.index as u8])));
}

#[test]
fn what_finds_no_room_waits_for_it_and_keeps_its_order() {
    let disk = SimDisk::new(1);
    let (journal, answers) = full(&disk);
    std::thread::scope(|scope| {
        let vote = scope.spawn(|| journal.save_vote(b"a vote"));
        for index in 1..100 {
            journal.save_committed(JournalPosition { term: 1, index }).unwrap();
        }
        let written = journal.last().unwrap().index;
        assert!(written < MANY, "the disk is not full");
        assert_eq!(journal.durable().unwrap().index, written);
        assert_eq!(journal.vote(), None, "it was asked after the entries");
        check_entries(&journal, written);
        disk.limit_space(None);
        vote.join().unwrap().unwrap();
    });
    for index in 2..=MANY {
        let place = JournalPosition { term: 1, index };
        assert_eq!(answers.recv().unwrap(), (index, Ok(place)));
    }
    assert!(!journal.status().is_full);
    let after = open(&disk.crash());
    assert_eq!(after.vote().as_deref(), Some(&b"a vote"[..]));
    check_entries(&after, MANY);
}

#[test]
fn what_waits_fails_when_it_is_given_up_and_the_journal_goes_on() {
    let disk = SimDisk::new(1);
    let (journal, answers) = full(&disk);
    journal.wait_for_room(None);
    let all: Vec<Answer> = (2..=MANY).map(|_| answers.recv().unwrap()).collect();
    assert!(all.iter().map(|(index, _)| *index).eq(2..=MANY));
    let written = all.iter().take_while(|(_, answer)| answer.is_ok()).count() as u64 + 1;
    let rest = all.get(written as usize - 1..).unwrap();
    assert!(matches!(rest.first(), Some((_, Err(JournalError::NoSpace { .. })))), "{rest:?}");
    assert!(rest.iter().all(|(_, answer)| answer.is_err()), "{rest:?}");
    disk.limit_space(None);
    journal.append_wait(vec![entry(written + 1, 200)], Durability::Synced).unwrap();
    check_entries(&open(&disk.crash()), written + 1);
}

#[test]
fn a_journal_that_waits_for_room_closes_at_once() {
    let disk = SimDisk::new(1);
    let (journal, answers) = full(&disk);
    journal.close();
    let all: Vec<Answer> = answers.try_iter().collect();
    assert_eq!(all.len() as u64, MANY - 1, "all are told");
    let written = all.iter().take_while(|(_, answer)| answer.is_ok()).count() as u64 + 1;
    check_entries(&open(&disk.crash()), written);
}

/// An append waits for room that only a purge can make.
#[test]
fn a_purge_goes_before_what_waits_for_room() {
    const LENGTH: usize = 10_000;
    let disk = SimDisk::new(1);
    // Three appends of three blocks; then two blocks are left, and that of the seal.
    let journal = create(&disk, 13);
    let mut last = 0;
    for index in 1..=20 {
        journal.append_wait(vec![entry(index, LENGTH)], Durability::Synced).unwrap();
        last = index;
    }
    disk.limit_space(Some(disk.used_bytes()));
    while journal.append_wait(vec![entry(last + 1, LENGTH)], Durability::Synced).is_ok() {
        last += 1;
    }
    journal.wait_for_room(EVERY);
    std::thread::scope(|scope| {
        let append =
            scope.spawn(|| journal.append_wait(vec![entry(last + 1, LENGTH)], Durability::Synced));
        wait_until_full(&journal);
        journal.purge(last).unwrap();
        assert_eq!(append.join().unwrap().unwrap().index, last + 1);
    });
    let after = Journal::open(Arc::new(disk.crash()), options(13)).unwrap().0;
    assert_eq!(after.last().unwrap().index, last + 1);
    assert_eq!(after.status().purged.unwrap().index, last);
}

/// A part of a group may be written before the disk is full; it is cut off each time.
#[test]
fn a_group_that_was_written_in_part_is_tried_again() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let journal = create(&disk, 40);
        journal.wait_for_room(EVERY);
        for index in 1..=3 {
            journal.append_wait(vec![entry(index, 5000)], Durability::Synced).unwrap();
        }
        wait_for_the_next_segment(&disk);
        // Between the two is the write that revokes the first.
        disk.fail(Fault::Write, 0, 1, ErrorKind::StorageFull);
        disk.fail(Fault::Write, 1, 1, ErrorKind::StorageFull);
        journal.append_wait(vec![entry(4, 5000)], Durability::Synced).unwrap();
        let after = if seed % 2 == 0 { disk.kill() } else { disk.crash() };
        check_entries(&open(&after), 4);
        journal.append_wait(vec![entry(5, 5000)], Durability::Synced).unwrap();
        assert!(!journal.status().is_full);
        check_entries(&open(&disk.crash()), 5);
    }
}

/// After a sync that failed nobody knows what is on the disk, whatever the reason was.
#[test]
fn a_sync_without_room_is_not_tried_again() {
    let disk = SimDisk::new(1);
    let journal = create(&disk, 8);
    journal.wait_for_room(EVERY);
    journal.append_wait(vec![entry(1, 100)], Durability::Synced).unwrap();
    wait_for_the_next_segment(&disk);
    disk.fail(Fault::Sync, 0, 1, ErrorKind::StorageFull);
    let error = journal.append_wait(vec![entry(2, 100)], Durability::Synced).unwrap_err();
    assert!(matches!(error, JournalError::Poisoned { .. }), "{error}");
    let error = journal.append_wait(vec![entry(2, 100)], Durability::Synced).unwrap_err();
    assert!(matches!(error, JournalError::Poisoned { .. }), "{error}");
}
