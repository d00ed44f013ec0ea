//! What a bind leaves behind in an account: events, until they are written into its entry.

use environment::Timestamp;
use schema::EntryId;

/// Something that a bind leaves behind. Of one account no two are of the same time.
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
    pub(crate) events: Vec<Event>,
}
