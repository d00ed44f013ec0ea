//! An archive on a disk that loses, tears and refuses.

#![allow(clippy::disallowed_methods, reason = "waits for a thread of the archive")]

use std::io::ErrorKind;
use std::thread;
use std::time::Instant;

use environment::Clock;
use environment::ManualClock;
use journal::simulated::{Fault, SimDisk};
use journal::{Durability, Journal, JournalOptions};

use super::writer::ArchiveWriter;
use super::*;
use crate::log::conformance::Ledger;
use crate::log::{CommitLog, EncodedRecord, Local, LogBatch, Reign, StateMachine};
use crate::test_support::records;

const STORE: [u8; 16] = *b"a store of tests";

/// Small, so that a few records make several files of several blocks.
pub(crate) fn small() -> ArchiveOptions {
    ArchiveOptions {
        keep_age: Duration::MAX,
        file_bytes: 20_000,
        block_bytes: 2_000,
        delay: Duration::ZERO,
        ..ArchiveOptions::new(u64::MAX)
    }
}

fn open(disk: &SimDisk, options: ArchiveOptions) -> Arc<Archive> {
    Archive::open(Arc::new(disk.clone()), STORE, options).unwrap()
}

/// Writes records as the archiver does.
fn fill(archive: &Arc<Archive>, records: &[EncodedRecord]) -> Result<(), ArchiveError> {
    let mut writer = ArchiveWriter::new(archive);
    for record in records {
        writer.add(record)?;
        if writer.pending_bytes() >= archive.options.block_bytes {
            writer.write()?;
        }
    }
    writer.write()?;
    writer.sync()
}

/// All that can be read from a record on.
fn read(archive: &Arc<Archive>, from: Lsn) -> Result<Vec<EncodedRecord>, ArchiveError> {
    let mut reader = archive.read(from);
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        found.push(record);
    }
    Ok(found)
}

#[test]
fn what_was_written_is_read_from_any_record_on() {
    let (disk, all) = (SimDisk::new(1), records(1, 120));
    let archive = open(&disk, small());
    assert_eq!((archive.first(), archive.last()), (None, None));
    fill(&archive, &all).unwrap();
    // In parts, by writers that come one after the other, it is the same.
    let (parts, archive_of_parts) = (SimDisk::new(2), small());
    for part in all.chunks(13) {
        fill(&open(&parts, archive_of_parts.clone()), part).unwrap();
    }
    for disk in [disk, parts] {
        let archive = open(&disk.kill(), small());
        let status = archive.status();
        assert_eq!((status.first, status.last), (Lsn(1), Lsn(120)));
        assert!(status.files > 3, "{status:?}");
        for from in 1..=120 {
            assert_eq!(read(&archive, Lsn(from)).unwrap(), all[from as usize - 1..]);
        }
        for outside in [0, 121, u64::MAX] {
            assert_eq!(read(&archive, Lsn(outside)).unwrap(), []);
        }
    }
}

#[test]
fn records_take_less_room_than_in_the_log() {
    let (disk, all) = (SimDisk::new(1), records(1, 3_000));
    let archive = open(&disk, ArchiveOptions::new(u64::MAX));
    fill(&archive, &all).unwrap();
    let status = archive.status();
    assert!(status.bytes * 2 < status.raw_bytes && status.files == 1, "{status:?}");
    assert_eq!(read(&archive, Lsn(2_999)).unwrap(), all[2_998..]);
}

#[test]
fn two_do_not_write_at_the_same_time() {
    let disk = SimDisk::new(1);
    let _held = open(&disk, small());
    let other = Archive::open(Arc::new(disk.clone()), STORE, small());
    assert_eq!(other.unwrap_err(), ArchiveError::InUse);
}

#[test]
fn records_are_found_by_time() {
    let (disk, all) = (SimDisk::new(1), records(2, 90));
    let archive = open(&disk, small());
    fill(&archive, &all).unwrap();
    // Record n was decided n seconds after 1970.
    for lsn in 1..=90 {
        let since = |us| archive.first_since(Timestamp(us)).unwrap();
        assert_eq!(since(lsn * 1_000_000), Some(Lsn(lsn)));
        assert_eq!(since(lsn * 1_000_000 - 1), Some(Lsn(lsn)));
    }
    assert_eq!(archive.first_since(Timestamp(0)).unwrap(), Some(Lsn(1)));
    assert_eq!(archive.first_since(Timestamp(90_000_001)).unwrap(), None);
}

