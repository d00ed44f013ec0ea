//! Why an entry, or the whole of a load, is refused.

use std::fmt;

use schema::InvalidDn;

use crate::error::StoreError;

/// Where an entry came from.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct SourceLine {
    /// Which of the sources; below 65536.
    pub source: u32,
    /// The line of it; below 2 to the power of 48.
    pub line: u64,
}

/// An entry that is not loaded.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where it came from.
    pub place: SourceLine,
    /// Its name.
    pub dn: String,
    /// Why not.
    pub reason: RefusalReason,
}

/// Why an entry is not loaded.
#[derive(Clone, Debug)]
pub enum RefusalReason {
    /// The name is there already.
    Duplicate {
        /// Where it was first; none when the store held it before the load.
        first: Option<SourceLine>,
    },
    /// The superior is neither in the load nor in the store.
    Orphan {
        /// The name of the superior.
        parent: String,
    },
    /// The superior is an alias, which has no subordinates.
    BelowAlias {
        /// The name of the superior.
        parent: String,
    },
    /// The name is in no naming context.
    OutsideContexts,
    /// The name breaks the rule of one of its attributes.
    Name(InvalidDn),
    /// It is larger than a record may be.
    TooLarge {
        /// Its size, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
}

impl RefusalReason {
    /// In a few words, the same for each entry that is refused for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Duplicate { first: Some(_) } => "occurs twice",
            Self::Duplicate { first: None } => "exists already",
            Self::Orphan { .. } => "lacks its superior",
            Self::BelowAlias { .. } => "is below an alias",
            Self::OutsideContexts => "is in no naming context",
            Self::Name(_) => "has a name that breaks a rule",
            Self::TooLarge { .. } => "is too large",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dn = &self.dn;
        match &self.reason {
            RefusalReason::Duplicate { first: Some(SourceLine { source, line }) } => {
                write!(f, "entry '{dn}' exists already, from line {line}")?;
                if *source == self.place.source { Ok(()) } else { write!(f, " of another file") }
            }
            RefusalReason::Duplicate { first: None } => {
                write!(f, "an entry '{dn}' exists already")
            }
            RefusalReason::Orphan { parent } => {
                write!(f, "entry '{dn}': its superior '{parent}' does not exist")
            }
            RefusalReason::BelowAlias { parent } => {
                write!(f, "entry '{dn}': its superior '{parent}' is an alias: nothing is below one")
            }
            RefusalReason::OutsideContexts => write!(f, "entry '{dn}' is in no naming context"),
            RefusalReason::Name(reason) => write!(f, "entry '{dn}': {reason}"),
            RefusalReason::TooLarge { bytes, limit_bytes } => {
                write!(f, "entry '{dn}' of {bytes} bytes is over the limit of {limit_bytes} bytes")
            }
        }
    }
}

/// Why an entry was not prepared.
#[derive(Debug)]
pub enum PrepareError {
    /// It cannot be loaded; others can.
    Refused(Refusal),
    /// The load cannot go on.
    Store(StoreError),
}

impl From<StoreError> for PrepareError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Why a load cannot go on.
#[derive(Debug)]
pub enum BulkError {
    /// The store holds more than the entries of its naming contexts.
    NotEmpty {
        /// How many entries it holds.
        entries: u64,
    },
    /// An entry is refused, and the caller said that then nothing is to be loaded.
    Refused(Refusal),
    /// The caller wants no more.
    Stopped,
    /// One of its threads panicked.
    Panicked,
    /// The names of all entries do not fit into the memory.
    NoMemory {
        /// Of so many entries.
        entries: u64,
        /// What they take, in bytes.
        names_bytes: u64,
        /// What they may take, in bytes.
        max_bytes: u64,
    },
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty { entries } => {
                write!(f, "the directory is not empty: it holds {entries} entries")
            }
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Stopped => f.write_str("the load was stopped"),
            Self::Panicked => f.write_str("a thread of the load has panicked"),
            Self::NoMemory { entries, names_bytes, max_bytes } => {
                let [bytes, max] = [names_bytes, max_bytes].map(|bytes| bytes.div_ceil(1 << 20));
                write!(
                    f,
                    "the names of {entries} entries take {bytes} MiB of memory, and {max} MiB is \
                     what they may take"
                )
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BulkError {}

impl From<StoreError> for BulkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PrepareError> for BulkError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Refused(refusal) => Self::Refused(refusal),
            PrepareError::Store(error) => Self::Store(error),
        }
    }
}

impl From<heed::Error> for BulkError {
    fn from(error: heed::Error) -> Self {
        Self::Store(error.into())
    }
}
