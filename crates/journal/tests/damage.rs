//! What is a torn tail and what is damage: images of disks made by hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::Arc;

use journal::simulated::{Fault, SimDisk};
use journal::{
    Appended, Damage, Disk, Durability, Journal, JournalError, JournalOptions, JournalPosition,
    OpenReport,
};

const ID: [u8; 16] = *b"a store of tests";
const FIRST: &str = "00000000000000000001.journal";
const SECOND: &str = "00000000000000000002.journal";

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 16 * 4096, keep_bytes: 1 << 30, ..JournalOptions::new(ID) }
}

fn arc(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn entry(index: u64) -> Vec<Appended> {
    let payload = format!("entry {index}").into_bytes();
    vec![Appended { place: JournalPosition { term: 1, index }, payload: payload.into() }]
}

/// A journal that ended without being closed, with these entries in groups of one.
fn killed(count: u64, durability: Durability) -> SimDisk {
    let disk = SimDisk::new(1);
    let journal = Journal::create(arc(&disk), options(), 1).unwrap();
    for index in 1..=count {
        journal.append_wait(entry(index), durability).unwrap();
    }
    disk.kill()
}

/// Where the group is that holds this text.
fn group_of(disk: &SimDisk, name: &str, text: &str) -> usize {
    let bytes = disk.bytes(name).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[..at].windows(4).rposition(|window| window == b"rgrp").unwrap()
}

/// As if the group with this text had never reached the medium.
fn lose(disk: &SimDisk, name: &str, text: &str) -> usize {
    let at = group_of(disk, name, text);
    let mut bytes = disk.bytes(name).unwrap();
    bytes[at..at + 80].fill(0);
    disk.put(name, &bytes);
    at
}

#[track_caller]
fn check_damage(disk: &SimDisk, segment: &str, offset: usize, index: Option<u64>) -> Damage {
    let Err(JournalError::Damaged(damage)) = Journal::open(arc(disk), options()) else {
        panic!("no damage found");
    };
    assert_eq!(
        (damage.segment.as_str(), damage.offset, damage.index),
        (segment, offset as u64, index)
    );
    let report = Journal::verify(disk, &options(), &mut |_, _| ());
    assert_eq!(report.damage, std::slice::from_ref(&damage));
    damage
}

#[track_caller]
fn check_torn(disk: &SimDisk, last: u64) -> (Journal, OpenReport) {
    let (journal, report) = Journal::open(arc(disk), options()).unwrap();
    assert_eq!(journal.last(), Some(JournalPosition { term: 1, index: last }));
    assert_eq!(journal.read(1).unwrap().map(Result::unwrap).count() as u64, last);
    (journal, report)
}

#[test]
fn damage_to_a_synced_group_is_reported_with_its_place() {
    let disk = killed(10, Durability::Synced);
    let at = group_of(&disk, FIRST, "entry 5");
    disk.flip(FIRST, at as u64 + 70);
    let damage = check_damage(&disk, FIRST, at - at % 4096 - 4096 + 75, Some(5));
    let text = damage.to_string();
    assert!(text.contains("entry 5: the checksum of a record is wrong"), "{text}");
    assert!(text.contains("backup"), "{text}");
}

#[test]
fn a_lost_group_that_had_been_synced_is_damage() {
    let disk = killed(10, Durability::Synced);
    let at = lose(&disk, FIRST, "entry 5");
    check_damage(&disk, FIRST, at - 4096 + 75, Some(5));
}

#[test]
fn the_last_group_may_be_torn() {
    let disk = killed(10, Durability::Synced);
    let at = group_of(&disk, FIRST, "entry 10");
    disk.flip(FIRST, at as u64 + 70);
    let (journal, report) = check_torn(&disk, 9);
    let torn = report.torn.unwrap();
    assert_eq!((torn.segment.as_str(), torn.bytes > 0), (FIRST, true));
    assert_eq!(torn.last, Some(JournalPosition { term: 1, index: 9 }));
    journal.append_wait(entry(10), Durability::Synced).unwrap();
    drop(journal);
    assert_eq!(check_torn(&disk, 10).1.torn, None);
}

#[test]
fn after_closing_not_even_the_last_group_may_be_damaged() {
    let disk = SimDisk::new(1);
    let journal = Journal::create(arc(&disk), options(), 1).unwrap();
    journal.append_wait(entry(1), Durability::Synced).unwrap();
    journal.append_wait(entry(2), Durability::Synced).unwrap();
    journal.close();
    let at = group_of(&disk, FIRST, "entry 2");
    disk.flip(FIRST, at as u64 + 70);
    check_damage(&disk, FIRST, at - 4096 + 75, Some(2));
}

#[test]
fn groups_that_were_only_written_may_be_lost_in_any_order() {
    let disk = killed(10, Durability::Written);
    lose(&disk, FIRST, "entry 5");
    let (journal, report) = check_torn(&disk, 4);
    assert!(report.torn.unwrap().bytes > 400);
    // The same entry as the one that was lost: what stood behind it must not come back.
    journal.append_wait(entry(5), Durability::Written).unwrap();
    let disk = disk.kill();
    drop(journal);
    assert_eq!(check_torn(&disk, 5).1.torn, None);
}

#[test]
fn a_torn_tail_is_reported_once() {
    let disk = killed(10, Durability::Written);
    lose(&disk, FIRST, "entry 5");
    let (journal, report) = check_torn(&disk, 4);
    assert!(report.torn.is_some());
    let disk = disk.kill();
    drop(journal);
    assert_eq!(check_torn(&disk, 4).1.torn, None);
}

#[test]
fn a_sealed_segment_is_whole_to_its_end() {
    let disk = killed(30, Durability::Synced);
    let bytes = disk.bytes(FIRST).unwrap();
    let seal = bytes.windows(4).rposition(|window| window == b"rgrp").unwrap();
    disk.flip(FIRST, seal as u64 + 50);
    let Err(JournalError::Damaged(damage)) = Journal::open(arc(&disk), options()) else {
        panic!("no damage found");
    };
    assert_eq!(damage.segment, FIRST);
}

#[test]
fn a_missing_segment_is_damage() {
    let disk = killed(60, Durability::Synced);
    disk.remove(SECOND).unwrap();
    check_damage(&disk, SECOND, 0, Some(1));
}

/// Segments of a journal, oldest first.
fn segments(disk: &SimDisk) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.ends_with(".journal"));
    names.sort();
    names
}

