//! The data directory of a server of a cluster, in the hands of what knows no cluster.

use std::sync::Arc;

use journal::{Appended, Durability, JournalPosition, copy};
use store::{LogPosition, Lsn, StoreError, StoreOptions};

use super::super::tests::{Fixture, ldif};
use super::super::{StoreMachine, accept_loss, check_journal, open_unapplied, settle};
use super::*;
use crate::log::{Decided, EncodedRecord, Reign, StateMachine as _};
use crate::test_support::{self, History};

const TERM: u64 = 2;
pub(in crate::recovery) const MEMBERS: &[u8] = b"those who take part";

/// A server that was alone until its record 20, and became one of a cluster.
pub(in crate::recovery) struct Server {
    pub(in crate::recovery) fixture: Fixture,
    history: History,
}

impl Server {
    pub(in crate::recovery) fn new() -> Self {
        let fixture = Fixture::new(1);
        let mut history = History::new(1);
        fixture.commit(&mut history, 20, 7);
        history.in_reign(Reign(TERM));
        Self { fixture, history }
    }

    /// What the journal says that is opened for the cluster.
    fn journal(&self, store: &Store) -> Journal {
        let disk = Arc::new(self.fixture.disk.clone());
        open_unapplied(store, disk, Fixture::options(store)).unwrap()
    }

    /// Commits `records` of the cluster; behind them are two that are not committed. The last
    /// `kept` are only in the journal.
    pub(in crate::recovery) fn serve(&mut self, records: usize, kept: usize) -> String {
        let store = self.fixture.store();
        let machine = StoreMachine::new(Arc::clone(&store));
        let journal = self.journal(&store);
        machine.set_membership(MEMBERS.to_vec());
        journal.save_vote(b"a vote").unwrap();
        let mut index = journal.last().map_or(20, |last| last.index);
        let mut append = |payload: &[u8]| {
            index += 1;
            let place = JournalPosition { term: TERM, index };
            let entry = Appended { place, payload: payload.into() };
            journal.append_wait(vec![entry], Durability::Synced).unwrap();
            LogPosition { term: TERM, index }
        };
        append(&[0x00, 0x00]);
        for at in 0..records {
            if at == records - kept {
                store.flush().unwrap();
            }
            let record = decide(&mut self.history, &store);
            let position = append(&record.bytes);
            let one = std::slice::from_ref(&record);
            machine.apply(Decided::Elsewhere, one, position).unwrap();
            match at % 3 {
                0 => drop(append(&[0xff, 0xff, 1])),
                // Void: it comes twice.
                1 => drop(append(&record.bytes)),
                _ => {}
            }
        }
        if kept == 0 {
            store.flush().unwrap();
        }
        let committed = append(&[0x00, 0x00]);
        let place = JournalPosition { term: TERM, index: committed.index };
        journal.save_committed(place).unwrap();
        let entries = ldif(&store);
        let lost = decide(&mut self.history.fork(7), &store);
        append(&lost.bytes);
        append(b"no record at all");
        entries
    }
}

/// The next record, which changes nothing yet.
fn decide(history: &mut History, store: &Store) -> EncodedRecord {
    let undone = history.next(&store.published());
    test_support::decide(&mut store.begin_on_published().unwrap(), undone)
}

#[test]
fn what_is_committed_is_read_and_nothing_else() {
    for kept in [0, 5, 12] {
        let mut server = Server::new();
        let entries = server.serve(12, kept);
        assert_eq!(server.fixture.findings(), [""; 0]);
        let store = server.fixture.store();
        assert_eq!(store.base().lsn, Lsn(32 - kept as u64));
        let journal = copy::open(&server.fixture.disk, store.id()).unwrap();
        assert!(is_of_cluster(&store, &journal).unwrap());
        let records = replay_committed(&store, &journal, &mut |_| Ok(())).unwrap();
        assert_eq!(records, kept as u64);
        assert_eq!(store.published().lsn, Lsn(32));
        assert!(ldif(&store) == entries);
    }
}