#[test]
fn records_that_do_not_follow_begin_a_new_run() {
    let disk = SimDisk::new(1);
    let (all, other) = (records(1, 60), records(2, 60));
    let archive = open(&disk, small());
    fill(&archive, &all[..20]).unwrap();
    // A gap, and later another history.
    fill(&archive, &all[30..40]).unwrap();
    assert_eq!((archive.first(), archive.last()), (Some(Lsn(31)), Some(Lsn(40))));
    assert_eq!(read(&archive, Lsn(1)).unwrap(), [], "nobody is led across");
    assert_eq!(read(&archive, Lsn(35)).unwrap(), all[34..40]);
    fill(&archive, &other[40..]).unwrap();
    let archive = open(&disk.kill(), small());
    assert_eq!((archive.first(), archive.last()), (Some(Lsn(41)), Some(Lsn(60))));
    assert_eq!(read(&archive, Lsn(41)).unwrap(), other[40..]);
}

#[test]
fn what_a_power_cut_leaves_is_a_beginning_and_goes_on() {
    let all = records(3, 80);
    for seed in 0..150 {
        let disk = SimDisk::new(seed);
        let archive = open(&disk, small());
        let count = 1 + seed as usize % 70;
        fill(&archive, &all[..count / 2]).unwrap();
        // What is written last is not synced.
        let mut writer = ArchiveWriter::new(&archive);
        for record in &all[count / 2..count] {
            writer.add(record).unwrap();
            writer.write().unwrap();
        }
        let disk = disk.crash();
        let archive = open(&disk, small());
        let last = archive.last().map_or(0, |last| last.0) as usize;
        assert!((count / 2..=count).contains(&last), "seed {seed}: {last} of {count}");
        assert_eq!(read(&archive, Lsn(1)).unwrap(), all[..last], "seed {seed}");
        fill(&archive, &all[last..]).unwrap();
        assert_eq!(read(&open(&disk.crash(), small()), Lsn(1)).unwrap(), all, "seed {seed}");
    }
}

