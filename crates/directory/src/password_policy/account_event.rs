//! What a bind leaves behind in an account: events, until they are written into its entry.

use environment::Timestamp;
use schema::EntryId;

/// Something that a bind leaves behind. Of one account no two are of the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Event {
    pub(super) at: Timestamp,
    pub(super) what: What,
    /// A rule counts it, or others that are not written yet.
    pub(super) is_counted: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum What {
    /// The password was right.
    Success,
    /// It was wrong.
    Failure,
}

/// The events of one account, on their way into its entry.
#[derive(Debug)]
pub(crate) struct AccountEvents {
    pub(super) id: EntryId,
    pub(super) events: Vec<Event>,
}
