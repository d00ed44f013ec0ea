//! What can go wrong with a directory as a whole, for the one who starts it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use journal::JournalError;
use schema::SchemaError;
use store::StoreError;

/// Why a directory cannot be made or opened.
#[derive(Debug)]
pub enum DirectoryError {
    /// The store refused or failed.
    Store(StoreError),
    /// The journal refused or failed.
    Journal(JournalError),
    /// A schema file of the data directory is wrong.
    Schema(SchemaError),
    /// A file of the data directory cannot be read or written.
    Io {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
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
    /// The journal does not lead on from the data.
    History {
        /// Where, and what is wrong.
        reason: String,
        /// What can be done.
        advice: &'static str,
    },
}

impl DirectoryError {
    /// Whether a disk without room explains it. LMDB reports a write that the disk took only in
    /// part as an I/O error, so one of its errors may.
    #[must_use]
    pub fn may_want_room(&self) -> bool {
        match self {
            Self::Journal(error) => matches!(error, JournalError::NoSpace { .. }),
            Self::Store(error) => matches!(error, StoreError::Full | StoreError::Lmdb(_)),
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{error}"),
            Self::Journal(error) => write!(f, "{error}"),
            Self::Schema(error) => write!(f, "{error}"),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Name { text, reason } => write!(f, "'{text}' cannot be used: {reason}"),
            Self::Authentication { text, reason } => {
                write!(f, "section [authentication]: '{text}' cannot be used: {reason}")
            }
            Self::AdminPassword { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::PasswordCosts => {
                f.write_str("no password can be hashed at the cost that the settings ask for")
            }
            Self::History { reason, advice } => write!(f, "{reason}; {advice}"),
        }
    }
}

impl std::error::Error for DirectoryError {}

impl From<StoreError> for DirectoryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<JournalError> for DirectoryError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<SchemaError> for DirectoryError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}
