//! From the journal into memory: what was acknowledged and is not in the base yet.
//!
//! Invariant: nothing is skipped. A record that is missing, damaged, of a newer release or made on
//! another history ends the opening, with its place and what can be done.
//! Invariant: what is replayed is what was there: the running hash is compared at every record.

mod accept;
mod check;
mod common;
mod leave;
pub mod loss;
mod machine;
mod replay;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::HistoryError;
use journal::{
    Disk, FileDisk, Journal, JournalError, JournalOptions, JournalPosition, LogEntry, OpenReport,
    TornTail,
};
use store::{LogPosition, Mark, Store};

use crate::data_directory::JOURNAL_DIRECTORY;
use crate::log::{ApplyError, is_record};
use crate::record::{RECORD_LEVEL, RECORD_LEVEL_FIRST, RecordHead};
use common::is_of_several;
use replay::{Outcome, Replay};

pub use accept::{AcceptedLoss, accept_loss};
pub use check::{FINDINGS_MAX, JournalCheck, check_journal};
pub use common::{CommittedRecords, is_of_cluster, replay_committed};
pub use leave::{Holdings, holdings, leave_cluster};
pub use machine::{Follower, StoreMachine};

/// What opening the journal found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recovered {
    /// Records that were in the journal and not in the base.
    pub records: u64,
    /// What a power cut left half-written.
    pub torn: Option<TornTail>,
    /// The journal began anew, because the base is ahead of it.
    pub is_restarted: bool,
}

/// What is told of a batch of replayed records; it may flush the store.
pub type AfterBatch<'a> = &'a mut dyn FnMut(&Store) -> Result<(), HistoryError>;

/// Opens or makes the journal of `store`, and applies and publishes what the base lacks. `after`
/// is called now and then, to flush when too much of it is in memory.
///
/// # Errors
/// When the journal is damaged, belongs to another store, or does not lead on from the base; when
/// there must be one and none is there, or it ends before the base does; when it is that of a
/// cluster.
pub fn open(
    store: &Store,
    disk: Arc<dyn Disk>,
    options: JournalOptions,
    after: AfterBatch<'_>,
) -> Result<(Journal, Recovered), HistoryError> {
    refuse_newer(store.base_record_level()?)?;
    let base = store.base();
    let next = base.lsn.0 + 1;
    let (journal, report) = match Journal::open(Arc::clone(&disk), options.clone()) {
        Ok((journal, _)) if is_of_several(store, &journal)? => return Err(HistoryError::OfCluster),
        Ok(opened) => opened,
        Err(JournalError::Missing) if !store.membership()?.is_empty() => {
            return Err(HistoryError::OfCluster);
        }
        Err(JournalError::Missing) => {
            loss::refuse_missing(store.has_journal(), &base)?;
            (Journal::create(disk, options, next)?, OpenReport::default())
        }
        Err(error) => return Err(error.into()),
    };
    let mut recovered = Recovered { torn: report.torn, ..Recovered::default() };
    if let Some(torn) = &recovered.torn {
        tracing::warn!(?torn, "the end of the journal was incompletely written and is removed");
    }
    let last = journal.last().map_or(0, |place| place.index);
    if journal.first() > next {
        return Err(behind(&base, journal.first()));
    }
    if last < base.lsn.0 {
        loss::refuse_lost_end(store.has_journal(), &base, journal.first(), last)?;
        // A load while no server ran is no record.
        recovered.is_restarted = journal.first() != next;
        if recovered.is_restarted {
            journal.reset(next)?;
        }
        store.note_journal()?;
        return Ok((journal, recovered));
    }
    if journal.first() < next {
        check_base(&base, journal.read(base.lsn.0)?.next())?;
    }
    if last >= next {
        tracing::info!(
            records = last - base.lsn.0,
            "applying records that are only in the journal"
        );
        recovered.records = replay(store, journal.read(next)?, after)?;
    }
    store.note_journal()?;
    Ok((journal, recovered))
}

