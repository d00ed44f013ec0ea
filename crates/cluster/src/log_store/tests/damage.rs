//! A voter whose log is damaged does not vote: opening fails, or what the engine reads first.

use journal::{Disk, Durability};
use openraft::StorageHelper;

use super::model::{Step, control, found, id};
use super::*;
use crate::types::RecordBytes;

fn options() -> JournalOptions {
    JournalOptions { segment_bytes: 1 << 16, ..JournalOptions::new([1; 16]) }
}

fn open(disk: &SimDisk) -> Result<Journal, JournalError> {
    Journal::open(Arc::new(disk.clone()), options()).map(|(journal, _)| journal)
}

fn record(index: u64) -> Entry {
    let octets = format!("record of entry {index}").into_bytes();
    Entry { log_id: id(1, index), payload: EntryPayload::Normal(RecordBytes(octets.into())) }
}

/// A log of three entries, a vote of term 0x4b1d, and three more entries.
async fn log_of_a_voter(disk: &SimDisk) {
    let mut log = log_on(disk);
    let vote = Step::Vote(Vote::new(0x4b1d, 3));
    let append = |index| Step::Append(vec![record(index)]);
    for step in [append(0), append(1), append(2), vote, append(3), append(4), append(5)] {
        control(&mut log, &step).await.unwrap();
    }
}

const SEGMENT: &str = "00000000000000000001.journal";

/// Where in the segment these octets are.
fn find(disk: &SimDisk, octets: &[u8]) -> u64 {
    let bytes = disk.bytes(SEGMENT).unwrap();
    let at = bytes.windows(octets.len()).position(|window| window == octets);
    at.unwrap() as u64
}

fn blocking() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[track_caller]
fn check_damaged(disk: &SimDisk, octets: &[u8], index: u64) {
    blocking().block_on(log_of_a_voter(disk));
    drop(open(disk).unwrap());
    let at = find(disk, octets);
    disk.flip(SEGMENT, at);
    let before = disk.bytes(SEGMENT);
    let Err(JournalError::Damaged(damage)) = open(disk) else { panic!("not damaged") };
    assert_eq!(damage.segment, SEGMENT);
    assert!(damage.offset < at && at - damage.offset < 4096, "{damage}");
    assert_eq!(damage.index, Some(index), "{damage}");
    assert_eq!(disk.bytes(SEGMENT), before, "nothing is cut");
}

#[test]
fn a_damaged_entry_in_the_middle_stops_a_voter() {
    check_damaged(&SimDisk::new(1), b"record of entry 1", 2);
}

#[test]
fn a_damaged_vote_stops_a_voter() {
    check_damaged(&SimDisk::new(1), &[0x1d, 0x4b, 0, 0, 0, 0, 0, 0, 3], 4);
}

/// The last group is one that was synced, too: a note behind it says so.
#[test]
fn a_damaged_last_entry_stops_a_voter() {
    check_damaged(&SimDisk::new(1), b"record of entry 5", 6);
}

/// What the engine says when it is started on a log.
async fn starting(log: &mut LogStore) -> String {
    let mut base = Applied::default();
    let state = StorageHelper::new(log, &mut base).with_id(1).get_initial_state().await;
    state.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_engine_does_not_start_on_a_vote_that_cannot_be_read() {
    let disk = SimDisk::new(1);
    blocking().block_on(async {
        log_of_a_voter(&disk).await;
        let journal = open(&disk).unwrap();
        journal.save_vote(b"of another release").unwrap();
        let mut log = LogStore::new(Arc::new(journal));
        let error = log.read_vote().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(starting(&mut log).await.contains("the vote of the journal cannot be read"));
    });
}

#[test]
fn the_engine_does_not_start_on_an_entry_that_cannot_be_read() {
    let disk = SimDisk::new(1);
    blocking().block_on(async {
        log_of_a_voter(&disk).await;
        let journal = open(&disk).unwrap();
        let place = JournalPosition { term: 1, index: 7 };
        let short = Appended { place, payload: Arc::from([7]) };
        journal.append_wait(vec![short], Durability::Synced).unwrap();
        let mut log = LogStore::new(Arc::new(journal));
        let error = starting(&mut log).await;
        assert!(error.contains("entry 7 of the journal cannot be read"), "{error}");
    });
}

/// A leader counts what others have: the mark of an entry may be there, and the entry not.
#[test]
fn what_is_committed_is_never_beyond_the_last_entry() {
    let disk = SimDisk::new(1);
    blocking().block_on(async {
        log_of_a_voter(&disk).await;
        let mut log = LogStore::new(Arc::new(open(&disk).unwrap()));
        control(&mut log, &Step::Committed(id(1, 9))).await.unwrap();
        control(&mut log, &Step::Vote(Vote::new(0x4b1e, 3))).await.unwrap();
        assert_eq!(log.medium.status().committed.unwrap().index, 10);
        assert_eq!(found(&mut log).await.committed, Some(id(1, 5)));
        let mut base = Applied::default();
        let mut helper = StorageHelper::new(&mut log, &mut base).with_id(1);
        helper.get_initial_state().await.unwrap();
        assert_eq!(base.last, Some(id(1, 5)));
    });
}

#[test]
fn nobody_else_has_the_log_open() {
    let disk = SimDisk::new(1);
    let log = log_on(&disk);
    assert_eq!(open(&disk).unwrap_err(), JournalError::InUse);
    drop(log);
    assert!(disk.list().unwrap().contains(&SEGMENT.to_owned()));
    open(&disk).unwrap();
}
