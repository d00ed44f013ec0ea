//! What can go wrong with a data directory, for the one who opens it.

use std::path::PathBuf;
use std::{fmt, io};

use journal::JournalError;
use schema::SchemaError;
use store::StoreError;

/// Why a data directory cannot be opened, read or written.
#[derive(Debug)]
pub enum HistoryError {
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
    /// The journal does not lead on from the data.
    Mismatch {
        /// Where, and what is wrong.
        reason: String,
        /// What can be done.
        advice: &'static str,
    },
    /// The data directory is that of a server of a cluster, and what was asked for is done with
    /// the data of a server that is alone.
    OfCluster,
    /// The data directory is not that of a member of a cluster.
    NotOfCluster,
}

impl HistoryError {
    /// Whether a disk without room explains it. LMDB reports a write that the disk took only in
    /// part as an I/O error, so one of its errors may.
    #[must_use]
    pub fn may_want_room(&self) -> bool {
        match self {
            Self::Journal(error) => matches!(error, JournalError::NoSpace { .. }),
            Self::Store(error) => {
                matches!(error, StoreError::Full | StoreError::NoRoom { .. } | StoreError::Lmdb(_))
            }
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Schema(_) | Self::Mismatch { .. } | Self::OfCluster | Self::NotOfCluster => false,
        }
    }
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "{error}"),
            Self::Journal(error) => write!(f, "{error}"),
            Self::Schema(error) => write!(f, "{error}"),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Mismatch { reason, advice } => write!(f, "{reason}; {advice}"),
            Self::OfCluster => f.write_str(
                "the data directory is that of a server of a cluster, whose servers have their \
                 data in common: none is changed, or started, alone",
            ),
            Self::NotOfCluster => {
                f.write_str("the data directory is not that of a member of a cluster")
            }
        }
    }
}

impl std::error::Error for HistoryError {}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<JournalError> for HistoryError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<SchemaError> for HistoryError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}