/// What `salvage` gives of a disk: up to where, and what it knows of beyond that.
fn salvaged(disk: &SimDisk, from: u64) -> (u64, Option<u64>) {
    let mut next = from;
    let left = journal::salvage(disk, ID, from, &mut |entry| {
        assert_eq!(entry.place.index, next);
        assert_eq!(entry.payload, format!("entry {next}").into_bytes());
        next += 1;
        Ok::<_, JournalError>(true)
    });
    let left = left.unwrap();
    assert_eq!(left.next, next);
    (next, left.beyond)
}

/// The segments from one on are gone, whichever: after a copy that was not atomic, the newest.
#[test]
fn whichever_segments_at_the_end_are_missing_is_damage() {
    // On a busy machine the next one is not always made when the journal ends.
    let is_ahead = |disk: &SimDisk| {
        let bytes = disk.bytes(segments(disk).last().unwrap()).unwrap();
        !bytes.windows(4).any(|window| window == b"rgrp")
    };
    let whole = std::iter::repeat_with(|| killed(60, Durability::Synced)).find(is_ahead).unwrap();
    let names = segments(&whole);
    assert!(names.len() > 4, "{names:?}");
    assert_eq!(salvaged(&whole, 7), (61, None));
    // The last is made ahead and holds nothing: it may be missing.
    for first in 1..names.len() - 1 {
        for last in [names.len() - 1, names.len()] {
            let disk = whole.kill();
            for name in &names[first..last] {
                disk.remove(name).unwrap();
            }
            let Err(JournalError::Damaged(damage)) = Journal::open(arc(&disk), options()) else {
                panic!("without {:?} nothing was found", &names[first..last]);
            };
            let reason = "the file is missing, and the log continued in it";
            let is_next = damage.segment == names[first] || damage.segment == names[last - 1];
            assert!(is_next && damage.reason == reason, "{damage:?}");
            assert!(damage.to_string().contains("roster check --accept-loss"), "{damage}");
            let report = Journal::verify(&disk, &options(), &mut |_, _| ());
            assert_eq!(report.damage, [damage]);
            assert!(journal::copy::open(&disk, ID).is_err());
            let (next, beyond) = salvaged(&disk, 1);
            assert!(next > 1 && next < 61 && beyond.is_none(), "{next} {beyond:?}");
        }
    }
    for name in names.iter().skip(1) {
        whole.remove(name).unwrap();
    }
    check_damage(&whole, SECOND, 0, Some(salvaged(&whole, 1).0));
}

