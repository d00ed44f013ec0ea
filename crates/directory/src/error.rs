//! What can go wrong with a directory as a whole, for the one who starts it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use history::HistoryError;
use journal::JournalError;
use schema::SchemaError;
use store::StoreError;

/// Why a directory cannot be made or opened.
#[derive(Debug)]
pub enum DirectoryError {
    /// The data directory cannot be opened, read or written.
    Data(HistoryError),
    /// A name given by the operator is not a DN, or not one that can be used.
    Name {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting about authentication can never work.
    Authentication {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The administrator's password file is damaged.
    AdminPassword {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// With the costs that are set no password can be hashed.
    PasswordCosts,
    /// The data are not those of the cluster; a file in the data directory says so.
    Quarantined {
        /// The file; the directory opens again when it is removed.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The commit log that was given cannot be opened; says why.
    Log(String),
    /// The archive of change records cannot be opened; says why.
    Archive(String),
    /// Another server writes to the archive of change records.
    ArchiveInUse(String),
}

impl DirectoryError {
    /// Whether another server writes to the archive.
    pub(crate) const fn is_in_use(&self) -> bool {
        matches!(self, Self::ArchiveInUse(_))
    }

    /// A file of the data directory cannot be read or written.
    pub(crate) fn io(path: PathBuf, source: io::Error) -> Self {
        Self::Data(HistoryError::Io { path, source })
    }

    /// Whether a disk without room explains it.
    #[must_use]
    pub fn may_want_room(&self) -> bool {
        matches!(self, Self::Data(error) if error.may_want_room())
    }
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(error) => error.fmt(f),
            Self::Name { text, reason } => write!(f, "'{text}' cannot be used: {reason}"),
            Self::Authentication { text, reason } => {
                write!(f, "section [authentication]: '{text}' cannot be used: {reason}")
            }
            Self::AdminPassword { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Log(reason) => f.write_str(reason),
            Self::Archive(reason) | Self::ArchiveInUse(reason) => {
                write!(f, "the archive of changes: {reason}")
            }
            Self::Quarantined { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::PasswordCosts => {
                f.write_str("no password can be hashed at the cost that the settings ask for")
            }
        }
    }
}

impl std::error::Error for DirectoryError {}

impl From<HistoryError> for DirectoryError {
    fn from(error: HistoryError) -> Self {
        Self::Data(error)
    }
}

impl From<StoreError> for DirectoryError {
    fn from(error: StoreError) -> Self {
        Self::Data(error.into())
    }
}

impl From<JournalError> for DirectoryError {
    fn from(error: JournalError) -> Self {
        Self::Data(error.into())
    }
}

impl From<SchemaError> for DirectoryError {
    fn from(error: SchemaError) -> Self {
        Self::Data(error.into())
    }
}
