//! What is durable before what: power cuts at the moments where one thing relies on another that
//! a thread has not finished.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::ErrorKind;
use std::sync::Arc;

use journal::simulated::{Fault, SimDisk};
use journal::{
    Appended, Disk, Durability, Journal, JournalError, JournalOptions, JournalPosition, copy,
};

const BLOCK: u64 = 4096;
/// Images of one disk as power cuts may leave it.
const IMAGES: u64 = 64;

fn options() -> JournalOptions {
    let id = *b"a store of tests";
    JournalOptions { segment_bytes: 8 * BLOCK, keep_bytes: 0, ..JournalOptions::new(id) }
}

fn arc(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn name(segment: u64) -> String {
    format!("{segment:020}.journal")
}

fn entry(index: u64) -> Vec<Appended> {
    let place = JournalPosition { term: 1, index };
    vec![Appended { place, payload: vec![index as u8; 100].into() }]
}

/// How many entries, a vote beside them, fill the first segment: each sync ends a block, and beside
/// theirs there are the header, the state, and what is spared for the seal.
const FULL: u64 = 4;

/// A journal of a vote and so many synced entries, in one segment.
fn create(disk: &SimDisk, last: u64) -> Journal {
    let journal = Journal::create(arc(disk), options(), 1).unwrap();
    journal.save_vote(b"a vote").unwrap();
    for index in 1..=last {
        journal.append_wait(entry(index), Durability::Synced).unwrap();
    }
    assert_eq!(journal.status().segments, 1);
    journal
}

/// Syncs of a segment wait until this is dropped.
struct Held<'a>(&'a SimDisk);

impl<'a> Held<'a> {
    fn new(disk: &'a SimDisk, segment: u64) -> Self {
        disk.hold_syncs_of(Some(&name(segment)));
        Self(disk)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.hold_syncs_of(None);
    }
}

fn wait_for(disk: &SimDisk, name: &str) {
    while !disk.list().unwrap().iter().any(|found| found == name) {
        std::thread::yield_now();
    }
}

/// Any image of the disk opens and has the entries and the vote, or is as after a reset to `reset`.
#[track_caller]
fn check_images(disk: &SimDisk, last: u64, reset: Option<u64>) {
    for image in 0..IMAGES {
        let opened = Journal::open(arc(&disk.crash()), options());
        let (journal, _) = opened.unwrap_or_else(|error| panic!("image {image}: {error}"));
        assert_eq!(journal.vote().as_deref(), Some(&b"a vote"[..]), "image {image}");
        let is_reset = journal.last().is_none() && Some(journal.first()) == reset;
        let found = journal.last().map_or(0, |found| found.index);
        assert!(is_reset || found >= last, "image {image}: {:?}", journal.status());
        let read = journal.read(journal.first()).unwrap().map(Result::unwrap).count() as u64;
        assert!(is_reset || read == found + 1 - journal.first(), "image {image}");
    }
}

/// Resets a journal whose second segment is not synced, and looks at what a power cut leaves while
/// the third is on its way.
fn check_reset_behind_the_second(disk: &SimDisk, journal: &Journal) {
    std::thread::scope(|scope| {
        let _held = Held::new(disk, 3);
        scope.spawn(|| journal.reset(100));
        disk.wait_for_held_syncs(1);
        wait_for(disk, &name(4));
        check_images(disk, FULL, Some(100));
    });
}

#[test]
fn a_reset_relies_on_no_segment_that_was_only_written() {
    let disk = SimDisk::new(1);
    let journal = create(&disk, FULL);
    // In the second segment, without a sync of it.
    journal.append_wait(entry(FULL + 1), Durability::Written).unwrap();
    assert_eq!(journal.status().segments, 2);
    wait_for(&disk, &name(3));
    check_reset_behind_the_second(&disk, &journal);
}

