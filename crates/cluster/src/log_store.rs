//! The journal as the log of the engine.
//!
//! Entries are in memory from the moment they are appended until they are written, and the newest
//! of them longer: followers read those. Older ones are read from the journal.
//!
//! Invariant: the callback of an append is called after the sync, in the order of the appends.
//! Invariant: a vote, a truncation and a purge are on the medium when their call returns.
//! Invariant: memory is bounded, except for what the journal has not written yet; that the engine
//! bounds, which waits for it.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use journal::{Appended, Durability, Journal, JournalError};
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};

use crate::entry::{self, Malformed};
use crate::types::{Entry, LogId, Types, Vote};

/// The newest entries kept in memory, in bytes; those that are not written are kept beyond it.
pub(crate) const RECENT_MAX_BYTES: usize = 32 << 20;
/// What one read of the log returns at the most, in bytes, if more than one entry.
pub(crate) const READ_MAX_BYTES: usize = 1 << 20;

/// The log of the engine; clones are the same log.
#[derive(Clone)]
pub struct LogStore {
    journal: Arc<Journal>,
    recent: Arc<Mutex<Recent>>,
}

/// The newest entries, without gaps.
#[derive(Default)]
struct Recent {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Index behind the last entry that the journal has written.
    written: u64,
}

impl LogStore {
    /// The log that `journal` holds.
    #[must_use]
    pub fn new(journal: Arc<Journal>) -> Self {
        Self { journal, recent: Arc::default() }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what waits for the medium, on a thread that may wait.
    async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Journal) -> Result<T, JournalError> + Send + 'static,
    ) -> io::Result<T> {
        let journal = Arc::clone(&self.journal);
        let done = tokio::task::spawn_blocking(move || work(&journal)).await;
        done.map_err(io::Error::other)?.map_err(io::Error::other)
    }

    /// An empty log begins wherever its first entry stands.
    async fn begin(&self, index: u64) -> io::Result<()> {
        let status = self.journal.status();
        let is_empty = status.last.is_none() && status.purged.is_none();
        if !is_empty || status.first == index || self.recent().first().is_some() {
            return Ok(());
        }
        self.wait(move |journal| journal.reset(index)).await
    }

    /// Entries of the journal from `start` to before `end`, no more than fit into `max_bytes`
    /// after the first.
    fn read(&self, start: u64, end: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for read in self.journal.read(start + 1).map_err(io::Error::other)? {
            let read = read.map_err(io::Error::other)?;
            if read.place.index > end {
                break;
            }
            bytes += read.payload.len();
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry::decode(read.place, read.payload.into()).map_err(malformed)?);
        }
        Ok(entries)
    }

    async fn entries(&self, start: u64, end: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        let status = self.journal.status();
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
        let log = self.clone();
        let read = tokio::task::spawn_blocking(move || log.read(start, end, max_bytes)).await;
        read.map_err(io::Error::other)?
    }
}

impl Recent {
    fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    fn read(&self, start: u64, end: u64, max_bytes: usize) -> Option<Vec<Entry>> {
        let first = self.first().filter(|first| *first <= start)?;
        let skip = usize::try_from(start - first).ok()?;
        let mut bytes = 0;
        let mut found: Vec<Entry> = Vec::new();
        for entry in self.entries.iter().skip(skip).take_while(|entry| entry.log_id.index < end) {
            bytes += size(entry);
            if bytes > max_bytes && !found.is_empty() {
                break;
            }
            found.push(entry.clone());
        }
        Some(found)
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += size(&entry);
        self.entries.push_back(entry);
    }

    /// The journal has written everything before `written`.
    fn written(&mut self, written: u64) {
        self.written = self.written.max(written);
        while self.bytes > RECENT_MAX_BYTES
            && self.entries.front().is_some_and(|entry| entry.log_id.index < self.written)
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
        }
    }

    /// Forgets the entries from `index` on.
    fn truncate(&mut self, index: u64) {
        while self.entries.back().is_some_and(|entry| entry.log_id.index >= index)
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes -= size(&entry);
        }
        self.written = self.written.min(index);
    }

    /// Forgets the entries up to `index`.
    fn purge(&mut self, index: u64) {
        while self.entries.front().is_some_and(|entry| entry.log_id.index <= index)
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
        }
    }
}

/// Waits for what was appended, and says which is the last entry, 0 if there is none.
fn written(journal: &Journal) -> Result<u64, JournalError> {
    journal.append_wait(Vec::new(), Durability::Synced)?;
    Ok(journal.last().map_or(0, |last| last.index))
}

/// What an entry takes in memory, about.
fn size(entry: &Entry) -> usize {
    const BESIDE_BYTES: usize = 64;
    let record = match &entry.payload {
        openraft::EntryPayload::Normal(record) => record.0.len(),
        openraft::EntryPayload::Blank | openraft::EntryPayload::Membership(_) => 0,
    };
    record + BESIDE_BYTES
}

fn malformed(Malformed(reason): Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
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
        let mut found: Vec<Entry> = Vec::new();
        let mut from = start;
        loop {
            let mut more = self.entries(from, end, usize::MAX).await?;
            let Some(last) = more.last() else { return Ok(found) };
            from = last.log_id.index + 1;
            found.append(&mut more);
        }
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        let vote = self.journal.vote();
        vote.map(|octets| entry::decode_vote(&octets)).transpose().map_err(malformed)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        self.entries(start, end, READ_MAX_BYTES).await
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let recent = self.recent().entries.back().map(|entry| entry.log_id);
        let status = self.journal.status();
        let last_purged_log_id = status.purged.map(entry::log_id);
        let last_log_id = recent.or(status.last.map(entry::log_id)).max(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let octets = entry::encode_vote(vote);
        self.wait(move |journal| journal.save_vote(&octets)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        match committed {
            Some(id) => self.journal.save_committed(entry::place(&id)).map_err(io::Error::other),
            None => Ok(()),
        }
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.journal.committed().map(entry::log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let mut appended = Vec::with_capacity(entries.len());
        for entry in &entries {
            let payload = entry::encode(&entry.payload);
            appended.push(Appended { place: entry::place(&entry.log_id), payload });
        }
        if let Some(first) = appended.first() {
            self.begin(first.place.index).await?;
        }
        entries.into_iter().for_each(|entry| self.recent().push(entry));
        let memory = Arc::clone(&self.recent);
        let done = move |outcome: Result<journal::JournalPosition, JournalError>| {
            if let Ok(place) = &outcome {
                memory.lock().unwrap_or_else(PoisonError::into_inner).written(place.index);
            }
            callback.io_completed(outcome.map(|_| ()).map_err(io::Error::other));
        };
        self.journal.append(appended, Durability::Synced, Box::new(done));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let after = last.map_or(0, |last| entry::place(&last).index);
        self.recent().truncate(after);
        self.wait(move |journal| {
            let last = written(journal)?;
            if after < last { journal.truncate_suffix(after) } else { Ok(()) }
        })
        .await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let place = entry::place(&upto);
        self.wait(move |journal| {
            let last = written(journal)?;
            if place.index <= last {
                journal.purge(place.index)
            } else {
                journal.reset_after(place)
            }
        })
        .await?;
        self.recent().purge(upto.index);
        Ok(())
    }
}
