//! The log of the engine, on the journal.
//!
//! Entries are in memory from the moment they are appended until they are written, and the newest
//! of them longer: followers read those. Older ones are read from the medium.
//!
//! Invariant: the callback of an append is called after the sync, in the order of the appends.
//! Invariant: a vote, a truncation and a purge are on the medium when their call returns.
//! Invariant: what finds no room on the medium waits for it, and all that was asked after it waits
//! behind it: the engine is told of no failure, and of nothing that is not on the medium.
//! Invariant: memory is bounded by [`RECENT_MAX_BYTES`], [`WAITING_MAX_BYTES`] and one append.

mod medium;
mod recent;
mod sync_times;
#[cfg(test)]
mod tests;

use std::fmt::{Debug, Display};
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::stream;
use futures_util::{Stream, TryStreamExt};
use journal::{Appended, JournalError, JournalPosition, JournalStatus, LogEntry};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::recent::Recent;
pub(crate) use self::recent::size;
use self::sync_times::SyncTimes;
use crate::entry::{self, Malformed};
use crate::types::{Entry, LogId, Types, Vote};
pub use medium::{LogMedium, Waiting};

/// The newest entries kept in memory, in bytes; those that are not written are kept beyond it.
pub(crate) const RECENT_MAX_BYTES: usize = 32 << 20;
/// Entries that the medium has not written yet, in bytes. With more of them an append waits, and
/// with it the engine: a leader whose disk stands still has others elect another one.
pub(crate) const WAITING_MAX_BYTES: usize = 64 << 20;
/// How often a medium that has no room is tried again.
const ROOM_EVERY: Duration = Duration::from_secs(1);
/// What one read of the log returns at the most, in bytes, if more than one entry.
pub(crate) const READ_MAX_BYTES: usize = 1 << 20;

/// The log of the engine; clones are the same log.
#[derive(Clone)]
pub struct LogStore {
    medium: Arc<dyn LogMedium>,
    memory: Arc<Memory>,
}

/// What is known beside the medium.
#[derive(Default)]
struct Memory {
    recent: Mutex<Recent>,
    /// The outcome of an append became known.
    known: Notify,
    /// Why the first failed of what was asked of the medium.
    failure: OnceLock<String>,
    syncs: SyncTimes,
}

impl Memory {
    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`failed`]; the first is remembered.
    fn failed(&self, error: JournalError) -> io::Error {
        self.failure.get_or_init(|| match &error {
            JournalError::NoSpace { .. } => format!("{error}; {MAKE_ROOM}"),
            JournalError::Io { .. } => format!("{error}; {LOOK_AT_DISK}"),
            // The others say by themselves what is to be done, if there is anything.
            error => error.to_string(),
        });
        failed(error)
    }
}

impl LogStore {
    /// The log that `medium` holds; a [`journal::Journal`] is one. There is one such log at a time
    /// for a medium. What finds no room there waits for it.
    #[must_use]
    pub fn new(medium: Arc<dyn LogMedium>) -> Self {
        medium.wait_for_room(Some(ROOM_EVERY));
        Self { medium, memory: Arc::default() }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.memory.recent()
    }

    /// How the medium is doing.
    pub(crate) fn status(&self) -> JournalStatus {
        self.medium.status()
    }

