//! What can go wrong with a journal, each a sentence for an operator.

use std::fmt;
use std::io;

use crate::JournalPosition;

/// A failure of the journal.
///
/// It can be cloned, because one failed sync is the answer to every append that waited for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JournalError {
    /// An operation on a file failed.
    Io {
        /// What was done, on which file.
        what: String,
        /// The kind of failure.
        kind: io::ErrorKind,
        /// What the system said.
        text: String,
    },
    /// There is no room for the next segment.
    ///
    /// Nothing of the append was written, and the journal goes on: the same entries can be
    /// appended again when there is space. See
    /// [`Journal::wait_for_room`](crate::Journal::wait_for_room).
    NoSpace {
        /// What the system said.
        text: String,
    },
    /// A write or a sync failed: nobody knows what is on the medium, so nothing more is
    /// appended until the journal is opened anew. Reading goes on.
    Poisoned {
        /// The failure.
        reason: String,
    },
    /// Damage that no power cut explains.
    Damaged(Damage),
    /// The directory holds no journal.
    Missing,
    /// The directory holds a journal where a new one was to be made.
    NotEmpty,
    /// The journal belongs to another store.
    Foreign {
        /// The segment file.
        segment: String,
        /// The store it was written for.
        found: [u8; 16],
    },
    /// A later release wrote the segment.
    NewerFormat {
        /// The segment file.
        segment: String,
        /// Its format number.
        found: u32,
        /// The highest this release knows.
        known: u32,
    },
    /// Another process (or another part of this one) has the journal open.
    InUse,
    /// The entries asked for are no longer kept.
    Gone {
        /// The first index that can be read.
        first: u64,
    },
    /// An entry does not follow the one before, or its term is lower.
    OutOfOrder {
        /// The index that would have followed.
        expected: u64,
        /// The place given.
        found: JournalPosition,
    },
    /// Something is larger than its limit.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// A truncation or purge outside of what is there.
    OutOfRange {
        /// What was asked.
        what: &'static str,
        /// The index given.
        index: u64,
        /// The lowest index that would do.
        low: u64,
        /// The highest index that would do.
        high: u64,
    },
    /// The journal has been closed.
    Closed,
}

/// Where a journal is damaged, and what can be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// The segment file.
    pub segment: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// The first entry that is damaged or missing, as far as known.
    pub index: Option<u64>,
    /// What is wrong.
    pub reason: String,
    /// What can be done about it.
    pub hint: String,
}

impl JournalError {
    /// A failure of an operation on a file; no space is a kind of its own.
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { text: format!("{what}: {error}") }
            }
            kind => Self::Io { what: what.to_string(), kind, text: error.to_string() },
        }
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, text, .. } => write!(f, "journal: {what}: {text}"),
            Self::NoSpace { text } => {
                write!(f, "no space for the next segment of the journal ({text})")
            }
            Self::Poisoned { reason } => write!(
                f,
                "the journal accepts no more writes since one failed ({reason}); restart the \
                 server when the disk works again"
            ),
            Self::Damaged(damage) => damage.fmt(f),
            Self::Missing => f.write_str("there is no journal"),
            Self::NotEmpty => f.write_str("there is a journal already"),
            Self::Foreign { segment, found } => {
                write!(f, "{segment} belongs to another store, ")?;
                found.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::NewerFormat { segment, found, known } => write!(
                f,
                "{segment} has format {found}, and this release knows up to {known}: \
                 a later release wrote it"
            ),
            Self::InUse => f.write_str("the journal is open already, perhaps in another process"),
            Self::Gone { first } => {
                write!(f, "the journal no longer has these entries; it begins at {first}")
            }
            Self::OutOfOrder { expected, found } => write!(
                f,
                "entry {} of term {} cannot follow: {expected} is next in the journal",
                found.index, found.term
            ),
            Self::TooLarge { what, bytes, limit_bytes } => {
                write!(f, "{what} has {bytes} bytes, the limit is {limit_bytes}")
            }
            Self::OutOfRange { what, index, low, high } => {
                write!(f, "{what} at {index} is not possible, only from {low} to {high}")
            }
            Self::Closed => f.write_str("the journal has been closed"),
        }
    }
}

impl std::error::Error for JournalError {}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the journal is damaged: {} at byte {}", self.segment, self.offset)?;
        if let Some(index) = self.index {
            write!(f, ", entry {index}")?;
        }
        write!(f, ": {}. {}", self.reason, self.hint)
    }
}
