//! The commit log: orders decided records, makes them durable, has them applied, then answers.
//!
//! Everything above is ignorant of the engine: [`CommitLog`] is all that the write pipeline, feeds
//! and the operators' commands know. The engine of one machine is `Local`; an engine of several
//! passes the same suite, `conformance`.
//!
//! Invariant: `done` is called exactly once for every batch, and with `Ok` only when the batch is
//! durable by policy and applied on this machine, in the order of the batches. A refusal, after
//! which nothing of the batch happens, may come at once, from the thread that asked.
//! Invariant: a record is shown by [`CommitLog::tail`] only when it is committed and applied.
//! Invariant: whether a batch happened is either known, or said to be unknown.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod copy;
mod local;
mod members;
mod progress;
mod tail;
#[cfg(test)]
mod tests;
mod verification;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use store::{CopyHead, DigestPoint, HeldState, LogPosition, Lsn, NotHeld, StoreError};

use crate::record::RECORD_LENGTH_MAX_BYTES;

pub use copy::{CopyIntake, StateCopy};
pub use journal::Durability;
pub use local::Local;
pub use members::{
    Member, MemberChange, MemberState, MembersChanged, MembersDone, MembersError, Membership,
    OnlySelf, VOTERS_MAX,
};
pub use progress::LogProgress;
pub use verification::{
    DIFFERENCES_NAMED_MAX, EntryDifference, OddMember, Oddity, Verification, VerificationState,
    VerifiedMember,
};

/// One leadership: whoever decides, decides on a state that only this leadership changes. A batch
/// that was decided in one reign never takes effect in another.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Reign(pub u64);

impl Reign {
    /// The one reign of a server that is alone by design.
    pub const ETERNAL: Self = Self(1);
}

/// Begins an entry of a log of several machines that says nothing: the first of a reign.
pub const ENTRY_BLANK: [u8; 2] = [0x00, 0x00];

/// Begins an entry of such a log that says who takes part.
pub const ENTRY_MEMBERSHIP: [u8; 2] = [0xff, 0xff];

/// Whether an entry of a log is a record: the log's own begin with two octets that none begins
/// with.
pub fn is_record(payload: &[u8]) -> bool {
    !payload.starts_with(&ENTRY_BLANK) && !payload.starts_with(&ENTRY_MEMBERSHIP)
}

/// One record as it travels: written by `record` and never changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EncodedRecord {
    /// Its number, as in the octets.
    pub lsn: Lsn,
    /// The running hash after it.
    pub hash: u64,
    /// Its octets, shared by all who keep them.
    pub bytes: Arc<[u8]>,
}

/// What is committed together: records with numbers that follow each other.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogBatch {
    /// At least one; the first follows the last of the batch before.
    pub records: Vec<EncodedRecord>,
    /// How safe they are before `done`.
    pub durability: Durability,
}

impl LogBatch {
    /// Whether it is one that a log may take, whatever the log has.
    ///
    /// # Errors
    /// When it is empty, its numbers do not follow each other, or a record is too long.
    pub fn check(&self) -> Result<(), CommitError> {
        let pairs = self.records.iter().zip(self.records.iter().skip(1));
        for (before, record) in pairs {
            if record.lsn.0 != before.lsn.0 + 1 {
                return Err(CommitError::Stale { expected: Lsn(before.lsn.0 + 1) });
            }
        }
        match self.records.iter().map(|record| record.bytes.len()).max() {
            None => Err(CommitError::Fatal("a batch without records".to_owned())),
            Some(bytes) if bytes > RECORD_LENGTH_MAX_BYTES => {
                Err(CommitError::TooLarge { bytes, limit_bytes: RECORD_LENGTH_MAX_BYTES })
            }
            Some(_) => Ok(()),
        }
    }
}

/// Takes the outcome of a batch: the number of its last record, or why it did not happen.
pub type CommitDone = Box<dyn FnOnce(Result<Lsn, CommitError>) + Send>;

