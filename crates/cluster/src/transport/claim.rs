//! What a member may claim in a request.
//!
//! Invariant: a member speaks as itself alone: who leads or stands for election is who is at the
//! other end of the connection, whose certificate was checked.

use super::{AppendRequest, TransferRequest, VoteRequest};
use crate::entry::Malformed;

/// A request of the engine of another member.
pub(crate) trait Request {
    /// The member that asks, by what the request says.
    fn speaker(&self) -> u64;
}

impl Request for AppendRequest {
    fn speaker(&self) -> u64 {
        self.vote.leader_id.voted_for
    }
}

impl Request for VoteRequest {
    fn speaker(&self) -> u64 {
        self.vote.leader_id.voted_for
    }
}

impl Request for TransferRequest {
    fn speaker(&self) -> u64 {
        self.from_leader().leader_id.voted_for
    }
}

/// The request, if the member at the other end makes it in its own name.
pub(crate) fn own<R: Request>(from: u64, request: R) -> Result<R, Malformed> {
    if request.speaker() == from {
        Ok(request)
    } else {
        Err(Malformed("it speaks as another member"))
    }
}
