//! What can go wrong with a backup, for the one who asked for it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use journal::JournalError;
use store::StoreError;

use history::HistoryError;

/// Why a backup was not made, not restored, or is not good.
#[derive(Debug)]
pub enum BackupError {
    /// The data directory cannot be opened, or its store failed.
    Directory(HistoryError),
    /// A file cannot be read or written.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A part of the backup is not what was written.
    Damaged {
        /// The file.
        part: PathBuf,
        /// What is wrong with it: a clause that follows the name.
        reason: String,
    },
    /// There is no backup in the directory.
    NoBackup {
        /// The directory.
        path: PathBuf,
    },
    /// Another command is writing the backup.
    InUse {
        /// The backup.
        path: PathBuf,
    },
    /// What was asked for cannot be done: a sentence, and what to do instead.
    Asked {
        /// Why not.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
}

impl BackupError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn asked(reason: impl Into<String>, hint: &'static str) -> Self {
        Self::Asked { reason: reason.into(), hint }
    }
}

impl From<HistoryError> for BackupError {
    fn from(error: HistoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self::Directory(error.into())
    }
}

impl From<JournalError> for BackupError {
    fn from(error: JournalError) -> Self {
        Self::Directory(error.into())
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Io { path, source } => write!(f, "'{}': {source}", path.display()),
            Self::Damaged { part, reason } => write!(f, "'{}' {reason}", part.display()),
            Self::NoBackup { path } => write!(f, "there is no backup in '{}'", path.display()),
            Self::InUse { path } => {
                write!(f, "another command is writing the backup in '{}'", path.display())
            }
            Self::Asked { reason, .. } => f.write_str(reason),
        }
    }
}

impl std::error::Error for BackupError {}