/// Takes the answer to a barrier: a state with at least this number is visible here. One that takes
/// long may be answered with [`NotNow::NoQuorum`], so that nobody is kept for ever.
pub type BarrierDone = Box<dyn FnOnce(Result<Lsn, NotNow>) + Send>;

/// Is told each new role, in order.
pub type RoleWatcher = Box<dyn Fn(&Role) + Send + Sync>;

/// Orders, makes durable, publishes. One implementation per engine.
pub trait CommitLog: Send + Sync {
    /// Appends a batch that was decided in `reign` on the state its predecessor left; returns at
    /// once. `done` must not wait for anything: the batches behind it would, too.
    fn commit(&self, reign: Reign, batch: LogBatch, done: CommitDone);

    /// How many batches were accepted and are not done. It has gone down before `done` is called.
    fn in_flight(&self) -> usize;

    /// How many batches are worth having in flight: whoever decides gathers while there are more.
    fn window(&self) -> usize;

    /// What this machine is now.
    fn role(&self) -> Role;

    /// Has `watcher` told every new role, the present one first. It must not call the log.
    fn watch(&self, watcher: RoleWatcher);

    /// Calls `done` when a view taken here is as fresh as `level` asks.
    fn barrier(&self, level: ReadLevel, done: BarrierDone);

    /// The records from `from` on, in order, those to come included.
    ///
    /// # Errors
    /// When `from` was purged.
    fn tail(&self, from: Lsn) -> Result<Box<dyn Tail>, Gone>;

    /// The last record that is committed and applied here.
    fn applied(&self) -> Lsn;

    /// Who takes part.
    fn members(&self) -> &dyn Membership;

    /// The index up to which this machine keeps the log durably: the base may have everything up
    /// to there.
    fn kept_index(&self) -> u64;

    /// The base has everything up to `upto` durably, whose index alone counts: the log need not
    /// keep it any more. What the log cannot give up now it gives up with a later call.
    fn forget(&self, upto: LogPosition);

    /// This machine is about to end: another is to decide, if there is one. Returns at once.
    fn retire(&self) {}

    /// Waits for what was accepted, then accepts nothing more.
    fn close(&self);
}

