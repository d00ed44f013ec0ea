//! Who takes part in a log.
//!
//! Invariant: an engine without others answers every change with
//! [`MembersError::Unsupported`], and lists itself.

use std::fmt;

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
    /// A new learner.
    Join {
        /// Where the others reach it.
        address: String,
    },
    /// A learner becomes a voter.
    Promote {
        /// Which one.
        id: u64,
    },
    /// It takes part no more.
    Remove {
        /// Which one.
        id: u64,
    },
    /// It decides from now on.
    Transfer {
        /// Which one.
        id: u64,
    },
}

/// Takes the outcome of a change.
pub type MembersDone = Box<dyn FnOnce(Result<(), MembersError>) + Send>;

/// Who takes part, and how that changes.
pub trait Membership: Send + Sync {
    /// All of them, by number.
    fn list(&self) -> Vec<Member>;

    /// Changes who takes part; `done` is called when the change is in force.
    fn change(&self, change: MemberChange, done: MembersDone);
}

/// Why a change of the members did not happen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MembersError {
    /// The engine knows no others.
    Unsupported,
    /// It would be wrong, in a sentence.
    Refused(String),
}

impl fmt::Display for MembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("this server is alone by design"),
            Self::Refused(reason) => f.write_str(reason),
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