#[test]
fn a_reset_relies_on_no_segment_in_which_nothing_is_written() {
    let disk = SimDisk::new(1);
    let journal = create(&disk, FULL);
    wait_for(&disk, &name(2));
    // The third segment finds no room at all; the group in the second, behind the seal of the
    // first, not enough.
    disk.limit_space(Some(disk.used_bytes()));
    disk.fail(Fault::Write, 1, 1, ErrorKind::StorageFull);
    let refused = journal.append_wait(entry(FULL + 1), Durability::Written);
    assert!(matches!(refused, Err(JournalError::NoSpace { .. })), "{refused:?}");
    assert_eq!(journal.status().segments, 2);
    disk.limit_space(None);
    check_reset_behind_the_second(&disk, &journal);
}

#[test]
fn opening_removes_nothing_because_of_what_a_killed_process_only_wrote() {
    let disk = SimDisk::new(1);
    let journal = create(&disk, FULL);
    wait_for(&disk, &name(2));
    let killed = std::thread::scope(|scope| {
        let _held = Held::new(&disk, 2);
        scope.spawn(|| journal.reset(100));
        disk.wait_for_held_syncs(1);
        disk.kill()
    });
    for operations in 0..16 {
        let disk = killed.kill();
        disk.cut_power_after(operations);
        // It fails when the power is cut before it is done.
        drop(Journal::open(arc(&disk), options()));
        check_images(&disk, FULL, Some(100));
    }
}

#[test]
fn segments_are_not_given_up_before_what_follows_them_is_durable() {
    let disk = SimDisk::new(1);
    let last = FULL - 1;
    let journal = create(&disk, last);
    // As much as an entry.
    journal.purge(last).unwrap();
    assert_eq!(journal.status().segments, 1);
    // In the second segment, which alone says now what the vote is and which index is next.
    journal.append_wait(entry(last + 1), Durability::Written).unwrap();
    assert_eq!(journal.status().segments, 2);
    // Gives up what the purge before left.
    journal.purge(last).unwrap();
    check_images(&disk, last, None);
}

#[test]
fn segments_are_not_given_up_before_the_purge_of_them_is_durable() {
    let disk = SimDisk::new(1);
    let journal = create(&disk, FULL);
    let last = FULL * 3;
    for index in FULL + 1..=last {
        journal.append_wait(entry(index), Durability::Synced).unwrap();
    }
    let segments = journal.status().segments;
    assert!(segments > 2);
    std::thread::scope(|scope| {
        let _held = Held::new(&disk, segments);
        scope.spawn(|| journal.purge(last).unwrap());
        disk.wait_for_held_syncs(1);
        // Another purge, of what is purged according to what is written.
        journal.purge(1).unwrap();
        check_images(&disk, last, None);
    });
    assert_eq!(journal.status().segments, 1);
}

#[test]
fn a_segment_that_cannot_be_removed_is_the_next_to_be() {
    let disk = SimDisk::new(1);
    let journal = create(&disk, FULL);
    for index in FULL + 1..=FULL * 4 {
        journal.append_wait(entry(index), Durability::Synced).unwrap();
    }
    {
        // Nothing is removed yet; the purge has its record, and the next segment is made.
        let _hold = copy::hold(&disk).unwrap();
        journal.purge(FULL * 4).unwrap();
        wait_for(&disk, &name(journal.status().segments + 1));
        while disk.has_unsynced_names() {
            std::thread::yield_now();
        }
    }
    // The first, and then the second of those that are left.
    for skip in 0..2 {
        disk.fail(Fault::Names, skip, 1, ErrorKind::Other);
        assert!(journal.purge(1).is_err());
        let report = Journal::verify(&disk, &options(), &mut |_, _| ());
        assert!(report.is_sound(), "{report:?}");
        let names = disk.list().unwrap();
        let kept = (1..).find(|segment| names.contains(&name(*segment)));
        assert_eq!(kept, Some(1 + skip));
    }
    journal.purge(1).unwrap();
    assert_eq!(journal.status().segments, 1);
    let names = disk.list().unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".journal")).count(), 2);
}
