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
pub(crate) mod forwarder;
pub(crate) mod known_requests;
mod line;
mod octets;
pub(crate) mod outgoing;
pub mod request;
mod told_again;
mod told_events;
mod window;

pub use deciding::{ForwardedHash, ForwardedUpdate};
pub use forwarder::{
    ANSWER_MAX_BYTES, ForwardError, Forwarder, ForwarderDone, PROTOCOL_VERSION, REQUEST_MAX_BYTES,
};
pub use known_requests::ForwardedDone;

#[cfg(test)]
mod tests;
