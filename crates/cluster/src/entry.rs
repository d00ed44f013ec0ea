//! Entries and votes of the engine as octets in the journal; `docs/journal-format.md` has them.
//!
//! A change record is its own payload, octet for octet, so that it is written from where it was
//! encoded. What the engine adds begins with two octets that no record begins with.
//!
//! Invariant: what one release wrote reads back the same in every later one, whatever the engine
//! does to its own types.

#[cfg(any(test, feature = "test-support"))]
pub mod arbitrary;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use history::log::{ENTRY_BLANK as BLANK, ENTRY_MEMBERSHIP as MEMBERSHIP};
use journal::JournalPosition;
use openraft::EntryPayload;

use crate::types::{Entry, LogId, Membership, Node, RecordBytes, Vote};

/// The form of what follows [`MEMBERSHIP`].
const MEMBERSHIP_FORM: u8 = 1;
/// The form where a member has a key: each has a text more.
const MEMBERSHIP_FORM_WITH_KEYS: u8 = 2;
/// The most members there can be, voters and learners.
pub(crate) const MEMBERS_MAX: usize = 255;
/// The longest address or URL of a member, in bytes.
pub(crate) const ADDRESS_MAX_BYTES: usize = 1024;
/// Octets of a vote.
pub(crate) const VOTE_BYTES: usize = 17;

/// There is one form for the same members.
const DISORDER: Malformed = Malformed("the numbers of members are not in order");

/// What cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Where an entry stands in the journal, whose indexes begin with 1; those of the engine with 0.
pub(crate) fn place(id: &LogId) -> JournalPosition {
    JournalPosition { term: **id.committed_leader_id(), index: id.index + 1 }
}

/// The reverse of [`place`].
pub(crate) fn log_id(place: JournalPosition) -> LogId {
    LogId::new(place.term.into(), place.index.saturating_sub(1))
}

/// The payload of an entry; a record is not copied.
pub(crate) fn encode(payload: &EntryPayload<RecordBytes, u64, Node>) -> Arc<[u8]> {
    match payload {
        EntryPayload::Blank => Arc::from(BLANK),
        EntryPayload::Normal(record) => Arc::clone(&record.0),
        EntryPayload::Membership(membership) => encode_membership(membership).into(),
    }
}

/// The entry at a place.
pub(crate) fn decode(place: JournalPosition, payload: Arc<[u8]>) -> Result<Entry, Malformed> {
    let payload = match payload.split_first_chunk() {
        None => return Err(Malformed("an entry of the log is shorter than two octets")),
        Some((&BLANK, [])) => EntryPayload::Blank,
        Some((&BLANK, _)) => return Err(Malformed("a blank entry of the log says something")),
        Some((&MEMBERSHIP, rest)) => EntryPayload::Membership(decode_membership(rest)?),
        Some(_) => EntryPayload::Normal(RecordBytes(payload)),
    };
    Ok(Entry { log_id: log_id(place), payload })
}

