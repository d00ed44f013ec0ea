//! From a message to its response: sessions and workers, dispatch, controls, limits, and the sink
//! that responses go to. Start at `dispatch.rs`.

pub(crate) mod asker_bytes;
pub(crate) mod asker_queues;
pub(crate) mod budgets;
pub(crate) mod cancel;
pub(crate) mod completion;
pub(crate) mod controls;
pub(crate) mod cookie;
pub(crate) mod decoded;
pub(crate) mod dispatch;
pub(crate) mod extended;
pub(crate) mod identity_limits;
pub(crate) mod job;
pub(crate) mod large_entry;
pub(crate) mod large_turns;
pub(crate) mod limits;
pub(crate) mod name_memo;
pub(crate) mod note;
pub(crate) mod outbox;
pub(crate) mod policy;
pub(crate) mod protection;
pub(crate) mod quarantined;
pub(crate) mod received;
pub(crate) mod referral;
pub(crate) mod refusal;
pub(crate) mod seldom;
pub(crate) mod session;
pub(crate) mod sink;
pub(crate) mod snapshot;
pub(crate) mod stop;
pub(crate) mod worker;
