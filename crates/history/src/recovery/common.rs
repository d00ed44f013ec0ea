//! The journal of a server of a cluster, read without its cluster.
//!
//! An index of it is no number of a record: the cluster's log has entries of its own, and entries
//! that are not committed may yet go.
//!
//! Invariant: what is applied is committed, and is what every server of the cluster applies.

#[cfg(test)]
mod tests;

use journal::copy::JournalSnapshot;
use journal::{Journal, JournalError, LogEntry};
use store::{LogPosition, Mark, Store};

use super::{ADVICE_LOST_ENTRIES, AfterBatch, behind, replay_batch};
use crate::HistoryError;

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
