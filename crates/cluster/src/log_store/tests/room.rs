//! A medium without room: what is to be written waits, in its order, and nobody is told before.

use futures_util::FutureExt;

use super::model::{append, id};
use super::*;
use crate::types::RecordBytes;

fn entry(index: u64) -> Entry {
    let record = RecordBytes(vec![index as u8; 3_000].into());
    Entry { log_id: id(1, index), payload: EntryPayload::Normal(record) }
}

/// A disk, and a journal there whose segments have so many blocks.
fn journal(blocks: u64) -> (SimDisk, Arc<Journal>) {
    let disk = SimDisk::new(1);
    let options = JournalOptions { segment_bytes: blocks << 12, ..JournalOptions::new([1; 16]) };
    let journal = Journal::create(Arc::new(disk.clone()), options, 1).unwrap();
    (disk, Arc::new(journal))
}

fn blocking() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// More than two segments take.
const MANY: u64 = 40;

#[test]
fn what_finds_no_room_on_the_disk_waits_and_goes_on() {
    let (disk, journal) = journal(8);
    let log = LogStore::new(Arc::clone(&journal) as _);
    log.medium.wait_for_room(Some(Duration::from_millis(1)));
    blocking().block_on(async {
        let mut log = log.clone();
        append(&mut log, vec![entry(0)]).await.await.unwrap();
        disk.limit_space(Some(disk.used_bytes()));
        let mut told = Vec::new();
        for index in 1..MANY {
            told.push(append(&mut log, vec![entry(index)]).await);
        }
        while !log.has_no_room() {
            std::thread::yield_now();
        }
        let last = told.last_mut().unwrap();
        assert!(last.now_or_never().is_none(), "it has no room");
        assert!(log.waiting(Instant::now()) > Duration::ZERO);
        // The engine waits for its vote, and for what is void.
        let mut voting = log.clone();
        let vote = Vote::new(7, 1);
        let mut voted = Box::pin(voting.save_vote(&vote));
        assert!(voted.as_mut().now_or_never().is_none());
        assert_eq!(log.read_vote().await.unwrap(), None);
        // What waits is readable.
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len() as u64, MANY);
        disk.limit_space(None);
        voted.await.unwrap();
        for told in told {
            told.await.unwrap();
        }
        assert!(!log.has_no_room());
        assert_eq!(log.waiting(Instant::now()), Duration::ZERO);
    });
    drop((log, journal));
    let options = JournalOptions::new([1; 16]);
    let after = Journal::open(Arc::new(disk.crash()), options).unwrap().0;
    let mut after = LogStore::new(Arc::new(after));
    blocking().block_on(async {
        assert_eq!(after.read_vote().await.unwrap(), Some(Vote::new(7, 1)));
        assert_eq!(after.last(), Some(id(1, MANY - 1)));
    });
}

/// The engine ends only when its log answers.
#[test]
fn what_waits_for_room_fails_when_it_is_given_up() {
    paused().block_on(async {
        let medium = SimulatedLog::new(1, Duration::from_millis(1)..=Duration::from_millis(1));
        let mut log = LogStore::new(medium.open());
        append(&mut log, vec![entry(0)]).await.await.unwrap();
        medium.fill(true);
        let waiting = append(&mut log, vec![entry(1)]).await;
        let mut voting = log.clone();
        let vote = Vote::new(7, 1);
        let mut voted = Box::pin(voting.save_vote(&vote));
        let limit = Duration::from_secs(3_600);
        assert!(tokio::time::timeout(limit, &mut voted).await.is_err(), "told without room");
        log.give_up_room();
        assert_eq!(waiting.await.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(voted.await.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(medium.entries().len(), 1);
    });
}

/// The room that is waited for may be that of entries nobody needs.
#[test]
fn a_purge_does_not_wait_for_room() {
    // Three entries of three blocks; then two blocks are left, and that of the seal.
    let (disk, journal) = journal(13);
    let log = LogStore::new(Arc::clone(&journal) as _);
    log.medium.wait_for_room(Some(Duration::from_millis(1)));
    blocking().block_on(async {
        let mut log = log.clone();
        let record = RecordBytes(vec![7; 10_000].into());
        let large = |index| {
            let payload = EntryPayload::Normal(record.clone());
            vec![Entry { log_id: id(1, index), payload }]
        };
        append(&mut log, large(0)).await.await.unwrap();
        disk.limit_space(Some(disk.used_bytes()));
        let mut last = 0;
        let waiting = loop {
            let mut told = append(&mut log, large(last + 1)).await;
            let outcome = loop {
                match (&mut told).now_or_never() {
                    None if log.has_no_room() => break None,
                    None => std::thread::yield_now(),
                    outcome => break outcome,
                }
            };
            let Some(outcome) = outcome else { break told };
            outcome.unwrap();
            last += 1;
        };
        log.purge(id(1, last)).await.unwrap();
        assert_eq!(journal.status().purged.unwrap().index, last + 1);
        disk.limit_space(None);
        waiting.await.unwrap();
    });
}
