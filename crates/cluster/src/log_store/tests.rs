//! The engine's storage suite over the log, on a disk in memory and on the simulated medium.

mod crash;
mod damage;
mod differential;
mod limits;
mod model;
mod room;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use journal::simulated::SimDisk;
use journal::{Journal, JournalOptions};
use openraft::alias::{SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, RaftSnapshotBuilder, StorageError};
use tokio::runtime::Runtime;

use super::*;
use crate::simulated::SimulatedLog;

/// What the engine's suite wants beside the log: it remembers what was applied last.
#[derive(Clone, Default)]
struct Applied {
    last: Option<LogId>,
    membership: StoredMembershipOf<Types>,
    /// Shared with the builder of snapshots.
    snapshot: Arc<Mutex<Option<SnapshotMetaOf<Types>>>>,
}

impl RaftSnapshotBuilder<Types> for Applied {
    type SnapshotData = ();

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, ()>> {
        let meta = SnapshotMetaOf::<Types> {
            last_log_id: self.last,
            last_membership: self.membership.clone(),
        };
        *self.snapshot.lock().unwrap() = Some(meta.clone());
        Ok(SnapshotOf::<Types, ()> { meta, snapshot: () })
    }
}

impl RaftStateMachine<Types> for Applied {
    type SnapshotData = ();
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembershipOf<Types>)> {
        Ok((self.last, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            self.last = Some(entry.log_id);
            if let EntryPayload::Membership(membership) = entry.payload {
                self.membership = StoredMembershipOf::<Types>::new(Some(entry.log_id), membership);
            }
            if let Some(responder) = responder {
                responder.send(crate::types::RecordOutcome::Applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<Types>, (): ()) -> io::Result<()> {
        (self.last, self.membership) = (meta.last_log_id, meta.last_membership.clone());
        *self.snapshot.lock().unwrap() = Some(meta.clone());
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, ()>>> {
        Ok(self
            .snapshot
            .lock()
            .unwrap()
            .clone()
            .map(|meta| SnapshotOf::<Types, ()> { meta, snapshot: () }))
    }
}

/// A log on a disk in memory.
struct OnDisk;

/// A log on the simulated medium.
struct Simulated;

fn log_on(disk: &SimDisk) -> LogStore {
    let options = JournalOptions { segment_bytes: 1 << 16, ..JournalOptions::new([1; 16]) };
    LogStore::new(Arc::new(Journal::create(Arc::new(disk.clone()), options, 1).unwrap()))
}

impl StoreBuilder<Types, LogStore, Applied> for OnDisk {
    async fn build(&self) -> Result<((), LogStore, Applied), StorageError<Types>> {
        Ok(((), log_on(&SimDisk::new(1)), Applied::default()))
    }
}

impl StoreBuilder<Types, LogStore, Applied> for Simulated {
    async fn build(&self) -> Result<((), LogStore, Applied), StorageError<Types>> {
        let log = SimulatedLog::new(1, Duration::from_micros(10)..=Duration::from_millis(10));
        Ok(((), LogStore::new(log.open()), Applied::default()))
    }
}

/// Time passes only when nothing else is to be done: the suite sleeps.
fn paused() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}

#[test]
fn the_storage_suite_of_the_engine_passes() {
    paused().block_on(crate::types::Runtime::scope(1, Suite::test_all(OnDisk))).unwrap();
}

#[test]
fn the_storage_suite_of_the_engine_passes_on_the_simulated_medium() {
    paused().block_on(crate::types::Runtime::scope(1, Suite::test_all(Simulated))).unwrap();
}
