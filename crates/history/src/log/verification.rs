//! A comparison of what all machines of a log have stored: how far it is, and what it found.

use store::Lsn;

/// So many differences are named; further ones are only counted.
pub const DIFFERENCES_NAMED_MAX: usize = 1000;

/// How far a comparison is, or what it found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verification {
    /// Its number; no other one of this machine has it.
    pub run: u64,
    /// Whether it is over.
    pub state: VerificationState,
    /// So many entries were compared.
    pub entries: u64,
    /// Of about so many.
    pub of_entries: u64,
    /// So many octets of them were read on each machine.
    pub bytes: u64,
    /// The changes after which the first and the last slice was compared; 0 before.
    pub lsns: (Lsn, Lsn),
    /// So many common positions were looked for; one for each slice if all goes well.
    pub positions: u64,
    /// All machines, by number.
    pub members: Vec<VerifiedMember>,
    /// So many entries, settings and numbers of attributes differ.
    pub differing: u64,
    /// The first [`DIFFERENCES_NAMED_MAX`] of them.
    pub differences: Vec<EntryDifference>,
    /// When it began, and when it ended, in microseconds since 1970; 0 while it has not.
    pub times_us: (u64, u64),
}

/// Whether a comparison is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VerificationState {
    /// It goes on.
    Running,
    /// All that could be compared was.
    Done,
    /// It ended before: why, in a sentence.
    Stopped(String),
}

/// A machine in a comparison.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerifiedMember {
    /// Its number.
    pub member: u64,
    /// What it has that is not what a majority has.
    pub differing: u64,
    /// Why it was not compared, or not to the end, in a sentence; none if it was.
    pub not_compared: Option<String>,
}

/// An entry, or another row that all have in common, that is not the same on all machines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EntryDifference {
    /// The number of the entry; 0 for what is none.
    pub id: u64,
    /// Its name, or that of the row; empty where no machine can tell.
    pub name: String,
    /// Its `entryUUID`; empty where no machine can tell.
    pub uuid: String,
    /// Which machines have something else than most, and what.
    pub odd: Vec<OddMember>,
    /// Whether a majority has the same: else nobody knows which machines are right.
    pub is_clear: bool,
}

/// A machine that has something else than most.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OddMember {
    /// Its number.
    pub member: u64,
    /// What it has.
    pub how: Oddity,
}

/// How an entry of one machine is not that of most.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Oddity {
    /// It is not there.
    Missing,
    /// It is there, and not on most.
    Surplus,
    /// It cannot be read: why.
    Unreadable(String),
    /// It is another.
    Differs {
        /// It has another name, or lies elsewhere.
        is_name: bool,
        /// These attributes have other values; empty where only their order is another.
        attributes: Vec<String>,
    },
}

impl Verification {
    /// Whether it compared all machines to the end, and found no difference.
    #[must_use]
    pub fn is_alike(&self) -> bool {
        self.state == VerificationState::Done
            && self.differing == 0
            && self.members.iter().all(|member| member.not_compared.is_none())
    }
}
