//! Updates that another node decides: a node that does not decide hands on the LDAP message as it
//! came, with who asks, and answers its client with what the deciding node says, after it has
//! applied that change itself.
//!
//! Start at `asking.rs` and `outgoing.rs` (the node that was asked), then `deciding.rs` (the node
//! that decides) and `known_requests.rs`.
//!
//! Invariant: a request has one id from its client to its change record, however often it is sent,
//! and whoever decides carries out what has an id once.
//! Invariant: the updates of one connection are decided in the order in which they came.
//! Invariant: a client whose update is answered with a success sees it on this node.

pub mod answer;
pub(crate) mod asking;
pub(crate) mod deciding;
pub(crate) mod known_requests;
mod octets;
pub(crate) mod outgoing;
pub mod request;

pub use deciding::{ForwardedHash, ForwardedUpdate};
pub use known_requests::ForwardedDone;
use std::fmt::Debug;

/// Hands updates to the node that decides. It finds out itself which that is; where it is this one,
/// it has the request carried out here.
pub trait Forwarder: Debug + Send + Sync {
    /// Sends a request, and gives `done` the octets that the other node answers. Returns at once;
    /// `done` is called once, from a thread that must not wait, and may be called before this
    /// returns.
    fn forward(&self, request: Vec<u8>, done: ForwarderDone);
}

/// Takes the octets of the answer, or why there is none.
pub type ForwarderDone = Box<dyn FnOnce(Result<Vec<u8>, ForwardError>) + Send>;

/// Why an update was not handed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ForwardError {
    /// Nothing was sent: nobody decides, or it cannot be reached.
    NotSent,
    /// It was sent, and no answer came.
    Unknown,
}

/// The form of requests and answers; nodes that know another one are refused.
pub const PROTOCOL_VERSION: u16 = 1;

/// Octets of a request.
pub const REQUEST_MAX_BYTES: usize = 64 << 20;

/// Octets of an answer: what one may read of entries for it, and some more.
pub const ANSWER_MAX_BYTES: usize = 64 << 20;

/// Messages of a request: a transaction has a thousand updates at the most, and its end.
const MESSAGES_MAX: usize = 1_001;

#[cfg(test)]
mod tests;