/// Opens the journal of `store` for a log of several machines, and applies nothing: only that log
/// knows what is committed. One that is missing is made. When the journal is that of a server that
/// was alone until now, all of it is committed: it is applied, brought into the base, and forgotten
/// up to there.
///
/// # Errors
/// As [`open`].
pub fn open_unapplied(
    store: &Store,
    disk: Arc<dyn Disk>,
    options: JournalOptions,
) -> Result<Journal, HistoryError> {
    refuse_newer(store.base_record_level()?)?;
    let base = store.base();
    match Journal::open(Arc::clone(&disk), options.clone()) {
        Ok((journal, report)) if is_of_several(store, &journal)? => {
            if let Some(torn) = &report.torn {
                tracing::warn!(
                    ?torn,
                    "the end of the journal was incompletely written and is removed"
                );
            }
            follow_copied(store, &journal)?;
            let low = journal.status().purged.map_or(journal.first(), |purged| purged.index + 1);
            if low > base.position.index + 1 {
                return Err(behind(&base, low));
            }
            // A vote by what is left could lose what others count on.
            let last = journal.last().map_or(low - 1, |last| last.index);
            common::refuse_end(&base, last)?;
            return Ok(journal);
        }
        Ok((journal, _)) => journal.close(),
        Err(JournalError::Missing) if store.membership()?.is_empty() => {}
        Err(JournalError::Missing) => loss::refuse_missing(true, &base)?,
        Err(error) => return Err(error.into()),
    }
    let (journal, _) = open(store, disk, options, &mut flush_large)?;
    let base = store.flush()?;
    if base.position.index > 0 {
        let place = JournalPosition { term: base.position.term, index: base.position.index };
        journal.reset_after(place)?;
    }
    Ok(journal)
}

/// A process that was ended after it took a copy of another server over may not have told the
/// journal. Entries that the copy has are of no more use; behind entries that the cluster does not
/// have, at the end of the copy, there are none that it has.
fn follow_copied(store: &Store, journal: &Journal) -> Result<(), HistoryError> {
    let Some(LogPosition { term, index }) = store.copied()? else { return Ok(()) };
    let status = journal.status();
    let is_told = status.purged.is_some_and(|purged| purged.index >= index);
    if !is_told && store.base().position == (LogPosition { term, index }) {
        let last = status.last.map_or(0, |last| last.index);
        let has_end = index >= status.first && index <= last && {
            let entry = journal.read(index)?.next().transpose()?;
            entry.is_some_and(|entry| entry.place.term == term)
        };
        if !has_end {
            tracing::info!(term, index, "the journal goes on behind the copy that was taken over");
            journal.reset_after(JournalPosition { term, index })?;
        }
    }
    Ok(store.settle_copied()?)
}

/// Brings everything that is in the journal alone into the base, before the data directory is
/// changed by something else than the journal.
///
/// # Errors
/// As [`open`], and when the base cannot be written.
pub fn settle(store: &Store, data: &Path) -> Result<(), HistoryError> {
    let directory = data.join(JOURNAL_DIRECTORY);
    if !store.membership()?.is_empty() {
        return Err(HistoryError::OfCluster);
    }
    if !directory.is_dir() {
        return loss::refuse_missing(store.has_journal(), &store.base());
    }
    let options = JournalOptions::new(store.id());
    let disk = Arc::new(FileDisk::new(directory));
    let (journal, recovered) = open(store, disk, options, &mut flush_large)?;
    if recovered.records > 0 {
        let mark = store.flush()?;
        journal.purge(mark.position.index)?;
    }
    journal.close();
    Ok(())
}

fn flush_large(store: &Store) -> Result<(), HistoryError> {
    if store.overlay_bytes() > SETTLE_OVERLAY_MAX_BYTES {
        store.flush()?;
    }
    Ok(())
}

/// Applies entries of a journal, the first of which follows the last change of `store`, and
/// publishes them; returns how many. `after` is called after each batch of them.
///
/// # Errors
/// When an entry cannot be read or does not follow. What is before it stays applied.
pub fn replay(
    store: &Store,
    mut entries: impl Iterator<Item = Result<LogEntry, JournalError>>,
    after: AfterBatch<'_>,
) -> Result<u64, HistoryError> {
    let mut records = 0;
    loop {
        match replay_batch(store, &mut entries, false)? {
            0 => return Ok(records),
            more => records += more,
        }
        after(store)?;
        if records % PROGRESS_RECORDS < BATCH_RECORDS_MAX {
            tracing::info!(records, "applied so far");
        }
    }
}

