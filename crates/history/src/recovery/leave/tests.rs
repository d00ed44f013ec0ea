//! What is kept of a member that goes on alone.

use super::*;
use crate::recovery::common::tests::{MEMBERS, Server};

#[test]
fn all_that_the_log_holds_is_kept_and_told_apart() {
    for kept in [0, 5, 12] {
        let mut server = Server::new();
        let committed = server.serve(12, kept);
        let store = server.fixture.store();
        let disk = &server.fixture.disk;
        let held = look(&store, disk).unwrap();
        assert_eq!(held.membership, MEMBERS);
        // One record follows that is not committed, and something that is none.
        assert_eq!((held.committed, held.last), (Lsn(32), Lsn(33)));
        let damage = held.damage.as_deref().unwrap_or_default();
        assert!(damage.contains(&format!("entry {}", held.end.index + 1)), "{damage}");
        assert_eq!(store.base().lsn, Lsn(32 - kept as u64), "looking changes nothing");
        keep_all(&store, disk, held.end.index).unwrap();
        assert_eq!(store.base().lsn, Lsn(33));
        // Again, after it was broken off.
        let again = look(&store, disk).unwrap();
        assert_eq!((again.last, again.end), (Lsn(33), held.end));
        keep_all(&store, disk, again.end.index).unwrap();
        assert_eq!(store.base().lsn, Lsn(33));
        assert!(!committed.is_empty());
    }
}

#[test]
fn of_a_journal_that_cannot_be_read_nothing_is_used() {
    let mut server = Server::new();
    server.serve(12, 5);
    let store = server.fixture.store();
    let empty = journal::simulated::SimDisk::new(1);
    let held = look(&store, &empty).unwrap();
    // Nothing at all is what is left of one that was put aside.
    assert_eq!((held.last, held.damage), (Lsn(27), None));
    let disk = &server.fixture.disk;
    for name in disk.list().unwrap() {
        disk.flip(&name, 10);
    }
    let held = look(&store, &server.fixture.disk).unwrap();
    assert_eq!(held.last, Lsn(27));
    assert!(held.damage.is_some());
}

#[test]
fn a_server_that_is_alone_has_no_cluster_to_leave() {
    let server = Server::new();
    let store = server.fixture.store();
    let refused = look(&store, &server.fixture.disk).unwrap_err();
    assert!(matches!(refused, HistoryError::NotOfCluster));
}
