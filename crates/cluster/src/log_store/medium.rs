//! What the log of the engine is written on: the journal, or a model of it in memory.
//!
//! Invariant: what waits is a future, so that a model needs no thread and a simulation repeats.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use journal::{
    Appended, Done, Durability, Journal, JournalError, JournalPosition, JournalStatus, LogEntry,
};
use tokio::sync::oneshot;

/// What waits for the medium.
pub type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send>>;

/// Keeps entries, a vote and marks, in one order, as [`Journal`] does.
///
/// What is asked first is done first. A future that is dropped is done all the same.
pub trait LogMedium: Send + Sync + 'static {
    /// Appends entries and returns at once; `done` is called after the sync, in the order of the
    /// appends, also when nothing will be done any more. See [`Journal::append`].
    fn append(&self, entries: Vec<Appended>, done: Done);

    /// Waits until everything that was appended before is durable, or has failed.
    fn barrier(self: Arc<Self>) -> Waiting<()>;

    /// Entries from index `from` to `to`, both included, as far as they are written; beyond the
    /// first no more than fit into `max_bytes`.
    fn read(self: Arc<Self>, from: u64, to: u64, max_bytes: usize) -> Waiting<Vec<LogEntry>>;

    /// As [`Self::read`], on a thread that may wait.
    ///
    /// # Errors
    /// When the entries cannot be read, or are not there any more.
    fn read_now(&self, from: u64, to: u64, max_bytes: usize)
    -> Result<Vec<LogEntry>, JournalError>;

    /// Saves a vote, durably. See [`Journal::save_vote`].
    fn save_vote(self: Arc<Self>, vote: Vec<u8>) -> Waiting<()>;

    /// The vote last saved.
    fn vote(&self) -> Option<Vec<u8>>;

    /// Saves how far the log is committed, some time. See [`Journal::save_committed`].
    fn save_committed(&self, place: JournalPosition) -> Result<(), JournalError>;

    /// Voids the entries behind `after`, durably. See [`Journal::truncate_suffix`].
    fn truncate_suffix(self: Arc<Self>, after: u64) -> Waiting<()>;

    /// Says that entries up to `upto` are not needed any more. See [`Journal::purge`].
    fn purge(self: Arc<Self>, upto: u64) -> Waiting<()>;

    /// Forgets all entries; `first` is the index of the next. See [`Journal::reset`].
    fn reset(self: Arc<Self>, first: u64) -> Waiting<()>;

    /// Forgets all entries and goes on behind `purged`. See [`Journal::reset_after`].
    fn reset_after(self: Arc<Self>, purged: JournalPosition) -> Waiting<()>;

    /// The last index before the newest `bytes` or more; 0 if there are less. See
    /// [`Journal::before_newest`].
    fn before_newest(&self, bytes: u64) -> u64;

    /// How it is doing.
    fn status(&self) -> JournalStatus;

    /// Has what finds no room wait, and look for it every so often; with `None` it fails, and so
    /// does what waits. See [`Journal::wait_for_room`].
    fn wait_for_room(&self, every: Option<Duration>);

    /// Writes what was appended, and nothing after it. See [`Journal::close`].
    fn close(&self);
}

/// Does what waits on a thread that may.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Waiting<T> {
    // Begun now and not when somebody waits: what is asked first is done first.
    let done = tokio::task::spawn_blocking(work);
    Box::pin(async move { done.await.unwrap_or(Err(JournalError::Closed)) })
}

impl LogMedium for Journal {
    fn append(&self, entries: Vec<Appended>, done: Done) {
        Self::append(self, entries, Durability::Synced, done);
    }

    fn barrier(self: Arc<Self>) -> Waiting<()> {
        let (answer, outcome) = oneshot::channel();
        let done = move |place: Result<JournalPosition, JournalError>| {
            // Who asked may have gone.
            let _ = answer.send(place.map(|_| ()));
        };
        Self::append(&self, Vec::new(), Durability::Synced, Box::new(done));
        Box::pin(async move { outcome.await.unwrap_or(Err(JournalError::Closed)) })
    }

    fn read(self: Arc<Self>, from: u64, to: u64, max_bytes: usize) -> Waiting<Vec<LogEntry>> {
        on_thread(move || self.read_now(from, to, max_bytes))
    }

    fn read_now(
        &self,
        from: u64,
        to: u64,
        max_bytes: usize,
    ) -> Result<Vec<LogEntry>, JournalError> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for entry in Self::read(self, from)? {
            let entry = entry?;
            bytes += entry.payload.len();
            if entry.place.index > to || (bytes > max_bytes && !entries.is_empty()) {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn save_vote(self: Arc<Self>, vote: Vec<u8>) -> Waiting<()> {
        on_thread(move || Self::save_vote(&self, &vote))
    }

    fn vote(&self) -> Option<Vec<u8>> {
        Self::vote(self)
    }

    fn save_committed(&self, place: JournalPosition) -> Result<(), JournalError> {
        Self::save_committed(self, place)
    }

    fn truncate_suffix(self: Arc<Self>, after: u64) -> Waiting<()> {
        on_thread(move || Self::truncate_suffix(&self, after))
    }

    fn purge(self: Arc<Self>, upto: u64) -> Waiting<()> {
        on_thread(move || Self::purge(&self, upto))
    }

    fn reset(self: Arc<Self>, first: u64) -> Waiting<()> {
        on_thread(move || Self::reset(&self, first))
    }

    fn reset_after(self: Arc<Self>, purged: JournalPosition) -> Waiting<()> {
        on_thread(move || Self::reset_after(&self, purged))
    }

    fn before_newest(&self, bytes: u64) -> u64 {
        Self::before_newest(self, bytes)
    }

    fn status(&self) -> JournalStatus {
        Self::status(self)
    }

    fn wait_for_room(&self, every: Option<Duration>) {
        Self::wait_for_room(self, every);
    }

    fn close(&self) {
        Self::close(self);
    }
}