#[test]
fn a_damaged_octet_is_noticed_wherever_it_is() {
    let (disk, all) = (SimDisk::new(1), records(4, 40));
    fill(&open(&disk, small()), &all).unwrap();
    let names = Disk::list(&disk).unwrap();
    let mut refused = 0;
    for name in names {
        let length = disk.bytes(&name).unwrap().len() as u64;
        for at in (0..length).step_by(7) {
            let damaged = disk.kill();
            damaged.flip(&name, at);
            let archive = open(&damaged, small());
            for from in [archive.first().unwrap_or(Lsn(1)), Lsn(1), Lsn(20)] {
                match read(&archive, from) {
                    Ok(found) if found.is_empty() => {}
                    // Wherever it begins, and as far as it goes, it is what was written.
                    Ok(found) => {
                        let begin = from.0 as usize - 1;
                        assert_eq!(found, all[begin..begin + found.len()], "{name} {at}");
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_check_finds_all_that_hides_a_change() {
    let (disk, all) = (SimDisk::new(1), records(4, 40));
    fill(&open(&disk, small()), &all).unwrap();
    let check = |disk: &SimDisk| check_archive(disk, STORE, &mut |_, _| ()).unwrap();
    let sound = check(&disk);
    assert_eq!((sound.records, sound.findings, sound.notes), (40, vec![], vec![]));
    let names = Disk::list(&disk).unwrap();
    let mut found = 0;
    for name in names.iter().filter(|name| name.ends_with(".changes")) {
        let length = disk.bytes(name).unwrap().len() as u64;
        for at in (0..length).step_by(7) {
            let damaged = disk.kill();
            damaged.flip(name, at);
            let told = check(&damaged);
            let is_told = !told.findings.is_empty();
            found += u64::from(is_told);
            // The end of the newest file may have been torn; the log has those records still.
            let is_newest = Some(name) == names.iter().filter(|one| *one != LOCK_FILE).max();
            let is_read = read(&open(&damaged, small()), Lsn(1)) == Ok(all.clone());
            assert!(is_told || is_read || is_newest, "{name} {at}: {told:?}");
        }
    }
    assert!(found > 100, "{found}");
    let archive = open(&disk, small());
    assert_eq!(check_archive(&disk, STORE, &mut |_, _| ()), Err(ArchiveError::InUse));
    fill(&archive, &records(4, 60)[50..]).unwrap();
    drop(archive);
    let foreign = SimDisk::new(2);
    let other = Archive::open(Arc::new(foreign.clone()), [9; 16], small()).unwrap();
    fill(&other, &all).unwrap();
    drop(other);
    let told = check(&foreign);
    let files = told.files as usize;
    assert!(told.findings.is_empty() && told.notes.len() == files && files > 0, "{told:?}");
    // What a crash leaves of a file that was about to be begun.
    for (name, octets) in [("0000000999.changes", &[][..]), ("0000009999.changes", &[0; 64])] {
        foreign.put(name, octets);
        let told = check(&foreign);
        assert_eq!(told.findings, Vec::<String>::new());
        let note = format!("nothing was written to {name}: the server ended");
        assert!(told.notes.iter().any(|one| one.starts_with(&note)), "{told:?}");
    }
    drop(Archive::open(Arc::new(foreign.clone()), [9; 16], small()).unwrap());
    assert_eq!(check(&foreign).files as usize, files, "a start removes them");
    let gone = check(&disk);
    assert_eq!(
        (gone.records, gone.findings.len(), gone.notes.len()),
        (50, 0, 1),
        "{:?}",
        gone.notes
    );
}

#[test]
fn what_is_no_file_of_this_archive_is_left_alone() {
    let (disk, all) = (SimDisk::new(1), records(5, 40));
    let open_foreign = || Archive::open(Arc::new(disk.clone()), [9; 16], small()).unwrap();
    fill(&open_foreign(), &all).unwrap();
    disk.put("notes.txt", b"mine");
    disk.put("0000000777.changes", b"short");
    disk.put("1.changes", b"");
    let archive = open(&disk, small());
    assert_eq!((archive.first(), archive.status().files), (None, 0));
    fill(&archive, &all[10..]).unwrap();
    assert_eq!(read(&open(&disk.kill(), small()), Lsn(11)).unwrap(), all[10..]);
    drop(archive);
    assert_eq!(read(&open_foreign(), Lsn(1)).unwrap(), all);
    assert_eq!(disk.bytes("notes.txt").unwrap(), b"mine");
}

#[test]
fn a_later_layout_is_not_read() {
    let (disk, all) = (SimDisk::new(1), records(5, 3));
    fill(&open(&disk, small()), &all).unwrap();
    let name = name(1);
    let mut octets = disk.bytes(&name).unwrap();
    octets[8] = 2;
    disk.put(&name, &octets);
    let file = ArchiveFile::at(&disk, FileId { store: STORE, sequence: 1 }).unwrap();
    let error = file.summary().unwrap_err().to_string();
    assert!(error.contains("a newer release wrote it, with the layout 2"), "{error}");
}

#[test]
fn old_files_go_by_age_and_by_size() {
    let (disk, all) = (SimDisk::new(1), records(6, 200));
    // In days, what takes seconds here.
    let options = ArchiveOptions { keep_age: Duration::from_secs(100), ..small() };
    let archive = open(&disk, options.clone());
    fill(&archive, &all).unwrap();
    let mut writer = ArchiveWriter::new(&archive);
    writer.retire(Timestamp(200_000_000)).unwrap();
    let first = archive.first().unwrap();
    assert!((86..=100).contains(&first.0), "by files of a fourteenth of the age: {first:?}");
    assert_eq!(read(&archive, first).unwrap(), all[first.0 as usize - 1..]);
    let half = archive.status().bytes / 2;
    drop((writer, archive));
    let bounded = open(&disk, ArchiveOptions { keep_bytes: half, ..options.clone() });
    ArchiveWriter::new(&bounded).retire(Timestamp(0)).unwrap();
    let status = bounded.status();
    assert!(status.bytes <= half && status.bytes > half / 2, "{status:?}");
    assert_eq!(Disk::list(&disk).unwrap().len() as u64, status.files);
    drop(bounded);
    // The newest file stays, however old and large it is.
    let none = open(&disk, ArchiveOptions { keep_bytes: 0, ..options });
    ArchiveWriter::new(&none).retire(Timestamp(u64::MAX)).unwrap();
    assert_eq!((none.status().files, none.last()), (1, Some(Lsn(200))));
}

#[test]
fn what_the_directory_does_not_have_is_cut_off() {
    let (all, other) = (records(7, 100), records(8, 100));
    for last in [0, 1, 17, 18, 19, 50, 99, 100, 101] {
        let disk = SimDisk::new(last);
        fill(&open(&disk, small()), &all).unwrap();
        let archive = open(&disk, small());
        ArchiveWriter::new(&archive).cut_after(Lsn(last)).unwrap();
        let kept = last.min(100) as usize;
        assert_eq!(read(&archive, Lsn(1)).unwrap(), all[..kept], "{last}");
        if kept < 100 {
            fill(&archive, &other[kept..]).unwrap();
            let from = Lsn(last + 1);
            assert_eq!(read(&open(&disk.kill(), small()), from).unwrap(), other[kept..], "{last}");
        }
    }
}

/// A log on a disk of its own.
struct Logged {
    log: Arc<dyn CommitLog>,
    journal: Arc<Journal>,
}

impl Logged {
    fn new(keep_bytes: u64) -> Self {
        let disk = Arc::new(SimDisk::new(1)) as Arc<dyn Disk>;
        let options =
            JournalOptions { segment_bytes: 4 * 4096, keep_bytes, ..JournalOptions::new([7; 16]) };
        let journal = Arc::new(Journal::create(disk, options, 1).unwrap());
        let machine = Arc::new(Ledger::default()) as Arc<dyn StateMachine>;
        let log = Arc::new(Local::open(Arc::clone(&journal), machine)) as Arc<dyn CommitLog>;
        Self { log, journal }
    }

    fn commit(&self, records: &[EncodedRecord]) {
        for records in records.chunks(3) {
            let (told, heard) = std::sync::mpsc::channel();
            let batch = LogBatch { records: records.to_vec(), durability: Durability::Synced };
            let done = Box::new(move |outcome| told.send(outcome).unwrap());
            self.log.commit(Reign::ETERNAL, batch, done);
            heard.recv().unwrap().unwrap();
        }
    }
}

/// Runs an archiver until the archive has a record, or too long.
fn archive_until(archive: &Arc<Archive>, log: &Arc<dyn CommitLog>, last: Lsn) {
    let clock = Arc::new(environment::SystemClock::new()) as Arc<dyn Clock>;
    let archiver = Archiver::new(archive, log, &clock, Box::new(|| false));
    let stop = archiver.stopper();
    thread::scope(|scope| {
        let working = scope.spawn(|| archiver.work());
        let start = Instant::now();
        while archive.last() != Some(last) && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
        }
        stop.stop();
        working.join().unwrap();
    });
    assert_eq!(archive.last(), Some(last));
}

#[test]
fn the_archiver_follows_the_log_whatever_the_disk_does() {
    let all = records(9, 150);
    for (fault, kind) in [
        (Fault::Write, ErrorKind::StorageFull),
        (Fault::Write, ErrorKind::Other),
        (Fault::Sync, ErrorKind::Other),
        (Fault::Names, ErrorKind::Other),
    ] {
        let logged = Logged::new(u64::MAX);
        logged.commit(&all);
        let disk = SimDisk::new(3);
        disk.fail(fault, 4, 1, kind);
        let archive = open(&disk, small());
        archive_until(&archive, &logged.log, Lsn(150));
        let first = archive.first().unwrap();
        // Only where the disk was full something may have gone to make room.
        assert!(first == Lsn(1) || kind == ErrorKind::StorageFull, "{fault:?} {first:?}");
        assert_eq!(read(&archive, first).unwrap(), all[first.0 as usize - 1..], "{fault:?}");
        assert_eq!(archive.status().error, None, "{fault:?}");
        let after = open(&disk.crash(), small());
        assert_eq!(read(&after, first).unwrap(), all[first.0 as usize - 1..], "{fault:?}");
    }
}

#[test]
fn what_the_log_gave_up_is_said_to_be_missing() {
    let all = records(10, 600);
    let logged = Logged::new(0);
    let disk = SimDisk::new(4);
    logged.commit(&all[..50]);
    archive_until(&open(&disk, small()), &logged.log, Lsn(50));
    logged.commit(&all[50..]);
    logged.journal.purge(550).unwrap();
    let kept = logged.journal.first();
    assert!(kept > 51, "{kept}");
    let archive = open(&disk, small());
    archive_until(&archive, &logged.log, Lsn(600));
    let status = archive.status();
    assert_eq!((status.missing, status.first), (kept - 51, Lsn(kept)));
    assert_eq!(read(&archive, Lsn(kept)).unwrap(), all[kept as usize - 1..]);
}

#[test]
fn files_that_somebody_removes_are_not_written_to() {
    let all = records(12, 300);
    for which in ["oldest", "middle", "newest", "all"] {
        let logged = Logged::new(u64::MAX);
        logged.commit(&all[..200]);
        let disk = SimDisk::new(5);
        let archive = open(&disk, small());
        archive_until(&archive, &logged.log, Lsn(200));
        let mut names = Disk::list(&disk).unwrap();
        names.retain(|name| sequence(name).is_some());
        names.sort_unstable();
        assert!(names.len() > 3, "{names:?}");
        let gone = match which {
            "oldest" => &names[..1],
            "middle" => &names[1..2],
            "newest" => &names[names.len() - 1..],
            _ => &names[..],
        };
        let clock = Arc::new(environment::SystemClock::new()) as Arc<dyn Clock>;
        let archiver = Archiver::new(&archive, &logged.log, &clock, Box::new(|| false));
        let stop = archiver.stopper();
        thread::scope(|scope| {
            scope.spawn(|| archiver.work());
            gone.iter().for_each(|name| Disk::remove(&disk, name).unwrap());
            logged.commit(&all[200..]);
            let is_done = |archive: &Archive| {
                let (status, names) = (archive.status(), Disk::list(&disk).unwrap());
                let there = names.iter().filter(|name| sequence(name).is_some()).count() as u64;
                status.last == Lsn(300) && status.error.is_none() && status.files == there
            };
            let start = Instant::now();
            while !is_done(&archive) && start.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(5));
            }
            stop.stop();
        });
        // The log had all of it: what was in the newest file is there again.
        let first = archive.first().unwrap();
        assert_eq!(first == Lsn(1), which == "newest" || which == "all", "{which}");
        let want = &all[first.0 as usize - 1..];
        assert_eq!(read(&archive, first).unwrap(), want, "{which}");
        drop(archive);
        assert_eq!(read(&open(&disk.crash(), small()), first).unwrap(), want, "{which}");
    }
}

#[test]
fn an_archiver_does_not_wait_for_a_full_block_longer_than_it_may() {
    let logged = Logged::new(u64::MAX);
    let all = records(11, 2);
    logged.commit(&all);
    let clock = Arc::new(ManualClock::at(Timestamp(0)));
    let shared = Arc::clone(&clock) as Arc<dyn Clock>;
    let options = ArchiveOptions { delay: Duration::from_secs(10), ..small() };
    let archive = open(&SimDisk::new(1), options);
    let archiver = Archiver::new(&archive, &logged.log, &shared, Box::new(|| false));
    let stop = archiver.stopper();
    thread::scope(|scope| {
        scope.spawn(|| archiver.work());
        let start = Instant::now();
        while archive.last().is_none() && start.elapsed() < Duration::from_secs(60) {
            clock.advance(Duration::from_secs(2));
            thread::sleep(Duration::from_millis(20));
        }
        stop.stop();
    });
    assert!(clock.elapsed() >= Duration::from_secs(10));
    assert_eq!(archive.last(), Some(Lsn(2)));
}

#[test]
fn any_octets_are_read_or_refused() {
    let mut chance = environment::SeededChance(7);
    let whole = {
        let disk = SimDisk::new(1);
        fill(&open(&disk, small()), &records(1, 12)).unwrap();
        disk.bytes(&name(1)).unwrap()
    };
    for round in 0..4_000_usize {
        let mut octets = match round % 3 {
            0 => vec![0; 8 + round % 300],
            1 => whole.clone(),
            _ => {
                let mut octets = vec![1, 3, 1, 0, 0, 0, 0, 0];
                for record in records(round as u64, 3) {
                    let length = u32::try_from(record.bytes.len()).unwrap();
                    octets.extend_from_slice(&length.to_le_bytes());
                    octets.extend_from_slice(&record.bytes);
                }
                octets
            }
        };
        let mut drawn = [0; 16];
        environment::Chance::fill(&mut chance, &mut drawn);
        let at = usize::from_be_bytes(*drawn.first_chunk().unwrap()) % octets.len();
        octets[at] = drawn[8];
        if round % 3 == 0 {
            environment::Chance::fill(&mut chance, &mut octets);
        }
        let cut = usize::from(drawn[9]) * usize::from(drawn[10] < 20) / 8;
        octets.truncate(octets.len().saturating_sub(cut));
        arbitrary::check(&octets);
    }
}
