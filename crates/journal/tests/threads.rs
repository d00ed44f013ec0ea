//! Reading, copying and purging beside writing; and power cuts at every single step.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journal::simulated::SimDisk;
use journal::{
    Appended, Disk, Durability, FileDisk, Journal, JournalError, JournalOptions, JournalPosition,
    LogEntry, copy,
};

const ID: [u8; 16] = *b"a store of tests";

fn options() -> JournalOptions {
    JournalOptions {
        segment_bytes: 16 * 4096,
        keep_bytes: 2 * 16 * 4096,
        ..JournalOptions::new(ID)
    }
}

fn payload(index: u64) -> Vec<u8> {
    vec![index as u8; (index % 700) as usize]
}

fn entries(from: u64, count: u64) -> Vec<Appended> {
    let entry = |index| Appended {
        place: JournalPosition { term: 1, index },
        payload: payload(index).into(),
    };
    (from..from + count).map(entry).collect()
}

#[track_caller]
fn check_entries(entries: impl Iterator<Item = Result<LogEntry, JournalError>>, from: u64) -> u64 {
    let mut next = from;
    for entry in entries {
        let entry = entry.unwrap();
        assert_eq!(entry.place.index, next);
        assert_eq!(entry.payload, payload(next));
        next += 1;
    }
    next
}

#[test]
fn readers_beside_a_writer_see_whole_entries_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::new(directory.path()));
    let journal = Arc::new(Journal::create(disk.clone(), options(), 1).unwrap());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = |mut from: u64| {
            let mut rounds = 0;
            while !is_done.load(Ordering::Relaxed) || rounds == 0 {
                rounds += 1;
                match journal.read(from) {
                    Ok(entries) => from = check_entries(entries, from),
                    Err(JournalError::Gone { first }) => from = first,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        // One that follows the end, and one that begins anew each time.
        scope.spawn(move || read(1));
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let first = journal.first();
                match journal.read(first) {
                    Ok(entries) => assert!(check_entries(entries, first) >= first),
                    Err(JournalError::Gone { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        // Another process, as it were: it holds, opens, reads.
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let Ok(_hold) = copy::hold(&*disk) else { continue };
                let durable = journal.durable().map_or(0, |durable| durable.index);
                let source = copy::open(&*disk, ID).unwrap();
                let next = check_entries(source.read(source.first()).unwrap(), source.first());
                assert!(next > durable, "{next} is behind {durable}");
            }
        });
        // Also when an assertion fails, or the others would never end.
        let _done = OnDrop(&is_done);
        let mut next = 1;
        while next < 500 {
            let count = 1 + next % 13;
            let durability = if next % 7 == 0 { Durability::Written } else { Durability::Synced };
            journal.append_wait(entries(next, count), durability).unwrap();
            next += count;
            if next % 5 == 0 {
                journal.purge((next - 1).saturating_sub(next % 100)).unwrap();
            }
        }
    });
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Appends, purges, uses segments again, truncates; stops at the first failure.
/// What was acknowledged: the last index, and the last purge.
fn scenario(disk: &SimDisk) -> (u64, u64) {
    let (mut last, mut purged) = (0, 0);
    let arc: Arc<dyn Disk> = Arc::new(disk.clone());
    let Ok(journal) = Journal::create(arc, options(), 1) else {
        return (last, purged);
    };
    for round in 0..12 {
        for _ in 0..5 {
            match journal.append_wait(entries(last + 1, 10), Durability::Synced) {
                Ok(place) => last = place.index,
                Err(_) => return (last, purged),
            }
        }
        if round % 2 == 1 {
            if journal.purge(last - 30).is_err() {
                return (last, purged);
            }
            purged = last - 30;
        }
    }
    (last, purged)
}

#[test]
fn a_power_cut_at_every_step_loses_nothing() {
    let whole = SimDisk::new(0);
    let (last, _) = scenario(&whole);
    assert_eq!(last, 600);
    let mut seen = 0;
    for step in 0..whole.operations() {
        let disk = SimDisk::new(step);
        disk.cut_power_after(step);
        let (last, purged) = scenario(&disk);
        let after = disk.crash();
        let arc: Arc<dyn Disk> = Arc::new(after.clone());
        let (journal, report) = match Journal::open(arc.clone(), options()) {
            Ok(opened) => opened,
            // The creation was not done: it can be done again.
            Err(JournalError::Missing) if last == 0 => {
                (Journal::create(arc, options(), 1).unwrap(), journal::OpenReport::default())
            }
            Err(error) => panic!("step {step}: {error}"),
        };
        let found = journal.last().map_or(0, |last| last.index);
        assert!(found == last || found == last + 10, "step {step}: {found} after {last}");
        assert!(
            journal.first() <= purged + 31
                && journal.status().purged.map_or(0, |p| p.index) >= purged
        );
        assert!(report.entries <= found);
        assert_eq!(
            check_entries(journal.read(journal.first()).unwrap(), journal.first()),
            found + 1
        );
        journal.append_wait(entries(found + 1, 30), Durability::Synced).unwrap();
        seen += u64::from(report.torn.is_some());
    }
    assert!(seen > 0);
}

#[test]
fn a_reader_keeps_what_is_purged_beside_it() {
    let disk = SimDisk::new(1);
    let arc: Arc<dyn Disk> = Arc::new(disk.clone());
    let none_kept = JournalOptions { keep_bytes: 0, ..options() };
    let journal = Journal::create(arc, none_kept, 1).unwrap();
    for at in 0..40 {
        journal.append_wait(entries(at * 10 + 1, 10), Durability::Synced).unwrap();
    }
    let reader = journal.read(1).unwrap();
    journal.purge(400).unwrap();
    for at in 40..80 {
        journal.append_wait(entries(at * 10 + 1, 10), Durability::Synced).unwrap();
    }
    assert!(journal.first() > 300);
    assert_eq!(check_entries(reader, 1), 401);
}

#[test]
fn the_last_owner_may_be_a_callback() {
    let disk = SimDisk::new(1);
    let arc: Arc<dyn Disk> = Arc::new(disk.clone());
    let journal = Arc::new(Journal::create(arc.clone(), options(), 1).unwrap());
    disk.hold_syncs(true);
    let (sender, done) = crossbeam_channel::bounded(1);
    let owner = journal.clone();
    let callback = move |place: Result<JournalPosition, JournalError>| {
        drop(owner);
        sender.send(place.unwrap().index).unwrap();
    };
    journal.append(entries(1, 3), Durability::Synced, Box::new(callback));
    drop(journal);
    disk.hold_syncs(false);
    assert_eq!(done.recv(), Ok(3));
}

#[test]
fn a_callback_that_panics_stops_the_journal_and_nobody_waits_for_ever() {
    let disk = SimDisk::new(1);
    let arc: Arc<dyn Disk> = Arc::new(disk);
    let journal = Journal::create(arc, options(), 1).unwrap();
    journal.append(entries(1, 1), Durability::Synced, Box::new(|_| panic!("of the test")));
    // It may share the group of the first, and be done with it.
    let _ = journal.append_wait(entries(2, 1), Durability::Synced);
    let poisoned = journal.append_wait(entries(3, 1), Durability::Synced);
    assert!(matches!(poisoned, Err(JournalError::Poisoned { .. })));
}