#[test]
fn each_missing_segment_that_is_needed_is_damage() {
    let whole = killed(60, Durability::Synced);
    let names = segments(&whole);
    let has_group = |name: &&String| whole.bytes(name).unwrap().windows(4).any(|it| it == b"rgrp");
    let used: Vec<&String> = names.iter().filter(has_group).collect();
    // The next one is made beside the writing, and may not have been there yet.
    let has_next = names.len() > used.len();
    for gone in used[..used.len() - usize::from(!has_next)].iter().copied() {
        let disk = whole.kill();
        disk.remove(gone).unwrap();
        let Err(JournalError::Damaged(damage)) = Journal::open(arc(&disk), options()) else {
            panic!("without {gone} nothing was found");
        };
        assert_eq!(&damage.segment, gone);
        let (next, beyond) = salvaged(&disk, 1);
        let is_newest = gone == *used.last().unwrap();
        assert_eq!(beyond, (!is_newest).then_some(60), "{gone}");
        assert!(next < 60 && (next > 1) == (gone != FIRST), "{gone}: {next}");
    }
    if has_next {
        whole.remove(names.last().unwrap()).unwrap();
        check_torn(&whole, 60);
    }
}

/// Nothing is removed, though no segment that is left can be used.
#[test]
fn a_journal_that_is_refused_stays_as_it_is() {
    let disk = killed(60, Durability::Synced);
    let names = segments(&disk);
    disk.remove(&names[names.len() - 2]).unwrap();
    let left = segments(&disk);
    assert!(Journal::open(arc(&disk), options()).is_err());
    let made = Journal::create(arc(&disk), options(), 1);
    assert!(matches!(made, Err(JournalError::NotEmpty)));
    assert_eq!(segments(&disk), left);
}

#[test]
fn a_missing_segment_that_is_not_needed_is_told() {
    let disk = killed(60, Durability::Synced);
    let (journal, _) = Journal::open(arc(&disk), options()).unwrap();
    journal.purge(50).unwrap();
    drop(journal);
    disk.remove(SECOND).unwrap();
    assert!(!Journal::verify(&disk, &options(), &mut |_, _| ()).is_sound());
    let (journal, report) = Journal::open(arc(&disk), options()).unwrap();
    assert_eq!(report.damaged_history.unwrap().segment, SECOND);
    assert_eq!(journal.read(51).unwrap().count(), 10);
    drop(journal);
    assert!(Journal::verify(&disk, &options(), &mut |_, _| ()).is_sound());
}

#[test]
fn a_cut_segment_is_damage_wherever_it_is_cut() {
    let whole = killed(60, Durability::Synced);
    let names = segments(&whole);
    for name in &names {
        let bytes = whole.bytes(name).unwrap();
        for length in [0, 63, 64, 4096, 4097, 8192, 5 * 4096, bytes.len() - 1] {
            let disk = whole.kill();
            disk.put(name, &bytes[..length]);
            let Err(JournalError::Damaged(damage)) = Journal::open(arc(&disk), options()) else {
                panic!("{name} cut to {length}: nothing was found");
            };
            assert!(&damage.segment == name || length < 64, "{name} {length}: {damage}");
        }
    }
}