#[test]
fn a_server_of_a_cluster_is_not_taken_for_one_that_is_alone() {
    let mut server = Server::new();
    server.serve(12, 5);
    let store = server.fixture.store();
    let before = store.base();
    let is_refused = |error: HistoryError| matches!(error, HistoryError::OfCluster);
    assert!(is_refused(server.fixture.open(&store).unwrap_err()));
    assert!(is_refused(settle(&store, &server.fixture.data()).unwrap_err()));
    assert_eq!(store.base(), before);
    drop(store);
    assert!(is_refused(accept_loss(&server.fixture.data()).unwrap_err()));
    // The vote says so, also when it is not in the base who takes part.
    let other = Fixture::new(1);
    let store = other.store();
    let (journal, _) = other.open(&store).unwrap();
    journal.save_vote(b"a vote").unwrap();
    drop(journal);
    assert!(is_refused(other.open(&store).map(|(_, recovered)| recovered).unwrap_err()));
}

#[test]
fn the_journal_of_a_server_that_was_alone_is_applied_and_forgotten() {
    let server = Server::new();
    let store = server.fixture.store();
    assert!(store.base().lsn < Lsn(20));
    let journal = server.journal(&store);
    assert_eq!(store.base().lsn, Lsn(20));
    let status = journal.status();
    assert_eq!(status.purged, Some(JournalPosition { term: 1, index: 20 }));
    assert_eq!((journal.last(), status.first), (None, 21));
    drop(journal);
    // Until it takes part in a cluster it can be alone again.
    let (journal, recovered) = server.fixture.open(&store).unwrap();
    assert_eq!((journal.first(), recovered.records), (21, 0));
}

#[test]
fn the_journal_of_a_cluster_is_left_as_it_is() {
    let mut server = Server::new();
    server.serve(12, 5);
    let store = server.fixture.store();
    let journal = server.journal(&store);
    let last = journal.last();
    assert_eq!((store.published(), last.is_some()), (store.base(), true));
    assert_eq!(journal.committed().map(|place| place.index + 2), last.map(|last| last.index));
    drop(journal);
    assert_eq!(server.journal(&store).last(), last);
}

#[test]
fn entries_that_are_missing_are_found() {
    let mut server = Server::new();
    server.serve(12, 0);
    let store = server.fixture.store();
    let journal = server.journal(&store);
    let base = store.base().position;
    journal.truncate_suffix(base.index - 2).unwrap();
    drop(journal);
    // Nor does a member vote with it.
    let disk = Arc::new(server.fixture.disk.clone());
    let refused = open_unapplied(&store, disk, Fixture::options(&store)).unwrap_err();
    assert!(refused.to_string().contains("the end of the journal is missing"), "{refused}");
    assert!(matches!(refused, HistoryError::Mismatch { advice: ADVICE_LOST_ENTRIES, .. }));
    drop(store);
    let findings = server.fixture.findings();
    assert!(findings.len() == 1 && findings[0].contains("the end of the journal"), "{findings:?}");
}

#[test]
fn a_real_directory_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    super::super::tests::create(&data);
    let store = Store::open(&data, &StoreOptions::default(), schema::Schema::builtin()).unwrap();
    let disk = crate::journal_disk(&data).unwrap();
    let journal = open_unapplied(&store, disk, Fixture::options(&store)).unwrap();
    journal.save_vote(b"a vote").unwrap();
    let place = JournalPosition { term: TERM, index: 1 };
    let entry = Appended { place, payload: [0x00, 0x00][..].into() };
    journal.append_wait(vec![entry], Durability::Synced).unwrap();
    drop((store, journal));
    let check = check_journal(&data, &mut |_, _, _| ()).unwrap();
    assert_eq!((check.findings, check.records), (Vec::<String>::new(), 0));
}

/// Puts a copy of `from` in the place of what `to` has, and ends before the journal is told.
fn take_over(from: &Server, to: &Server) -> LogPosition {
    let copy = StoreMachine::new(from.fixture.store()).copy().unwrap();
    let store = to.fixture.store();
    let machine = StoreMachine::new(Arc::clone(&store));
    let mut intake = machine.receive(copy.head()).unwrap();
    let mut octets = vec![0; usize::try_from(copy.head().bytes).unwrap()];
    copy.read_at(0, &mut octets).unwrap();
    assert!(machine.install(&copy.head().id).is_err(), "nothing is received yet");
    intake.write(&octets).unwrap();
    assert_eq!(intake.finish().unwrap(), MEMBERS);
    assert!(machine.install(&[0; 16]).is_err(), "it is another one");
    machine.install(&copy.head().id).unwrap();
    assert_eq!(machine.position(), copy.head().mark.position);
    machine.position()
}

