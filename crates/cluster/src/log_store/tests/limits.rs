//! What the log keeps in memory, and what one read returns.

use futures_util::{FutureExt, StreamExt};

use super::model::{append, id};
use super::*;
use crate::types::RecordBytes;

const RECORD_BYTES: usize = 256 << 10;

/// An entry with a record of [`RECORD_BYTES`], which all share.
fn entry(index: u64, record: &RecordBytes) -> Entry {
    Entry { log_id: id(1, index), payload: EntryPayload::Normal(record.clone()) }
}

fn record() -> RecordBytes {
    RecordBytes(vec![7; RECORD_BYTES].into())
}

fn medium() -> SimulatedLog {
    SimulatedLog::new(1, Duration::from_millis(1)..=Duration::from_millis(1))
}

/// The sum of the records.
fn bytes(entries: &[Entry]) -> usize {
    entries.len() * RECORD_BYTES
}

async fn filled(log: &mut LogStore, count: u64) {
    let record = record();
    for index in 0..count {
        append(log, vec![entry(index, &record)]).await.await.unwrap();
    }
}

#[test]
fn appends_wait_while_the_medium_stands_still() {
    paused().block_on(async {
        let medium = medium();
        let mut log = LogStore::new(medium.open());
        medium.stall(true);
        let record = record();
        let count = (WAITING_MAX_BYTES / RECORD_BYTES) as u64;
        for index in 0..count {
            let taken = append(&mut log, vec![entry(index, &record)]).now_or_never();
            assert!(taken.is_some(), "entry {index} waits");
        }
        let mut more = Box::pin(append(&mut log, vec![entry(count, &record)]));
        let limit = Duration::from_secs(3600);
        assert!(tokio::time::timeout(limit, &mut more).await.is_err(), "no limit");
        medium.stall(false);
        more.await.await.unwrap();
        let kept = log.recent().bytes();
        assert!(kept <= RECENT_MAX_BYTES, "{kept} bytes of what is written");
        assert_eq!(log.recent().waiting_bytes(), 0);
        // What left memory is on the medium.
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len() as u64, count + 1);
    });
}

/// An append that fails while another waits for room does not leave it waiting.
#[test]
fn appends_do_not_wait_for_a_medium_that_failed() {
    paused().block_on(async {
        let medium = medium();
        let mut log = LogStore::new(medium.open());
        medium.stall(true);
        let record = record();
        let many = (WAITING_MAX_BYTES / RECORD_BYTES) as u64;
        let entries = (0..many).map(|index| entry(index, &record)).collect();
        let first = append(&mut log, entries).await;
        let mut more = Box::pin(append(&mut log, vec![entry(many, &record)]));
        assert!(more.as_mut().now_or_never().is_none());
        medium.fail_next_sync();
        medium.stall(false);
        assert!(more.await.await.is_err());
        assert!(first.await.is_err());
        let first = log.failure().unwrap().to_owned();
        for index in [many + 1, many + 2] {
            let error = append(&mut log, vec![entry(index, &record)]).await.await.unwrap_err();
            assert_eq!(error.to_string(), format!("an append has failed: {first}"));
        }
    });
}

#[test]
fn what_is_sent_at_once_has_a_limit() {
    paused().block_on(async {
        let medium = medium();
        let mut log = LogStore::new(medium.open());
        filled(&mut log, 20).await;
        // From memory, then from the medium.
        for mut log in [log, LogStore::new(medium.open())] {
            let read = log.limited_get_log_entries(3, 20).await.unwrap();
            assert_eq!(read[0].log_id, id(1, 3));
            assert!(bytes(&read) <= READ_MAX_BYTES && read.len() > 1, "{} entries", read.len());
            assert_eq!(log.limited_get_log_entries(3, 5).await.unwrap().len(), 2);
        }
    });
}

/// The engine takes for applied what it asked for, so that what is not there must be an error.
#[test]
fn what_is_applied_is_read_in_parts() {
    paused().block_on(async {
        let medium = medium();
        let mut log = LogStore::new(medium.open());
        filled(&mut log, 20).await;
        for mut log in [log, LogStore::new(medium.open())] {
            let all: Vec<Entry> =
                log.entries_stream(2..20).await.map(Result::unwrap).collect().await;
            assert!(all.iter().map(|entry| entry.log_id.index).eq(2..20));
        }
        let mut log = LogStore::new(medium.open());
        let mut reader = log.clone();
        let mut stream = Box::pin(reader.entries_stream(0..20).await);
        assert_eq!(stream.next().await.unwrap().unwrap().log_id, id(1, 0));
        log.purge(id(1, 19)).await.unwrap();
        let rest: Vec<_> = stream.collect().await;
        let read = rest.iter().take_while(|entry| entry.is_ok()).count();
        assert!((read + 1) * RECORD_BYTES <= READ_MAX_BYTES, "{read} entries after the first");
        let error = rest[read].as_ref().unwrap_err();
        assert_eq!(error.to_string(), format!("the log lacks entry {}", read + 1));
        assert_eq!(rest.len(), read + 1);
    });
}

#[test]
fn entries_that_do_not_follow_are_refused() {
    paused().block_on(async {
        let mut log = LogStore::new(medium().open());
        filled(&mut log, 3).await;
        let record = record();
        for index in [0, 2, 4] {
            let refused = append(&mut log, vec![entry(index, &record)]).await.await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        append(&mut log, vec![entry(3, &record), entry(4, &record)]).await.await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 5);
    });
}

/// A snapshot may be installed twice, or one that is older than what was purged.
#[test]
fn a_purge_never_goes_back() {
    paused().block_on(async {
        let mut log = LogStore::new(medium().open());
        log.purge(id(3, 9)).await.unwrap();
        log.purge(id(3, 9)).await.unwrap();
        log.purge(id(2, 4)).await.unwrap();
        let state = log.get_log_state().await.unwrap();
        assert_eq!(state.last_purged_log_id, Some(id(3, 9)));
        assert_eq!(state.last_log_id, Some(id(3, 9)));
    });
}
