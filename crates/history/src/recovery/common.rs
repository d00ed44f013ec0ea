//! The journal of a server of a cluster, read without its cluster.
//!
//! An index of it is no number of a record: the cluster's log has entries of its own, and entries
//! that are not committed may yet go.
//!
//! Invariant: what is applied is committed, and is what every server of the cluster applies.

#[cfg(test)]
pub(super) mod tests;

use std::cmp::Ordering;

use journal::copy::JournalSnapshot;
use journal::{Entries, Journal, JournalError, LogEntry};
use store::{LogPosition, Lsn, Mark, Store};

use super::{ADVICE_LOST_ENTRIES, AfterBatch, behind, replay_batch};
use crate::HistoryError;
use crate::log::is_record;
use crate::record::RecordHead;

/// Whether the journal is that of a log of several machines: they have voted, or it is known who
/// they are.
pub(super) fn is_of_several(store: &Store, journal: &Journal) -> Result<bool, HistoryError> {
    Ok(journal.vote().is_some() || !store.membership()?.is_empty())
}

/// As `is_of_several`, of a journal that is only read.
///
/// # Errors
/// When the store cannot be read.
pub fn is_of_cluster(store: &Store, journal: &JournalSnapshot) -> Result<bool, HistoryError> {
    Ok(journal.has_vote() || !store.membership()?.is_empty())
}

/// The last entry that is known to be committed; none after what the base has.
pub(super) fn last_committed(base: &Mark, journal: &JournalSnapshot) -> u64 {
    let last = journal.last().map_or(0, |last| last.index);
    let committed = journal.committed().map_or(0, |committed| committed.index.min(last));
    committed.max(base.position.index)
}

/// Whether the base is a copy of another server, of which the journal has not been told yet: it has
/// nothing that the base lacks.
pub(super) fn is_untold(
    base: &Mark,
    copied: Option<LogPosition>,
    journal: &JournalSnapshot,
) -> bool {
    let purged = journal.purged().map_or(0, |purged| purged.index);
    let last = journal.last().map_or(0, |last| last.index).max(purged);
    copied == Some(base.position) && last < base.position.index
}

/// Refuses a journal that lacks entries between those of the base and its own, or ends before it.
pub(super) fn refuse_lost(base: &Mark, journal: &JournalSnapshot) -> Result<(), HistoryError> {
    let index = base.position.index;
    let purged = journal.purged().map_or(0, |purged| purged.index);
    let first = journal.first().max(purged + 1);
    if first > index + 1 {
        return Err(behind(base, first));
    }
    let last = journal.last().map_or(0, |last| last.index).max(purged);
    refuse_end(base, last)
}

/// Refuses a journal that ends with entry `last`, before the base does.
pub(super) fn refuse_end(base: &Mark, last: u64) -> Result<(), HistoryError> {
    let index = base.position.index;
    if last < index {
        let reason = format!(
            "the end of the journal is missing: it ends with entry {last}, and the data have \
             entry {index}"
        );
        return Err(HistoryError::Mismatch { reason, advice: ADVICE_LOST_ENTRIES });
    }
    Ok(())
}

/// The records that the journal of a member has after one of them, as far as they are known to be
/// committed: without those that are void, and the entries of the log's own.
#[derive(Debug)]
pub struct CommittedRecords {
    entries: Entries,
    until: u64,
    next: u64,
    /// Where the journal begins, if the first record may be gone with what was before.
    begins_at: Option<u64>,
}

impl CommittedRecords {
    /// The records of `journal` after `last`; `base` is of the same data directory.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn after(last: Lsn, base: &Mark, journal: &JournalSnapshot) -> Result<Self, JournalError> {
        // An index of the log is never less than the number of the record that has it.
        let (next, first) = (last.0 + 1, journal.first());
        Ok(Self {
            entries: journal.read(next.max(first))?,
            until: last_committed(base, journal),
            next,
            begins_at: (first > next).then_some(first),
        })
    }
}

impl Iterator for CommittedRecords {
    type Item = Result<LogEntry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.entries.next()? {
                Ok(entry) if entry.place.index > self.until => return None,
                Ok(entry) if !is_record(&entry.payload) => continue,
                read => read,
            };
            // Whoever reads them says what is wrong with one that cannot be read.
            let Ok(Ok(head)) = entry.as_ref().map(|entry| RecordHead::read(&entry.payload)) else {
                return Some(entry);
            };
            if entry.as_ref().is_ok_and(|entry| entry.place.term != head.reign.0) {
                continue;
            }
            match head.lsn.0.cmp(&self.next) {
                Ordering::Less => self.begins_at = None,
                Ordering::Equal => {
                    self.begins_at = None;
                    self.next += 1;
                    return Some(entry);
                }
                Ordering::Greater => {
                    if let Some(first) = self.begins_at.take() {
                        return Some(Err(JournalError::Gone { first }));
                    }
                }
            }
        }
    }
}

/// Applies what is committed and the base lacks, and publishes it; returns how many records.
/// `after` is called after each batch of them.
///
/// # Errors
/// When an entry cannot be read or does not follow, or entries are missing. What is before it stays
/// applied.
pub fn replay_committed(
    store: &Store,
    journal: &JournalSnapshot,
    after: AfterBatch<'_>,
) -> Result<u64, HistoryError> {
    let base = store.base();
    if is_untold(&base, store.copied()?, journal) {
        return Ok(0);
    }
    refuse_lost(&base, journal)?;
    let committed = last_committed(&base, journal);
    let entries = journal.read(base.position.index + 1)?;
    let is_committed = |entry: &Result<LogEntry, JournalError>| {
        entry.as_ref().map_or(true, |entry| entry.place.index <= committed)
    };
    let mut entries = entries.take_while(is_committed).peekable();
    let mut records = 0;
    while entries.peek().is_some() {
        records += replay_batch(store, &mut entries, true)?;
        after(store)?;
    }
    Ok(records)
}
