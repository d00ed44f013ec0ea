//! Going on without what a journal has lost: `roster check --accept-loss`.
//!
//! Invariants: nothing happens to a data directory that starts as it is. What follows the base is
//! brought into it, durably, before the old journal is put aside; its files are kept. Broken off
//! anywhere, it can be done again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::HistoryError;
use crate::data_directory::{JOURNAL_DIRECTORY, journal_disk, schema_of};
use journal::{FileDisk, Journal, JournalError, JournalOptions, LogEntry, salvage};
use store::{Lsn, Mark, Store, StoreOptions};

use super::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, flush_large, open, replay};

/// What was given up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcceptedLoss {
    /// Why the directory did not start.
    pub reason: String,
    /// The last record that is kept.
    pub kept: Mark,
    /// How many records were brought from the journal into the data.
    pub records: u64,
    /// The last record that was in what is left of the journal and could not be used; none where
    /// it is not known whether any followed.
    pub lost_until: Option<Lsn>,
    /// Where the old journal is now; none where there was none.
    pub aside: Option<PathBuf>,
}

/// Has the data directory `data`, which no server uses, start with what is left of its journal.
/// None when it would start as it is.
///
/// # Errors
/// When the data directory cannot be opened or written, is that of a cluster, or the journal is of
/// another store or of a later release.
pub fn accept_loss(data: &Path) -> Result<Option<AcceptedLoss>, HistoryError> {
    let directory = data.join(JOURNAL_DIRECTORY);
    let Some(reason) = refusal(data, &directory)? else { return Ok(None) };
    let store = Store::open(data, &StoreOptions::default(), schema_of(data)?)?;
    let before = store.base().lsn;
    let mut left = Left { store: &store, waiting: Vec::new(), bytes: 0, is_over: false };
    let mut lost_until = None;
    if directory.is_dir() {
        let disk = FileDisk::new(&directory);
        let salvaged = salvage(&disk, store.id(), before.0 + 1, &mut |entry| left.take(entry))?;
        left.apply()?;
        // Its last entry may have been read and not be usable.
        lost_until = salvaged.beyond.or(Some(salvaged.next.saturating_sub(1)));
    }
    let kept = store.flush()?;
    let aside = if directory.is_dir() { Some(put_aside(data, &directory)?) } else { None };
    let options = JournalOptions::new(store.id());
    Journal::create(journal_disk(data)?, options, kept.lsn.0 + 1)?.close();
    store.note_journal()?;
    let lost_until = lost_until.map(Lsn).filter(|last| *last > kept.lsn);
    let records = kept.lsn.0 - before.0;
    Ok(Some(AcceptedLoss { reason, kept, records, lost_until, aside }))
}

/// Why the data directory does not start; none when it does.
fn refusal(data: &Path, directory: &Path) -> Result<Option<String>, HistoryError> {
    let store = Store::open(data, &StoreOptions::default(), schema_of(data)?)?;
    if !store.membership()?.is_empty() {
        return Err(HistoryError::OfCluster);
    }
    if !directory.is_dir() {
        let missing = super::loss::refuse_missing(store.has_journal(), &store.base());
        return Ok(missing.err().map(|error| error.to_string()));
    }
    let options = JournalOptions::new(store.id());
    let opened = open(&store, Arc::new(FileDisk::new(directory)), options, &mut flush_large);
    match opened {
        Ok((journal, _)) => {
            journal.close();
            Ok(None)
        }
        Err(
            error @ (HistoryError::Journal(JournalError::Damaged(_))
            | HistoryError::Mismatch { .. }),
        ) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The journal that was put aside last, if one was.
pub(super) fn newest_aside(data: &Path) -> Option<PathBuf> {
    let names =
        (1..=ASIDE_MAX).map(|number| data.join(format!("{JOURNAL_DIRECTORY}-lost-{number}")));
    names.take_while(|path| path.is_dir()).last()
}

/// Removes a journal that nobody has written to.
pub(super) fn remove(directory: &Path) -> Result<(), HistoryError> {
    fs::remove_dir_all(directory)
        .map_err(|source| HistoryError::Io { path: directory.to_owned(), source })
}

/// Gives the journal another name, durably.
pub(super) fn put_aside(data: &Path, directory: &Path) -> Result<PathBuf, HistoryError> {
    let names =
        (1..=ASIDE_MAX).map(|number| data.join(format!("{JOURNAL_DIRECTORY}-lost-{number}")));
    let io = |path: &Path, source| HistoryError::Io { path: path.to_owned(), source };
    for to in names {
        if !to.exists() {
            fs::rename(directory, &to).map_err(|source| io(&to, source))?;
            let synced = fs::File::open(data).and_then(|data| data.sync_all());
            synced.map_err(|source| io(data, source))?;
            return Ok(to);
        }
    }
    let exists = std::io::ErrorKind::AlreadyExists;
    Err(io(&data.join(format!("{JOURNAL_DIRECTORY}-lost-{ASIDE_MAX}")), exists.into()))
}

/// What is left of the journal, on its way into the data.
struct Left<'s> {
    store: &'s Store,
    waiting: Vec<LogEntry>,
    bytes: usize,
    /// A record could not be applied: none after it can.
    is_over: bool,
}

impl Left<'_> {
    fn take(&mut self, entry: LogEntry) -> Result<bool, HistoryError> {
        self.bytes += entry.payload.len();
        self.waiting.push(entry);
        if self.bytes >= BATCH_BYTES_MAX || self.waiting.len() as u64 >= BATCH_RECORDS_MAX {
            self.apply()?;
        }
        Ok(!self.is_over)
    }

    /// Applies what waits, up to a record that does not follow from the data.
    fn apply(&mut self) -> Result<(), HistoryError> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let entries = || waiting.iter().cloned().map(Ok);
        match replay(self.store, entries(), &mut |_| Ok(())) {
            Ok(_) => {}
            // Together none of them was applied.
            Err(HistoryError::Mismatch { .. }) => {
                let applied = self.store.published().lsn.0;
                for entry in entries().skip_while(|entry| {
                    entry.as_ref().is_ok_and(|entry: &LogEntry| entry.place.index <= applied)
                }) {
                    match replay(self.store, std::iter::once(entry), &mut |_| Ok(())) {
                        Ok(_) => {}
                        Err(HistoryError::Mismatch { .. }) => {
                            self.is_over = true;
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
        flush_large(self.store)
    }
}

/// So many journals are kept aside.
const ASIDE_MAX: u32 = 99;
