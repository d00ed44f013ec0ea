//! Who takes part in a log.
//!
//! Invariant: an engine without others answers every change with
//! [`MembersError::Unsupported`], and lists itself.

use std::collections::BTreeSet;
use std::fmt;

/// The most voters: each further one makes writes slower, and more may fail than ever do.
pub const VOTERS_MAX: usize = 7;

/// The part one machine plays.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemberState {
    /// Counts towards durability and may decide.
    Voter,
    /// Gets every record and counts for nothing.
    Learner,
}

/// One machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Member {
    /// Its number; never used again after it is removed.
    pub id: u64,
    /// Where others reach it; empty for a machine that is alone.
    pub address: String,
    /// Its part.
    pub state: MemberState,
}

/// A change of who takes part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MemberChange {
    /// A new learner, under a number that none ever had; for a key that has joined, the same.
    Join {
        /// Where the others reach it.
        address: String,
        /// Where clients reach it, as an LDAP URL; empty when they do not.
        url: String,
        /// Which key it has, so that who joins again with it is the one that did; empty where
        /// nobody knows.
        key: String,
        /// Whose place it is to take, and whose address it may have.
        replaces: Option<u64>,
    },
    /// It is found elsewhere from now on.
    Rename {
        /// Which one.
        id: u64,
        /// Where the others reach it; empty: where it was.
        address: String,
        /// Where clients reach it; empty: where it was.
        url: String,
    },
    /// Learners become voters, all at once.
    Promote {
        /// Which ones.
        ids: BTreeSet<u64>,
    },
    /// Voters become learners, all at once.
    Demote {
        /// Which ones.
        ids: BTreeSet<u64>,
    },
    /// They take part no more, and never again under these numbers.
    Remove {
        /// Which ones.
        ids: BTreeSet<u64>,
    },
    /// A learner becomes a voter at the moment when a voter ceases to be one and to take part.
    Replace {
        /// The voter.
        old: u64,
        /// The learner.
        new: u64,
    },
    /// It decides from now on.
    Transfer {
        /// Which one.
        id: u64,
    },
}

/// What came of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MembersChanged {
    /// It is in force.
    Done,
    /// It was so already.
    AlreadySo,
    /// The learner that joined has this number.
    Joined(u64),
}

/// Takes the outcome of a change.
pub type MembersDone = Box<dyn FnOnce(Result<MembersChanged, MembersError>) + Send>;

/// Who takes part, and how that changes.
pub trait Membership: Send + Sync {
    /// All of them, by number.
    fn list(&self) -> Vec<Member>;

    /// Changes who takes part; `done` is called when the change is in force.
    fn change(&self, change: MemberChange, done: MembersDone);
}

/// Why a change of the members is not known to have happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MembersError {
    /// The engine knows no others.
    Unsupported,
    /// It would be wrong, in a sentence; nothing happened.
    Refused(String),
    /// Another member decides, or none; nothing happened. It can be asked of whoever decides.
    NotDeciding,
    /// It may have happened or not, or in part; why, in a sentence. It can be asked for again.
    Unknown(String),
}

impl fmt::Display for MembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("this server is alone by design"),
            Self::Refused(reason) => f.write_str(reason),
            Self::NotDeciding => f.write_str("this member does not lead"),
            Self::Unknown(reason) => write!(f, "the outcome is not known: {reason}"),
        }
    }
}

impl std::error::Error for MembersError {}

/// A machine that is alone by design: one voter, itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnlySelf;

impl Membership for OnlySelf {
    fn list(&self) -> Vec<Member> {
        vec![Member { id: 1, address: String::new(), state: MemberState::Voter }]
    }

    fn change(&self, _: MemberChange, done: MembersDone) {
        done(Err(MembersError::Unsupported));
    }
}