/// After a sync that failed the system may show what never reached the medium, and call it synced
/// when it is asked again. What is acknowledged after the next start must not build on that.
#[test]
fn after_a_failed_sync_the_medium_is_read_and_not_the_memory_of_the_system() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let journal = Journal::create(arc(&disk), options(), 1).unwrap();
        for index in 1..=3 {
            journal.append_wait(entry(index), Durability::Synced).unwrap();
        }
        while segments(&disk).len() < 2 {
            std::thread::yield_now();
        }
        disk.fail(Fault::Sync, 0, 1, std::io::ErrorKind::Other);
        let syncs = disk.syncs();
        for index in 4..=5 {
            let error = journal.append_wait(entry(index), Durability::Synced).unwrap_err();
            assert!(matches!(error, JournalError::Poisoned { .. }), "{error}");
        }
        journal.close();
        assert_eq!(disk.syncs(), syncs, "it is not tried again");
        let disk = disk.kill();
        let (journal, _) = Journal::open(arc(&disk), options()).unwrap();
        let last = journal.last().unwrap().index;
        assert!(last == 3 || last == 4, "seed {seed}: {last}");
        for index in last + 1..=last + 3 {
            journal.append_wait(entry(index), Durability::Synced).unwrap();
        }
        let disk = disk.crash();
        let (journal, _) = Journal::open(arc(&disk), options())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(journal.last().unwrap().index, last + 3, "seed {seed}");
    }
}

/// A disk that is full in the middle of a group: nothing of it counts, before and after a restart.
#[test]
fn a_group_that_was_written_in_part_is_nothing() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let journal = Journal::create(arc(&disk), options(), 1).unwrap();
        for index in 1..=3 {
            journal.append_wait(entry(index), Durability::Synced).unwrap();
        }
        while segments(&disk).len() < 2 {
            std::thread::yield_now();
        }
        disk.fail(Fault::Write, 0, 1, std::io::ErrorKind::StorageFull);
        let error = journal.append_wait(entry(4), Durability::Synced).unwrap_err();
        assert!(matches!(error, JournalError::NoSpace { .. }), "{error}");
        assert!(error.to_string().contains("no space"), "{error}");
        let stopped = if seed % 2 == 0 { disk.kill() } else { disk.crash() };
        check_torn(&stopped, 3);
        // It goes on by itself, with the same entry.
        journal.append_wait(entry(4), Durability::Synced).unwrap();
        check_torn(&if seed % 2 == 0 { disk.kill() } else { disk.crash() }, 4);
    }
}

#[test]
fn damage_to_purged_segments_stops_nothing() {
    let disk = killed(60, Durability::Synced);
    let (journal, _) = Journal::open(arc(&disk), options()).unwrap();
    journal.purge(50).unwrap();
    assert_eq!(journal.first(), 1);
    drop(journal);
    disk.flip(SECOND, 4096 + 20);
    let (journal, report) = Journal::open(arc(&disk), options()).unwrap();
    assert_eq!(report.damaged_history.unwrap().segment, SECOND);
    assert!(journal.first() > 14 && journal.first() <= 51);
    assert_eq!(journal.read(51).unwrap().count(), 10);
}

#[test]
fn damage_in_purged_entries_is_met_by_who_reads_them() {
    let disk = killed(60, Durability::Synced);
    let (journal, _) = Journal::open(arc(&disk), options()).unwrap();
    journal.purge(50).unwrap();
    drop(journal);
    let at = group_of(&disk, FIRST, "entry 7");
    disk.flip(FIRST, at as u64 + 70);
    let (journal, _) = Journal::open(arc(&disk), options()).unwrap();
    let read: Vec<_> = journal.read(5).unwrap().collect();
    assert_eq!(read.len(), 3);
    assert!(matches!(&read[2], Err(JournalError::Damaged(damage)) if damage.index == Some(7)));
    assert!(!Journal::verify(&disk, &options(), &mut |_, _| ()).is_sound());
}

#[test]
fn a_damaged_segment_header_is_damage() {
    let disk = killed(3, Durability::Synced);
    disk.flip(FIRST, 20);
    assert!(matches!(Journal::open(arc(&disk), options()), Err(JournalError::Damaged(_))));
    let disk = killed(3, Durability::Synced);
    disk.flip(FIRST, 0);
    assert!(matches!(Journal::open(arc(&disk), options()), Err(JournalError::Damaged(_))));
}
