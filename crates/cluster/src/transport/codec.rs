//! Requests and responses of the engine as octets between nodes; `docs/cluster-protocol.md` has
//! the forms.
//!
//! Invariant: what a peer sends is checked as a whole before the engine sees any of it: entries
//! follow each other without a gap, and terms never go back.
//! Invariant: nothing is allocated for more than the octets that are there.

use openraft::raft::TransferLeaderError;

use super::{
    AppendRequest, AppendResponse, TransferRequest, TransferResponse, VoteRequest, VoteResponse,
};
use crate::entry::{self, Malformed, Octets, VOTE_BYTES};
use crate::types::{Entry, LogId, Vote};
use journal::JournalPosition;

/// Octets before the payload of an entry: term, index and length.
const ENTRY_HEAD_BYTES: usize = 20;

/// An append as octets.
pub(crate) struct EncodedAppend {
    pub(crate) octets: Vec<u8>,
    /// How many of its entries are in them: fewer than it has when they are too long together.
    pub(crate) entries: usize,
}

/// Writes an append: the vote, what is before the entries, what is committed, the number of
/// entries, and each with its position, its length and its payload. Entries that would make it
/// longer than `max_bytes` are left out.
pub(crate) fn encode_append(request: &AppendRequest, max_bytes: usize) -> EncodedAppend {
    let mut out = Vec::new();
    put_vote(&mut out, &request.vote);
    put_log_id(&mut out, request.prev_log_id.as_ref());
    put_log_id(&mut out, request.leader_commit.as_ref());
    let count_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut entries = 0_u32;
    for entry in &request.entries {
        let payload = entry::encode(&entry.payload);
        let Ok(length) = u32::try_from(payload.len()) else { break };
        if out.len() + ENTRY_HEAD_BYTES + payload.len() > max_bytes || entries == u32::MAX {
            break;
        }
        put_position(&mut out, &entry.log_id);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&payload);
        entries += 1;
    }
    if let Some(count) = out.get_mut(count_at..count_at + 4) {
        count.copy_from_slice(&entries.to_le_bytes());
    }
    EncodedAppend { octets: out, entries: usize::try_from(entries).unwrap_or(usize::MAX) }
}

/// Reads what [`encode_append`] wrote.
pub(crate) fn decode_append(octets: &[u8]) -> Result<AppendRequest, Malformed> {
    let mut octets = Octets(octets);
    let vote = vote(&mut octets)?;
    let prev_log_id = log_id(&mut octets)?;
    let leader_commit = log_id(&mut octets)?;
    let count = short(&mut octets)?;
    let mut entries: Vec<Entry> = Vec::with_capacity(count.min(octets.0.len() / ENTRY_HEAD_BYTES));
    let mut last = prev_log_id;
    for _ in 0..count {
        let position = position(&mut octets)?;
        let length = short(&mut octets)?;
        let entry = entry::decode(position, octets.take(length)?.into())?;
        if !follows(last.as_ref(), &entry.log_id) {
            return Err(Malformed("entries do not follow each other"));
        }
        last = Some(entry.log_id);
        entries.push(entry);
    }
    end(&octets)?;
    Ok(AppendRequest { vote, prev_log_id, entries, leader_commit })
}

/// Whether an entry may stand behind `last`; the first of all has the index 0.
fn follows(last: Option<&LogId>, next: &LogId) -> bool {
    match last {
        None => next.index == 0,
        Some(last) => {
            next.index == last.index.saturating_add(1)
                && **next.committed_leader_id() >= **last.committed_leader_id()
        }
    }
}

/// Writes the response to an append.
pub(crate) fn encode_append_response(response: &AppendResponse) -> Vec<u8> {
    let mut out = Vec::new();
    match response {
        AppendResponse::Success => out.push(SUCCESS),
        AppendResponse::PartialSuccess(last) => {
            out.push(PARTIAL_SUCCESS);
            put_log_id(&mut out, last.as_ref());
        }
        AppendResponse::Conflict => out.push(CONFLICT),
        AppendResponse::HigherVote(vote) => {
            out.push(HIGHER_VOTE);
            put_vote(&mut out, vote);
        }
    }
    out
}

/// Reads what [`encode_append_response`] wrote.
pub(crate) fn decode_append_response(octets: &[u8]) -> Result<AppendResponse, Malformed> {
    let mut octets = Octets(octets);
    let response = match octets.one()? {
        SUCCESS => AppendResponse::Success,
        PARTIAL_SUCCESS => AppendResponse::PartialSuccess(log_id(&mut octets)?),
        CONFLICT => AppendResponse::Conflict,
        HIGHER_VOTE => AppendResponse::HigherVote(vote(&mut octets)?),
        _ => return Err(UNKNOWN_RESPONSE),
    };
    end(&octets)?;
    Ok(response)
}

/// Writes the request for a vote, or for what would be one.
pub(crate) fn encode_vote_request(request: &VoteRequest) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, &request.vote);
    put_log_id(&mut out, request.last_log_id.as_ref());
    out.push(u8::from(request.leadership_transfer));
    out
}

/// Reads what [`encode_vote_request`] wrote.
pub(crate) fn decode_vote_request(octets: &[u8]) -> Result<VoteRequest, Malformed> {
    let mut octets = Octets(octets);
    let mut request = VoteRequest::new(vote(&mut octets)?, log_id(&mut octets)?);
    request.leadership_transfer = truth(&mut octets)?;
    end(&octets)?;
    Ok(request)
}

