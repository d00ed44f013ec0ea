//! The engine of one machine: a journal.
//!
//! A batch is appended to the journal; when it is durable there the state machine applies it, and
//! only then whoever waits is told, all on the journal's thread. There is one reign and no leader
//! to lose. The journal's own order is the fence: a batch that does not follow the last one that
//! was written is refused.
//!
//! Invariant: after a failed write or sync nothing is committed any more, and no batch that was in
//! flight is called anything but unknown.
//! Invariant: `applied` moves only after the state machine has applied, and before `done`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use journal::{Appended, Entries, Journal, JournalError, JournalPosition};
use store::{LogPosition, Lsn};

use super::members::OnlySelf;
use super::tail::JournalTail;
use super::{
    BarrierDone, CommitDone, CommitError, CommitLog, Decided, EncodedRecord, Gone, LogBatch,
    LogProgress, Membership, ReadLevel, Reign, Role, RoleWatcher, StateMachine, Tail,
};

/// A log that is one journal.
pub struct Local {
    shared: Arc<Shared>,
}

/// What the journal's thread, tails and callers share.
pub(super) struct Shared {
    journal: Arc<Journal>,
    machine: Arc<dyn StateMachine>,
    in_flight: AtomicUsize,
    pub(super) progress: LogProgress,
}

impl Local {
    /// A log on `journal`, all of which `machine` has applied.
    pub fn open(journal: Arc<Journal>, machine: Arc<dyn StateMachine>) -> Self {
        let progress = LogProgress::new(machine.applied(), Role::Deciding(Reign::ETERNAL));
        Self {
            shared: Arc::new(Shared { journal, machine, in_flight: AtomicUsize::new(0), progress }),
        }
    }
}

impl CommitLog for Local {
    fn commit(&self, reign: Reign, batch: LogBatch, done: CommitDone) {
        if reign != Reign::ETERNAL {
            return done(Err(CommitError::NotDeciding { leader: None }));
        }
        if let Err(error) = self.shared.check(&batch) {
            return done(Err(error));
        }
        let LogBatch { records, durability } = batch;
        let entries = records.iter().map(|record| Appended {
            place: JournalPosition { term: reign.0, index: record.lsn.0 },
            payload: Arc::clone(&record.bytes),
        });
        let entries = entries.collect();
        self.shared.in_flight.fetch_add(1, Ordering::AcqRel);
        let shared = Arc::clone(&self.shared);
        let written = move |outcome| {
            let outcome = shared.written(&records, outcome);
            shared.in_flight.fetch_sub(1, Ordering::AcqRel);
            done(outcome);
        };
        self.shared.journal.append(entries, durability, Box::new(written));
    }

    fn in_flight(&self) -> usize {
        self.shared.in_flight.load(Ordering::Acquire)
    }

    /// One: while it is synced the next is gathered, and a larger batch costs no more syncs.
    fn window(&self) -> usize {
        1
    }

    fn role(&self) -> Role {
        self.shared.progress.role()
    }

    fn watch(&self, watcher: RoleWatcher) {
        self.shared.progress.watch(watcher);
    }

    fn barrier(&self, level: ReadLevel, done: BarrierDone) {
        match level {
            // There is nobody else: all that was acknowledged is applied here.
            ReadLevel::Local | ReadLevel::Linearizable => done(Ok(self.applied())),
            ReadLevel::AtLeast(asked) => self.shared.progress.when_applied(asked, done),
        }
    }

    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone> {
        let first = Lsn(self.shared.journal.first());
        if from < first {
            let reason = format!("record {} is not kept any more", from.0);
            return Err(Gone { first, reason, may_pass: false });
        }
        Ok(Box::new(JournalTail::new(Arc::clone(&self.shared), from)))
    }

    fn applied(&self) -> Lsn {
        self.shared.progress.applied()
    }

    fn members(&self) -> &dyn Membership {
        &OnlySelf
    }

    fn kept_index(&self) -> u64 {
        self.shared.journal.status().kept_index()
    }

    fn forget(&self, upto: LogPosition) {
        if let Err(error) = self.shared.journal.purge(upto.index) {
            tracing::warn!(%error, "the journal keeps more than it needs");
        }
    }

    fn close(&self) {
        self.shared.journal.close();
        self.shared.progress.close();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("journal", &self.shared.journal).finish_non_exhaustive()
    }
}

impl Shared {
    /// Whether a batch can be appended at all.
    fn check(&self, batch: &LogBatch) -> Result<(), CommitError> {
        if let Some(reason) = self.progress.failed() {
            return Err(CommitError::Fatal(reason));
        }
        if self.progress.is_closed() {
            return Err(closed());
        }
        batch.check()
    }

    /// The journal is done with a batch.
    fn written(
        &self,
        records: &[EncodedRecord],
        outcome: Result<JournalPosition, JournalError>,
    ) -> Result<Lsn, CommitError> {
        let place = outcome.map_err(|error| self.not_written(error))?;
        if let Some(reason) = self.progress.failed() {
            // It is in the journal, but what comes before it was not applied.
            return Err(CommitError::Unknown { reason });
        }
        let position = LogPosition { term: place.term, index: place.index };
        if let Err(error) = self.machine.apply(Decided::Here, records, position) {
            return Err(self.fail(format!("what is in the journal was not applied: {error}")));
        }
        let last = Lsn(place.index);
        self.progress.reached(last);
        Ok(last)
    }

    /// What a failure of the journal means for the batch.
    fn not_written(&self, error: JournalError) -> CommitError {
        match error {
            JournalError::NoSpace { .. } => CommitError::NoSpace,
            JournalError::OutOfOrder { expected, .. } => {
                CommitError::Stale { expected: Lsn(expected) }
            }
            JournalError::TooLarge { bytes, limit_bytes, .. } => CommitError::TooLarge {
                bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
                limit_bytes: usize::try_from(limit_bytes).unwrap_or(usize::MAX),
            },
            JournalError::Closed => closed(),
            // It was not even begun: nothing of the batch is in the journal.
            JournalError::Io { .. } => {
                tracing::warn!(%error, "the journal could not take a batch");
                CommitError::Busy
            }
            JournalError::Poisoned { .. }
            | JournalError::Damaged(_)
            | JournalError::Missing
            | JournalError::NotEmpty
            | JournalError::Foreign { .. }
            | JournalError::NewerFormat { .. }
            | JournalError::InUse
            | JournalError::Gone { .. }
            | JournalError::OutOfRange { .. } => self.fail(error.to_string()),
        }
    }

    /// Ends committing; what is in flight may have happened or not.
    fn fail(&self, reason: String) -> CommitError {
        if self.progress.set_role(Role::Failed(reason.clone())) {
            tracing::error!(%reason, "the log failed: no change is accepted until a restart");
        }
        let reason = self.progress.failed().unwrap_or(reason);
        CommitError::Unknown { reason }
    }

    /// Opens the journal for reading.
    pub(super) fn read(&self, from: Lsn) -> Result<Entries, JournalError> {
        self.journal.read(from.0)
    }

    /// The first record that is kept.
    pub(super) fn first(&self) -> Lsn {
        Lsn(self.journal.first())
    }
}

fn closed() -> CommitError {
    CommitError::Fatal("the server is shutting down".to_owned())
}