/// What committed records are applied to: the store, or whatever a test puts in its place.
pub trait StateMachine: Send + Sync {
    /// Makes the effects of committed records visible to readers. What was decided here is there
    /// already and only becomes visible; the rest is decoded and applied. `records` follow each
    /// other without a gap, in number and in index, and are of one term; the last is at `position`.
    ///
    /// A batch that was decided here may come in parts, and becomes visible with its last part.
    /// When a new reign begins and parts are not visible, there is a call with
    /// [`Decided::Elsewhere`] and without records before any other: these parts become visible, and
    /// what else was decided is given up. Before a call with [`Decided::Elsewhere`] every batch
    /// that is not to come any more is done, because it waits for the batch that is being decided.
    ///
    /// # Errors
    /// When the state cannot take them. The log then commits nothing more.
    fn apply(
        &self,
        decided: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError>;

    /// The last record whose effects are visible; records that came after it are parts of a batch,
    /// or void. Whoever waits for a record is answered when this has reached it.
    fn applied(&self) -> Lsn;

    /// Where the log has the last record that was applied. What is before it is never applied
    /// again.
    fn position(&self) -> LogPosition;

    /// Who takes part, in the log's own octets; empty when it never was set.
    ///
    /// # Errors
    /// When the state cannot be read.
    fn membership(&self) -> Result<Vec<u8>, ApplyError>;

    /// Keeps who takes part; durable not later than what is applied afterwards.
    fn set_membership(&self, octets: Vec<u8>);

    /// Keeps who takes part at the beginning: durable when it returns, for which it may wait.
    ///
    /// # Errors
    /// When it cannot be written.
    fn begin_membership(&self, octets: Vec<u8>) -> Result<(), ApplyError> {
        self.set_membership(octets);
        Ok(())
    }

    /// Digests of the state after records that are visible, in their order, the last one that of
    /// now. What was told of a record once stays so. Empty where none is kept.
    fn digests(&self) -> Vec<DigestPoint> {
        Vec::new()
    }

    /// Holds the state after exactly the change `lsn`, for which it waits for `limit` at most: to
    /// be compared with that of other machines. Whoever applies is not kept.
    ///
    /// # Errors
    /// Why there is none.
    fn hold(&self, _lsn: Lsn, _limit: Duration) -> Result<HeldState, NotHeld> {
        Err(NotHeld::Refused("this state cannot be compared".to_owned()))
    }

    /// How long a copy of the whole state would be, about, in bytes; none where nobody knows.
    fn copy_bytes(&self) -> Option<u64> {
        None
    }

    /// Makes a copy of the whole state, as it is durable without the log, for another machine. It
    /// takes as long as reading and writing all of it, and nobody waits for it but who asked.
    ///
    /// # Errors
    /// When there is no room for it, or the state cannot be copied at all.
    fn copy(&self) -> Result<Arc<dyn StateCopy>, ApplyError> {
        Err(ApplyError::Copy(NO_COPIES.to_owned()))
    }

    /// Begins to receive a copy of the state of another machine, or goes on where it was left; what
    /// was received of others goes.
    ///
    /// # Errors
    /// When there is no room for it, or this state may not be replaced.
    fn receive(&self, _head: &CopyHead) -> Result<Box<dyn CopyIntake>, ApplyError> {
        Err(ApplyError::Copy(NO_COPIES.to_owned()))
    }

    /// Puts the copy with this id, which was received to its end, in the place of the state: all
    /// that was here goes, and readers see the new state from then on. It is later than this one.
    ///
    /// # Errors
    /// When that cannot be done. The log then commits nothing more.
    fn install(&self, _id: &[u8; 16]) -> Result<(), ApplyError> {
        Err(ApplyError::Copy(NO_COPIES.to_owned()))
    }

    /// The log goes on behind the copy that was put in place last, durably.
    fn settle_copied(&self) {}

    /// What was received of a copy and not put in place is not wanted any more.
    fn drop_received(&self) {}

    /// This state is not that of the other machines, which agree with each other: nothing is to be
    /// answered from it any more. What is applied from now on fails.
    fn differs(&self, _difference: &Difference) {}

    /// This machine has lost what it had confirmed, `reason` says what: as with [`Self::differs`],
    /// and it must not vote any more, because it may have promised what it does not know.
    fn forgot(&self, _reason: &str) {}
}

/// Machines with different states after the same record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The last record after which all had the same, as far as it is known; 0 if none is.
    pub same: Lsn,
    /// The first record after which they had not.
    pub lsn: Lsn,
    /// What each machine that was heard has after it, by its number.
    pub points: Vec<(u64, DigestPoint)>,
}

/// Where the records were decided that are applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decided {
    /// On this machine, in the reign that it has now: the writer has made their effects, and
    /// nothing else was decided in between.
    Here,
    /// On another machine, or on this one in a reign that is over.
    Elsewhere,
}

/// Reads committed and applied records in order.
pub trait Tail: Send {
    /// The next record; `None` when there is none within `timeout`.
    ///
    /// # Errors
    /// When the next record was purged in the meantime, or cannot be read.
    fn next_within(&mut self, timeout: Duration) -> Result<Option<EncodedRecord>, Gone>;
}

/// What a machine is to its log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Role {
    /// It decides.
    Deciding(Reign),
    /// Another decides, if it is known which.
    Following {
        /// Where clients find it, as an LDAP URL.
        leader: Option<String>,
    },
    /// Nobody decides: too few take part.
    Alone,
    /// The log failed: nothing is committed until the server starts again. Reads go on.
    Failed(String),
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReadLevel {
    /// What is visible here.
    Local,
    /// What was acknowledged with this number, wherever.
    AtLeast(Lsn),
    /// Everything that was acknowledged anywhere before the question.
    Linearizable,
}