    /// Why the first failed of what was asked of the medium, and what is to be done, in a sentence;
    /// none if nothing has. What fails later may fail because that did.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.memory.failure.get().map(String::as_str)
    }

    fn medium(&self) -> Arc<dyn LogMedium> {
        Arc::clone(&self.medium)
    }

    /// Whether entries can follow. The engine sees to it; here it keeps memory and medium the same.
    fn check(&self, entries: &[Entry]) -> io::Result<()> {
        if self.recent().has_failed() {
            let reason = self.failure().unwrap_or("the log must be opened anew");
            return Err(io::Error::other(format!("an append has failed: {reason}")));
        }
        let mut before = self.last().map(|last| last.index);
        for entry in entries {
            let index = entry.log_id.index;
            if before.is_some_and(|before| before + 1 != index) {
                let message = format!("entry {index} does not follow the last of the log");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            before = Some(index);
        }
        Ok(())
    }

    /// An empty log begins wherever its first entry stands.
    async fn begin(&self, index: u64) -> io::Result<()> {
        let status = self.medium.status();
        let is_empty = status.last.is_none() && status.purged.is_none();
        if !is_empty || status.first == index || self.recent().first().is_some() {
            return Ok(());
        }
        self.done(self.medium().reset(index)).await
    }

    /// Waits for what is not an append. Nothing else is asked meanwhile.
    async fn done(&self, waiting: Waiting<()>) -> io::Result<()> {
        self.memory.syncs.begin(Instant::now());
        let outcome = waiting.await;
        self.memory.syncs.end(Instant::now());
        outcome.map_err(|error| self.memory.failed(error))
    }

    /// The last entry, written or not.
    fn last(&self) -> Option<LogId> {
        let recent = self.recent().last().map(|entry| entry.log_id);
        recent.or_else(|| self.medium.status().last.map(entry::log_id))
    }

    /// Waits while the medium has too much to write.
    async fn room(&self) {
        while self.recent().waiting_bytes() >= WAITING_MAX_BYTES {
            self.memory.known.notified().await;
        }
    }

    /// Waits for what was appended, and says which is the last entry, 0 if there is none.
    async fn written(&self) -> Result<u64, JournalError> {
        self.medium().barrier().await?;
        Ok(self.medium.status().last.map_or(0, |last| last.index))
    }

    /// Entries from `start` to before `end` that are there, no more than fit into `max_bytes`
    /// beyond the first.
    async fn entries(&self, start: u64, end: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let status = self.medium.status();
        // What is purged stays readable for others.
        let purged = status.purged.map_or(0, |purged| purged.index);
        let start = start.max(purged).max(status.first.saturating_sub(1));
        if start >= end {
            return Ok(Vec::new());
        }
        if let Some(found) = self.recent().read(start, end, max_bytes) {
            return Ok(found);
        }
        // What is older than the recent ones is written.
        let end = self.recent().first().map_or(end, |first| end.min(first));
        let read = match self.medium().read(start + 1, end, max_bytes).await {
            // Purged and given up meanwhile.
            Err(JournalError::Gone { .. }) => Vec::new(),
            read => read.map_err(|error| self.memory.failed(error))?,
        };
        decoded(read)
    }
}

impl LogStore {
    /// Nothing is written any more.
    pub(crate) fn close(&self) {
        self.medium.close();
    }

    /// Index, as the journal counts, of the last entry before the newest segments that take `bytes`
    /// together; 0 if there are less.
    pub(crate) fn before_newest(&self, bytes: u64) -> u64 {
        self.medium.before_newest(bytes)
    }

    /// Whether it waits for room on the medium, or found none the last time.
    pub(crate) fn has_no_room(&self) -> bool {
        self.medium.status().is_full
    }

    /// What waits for room fails, and so does what finds none from now on: the engine ends.
    pub(crate) fn give_up_room(&self) {
        self.medium.wait_for_room(None);
    }

    /// How long the oldest has been waiting of what is not on the medium.
    pub(crate) fn waiting(&self, now: Instant) -> Duration {
        self.memory.syncs.waiting(now)
    }

    /// The longest that making an append durable took since this was last asked, or has been
    /// taking.
    pub(crate) fn take_slowest_sync(&self) -> Duration {
        self.memory.syncs.take_slowest(Instant::now())
    }

    /// Index, as the engine counts, of the first entry that can be read, purged or not.
    pub(crate) fn first_readable(&self) -> u64 {
        self.medium.status().first.saturating_sub(1)
    }

    /// As [`Self::entries`], on a thread that may wait, and with what is purged and still there.
    pub(crate) fn entries_now(&self, start: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        if let Some(found) = self.recent().read(start, u64::MAX, max_bytes)
            && !found.is_empty()
        {
            return Ok(found);
        }
        let read = self.medium.read_now(start + 1, u64::MAX, max_bytes).map_err(failed)?;
        decoded(read)
    }
}

const MAKE_ROOM: &str = "make room on its disk, then start the server again";
const LOOK_AT_DISK: &str = "see whether its disk is well, then start the server again";

/// Entries from what the medium has of them.
fn decoded(read: Vec<LogEntry>) -> io::Result<Vec<Entry>> {
    let decoded = read.into_iter().map(|read| {
        let entry = entry::decode(read.place, read.payload.into());
        entry.map_err(|reason| malformed(format!("entry {}", read.place.index), reason))
    });
    decoded.collect()
}

