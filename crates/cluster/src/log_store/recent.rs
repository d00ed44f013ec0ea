//! The newest entries, in memory.
//!
//! Invariant: no gaps; what is not written yet is here, and something older only after all that is
//! newer.

use std::collections::VecDeque;

use openraft::EntryPayload;

use super::RECENT_MAX_BYTES;
use crate::types::Entry;

/// The newest entries, without gaps.
#[derive(Default)]
pub(super) struct Recent {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Index behind the last entry that the medium has written.
    written: u64,
    /// Bytes of appends whose outcome is not known yet.
    waiting_bytes: usize,
    has_failed: bool,
}

impl Recent {
    pub(super) fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.log_id.index)
    }

    pub(super) fn last(&self) -> Option<&Entry> {
        self.entries.back()
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// The bytes kept, of entries written and not.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Entries from `start` to before `end` if the first is here, no more than fit into
    /// `max_bytes` beyond the first.
    pub(super) fn read(&self, start: u64, end: u64, max_bytes: usize) -> Option<Vec<Entry>> {
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

    /// Takes the entries of one append; how many bytes they have.
    pub(super) fn push(&mut self, entries: impl IntoIterator<Item = Entry>) -> usize {
        let before = self.bytes;
        for entry in entries {
            self.bytes += size(&entry);
            self.entries.push_back(entry);
        }
        let bytes = self.bytes - before;
        self.waiting_bytes += bytes;
        bytes
    }

    /// An append of so many bytes has failed: what is here is not on the medium.
    pub(super) fn failed(&mut self, bytes: usize) {
        self.waiting_bytes -= bytes;
        self.has_failed = true;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The medium has written an append of so many bytes, and everything before `written`.
    pub(super) fn written(&mut self, bytes: usize, written: u64) {
        self.waiting_bytes -= bytes;
        self.written = self.written.max(written);
        while self.bytes > RECENT_MAX_BYTES
            && self.entries.front().is_some_and(|entry| entry.log_id.index < self.written)
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
        }
    }

    /// Forgets the entries from `index` on.
    pub(super) fn truncate(&mut self, index: u64) {
        while self.entries.back().is_some_and(|entry| entry.log_id.index >= index)
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes -= size(&entry);
        }
        self.written = self.written.min(index);
    }

    /// Forgets the entries up to `index`.
    pub(super) fn purge(&mut self, index: u64) {
        while self.entries.front().is_some_and(|entry| entry.log_id.index <= index)
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
        }
    }
}

/// What an entry takes in memory, about.
pub(crate) fn size(entry: &Entry) -> usize {
    const BESIDE_BYTES: usize = 64;
    let record = match &entry.payload {
        EntryPayload::Normal(record) => record.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    };
    record + BESIDE_BYTES
}
