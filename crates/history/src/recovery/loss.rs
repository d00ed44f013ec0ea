//! What the data and their journal say of each other: that a journal must be there, and how far
//! it must reach.
//!
//! Invariant: no power cut and no crash makes an alarm. That there is a journal is noted after it
//! is durable, and the base takes up a change after that is durable in the journal.

use std::path::Path;

use super::common::refuse_lost;
use crate::HistoryError;
use crate::data_directory::JOURNAL_DIRECTORY;
use journal::{FileDisk, JournalError, copy};
use store::{Mark, StoreOptions};

/// Refuses that there is no journal, where there must be one: it was noted, or the base is of a
/// place in a log.
pub fn refuse_missing(has_journal: bool, base: &Mark) -> Result<(), HistoryError> {
    if !has_journal && base.position.term == 0 {
        return Ok(());
    }
    let reason = format!(
        "the journal is missing: what was written after record {}, with which the data end, is \
         lost, if anything was",
        base.lsn.0
    );
    Err(HistoryError::Mismatch { reason, advice: ADVICE_LOST })
}

/// Refuses a journal from `first` to `last` that ends before the base does. What a load has put
/// into the base without a record is of no place in a log; and releases that did not note that
/// there is a journal let the base run ahead of it.
pub fn refuse_lost_end(
    has_journal: bool,
    base: &Mark,
    first: u64,
    last: u64,
) -> Result<(), HistoryError> {
    // Where none is in it, it ends before its first.
    let last = last.max(first.saturating_sub(1));
    let is_ahead = last < base.lsn.0;
    if !is_ahead || base.position.term == 0 {
        return Ok(());
    }
    if !has_journal {
        tracing::warn!(
            last,
            base = base.lsn.0,
            "the journal ends before the data, and is restarted"
        );
        return Ok(());
    }
    let reason = format!(
        "the end of the journal is missing: it ends with record {last}, and the data with {}; \
         what was written after that is lost, if anything was",
        base.lsn.0
    );
    Err(HistoryError::Mismatch { reason, advice: ADVICE_LOST })
}

/// Refuses the journal of the data directory `data`, which a server may be writing, when it has
/// lost what it must have.
pub fn refuse_beside(data: &Path, options: &StoreOptions) -> Result<(), HistoryError> {
    // In this order: the journal comes before the note of it, and before what the base has of it.
    let has_journal = store::has_journal(data)?;
    let base = store::base_mark(data, options)?;
    let directory = data.join(JOURNAL_DIRECTORY);
    if !directory.is_dir() {
        return refuse_missing(has_journal, &base);
    }
    match copy::open(&FileDisk::new(directory), store::identity(data)?) {
        Ok(journal) if journal.has_vote() => refuse_lost(&base, &journal),
        Ok(journal) => refuse_source(has_journal, &base, &journal),
        Err(JournalError::Missing) => refuse_missing(has_journal, &base),
        Err(error) => Err(error.into()),
    }
}

/// Refuses an open journal when it has lost what it must have.
pub fn refuse_source(
    has_journal: bool,
    base: &Mark,
    journal: &copy::JournalSnapshot,
) -> Result<(), HistoryError> {
    let last = journal.last().map_or(0, |last| last.index);
    refuse_lost_end(has_journal, base, journal.first(), last)
}

const ADVICE_LOST: &str = "put the missing files back, or restore the data from a backup; 'roster \
                           check --accept-loss' continues without them and says what is lost";