/// Why a barrier cannot be had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotNow {
    /// Nobody knows what the others acknowledged.
    NoQuorum {
        /// How long ago whoever decides was heard last; none if that never was.
        heard: Option<Duration>,
    },
    /// The log is closed or failed before it got there.
    Closed,
}

/// The records asked for are not there any more, or cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Gone {
    /// The first record that is there.
    pub first: Lsn,
    /// Why, in a sentence.
    pub reason: String,
    /// Whether it may be there, and could not be read just now: it can be asked for again.
    pub may_pass: bool,
}

/// Why a batch was not committed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CommitError {
    /// Another decides now; nothing of the batch happened.
    NotDeciding {
        /// Where clients find it, as an LDAP URL.
        leader: Option<String>,
    },
    /// It was decided on a state that did not come to be, because a batch before it failed;
    /// nothing of it happened. It can be decided again.
    Stale {
        /// The number the log expects next.
        expected: Lsn,
    },
    /// The batch may have happened or not, and may yet show after a restart. Never to be told as
    /// a failure that invites to try again.
    Unknown {
        /// What went wrong.
        reason: String,
    },
    /// The log takes no more for the moment; nothing of the batch happened.
    Busy,
    /// No space is left for the log; nothing of the batch happened, and the log goes on when there
    /// is space again.
    NoSpace,
    /// Too few take part; nothing of the batch happened.
    NoQuorum,
    /// A record is longer than the log can hold; nothing of the batch happened.
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The longest possible.
        limit_bytes: usize,
    },
    /// The log failed before this batch, or is closed; nothing of the batch happened.
    Fatal(String),
}

impl CommitError {
    /// Whether the batch may have happened in spite of the error.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// Why committed records could not be applied.
#[derive(Debug)]
pub enum ApplyError {
    /// The store failed.
    Store(StoreError),
    /// A record cannot be read: it is damaged, or of a newer release.
    Record {
        /// Which one.
        lsn: Lsn,
        /// What is wrong with it.
        reason: String,
    },
    /// The effects of the records do not follow from the state that is there.
    Diverged {
        /// The first record that does not follow.
        lsn: Lsn,
        /// What is wrong.
        reason: String,
    },
    /// There is no copy of the state, or it cannot take the place of one: why.
    Copy(String),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (the first record that is there has number {})", self.reason, self.first.0)
    }
}

impl std::error::Error for Gone {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { same, lsn, points } = self;
        write!(f, "the data differ after change record {}", lsn.0)?;
        if same.0 > 0 {
            write!(f, ", and not yet after {}", same.0)?;
        }
        for (at, (member, point)) in points.iter().enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            let DigestPoint { hash, digest, .. } = point;
            write!(f, "{before}member {member} has the digest {digest} and the hash {hash:016x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDeciding { leader: Some(leader) } => {
                write!(f, "this server does not decide, {leader} does")
            }
            Self::NotDeciding { leader: None } => f.write_str("this server does not decide"),
            Self::Stale { expected } => {
                write!(f, "decided on a state that did not come to be, before {}", expected.0)
            }
            Self::Unknown { reason } => write!(f, "the outcome is not known: {reason}"),
            Self::Busy => f.write_str("the log takes no more for the moment"),
            Self::NoSpace => f.write_str("no space is left for the log"),
            Self::NoQuorum => f.write_str("too few servers take part"),
            Self::TooLarge { bytes, limit_bytes } => {
                write!(f, "a record of {bytes} bytes is over the limit of {limit_bytes} bytes")
            }
            Self::Fatal(reason) => write!(f, "the log takes no more until a restart: {reason}"),
        }
    }
}

impl std::error::Error for CommitError {}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Record { lsn, reason } => {
                write!(f, "change record {} cannot be read: {reason}", lsn.0)
            }
            Self::Diverged { lsn, reason } => {
                write!(f, "change record {} does not follow from the data: {reason}", lsn.0)
            }
            Self::Copy(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ApplyError {}

const NO_COPIES: &str = "this state cannot be copied";