/// Applies and publishes what fits into one batch; how many records. A log of several servers
/// has entries of its own and void records, which change nothing; in that of one they are damage.
fn replay_batch(
    store: &Store,
    entries: &mut impl Iterator<Item = Result<LogEntry, JournalError>>,
    is_of_several: bool,
) -> Result<u64, HistoryError> {
    let mut replay = Replay::begin(store)?;
    let (mut records, mut bytes) = (0, 0);
    while records < BATCH_RECORDS_MAX
        && bytes < BATCH_BYTES_MAX
        && replay.row_bytes() < BATCH_ROWS_MAX_BYTES
        && let Some(entry) = entries.next()
    {
        let LogEntry { place, payload } = entry?;
        bytes += payload.len();
        if is_of_several && !is_record(&payload) {
            continue;
        }
        let position = LogPosition { term: place.term, index: place.index };
        let outcome = replay.record(&payload, position);
        match outcome.map_err(|error| not_applied(place.index, &error))? {
            Outcome::Done(_) => records += 1,
            Outcome::Void(_) if is_of_several => {}
            Outcome::Void(lsn) => {
                return Err(not_applied(place.index, &replay.does_not_follow(lsn)));
            }
        }
    }
    replay.publish();
    Ok(records)
}

/// The record that the base ends with must be the one that the journal has there.
fn check_base(
    base: &Mark,
    entry: Option<Result<LogEntry, JournalError>>,
) -> Result<(), HistoryError> {
    let Some(entry) = entry.transpose()? else { return Ok(()) };
    let head = RecordHead::read(&entry.payload).map_err(|error| {
        not_applied(base.lsn.0, &ApplyError::Record { lsn: base.lsn, reason: error.to_string() })
    })?;
    if head.lsn != base.lsn || head.hash != base.hash {
        let reason = format!(
            "the journal does not belong to the data: they have different records {}",
            base.lsn.0
        );
        return Err(HistoryError::Mismatch { reason, advice: ADVICE_FOREIGN });
    }
    Ok(())
}

fn behind(base: &Mark, first: u64) -> HistoryError {
    let reason = format!(
        "the data end with change record {}, and the journal begins with {first}: the records \
         between are missing",
        base.lsn.0
    );
    HistoryError::Mismatch { reason, advice: ADVICE_FOREIGN }
}

fn not_applied(index: u64, error: &ApplyError) -> HistoryError {
    let reason = format!("entry {index} of the journal: {error}");
    HistoryError::Mismatch { reason, advice: ADVICE_DAMAGED }
}

/// Refuses data of a cluster whose records may say what this release does not read: it could be
/// left behind by any of them.
fn refuse_newer(level: Option<u16>) -> Result<(), HistoryError> {
    let level = level.unwrap_or(RECORD_LEVEL_FIRST);
    if level <= RECORD_LEVEL {
        return Ok(());
    }
    let reason = format!(
        "the data are of a cluster with change records of level {level}, and this release reads \
         those up to {RECORD_LEVEL}"
    );
    Err(HistoryError::Mismatch { reason, advice: ADVICE_NEWER })
}

const ADVICE_NEWER: &str = "install the release that the other members run";

const ADVICE_FOREIGN: &str = "put back the journal and the data that belong together, or restore \
                              both from a backup; 'roster check --accept-loss' continues with \
                              the data and says what is lost";

const ADVICE_DAMAGED: &str = "nothing was changed; look at it with 'roster check', and restore \
                              from a backup up to the record before";

const ADVICE_LOST_ENTRIES: &str = "have the server join its cluster anew; 'roster check' says \
                                   more";

/// So many records are applied and published together.
const BATCH_RECORDS_MAX: u64 = 4096;

/// And so many octets of them.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// Bytes of rows after which a batch takes no further record; the writer keeps to it as well. Only
/// changes of very large entries get there before the other limits.
pub const BATCH_ROWS_MAX_BYTES: usize = 16 << 20;

/// After about so many records it is told how far the replay is.
const PROGRESS_RECORDS: u64 = 100_000;

/// How much a replay before an offline change keeps in memory, in bytes.
const SETTLE_OVERLAY_MAX_BYTES: usize = 64 << 20;
