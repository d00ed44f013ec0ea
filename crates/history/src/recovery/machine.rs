//! The store as the state machine of a log.
//!
//! What was decided here is in the store already, in sealed layers, and only becomes visible. What
//! was decided elsewhere is decoded and applied.
//!
//! A layer is a batch of the writer, and becomes visible as a whole. The log may commit a part of
//! it first, or lose the rest with the lead: the committed records of such a part are kept here
//! until the layer is whole, or until it is known that it never will be; then they are applied from
//! their octets.
//!
//! Invariant: what is visible is what the committed records up to [`StoreMachine::applied`] lead
//! to, in their order, wherever they were decided. Records that were given and are behind it are
//! kept; nobody is answered for them before `applied` has reached them.
//! Invariant: which records are void depends on the committed records alone.

mod copies;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::{CopyHead, DigestPoint, HeldState, LogPosition, Lsn, Mark, NotHeld, Store, View};

use self::copies::Received;
use super::BATCH_ROWS_MAX_BYTES;
use super::replay::{Outcome, Replay};
use crate::log::{ApplyError, CopyIntake, Decided, EncodedRecord, StateCopy, StateMachine};
use crate::record::Record;

/// Follows what records that are applied from their octets do: what is kept in memory beside the
/// store must be of the same state.
pub trait Follower: Send + Sync {
    /// What was decided and is not published is dropped; `published` is the last record that stays.
    /// No batch is made from now on until what is applied is visible.
    fn dropped(&self, published: &Mark);

    /// A record was applied, with which the history has come to `mark`, and led to `view`; nobody
    /// sees it yet, and no batch is made meanwhile.
    ///
    /// # Errors
    /// When `view` cannot be read. The record does not become visible.
    fn applied(&self, mark: &Mark, record: &Record, view: &View<'_>) -> Result<(), ApplyError>;

    /// A copy of another machine takes the place of everything: the history comes to `mark` at
    /// once, and `view` shows what is there then. Nobody sees it yet, and no batch is made
    /// meanwhile; [`Self::dropped`] was called before.
    ///
    /// # Errors
    /// When `view` cannot be read. Everything stays.
    fn replacing(&self, mark: &Mark, view: &View<'_>) -> Result<(), ApplyError>;

    /// What was applied is visible, or what took the place of everything; a batch may be in the
    /// making again.
    fn published(&self);
}

/// The store as the state machine of a log: what was decided here is there already and only
/// becomes visible.
pub struct StoreMachine {
    store: Arc<Store>,
    follower: Option<Arc<dyn Follower>>,
    /// Whether anything is in `kept`.
    has_kept: AtomicBool,
    /// Committed records that were decided here, of a layer that is not whole.
    kept: Mutex<Vec<Kept>>,
    /// Records that the log has and that changed nothing, since the start.
    voids: AtomicU64,
    /// A copy that was received and is not in place yet.
    received: Received,
}

struct Kept {
    record: EncodedRecord,
    position: LogPosition,
}

impl StoreMachine {
    /// The state machine of `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            follower: None,
            has_kept: AtomicBool::new(false),
            kept: Mutex::default(),
            voids: AtomicU64::new(0),
            received: Received::default(),
        }
    }

    /// With one who follows what is applied from octets.
    #[must_use]
    pub fn followed_by(self, follower: Arc<dyn Follower>) -> Self {
        Self { follower: Some(follower), ..self }
    }

    /// What was decided here becomes visible as far as its layers are whole. What has no layer any
    /// more is applied from its octets: the layer was dropped, after the lead was lost.
    fn publish_decided(
        &self,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        let mut kept = self.kept();
        keep(&mut kept, records, position);
        let Some(last) = kept.last().map(|kept| kept.record.lsn) else { return Ok(()) };
        let ends = self.store.tentative_ends();
        if let Some(end) = ends.iter().rev().find(|end| end.lsn <= last)
            && let Some(at) = kept.iter().find(|kept| kept.record.lsn == end.lsn)
        {
            // Of this hash, or it is another layer than the one that was committed.
            let _ = self.store.publish_exactly(end.lsn, at.record.hash, at.position);
        }
        let visible = self.store.published().lsn;
        kept.retain(|kept| kept.record.lsn > visible);
        let is_tentative = ends.iter().any(|end| end.lsn > last);
        if !kept.is_empty() && !is_tentative {
            return self.replay(kept);
        }
        self.note_kept(&kept);
        Ok(())
    }

