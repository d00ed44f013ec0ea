//! What a member may claim.
//!
//! Invariant: a member speaks as itself alone: who leads or stands for election is who is at the
//! other end of the connection, whose certificate was checked.
//! Invariant: no message brings a term near the last there is, after which nobody could be elected.

use super::{AppendRequest, TransferRequest, VoteRequest};
use crate::entry::Malformed;
use crate::types::{LogId, Vote};

/// How far a term may be above one's own. Each election adds one, and without a majority there is
/// none: a member that was away is behind by this after twelve days of an election each second, and
/// is to be made anew. Whoever would bring the terms to their end by such steps needs 2^44 of them.
pub(crate) const TERM_AHEAD_MAX: u64 = 1 << 20;

/// A request of the engine of another member.
pub(crate) trait Request {
    /// The member that asks, by what the request says; none where it does not say.
    fn speaker(&self) -> Option<u64>;

    /// The highest term in it.
    fn highest_term(&self) -> u64;
}

pub(super) fn term_of(log_id: Option<&LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.leader_id.term)
}

impl Request for AppendRequest {
    fn speaker(&self) -> Option<u64> {
        Some(self.vote.leader_id.voted_for)
    }

    fn highest_term(&self) -> u64 {
        let entries = self.entries.iter().map(|entry| entry.log_id.leader_id.term);
        let vote = self.vote.leader_id.term.max(term_of(self.prev_log_id.as_ref()));
        entries.fold(vote, u64::max).max(term_of(self.leader_commit.as_ref()))
    }
}

impl Request for VoteRequest {
    fn speaker(&self) -> Option<u64> {
        Some(self.vote.leader_id.voted_for)
    }

    fn highest_term(&self) -> u64 {
        self.vote.leader_id.term.max(term_of(self.last_log_id.as_ref()))
    }
}

impl Request for TransferRequest {
    fn speaker(&self) -> Option<u64> {
        Some(self.from_leader().leader_id.voted_for)
    }

    fn highest_term(&self) -> u64 {
        self.from_leader().leader_id.term.max(term_of(self.last_log_id()))
    }
}

/// The request, if member `from` at the other end makes it in its own name, and in no term that is
/// too far above `own_term`.
pub(crate) fn checked<R: Request>(from: u64, own_term: u64, request: R) -> Result<R, Malformed> {
    if request.speaker().is_some_and(|speaker| speaker != from) {
        return Err(Malformed("it speaks as another member"));
    }
    check_term(own_term, request.highest_term())?;
    Ok(request)
}

/// A vote in the response to what was sent with `own`.
pub(crate) fn check_answer(own: &Vote, vote: &Vote) -> Result<(), Malformed> {
    check_term(own.leader_id.term, vote.leader_id.term)
}

fn check_term(own: u64, term: u64) -> Result<(), Malformed> {
    match term <= own.saturating_add(TERM_AHEAD_MAX) {
        true => Ok(()),
        false => Err(Malformed("its term is too far above that of this member")),
    }
}