/// Writes the response to a request for a vote.
pub(crate) fn encode_vote_response(response: &VoteResponse) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, &response.vote);
    put_log_id(&mut out, response.last_log_id.as_ref());
    out.push(u8::from(response.vote_granted));
    out
}

/// Reads what [`encode_vote_response`] wrote.
pub(crate) fn decode_vote_response(octets: &[u8]) -> Result<VoteResponse, Malformed> {
    let mut octets = Octets(octets);
    let (vote, last) = (vote(&mut octets)?, log_id(&mut octets)?);
    let response = VoteResponse::new(vote, last, truth(&mut octets)?);
    end(&octets)?;
    Ok(response)
}

/// Writes the request to take over the lead.
pub(crate) fn encode_transfer(request: &TransferRequest) -> Vec<u8> {
    let mut out = Vec::new();
    put_vote(&mut out, request.from_leader());
    out.extend_from_slice(&request.to_node_id().to_le_bytes());
    put_log_id(&mut out, request.last_log_id());
    out
}

/// Reads what [`encode_transfer`] wrote.
pub(crate) fn decode_transfer(octets: &[u8]) -> Result<TransferRequest, Malformed> {
    let mut octets = Octets(octets);
    let (from, to) = (vote(&mut octets)?, octets.number()?);
    let request = TransferRequest::new(from, to, log_id(&mut octets)?);
    end(&octets)?;
    Ok(request)
}

/// Writes the response to the request to take over the lead.
pub(crate) fn encode_transfer_response(response: &TransferResponse) -> Vec<u8> {
    let mut out = Vec::new();
    match response {
        Ok(()) => out.push(ACCEPTED),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.push(VOTE_CHANGED);
            put_vote(&mut out, expected);
            put_vote(&mut out, actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.push(LOG_NOT_FLUSHED);
            put_log_id(&mut out, expected.as_ref());
            put_log_id(&mut out, actual.as_ref());
        }
    }
    out
}

/// Reads what [`encode_transfer_response`] wrote.
pub(crate) fn decode_transfer_response(octets: &[u8]) -> Result<TransferResponse, Malformed> {
    let mut octets = Octets(octets);
    let response = match octets.one()? {
        ACCEPTED => Ok(()),
        VOTE_CHANGED => {
            let (expected, actual) = (vote(&mut octets)?, vote(&mut octets)?);
            Err(TransferLeaderError::VoteChanged { expected, actual })
        }
        LOG_NOT_FLUSHED => {
            let (expected, actual) = (log_id(&mut octets)?, log_id(&mut octets)?);
            Err(TransferLeaderError::LogNotFlushed { expected, actual })
        }
        _ => return Err(UNKNOWN_RESPONSE),
    };
    end(&octets)?;
    Ok(response)
}

fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    out.extend_from_slice(&entry::encode_vote(vote));
}

fn vote(octets: &mut Octets<'_>) -> Result<Vote, Malformed> {
    entry::decode_vote(octets.take(VOTE_BYTES)?)
}

/// Positions are those of the journal, whose indexes begin with 1.
fn put_position(out: &mut Vec<u8>, id: &LogId) {
    let position = entry::place(id);
    out.extend_from_slice(&position.term.to_le_bytes());
    out.extend_from_slice(&position.index.to_le_bytes());
}

fn position(octets: &mut Octets<'_>) -> Result<JournalPosition, Malformed> {
    let position = JournalPosition { term: octets.number()?, index: octets.number()? };
    if position.index == 0 {
        return Err(Malformed("the log has no index 0"));
    }
    Ok(position)
}

fn put_log_id(out: &mut Vec<u8>, id: Option<&LogId>) {
    out.push(u8::from(id.is_some()));
    if let Some(id) = id {
        put_position(out, id);
    }
}

fn log_id(octets: &mut Octets<'_>) -> Result<Option<LogId>, Malformed> {
    let is_there = truth(octets)?;
    is_there.then(|| position(octets).map(entry::log_id)).transpose()
}

fn truth(octets: &mut Octets<'_>) -> Result<bool, Malformed> {
    match octets.one()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a truth value is neither 0 nor 1")),
    }
}

fn short(octets: &mut Octets<'_>) -> Result<usize, Malformed> {
    let (number, rest) = octets.0.split_first_chunk().ok_or(Octets::SHORT)?;
    octets.0 = rest;
    usize::try_from(u32::from_le_bytes(*number)).map_err(|_| Octets::SHORT)
}

fn end(octets: &Octets<'_>) -> Result<(), Malformed> {
    if octets.0.is_empty() { Ok(()) } else { Err(Malformed("octets follow the end")) }
}

/// Responses to an append.
const SUCCESS: u8 = 0;
const PARTIAL_SUCCESS: u8 = 1;
const CONFLICT: u8 = 2;
const HIGHER_VOTE: u8 = 3;
/// Responses to a transfer.
const ACCEPTED: u8 = 0;
const VOTE_CHANGED: u8 = 1;
const LOG_NOT_FLUSHED: u8 = 2;

const UNKNOWN_RESPONSE: Malformed = Malformed("a response is of no known kind");

#[cfg(test)]
mod tests;
