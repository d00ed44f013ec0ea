//! What carries requests from node to node, and how large they may be.
//!
//! Invariant: both may hold passwords, and are wiped when they are done with.

use std::fmt::Debug;
use std::time::Duration;

use zeroize::Zeroizing;

/// Hands updates to the node that decides. It finds out itself which that is; where it is this one,
/// it has the request carried out here.
pub trait Forwarder: Debug + Send + Sync {
    /// Sends a request, and gives `done` the octets that the other node answers `within` this time,
    /// or soon afterwards that it did not. Returns at once; `done` is called once, from a thread
    /// that must not wait, and may be called before this returns.
    fn forward(&self, request: Zeroizing<Vec<u8>>, within: Duration, done: ForwarderDone);
}

/// Takes the octets of the answer, or why there is none.
pub type ForwarderDone = Box<dyn FnOnce(Result<Zeroizing<Vec<u8>>, ForwardError>) + Send>;

/// Why an update was not handed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ForwardError {
    /// Nothing was sent: nobody decides, or it cannot be reached.
    NotSent,
    /// It was sent, and no answer came.
    Unknown,
}

/// The form of requests and answers; nodes that know another one are refused. So an answer of
/// another version than its request says that nothing happened, whatever else is in it. A release
/// that takes requests of an older version answers in that.
pub const PROTOCOL_VERSION: u16 = 1;

/// What a client is told whose update came to nothing for that reason.
pub(super) const OTHER_VERSION: &str =
    "the servers of the cluster speak different versions of their protocol: upgrade all of them";

/// Octets of a request.
pub const REQUEST_MAX_BYTES: usize = 19 << 20;

/// Octets of an answer: what one may read of entries for it, and some more.
pub const ANSWER_MAX_BYTES: usize = 19 << 20;

/// Messages of a request: a transaction has a thousand updates at the most, and its end.
pub(super) const MESSAGES_MAX: usize = 1_001;
