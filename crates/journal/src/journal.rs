//! The journal itself: what the rest of the server calls.

use std::sync::Arc;

use crate::{
    Appended, Disk, Durability, Entries, JournalError, JournalOptions, OpenReport, Place,
    VerifyReport,
};

/// Called once with the outcome of an append, on the journal's thread, in the order of appends.
///
/// It must not wait: every append behind it does.
pub type Done = Box<dyn FnOnce(Result<Place, JournalError>) + Send>;

/// An append-only log of entries in segment files.
///
/// Shared between threads. One thread of its own writes and syncs; it ends with [`Journal::close`]
/// or when the journal is dropped.
#[derive(Debug)]
pub struct Journal {
    status: JournalStatus,
}

/// How the journal is doing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JournalStatus {
    /// The first index that can be read.
    pub first: u64,
    /// The last entry written.
    pub last: Option<Place>,
    /// The last entry synced.
    pub durable: Option<Place>,
    /// Entries up to here are not needed for recovery.
    pub purged: Option<Place>,
    /// The last committed place saved.
    pub committed: Option<Place>,
    /// Bytes the segments occupy, used or reserved.
    pub bytes: u64,
    /// Segments that hold entries.
    pub segments: u64,
    /// Groups written since the journal was opened.
    pub groups: u64,
    /// Entries appended since the journal was opened.
    pub appended: u64,
    /// Syncs since the journal was opened.
    pub syncs: u64,
    /// Whether the last append failed for want of space.
    pub is_full: bool,
    /// Why no more is appended, if so.
    pub is_poisoned: Option<String>,
}

impl Journal {
    /// Makes a journal in an empty directory; `first` will be the index of its first entry.
    pub fn create(
        disk: Arc<dyn Disk>,
        options: JournalOptions,
        first: u64,
    ) -> Result<Self, JournalError> {
        let _ = (disk, options, first);
        Err(JournalError::Closed)
    }

    /// Opens a journal: cuts a torn tail (and reports it), refuses other damage.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: JournalOptions,
    ) -> Result<(Self, OpenReport), JournalError> {
        let _ = (disk, options);
        Err(JournalError::Closed)
    }

    /// The first index that can be read (or will be, if there is none yet).
    pub fn first(&self) -> u64 {
        self.status.first
    }

    /// The last entry written.
    pub fn last(&self) -> Option<Place> {
        self.status.last
    }

    /// The last entry synced.
    pub fn durable(&self) -> Option<Place> {
        self.status.durable
    }

    /// Appends entries, all or none, and returns at once; `done` learns the outcome.
    ///
    /// Appends that wait are written together and made durable with one sync. After a failed
    /// write or sync this and every later append fails with `Poisoned`. After `NoSpace` nothing
    /// of the append was written; later appends that build on it fail with `OutOfOrder`.
    pub fn append(&self, entries: Vec<Appended>, durability: Durability, done: Done) {
        let _ = (entries, durability);
        done(Err(JournalError::Closed));
    }

    /// Appends entries and waits for the outcome.
    pub fn append_wait(
        &self,
        entries: Vec<Appended>,
        durability: Durability,
    ) -> Result<Place, JournalError> {
        let _ = (entries, durability);
        Err(JournalError::Closed)
    }

    /// Reads from index `from` up to what is written now.
    pub fn read(&self, from: u64) -> Result<Entries, JournalError> {
        let _ = from;
        Err(JournalError::Closed)
    }

    /// Voids the entries behind `after`, durably; others take their indexes.
    pub fn truncate_suffix(&self, after: u64) -> Result<(), JournalError> {
        let _ = after;
        Err(JournalError::Closed)
    }

    /// Says that entries up to `upto` are not needed for recovery any more.
    ///
    /// They stay readable until more than `keep_bytes` of them are kept; then whole segments are
    /// reused or removed, oldest first. None is while somebody holds the journal
    /// (see [`copy::hold`](crate::copy::hold)); the next purge makes up for it.
    pub fn purge(&self, upto: u64) -> Result<(), JournalError> {
        let _ = upto;
        Err(JournalError::Closed)
    }

    /// Saves a vote, durably.
    pub fn save_vote(&self, vote: &[u8]) -> Result<(), JournalError> {
        let _ = vote;
        Err(JournalError::Closed)
    }

    /// The vote last saved.
    pub fn vote(&self) -> Option<Vec<u8>> {
        None
    }

    /// Saves how far the log is committed; rides on the next write and sync.
    pub fn save_committed(&self, place: Place) -> Result<(), JournalError> {
        let _ = place;
        Err(JournalError::Closed)
    }

    /// The committed place last saved.
    pub fn committed(&self) -> Option<Place> {
        None
    }

    /// Forgets all entries: `first` is the index of the next one. The vote stays.
    pub fn reset(&self, first: u64) -> Result<(), JournalError> {
        let _ = first;
        Err(JournalError::Closed)
    }

    /// How the journal is doing.
    pub fn status(&self) -> JournalStatus {
        self.status.clone()
    }

    /// Checks every byte of a journal that is not being written.
    ///
    /// `progress` is called now and then with the bytes checked so far and their total.
    pub fn verify(
        disk: &dyn Disk,
        options: &JournalOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> VerifyReport {
        crate::verify::verify(disk, options, progress)
    }

    /// Writes and syncs what waits, and ends the journal's thread. Later calls fail.
    pub fn close(&self) {}
}
