//! What nodes say to each other, and how: start at `greeting.rs`, then `frame.rs` and `codec.rs`.
//!
//! Invariant: who has no certificate of the cluster's own authority gets nothing beyond TLS itself.
//! Invariant: every wait has an end, every queue and every frame a limit.
//! Invariant: knows no LDAP: what is asked of another node is octets.

mod authority;
mod claim;
mod codec;
mod confirmed;
mod connection;
mod conversation;
mod copying;
mod door;
mod error;
mod frame;
mod greeting;
mod handler;
mod limits;
mod link;
mod network;
mod peers;
mod server;
mod snapshot;
mod socket;
mod tls;

pub use authority::{
    AUTHORITY_FILE, AUTHORITY_KEY_FILE, Authority, NODE_FILE, NODE_KEY_FILE, NodeCertificate,
    NodeKey, check_key, node_name,
};
pub(crate) use claim::Request;
pub use connection::{CONNECT_MAX_MS, REQUESTS_MAX, UNWRITTEN_MAX_BYTES, WRITE_MAX_MS};
pub use conversation::UNANSWERED_MAX_BYTES;
pub use copying::{CopyRequest, CopyResponse};
pub use error::TransportError;
pub use frame::{APPEND_MAX_BYTES, ASK_MAX_BYTES, COPY_MAX_BYTES, Purpose, SMALL_MAX_BYTES};
pub use greeting::{GreetingError, NodeIdentity, PROTOCOL};
pub use handler::{Asks, EngineHandler, Handler, Responding};
pub use limits::{
    FROM_MEMBER_AT_ONCE_MAX, FROM_MEMBER_PER_SECOND_MAX, HANDSHAKE_MAX_MS,
    STRANGERS_PER_SECOND_MAX, ServerLimits, UNAUTHENTICATED_FROM_MEMBER_MAX, UNAUTHENTICATED_MAX,
    UNAUTHENTICATED_PER_ADDRESS_MAX,
};
pub use link::{BACKOFF_MAX_MS, BACKOFF_MIN_MS, TURNED_AWAY_MAX_MS};
pub use network::{
    APPENDS_IN_FLIGHT_MAX, APPENDS_IN_FLIGHT_MAX_BYTES, LOG_RESPONSE_MAX_MS, PeerNetwork,
};
pub use peers::{AskError, Peers};
pub use server::{CONNECTIONS_PER_PURPOSE_MAX, PeerServer, serve};
pub use snapshot::{COPY_ENDS_MAX_MS, COPY_PIECE_MAX_MS};
#[cfg(test)]
pub(crate) use snapshot::{Carrier, Sending};
pub use socket::UNACKNOWLEDGED_MAX_MS;
pub use tls::Credentials;

use crate::types::Types;

/// Entries for the log of another node.
pub type AppendRequest = openraft::raft::AppendEntriesRequest<Types>;
/// What becomes of them there.
pub type AppendResponse = openraft::raft::AppendEntriesResponse<Types>;
/// The request for a vote.
pub type VoteRequest = openraft::raft::VoteRequest<Types>;
/// The response to it.
pub type VoteResponse = openraft::raft::VoteResponse<Types>;
/// The request to take over the lead.
pub type TransferRequest = openraft::raft::TransferLeaderRequest<Types>;
/// The response to it.
pub type TransferResponse = openraft::raft::TransferLeaderResponse<Types>;

/// Reads octets as each message that a node may get; what is read writes and reads back the same.
#[cfg(any(test, feature = "test-support"))]
pub(crate) fn check_message(octets: &[u8]) {
    let append = |octets: &[u8]| {
        codec::decode_append(octets).ok().map(|it| codec::encode_append(&it, usize::MAX).octets)
    };
    check_form(octets, append);
    let response = |octets: &[u8]| codec::decode_append_response(octets).ok();
    check_form(octets, |octets| response(octets).map(|it| codec::encode_append_response(&it)));
    let request = |octets: &[u8]| codec::decode_vote_request(octets).ok();
    check_form(octets, |octets| request(octets).map(|it| codec::encode_vote_request(&it)));
    let response = |octets: &[u8]| codec::decode_vote_response(octets).ok();
    check_form(octets, |octets| response(octets).map(|it| codec::encode_vote_response(&it)));
    let request = |octets: &[u8]| codec::decode_transfer(octets).ok();
    check_form(octets, |octets| request(octets).map(|it| codec::encode_transfer(&it)));
    let response = |octets: &[u8]| codec::decode_transfer_response(octets).ok();
    check_form(octets, |octets| response(octets).map(|it| codec::encode_transfer_response(&it)));
    let request = |octets: &[u8]| CopyRequest::decode(octets).ok();
    check_form(octets, |octets| request(octets).map(|it| it.encode()));
    let response = |octets: &[u8]| CopyResponse::decode(octets).ok();
    check_form(octets, |octets| response(octets).map(CopyResponse::encode));
    if let Some(octets) = octets.first_chunk() {
        for purpose in Purpose::ALL {
            let head = frame::read_head(*octets, *purpose);
            let max = head.map(|head| (head.length, head.kind.max_bytes(*purpose)));
            assert!(max.is_err() || max.is_ok_and(|(length, max)| Some(length) <= max));
        }
    }
    if let Some(octets) = octets.first_chunk()
        && let Some(read) = greeting::Greeting::decode(octets)
    {
        assert_eq!(&read.encode(), octets);
    }
    if let Some(octets) = octets.first_chunk()
        && let Ok(read) = greeting::Welcome::decode(octets)
    {
        assert_eq!(&read.encode(), octets);
    }
}

/// `again` reads and writes: what it wrote, it writes again.
#[cfg(any(test, feature = "test-support"))]
fn check_form(octets: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(written) = again(octets) {
        assert_eq!(again(&written).as_ref(), Some(&written));
    }
}
