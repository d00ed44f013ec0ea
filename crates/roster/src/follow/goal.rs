//! What is to become of entries, and what came of it.

use super::wanted::{Uuid, Wanted};

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts {
    pub(super) added: u64,
    pub(super) modified: u64,
    pub(super) renamed: u64,
    pub(super) deleted: u64,
    /// Entries that were as they were to be.
    pub(super) unchanged: u64,
}

impl Counts {
    /// Everything that was looked at.
    pub(super) const fn all(&self) -> u64 {
        self.added + self.modified + self.deleted + self.unchanged
    }
}

/// What is to become of one entry.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// It is like this.
    Be(Wanted),
    /// It is not there.
    Go(Uuid),
    /// The entry of this name is not there.
    GoByName(String),
    /// Nor anything below it.
    GoWithAllBelow(String),
    /// It is not there, nor anything below it.
    GoTree(Uuid),
    /// The entry of this name has another one.
    Rename(Renamed),
}

impl Goal {
    /// The identity of the entry, if that is known.
    pub(super) fn uuid(&self) -> Option<Uuid> {
        match self {
            Self::Be(Wanted { uuid, .. }) | Self::Go(uuid) | Self::GoTree(uuid) => Some(*uuid),
            Self::GoByName(_) | Self::GoWithAllBelow(_) | Self::Rename(_) => None,
        }
    }
}

/// A rename, as a change log tells it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Renamed {
    /// Its identity, if that is told.
    pub(super) uuid: Option<Uuid>,
    pub(super) dn: String,
    pub(super) new_rdn: String,
    pub(super) delete_old_rdn: bool,
    pub(super) new_superior: Option<String>,
}

/// How far one goes for what waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Settle {
    /// It is tried again.
    Try,
    /// Who is in the way of another one goes, or gets another name if the source has it still.
    Displace,
    /// That, and what still waits then is refused.
    Last,
}
