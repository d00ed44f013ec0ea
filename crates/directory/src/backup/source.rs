//! The data directory as a backup or an export sees it: beside a server that writes it.
//!
//! Invariant: nothing in the data directory is changed, and its lock is not taken.

use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::copy::Hold;
use journal::{Entries, FileDisk, JournalError};

use super::error::BackupError;

/// The journal of a data directory that a server may be writing.
#[derive(Debug)]
pub(super) struct Source {
    directory: PathBuf,
    disk: FileDisk,
    id: [u8; 16],
}

impl Source {
    /// The journal of the data directory `data`, whose store has the id `id`.
    pub(super) fn new(data: &Path, id: [u8; 16]) -> Self {
        let directory = data.join(JOURNAL_DIRECTORY);
        Self { disk: FileDisk::new(&directory), directory, id }
    }

    /// Keeps the server from giving up records; `None` when there are none.
    pub(super) fn hold(&self) -> Result<Option<Hold>, BackupError> {
        if !self.directory.is_dir() {
            return Ok(None);
        }
        for _ in 0..HOLD_TRIES {
            match journal::copy::hold(&self.disk) {
                Ok(hold) => return Ok(Some(hold)),
                // Segments are being removed, which takes a moment.
                Err(JournalError::InUse) => std::thread::park_timeout(HOLD_PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
        Err(JournalError::InUse.into())
    }

    /// Where the journal is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The entries from `first` on, as far as they are written; `None` when there is no journal.
    ///
    /// # Errors
    /// `Gone` when the journal begins later.
    pub(super) fn entries(&self, first: u64) -> Result<Option<Entries>, JournalError> {
        if !self.directory.is_dir() {
            return Ok(None);
        }
        match journal::copy::open(&self.disk, self.id) {
            Ok(journal) => journal.read(first).map(Some),
            Err(JournalError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Where the journal is, in the data directory.
const JOURNAL_DIRECTORY: &str = "journal";
/// How often the hold is tried.
const HOLD_TRIES: u32 = 500;
/// How long until the hold is tried again.
const HOLD_PAUSE: Duration = Duration::from_millis(20);
