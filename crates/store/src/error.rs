//! What can go wrong in the store: the world broke, or the data did.
//!
//! Each message is one clear sentence for an operator; none is meant for a client.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::base::position::Lsn;

/// A failure of the store.
#[derive(Debug)]
pub enum StoreError {
    /// The path is missing or no directory.
    NotADirectory {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The directory holds no roster data.
    NotADataDirectory {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There is roster data where a new data directory was to be made, or other files.
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A later release wrote the data.
    NewerFormat {
        /// The data directory.
        path: PathBuf,
        /// The number in its `format` file.
        found: u32,
        /// The highest number this release knows.
        known: u32,
    },
    /// An earlier release wrote the data, and this one cannot read them.
    OlderFormat {
        /// The data directory.
        path: PathBuf,
        /// The number in its `format` file.
        found: u32,
        /// The number this release knows.
        known: u32,
    },
    /// Another process has the data directory open.
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The process, as far as known.
        pid: Option<u32>,
    },
    /// An operation on a file failed.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data file is not whole: it is missing, cut, or something has written over it.
    DataFile {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk or the address space reserved for the data is full.
    Full,
    /// The disk has no room for a copy of all data.
    NoRoom {
        /// What the copy takes, and leaves free, in bytes.
        needed_bytes: u64,
        /// What the disk has left, in bytes.
        free_bytes: u64,
    },
    /// The log does not make durable what was to be written: the reason.
    Log(String),
    /// LMDB refused; after a fatal error of its own it refuses everything.
    Lmdb(String),
    /// A row contradicts what always holds.
    Corrupt(Corruption),
    /// Something is larger than a limit of the format.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// One naming context lies within another.
    ContextsOverlap {
        /// The inner one, as text.
        inner: String,
        /// The outer one, as text.
        outer: String,
    },
    /// A name or an attribute type that is not valid by the schema.
    Invalid {
        /// What was to be stored.
        what: &'static str,
        /// Its text.
        text: String,
        /// Why not.
        reason: String,
    },
    /// A record of the log was made on another history than this store has.
    Diverged {
        /// The record's number.
        lsn: Lsn,
    },
    /// More attribute descriptions or indexes than the format can number.
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An attribute of an entry has more values than are read at once.
    TooManyValues {
        /// Its description.
        attribute: String,
        /// The limit.
        limit: u64,
    },
    /// Whoever asked did not want to wait any longer.
    Interrupted,
}

/// Octets, for a sentence: `1.25 GiB`.
#[derive(Clone, Copy, Debug)]
pub struct Gib(pub u64);

impl fmt::Display for Gib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (u128::from(self.0) * 100) >> 30;
        write!(f, "{}.{:02} GiB", hundredths / 100, hundredths % 100)
    }
}

/// A row that contradicts what always holds: a bug or a damaged file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Corruption {
    /// The table.
    pub table: &'static str,
    /// The key of the row, as text.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl StoreError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::Full;
        }
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn corrupt(
        table: &'static str,
        key: impl fmt::Display,
        reason: impl Into<String>,
    ) -> Self {
        Self::Corrupt(Corruption { table, key: key.to_string(), reason: reason.into() })
    }
}

impl From<heed::Error> for StoreError {
    fn from(error: heed::Error) -> Self {
        match error {
            heed::Error::Mdb(heed::MdbError::MapFull) => Self::Full,
            heed::Error::Io(source) if source.kind() == io::ErrorKind::StorageFull => Self::Full,
            other => Self::Lmdb(other.to_string()),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table '{}', key {}: {}", self.table, self.key, self.reason)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory { path } => write!(f, "'{}' is not a directory", path.display()),
            Self::NotADataDirectory { path } => {
                write!(f, "'{}' is not a roster data directory", path.display())
            }
            Self::NotEmpty { path } => {
                write!(f, "'{}' is not empty: a new data directory is needed", path.display())
            }
            Self::NewerFormat { path, found, known } => write!(
                f,
                "'{}' has data format {found}, written by a newer release; this one knows up to \
                 {known}",
                path.display()
            ),
            Self::OlderFormat { path, found, known } => write!(
                f,
                "'{}' has data format {found}, written by an older release; export it with that \
                 release and import it into a new data directory of this one, which knows format \
                 {known}",
                path.display()
            ),
            Self::InUse { path, pid } => {
                write!(f, "'{}' is in use by another process", path.display())?;
                pid.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
            }
            Self::Io { path, source } => write!(f, "'{}': {source}", path.display()),
            Self::DataFile { path, reason } => {
                write!(f, "the data file '{}' is damaged: {reason}", path.display())
            }
            Self::Full => f.write_str("no space left for the data"),
            Self::NoRoom { needed_bytes, free_bytes } => write!(
                f,
                "a copy of the data takes {}, of which a little stays free, and the disk has {} \
                 left: make room there, and it goes on by itself",
                Gib(*needed_bytes),
                Gib(*free_bytes)
            ),
            Self::Log(reason) => write!(f, "the data wait for the log: {reason}"),
            Self::Lmdb(message) => write!(f, "the database failed: {message}"),
            Self::Corrupt(corruption) => write!(f, "the data are damaged: {corruption}"),
            Self::TooLarge { what, bytes, limit_bytes } => {
                write!(f, "{what} of {bytes} bytes is over the limit of {limit_bytes} bytes")
            }
            Self::ContextsOverlap { inner, outer } => {
                write!(f, "naming context '{inner}' lies within naming context '{outer}'")
            }
            Self::Invalid { what, text, reason } => write!(f, "{what} '{text}': {reason}"),
            Self::Diverged { lsn } => write!(
                f,
                "record {} of the log does not follow what this store holds: the histories differ",
                lsn.0
            ),
            Self::TooMany { what, limit } => write!(f, "there can be at most {limit} {what}"),
            Self::TooManyValues { attribute, limit } => write!(
                f,
                "'{attribute}' has more than {limit} values: ask for some of them at a time, as in \
                 '{attribute};range=0-4999'"
            ),
            Self::Interrupted => f.write_str("the work was interrupted"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotADirectory { .. }
            | Self::NotADataDirectory { .. }
            | Self::NotEmpty { .. }
            | Self::NewerFormat { .. }
            | Self::OlderFormat { .. }
            | Self::InUse { .. }
            | Self::DataFile { .. }
            | Self::Full
            | Self::NoRoom { .. }
            | Self::Log(_)
            | Self::Lmdb(_)
            | Self::Corrupt(_)
            | Self::TooLarge { .. }
            | Self::ContextsOverlap { .. }
            | Self::Invalid { .. }
            | Self::Diverged { .. }
            | Self::TooMany { .. }
            | Self::TooManyValues { .. }
            | Self::Interrupted => None,
        }
    }
}