#[test]
fn the_journal_goes_on_behind_a_copy_that_was_taken_over() {
    let mut ahead = Server::new();
    let entries = ahead.serve(12, 0);
    // One that is behind, and one that has entries of its own that the others do not have.
    for has_more in [false, true] {
        let behind = Server::new();
        let store = behind.fixture.store();
        let journal = behind.journal(&store);
        journal.save_vote(b"a vote").unwrap();
        if has_more {
            for index in 21..80 {
                let place = JournalPosition { term: 1, index };
                let entry = Appended { place, payload: [0x00, 0x00].into() };
                journal.append_wait(vec![entry], Durability::Synced).unwrap();
            }
        }
        drop((journal, store));
        let copied = take_over(&ahead, &behind);
        // Whoever only looks finds nothing wrong.
        assert_eq!(behind.fixture.findings(), [""; 0]);
        let store = behind.fixture.store();
        let snapshot = copy::open(&behind.fixture.disk, store.id()).unwrap();
        assert_eq!(replay_committed(&store, &snapshot, &mut |_| Ok(())).unwrap(), 0);
        let journal = behind.journal(&store);
        let place = JournalPosition { term: copied.term, index: copied.index };
        assert_eq!((journal.status().purged, journal.last()), (Some(place), None), "{has_more}");
        assert_eq!(journal.vote().as_deref(), Some(&b"a vote"[..]));
        assert_eq!(store.copied().unwrap(), None);
        assert!(ldif(&store) == entries);
        drop((journal, store));
        let store = behind.fixture.store();
        drop(behind.journal(&store));
    }
}

#[test]
fn the_journal_keeps_what_follows_a_copy_that_was_taken_over() {
    let mut ahead = Server::new();
    ahead.serve(12, 0);
    let behind = Server::new();
    let store = behind.fixture.store();
    let journal = behind.journal(&store);
    journal.save_vote(b"a vote").unwrap();
    // It has the entries, and has not applied them.
    let source = ahead.fixture.store();
    let from = copy::open(&ahead.fixture.disk, source.id()).unwrap();
    for entry in from.read(21).unwrap() {
        let LogEntry { place, payload } = entry.unwrap();
        let entry = Appended { place, payload: payload.into() };
        journal.append_wait(vec![entry], Durability::Synced).unwrap();
    }
    let last = journal.last();
    drop((journal, store, source, from));
    take_over(&ahead, &behind);
    let store = behind.fixture.store();
    let journal = behind.journal(&store);
    assert_eq!((journal.last(), store.copied().unwrap()), (last, None));
}

#[test]
fn an_older_copy_is_not_taken_over() {
    let mut server = Server::new();
    server.serve(3, 0);
    let store = server.fixture.store();
    let machine = StoreMachine::new(Arc::clone(&store));
    let copy = machine.copy().unwrap();
    let record = decide(&mut server.history, &store);
    let position = LogPosition { term: TERM, index: 90 };
    machine.apply(Decided::Elsewhere, &[record], position).unwrap();
    let mut intake = machine.receive(copy.head()).unwrap();
    let mut octets = vec![0; usize::try_from(copy.head().bytes).unwrap()];
    copy.read_at(0, &mut octets).unwrap();
    intake.write(&octets).unwrap();
    intake.finish().unwrap();
    let error = machine.install(&copy.head().id).unwrap_err();
    assert!(error.to_string().contains("is older than the data here"), "{error}");
    assert_eq!(machine.position(), position);
    // Nor one that the disk has no room for.
    let endless = store::CopyHead { bytes: 1 << 60, ..*copy.head() };
    let refused = machine.receive(&endless).map(drop).unwrap_err();
    assert!(
        matches!(refused, crate::log::ApplyError::Store(StoreError::NoRoom { .. })),
        "{refused}"
    );
}