/// What cannot be read stops the engine: nobody votes on a guess.
fn malformed(what: impl Display, Malformed(reason): Malformed) -> io::Error {
    let message = format!("{what} of the journal cannot be read: {reason}");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The failure of the journal is the source of what the engine is told.
fn failed(error: JournalError) -> io::Error {
    let kind = match &error {
        JournalError::NoSpace { .. } => io::ErrorKind::StorageFull,
        JournalError::Damaged(_) => io::ErrorKind::InvalidData,
        JournalError::Io { kind, .. } => *kind,
        JournalError::Poisoned { .. }
        | JournalError::Missing
        | JournalError::NotEmpty
        | JournalError::Foreign { .. }
        | JournalError::NewerFormat { .. }
        | JournalError::InUse
        | JournalError::Gone { .. }
        | JournalError::OutOfOrder { .. }
        | JournalError::TooLarge { .. }
        | JournalError::OutOfRange { .. }
        | JournalError::Closed => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// The indexes of a range: the first, and that behind the last.
fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

impl RaftLogReader<Types> for LogStore {
    /// All at once: the engine asks for 64 entries at most. What it applies it takes from
    /// [`Self::entries_stream`], what it sends from [`Self::limited_get_log_entries`].
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let (mut from, end) = bounds(&range);
        let mut found: Vec<Entry> = Vec::new();
        loop {
            let mut more = self.entries(from, end, usize::MAX).await?;
            let Some(last) = more.last() else { return Ok(found) };
            from = last.log_id.index + 1;
            found.append(&mut more);
        }
    }

    /// A part at a time, so that a log of any length can be applied. The engine takes for applied
    /// what it asked for, whatever came: a purged or lost entry is an error.
    async fn entries_stream<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<Entry>> + OptionalSend {
        let log = self.clone();
        let (start, end) = bounds(&range);
        let parts = stream::try_unfold(start, move |from| {
            let log = log.clone();
            async move {
                if from >= end {
                    return Ok(None);
                }
                let part = log.entries(from, end, READ_MAX_BYTES).await?;
                let (Some(first), Some(last)) = (part.first(), part.last()) else {
                    let is_behind = log.last().is_none_or(|last| last.index < from);
                    return if is_behind { Ok(None) } else { Err(lacking(from)) };
                };
                if first.log_id.index != from {
                    return Err(lacking(from));
                }
                let next = last.log_id.index + 1;
                Ok(Some((stream::iter(part.into_iter().map(Ok)), next)))
            }
        });
        parts.try_flatten()
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        let vote = self.medium.vote();
        let vote = vote.map(|octets| entry::decode_vote(&octets)).transpose();
        vote.map_err(|reason| malformed("the vote", reason))
    }

    /// Nothing when the first is purged: the engine may still read for a member what it has given
    /// up the moment before, and takes what comes for what follows. It sends a heartbeat then, and
    /// a copy of the data when it has noticed.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let mut found = self.entries(start, end, READ_MAX_BYTES).await?;
        if found.first().is_some_and(|first| first.log_id.index != start) {
            found.clear();
        }
        Ok(found)
    }
}

fn lacking(index: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the log lacks entry {index}"))
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let last_purged_log_id = self.medium.status().purged.map(entry::log_id);
        Ok(LogState { last_purged_log_id, last_log_id: self.last().max(last_purged_log_id) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let octets = entry::encode_vote(vote).to_vec();
        self.done(self.medium().save_vote(octets)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        match committed {
            Some(id) => {
                let saved = self.medium.save_committed(entry::place(&id));
                saved.map_err(|error| self.memory.failed(error))
            }
            None => Ok(()),
        }
    }

    /// Never beyond the last entry: the mark of an entry may be there without it, when its append
    /// was refused for want of space.
    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        let last = self.get_log_state().await?.last_log_id;
        Ok(self.medium.status().committed.map(entry::log_id).min(last))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        self.check(&entries)?;
        let appended: Vec<Appended> = entries
            .iter()
            .map(|entry| {
                let payload = entry::encode(&entry.payload);
                Appended { place: entry::place(&entry.log_id), payload }
            })
            .collect();
        if let Some(first) = appended.first() {
            self.begin(first.place.index).await?;
        }
        self.room().await;
        let bytes = self.recent().push(entries);
        let memory = Arc::clone(&self.memory);
        self.memory.syncs.begin(Instant::now());
        let done = move |outcome: Result<JournalPosition, JournalError>| {
            memory.syncs.end(Instant::now());
            let mut recent = memory.recent();
            match &outcome {
                Ok(place) => recent.written(bytes, place.index),
                Err(_) => recent.failed(bytes),
            }
            drop(recent);
            memory.known.notify_one();
            callback.io_completed(outcome.map(|_| ()).map_err(|error| memory.failed(error)));
        };
        self.medium.append(appended, Box::new(done));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let after = last.map_or(0, |last| entry::place(&last).index);
        self.recent().truncate(after);
        let last = self.written().await.map_err(|error| self.memory.failed(error))?;
        if after < last {
            self.done(self.medium().truncate_suffix(after)).await?;
        }
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let place = entry::place(&upto);
        let status = self.medium.status();
        let purged = status.purged.map_or(0, |purged| purged.index);
        let mut last = status.last.map_or(0, |last| last.index);
        // What is written need not wait: it may be what takes the room that is waited for.
        if place.index > last {
            last = self.written().await.map_err(|error| self.memory.failed(error))?;
        }
        if place.index <= last {
            let purged = self.medium().purge(place.index).await;
            purged.map_err(|error| self.memory.failed(error))?;
        } else if place.index > purged {
            self.done(self.medium().reset_after(place)).await?;
        }
        self.recent().purge(upto.index);
        Ok(())
    }
}
