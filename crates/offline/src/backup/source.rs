//! The data directory as a backup or an export sees it: beside a server that writes it.
//!
//! Invariant: nothing in the data directory is changed, and its lock is not taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use history::recovery::{self, CommittedRecords, loss};
use history::{HistoryError, JOURNAL_DIRECTORY, schema_of};
use journal::copy::Hold;
use journal::{FileDisk, JournalError, LogEntry};
use store::{Lsn, Store, StoreOptions};

/// Entries of a journal that are records.
pub(super) type Records = Box<dyn Iterator<Item = Result<LogEntry, JournalError>>>;

/// The journal of a data directory that a server may be writing.
#[derive(Debug)]
pub(super) struct Source {
    data: PathBuf,
    directory: PathBuf,
    disk: FileDisk,
    id: [u8; 16],
}

impl Source {
    /// The journal of the data directory `data`, whose store has the id `id`.
    pub(super) fn new(data: &Path, id: [u8; 16]) -> Self {
        let directory = data.join(JOURNAL_DIRECTORY);
        Self { data: data.to_owned(), disk: FileDisk::new(&directory), directory, id }
    }

    /// Keeps the server from giving up records; `None` when there are none.
    pub(super) fn hold(&self) -> Result<Option<Hold>, JournalError> {
        if !self.directory.is_dir() {
            return Ok(None);
        }
        for _ in 0..HOLD_TRIES {
            match journal::copy::hold(&self.disk) {
                Ok(hold) => return Ok(Some(hold)),
                // Segments are being removed, which takes a moment.
                Err(JournalError::InUse) => std::thread::park_timeout(HOLD_PAUSE),
                Err(error) => return Err(error),
            }
        }
        Err(JournalError::InUse)
    }

    /// Where the journal is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it is that of a member of a cluster.
    pub(super) fn is_of_cluster(&self) -> Result<bool, JournalError> {
        Ok(self.open()?.is_some_and(|journal| journal.has_vote()))
    }

    /// The records after `last`, as far as they are written, and of a member as far as it knows
    /// them to be committed; `None` when there is no journal.
    ///
    /// # Errors
    /// `Gone`, here or as the first of them, when the journal begins later.
    pub(super) fn records_after(
        &self,
        last: Lsn,
        options: &StoreOptions,
    ) -> Result<Option<Records>, HistoryError> {
        let Some(journal) = self.open()? else { return Ok(None) };
        if !journal.has_vote() {
            return Ok(Some(Box::new(journal.read(last.0 + 1)?)));
        }
        // What it has was committed; the journal is not older than what it says.
        let base = store::base_mark(&self.data, options)?;
        Ok(Some(Box::new(CommittedRecords::after(last, &base, &journal)?)))
    }

    /// The journal as far as it is written; `None` when there is none.
    pub(super) fn open(&self) -> Result<Option<journal::copy::JournalSnapshot>, JournalError> {
        if !self.directory.is_dir() {
            return Ok(None);
        }
        match journal::copy::open(&self.disk, self.id) {
            Ok(journal) => Ok(Some(journal)),
            Err(JournalError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Opens the data directory `data` as it is now, to be read only: the base, and in memory the
/// records after it. A server may serve it meanwhile.
///
/// # Errors
/// When it is no data directory, or base or journal cannot be read.
pub(crate) fn read_only_store(
    data: &Path,
    options: &StoreOptions,
) -> Result<Arc<Store>, HistoryError> {
    let source = Source::new(data, store::identity(data)?);
    // The journal comes before the note of it.
    let has_journal = store::has_journal(data)?;
    // Before the base is looked at: what follows it must still be there afterwards.
    let hold = source.hold()?;
    let store = Arc::new(Store::open_read_only(data, options, schema_of(data)?)?);
    let base = store.base();
    match source.open()? {
        Some(journal) if recovery::is_of_cluster(&store, &journal)? => {
            recovery::replay_committed(&store, &journal, &mut |_| Ok(()))?;
        }
        Some(journal) => {
            loss::refuse_source(has_journal, &base, &journal)?;
            recovery::replay(&store, journal.read(base.lsn.0 + 1)?, &mut |_| Ok(()))?;
        }
        None => loss::refuse_missing(has_journal, &base)?,
    }
    drop(hold);
    Ok(store)
}

/// How often the hold is tried.
const HOLD_TRIES: u32 = 500;
/// How long until the hold is tried again.
const HOLD_PAUSE: Duration = Duration::from_millis(20);