    /// Applies what is kept.
    fn replay(&self, mut kept: MutexGuard<'_, Vec<Kept>>) -> Result<(), ApplyError> {
        let records = std::mem::take(&mut *kept);
        let mut records = records.iter();
        self.note_kept(&kept);
        let mut is_first = true;
        while is_first || !records.as_slice().is_empty() {
            // Behind a full overlay it is slow, but the log is not stopped.
            let _ = self.store.wait_for_room(ROOM_WAIT_MAX);
            let mut replay = Replay::begin(&self.store)?;
            if is_first && let Some(follower) = &self.follower {
                follower.dropped(&replay.last());
            }
            is_first = false;
            let mut done = Ok(());
            while done.is_ok()
                && replay.row_bytes() < BATCH_ROWS_MAX_BYTES
                && let Some(kept) = records.next()
            {
                done = self.apply_one(&mut replay, kept)?;
                // The state after it is compared with that of others.
                if self.store.is_awaited(replay.last().lsn) {
                    break;
                }
            }
            // What could be applied stays, also before one that could not.
            replay.publish();
            if let Some(follower) = &self.follower {
                follower.published();
            }
            done?;
        }
        Ok(())
    }

    /// What became of a record; an error outside is that of the follower, without whom nothing may
    /// become visible.
    fn apply_one(
        &self,
        replay: &mut Replay<'_>,
        kept: &Kept,
    ) -> Result<Result<(), ApplyError>, ApplyError> {
        match replay.record(&kept.record.bytes, kept.position) {
            Ok(Outcome::Done(record)) => {
                if let Some(follower) = &self.follower {
                    follower.applied(&replay.last(), &record, &replay.view())?;
                }
            }
            Ok(Outcome::Void(lsn)) => self.note_void(lsn, replay.last().lsn),
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    fn note_void(&self, lsn: Lsn, last: Lsn) {
        if self.voids.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                record = lsn.0,
                last = last.0,
                "a record of the log is void, on all servers: it was not decided on what is before \
                 it; more of them are only counted"
            );
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_kept(&self, kept: &[Kept]) {
        self.has_kept.store(!kept.is_empty(), Ordering::Release);
    }
}

/// Keeps records of which the last is at `position`.
fn keep(kept: &mut Vec<Kept>, records: &[EncodedRecord], position: LogPosition) {
    let last = records.last().map_or(0, |last| last.lsn.0);
    kept.extend(records.iter().map(|record| {
        let index = position.index.saturating_sub(last.saturating_sub(record.lsn.0));
        Kept { record: record.clone(), position: LogPosition { index, ..position } }
    }));
}

impl StateMachine for StoreMachine {
    fn apply(
        &self,
        decided: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        match decided {
            Decided::Here => {
                let Some(last) = records.last() else { return Ok(()) };
                let is_alone = !self.has_kept.load(Ordering::Acquire);
                if is_alone && self.store.publish_exactly(last.lsn, last.hash, position) {
                    return Ok(());
                }
                self.publish_decided(records, position)
            }
            Decided::Elsewhere => {
                let mut kept = self.kept();
                keep(&mut kept, records, position);
                self.replay(kept)
            }
        }
    }

    fn applied(&self) -> Lsn {
        self.store.published().lsn
    }

    fn position(&self) -> LogPosition {
        self.store.published().position
    }

    fn membership(&self) -> Result<Vec<u8>, ApplyError> {
        Ok(self.store.membership()?)
    }

    fn set_membership(&self, octets: Vec<u8>) {
        self.store.set_membership(octets);
    }

    fn begin_membership(&self, octets: Vec<u8>) -> Result<(), ApplyError> {
        self.store.set_membership(octets);
        self.store.flush()?;
        Ok(())
    }

    fn digests(&self) -> Vec<DigestPoint> {
        self.store.digests()
    }

    fn hold(&self, lsn: Lsn, limit: Duration) -> Result<HeldState, NotHeld> {
        self.store.hold_at(lsn, limit)
    }

    fn copy_bytes(&self) -> Option<u64> {
        self.store.copy_bytes().ok()
    }

    fn copy(&self) -> Result<Arc<dyn StateCopy>, ApplyError> {
        Ok(Arc::new(self.store.copy_base()?))
    }

    fn receive(&self, head: &CopyHead) -> Result<Box<dyn CopyIntake>, ApplyError> {
        self.received.begin(&self.store, head)
    }

    fn install(&self, id: &[u8; 16]) -> Result<(), ApplyError> {
        self.replace(id)
    }

    fn settle_copied(&self) {
        // With it there the next start looks once more whether the log goes on behind the copy.
        if let Err(error) = self.store.settle_copied() {
            tracing::warn!(%error, "the note of the copy that was taken over stays");
        }
    }

    fn drop_received(&self) {
        self.received.clear(&self.store);
    }
}

impl std::fmt::Debug for StoreMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreMachine").field("store", &self.store).finish_non_exhaustive()
    }
}

/// How long a batch of records waits for the flush while the overlay is full. A log that waited for
/// longer would take its machine for dead.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);