/// Appends who takes part: the form; how many configurations (two while one replaces the other),
/// in each how many voters, and their numbers; how many members, in each its number, its address
/// and its URL, both with their lengths in two octets. Numbers of members grow, and have eight
/// octets; everything is little-endian.
pub(crate) fn encode_membership(membership: &Membership) -> Vec<u8> {
    let mut out = MEMBERSHIP.to_vec();
    let has_keys = membership.nodes().any(|(_, node)| !node.key.is_empty());
    out.push(if has_keys { MEMBERSHIP_FORM_WITH_KEYS } else { MEMBERSHIP_FORM });
    let configurations = membership.get_joint_config();
    out.push(count(configurations.len()));
    for voters in configurations {
        out.push(count(voters.len()));
        voters.iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
    }
    out.push(count(membership.nodes().count()));
    for (id, node) in membership.nodes() {
        out.extend_from_slice(&id.to_le_bytes());
        let key = has_keys.then_some(&node.key);
        for text in [&node.address, &node.url].into_iter().chain(key) {
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Whether members can be written, so that all can read them: what is in the log stays there.
pub(crate) fn check_members<'n>(
    members: impl ExactSizeIterator<Item = (&'n u64, &'n Node)>,
) -> Result<(), String> {
    if members.len() > MEMBERS_MAX {
        return Err(format!("{} servers are more than {MEMBERS_MAX}", members.len()));
    }
    for (id, node) in members {
        for text in [&node.address, &node.url, &node.key] {
            if text.len() > ADDRESS_MAX_BYTES {
                let bytes = text.len();
                return Err(format!(
                    "an address of server {id} has {bytes} bytes, the limit is {ADDRESS_MAX_BYTES}"
                ));
            }
        }
    }
    Ok(())
}

/// A number of members; [`check_members`] refuses more than fit.
fn count(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Reads what [`encode_membership`] wrote, behind its first two octets.
pub(crate) fn decode_membership(octets: &[u8]) -> Result<Membership, Malformed> {
    let mut octets = Octets(octets);
    let has_keys = match octets.one()? {
        MEMBERSHIP_FORM => false,
        MEMBERSHIP_FORM_WITH_KEYS => true,
        _ => return Err(Malformed("who takes part is written in a form of a later release")),
    };
    let mut configurations = Vec::new();
    for _ in 0..octets.one()? {
        let mut voters = BTreeSet::new();
        for _ in 0..octets.one()? {
            let id = octets.number()?;
            if voters.last().is_some_and(|last| *last >= id) {
                return Err(DISORDER);
            }
            voters.insert(id);
        }
        configurations.push(voters);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..octets.one()? {
        let id = octets.number()?;
        if nodes.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(DISORDER);
        }
        let (address, url) = (octets.text()?, octets.text()?);
        let key = if has_keys { octets.text()? } else { String::new() };
        nodes.insert(id, Node { address, url, key });
    }
    if has_keys && nodes.values().all(|node| node.key.is_empty()) {
        return Err(Malformed("who takes part is written in a form for keys, and has none"));
    }
    if !octets.0.is_empty() {
        return Err(Malformed("octets follow who takes part"));
    }
    Membership::new(configurations, nodes)
        .map_err(|_| Malformed("a voter is not among those who take part, or there is none"))
}

/// A vote: term, candidate and whether a majority has agreed.
pub(crate) fn encode_vote(vote: &Vote) -> [u8; VOTE_BYTES] {
    let mut out = [0; VOTE_BYTES];
    let (term, rest) = out.split_at_mut(8);
    let (candidate, committed) = rest.split_at_mut(8);
    term.copy_from_slice(&vote.leader_id.term.to_le_bytes());
    candidate.copy_from_slice(&vote.leader_id.voted_for.to_le_bytes());
    committed.fill(u8::from(vote.committed));
    out
}

/// Reads what [`encode_vote`] wrote.
pub(crate) fn decode_vote(octets: &[u8]) -> Result<Vote, Malformed> {
    let mut octets = Octets(octets);
    let (term, candidate) = (octets.number()?, octets.number()?);
    let committed = match octets.one()? {
        0 => false,
        1 => true,
        _ => return Err(Malformed("a vote is neither given nor agreed on")),
    };
    if !octets.0.is_empty() {
        return Err(Malformed("octets follow a vote"));
    }
    Ok(if committed { Vote::new_committed(term, candidate) } else { Vote::new(term, candidate) })
}

/// What is still to be read.
pub(crate) struct Octets<'o>(pub(crate) &'o [u8]);

impl<'o> Octets<'o> {
    pub(crate) const SHORT: Malformed = Malformed("it ends in the middle");

    pub(crate) fn take(&mut self, count: usize) -> Result<&'o [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn one(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let (length, rest) = self.0.split_first_chunk().ok_or(Self::SHORT)?;
        self.0 = rest;
        let length = usize::from(u16::from_le_bytes(*length));
        if length > ADDRESS_MAX_BYTES {
            return Err(Malformed("an address is too long"));
        }
        let text = std::str::from_utf8(self.take(length)?);
        text.map(str::to_owned).map_err(|_| Malformed("an address is not UTF-8"))
    }
}
