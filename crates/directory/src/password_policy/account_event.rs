//! What a bind leaves behind in an account: events, until they are written into its entry.

use environment::Timestamp;
use schema::EntryId;

/// Something that a bind leaves behind. Of one account no two of a node are of the same time: in
/// the whole cluster the account and the time tell an event from all others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) what: What,
    /// A rule counts it, or others that are not written yet.
    pub(crate) is_counted: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    /// The password was right.
    Success,
    /// It was wrong.
    Failure,
}

/// The events of one account, on their way into its entry.
#[derive(Debug)]
pub(crate) struct AccountEvents {
    pub(crate) id: EntryId,
    /// Of binds at this node.
    pub(crate) events: Vec<Event>,
    /// Of binds at others, which remember them until they are written.
    pub(crate) told: Vec<Event>,
    /// Whoever decides writes them at once.
    pub(crate) is_urgent: bool,
}

/// Accounts in one change, and in one request to the node that decides.
pub(crate) const ACCOUNTS_PER_WRITE: usize = 250;

/// Events of one account in one request to the node that decides.
pub(crate) const EVENTS_PER_REQUEST: usize = 256;
