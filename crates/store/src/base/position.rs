//! Where the store is: numbers of changes, and places in the log that ordered them.

/// The number of a change; each change has one more than the change before it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lsn(pub u64);

/// Where a record is in the log that ordered it. The log may number entries of its own, too, so the
/// index is not the [`Lsn`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LogPosition {
    /// The term in which it was ordered.
    pub term: u64,
    /// Its number in the log.
    pub index: u64,
}
