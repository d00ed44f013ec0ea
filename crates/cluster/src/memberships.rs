//! Who takes part, as the state keeps it: the last sets of members.
//!
//! Invariant: what is written reads back the same.
//! Invariant: among those that are written is one that was in force at the end of what is flushed:
//! they are written without a record, and so come there before the records between them do.

use std::collections::{BTreeMap, BTreeSet};

use store::LogPosition;

use crate::entry::{self, Malformed};
use crate::listing::numbers;
use crate::types::{LogId, Membership, Node, SnapshotMeta, StoredMembership};

/// The last two sets of members: the engine may go back to the one before the last. And all that
/// are behind what is flushed, with the one before those.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memberships(Vec<StoredMembership>);

impl Memberships {
    const KEPT: usize = 2;
    /// The most that are kept, whatever is flushed.
    const KEPT_MAX: usize = 64;

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether they are others than those with whom the cluster began.
    pub(crate) const fn has_changed(&self) -> bool {
        self.0.len() > 1
    }

    /// These take part from the beginning.
    pub(crate) fn begin(
        &mut self,
        at: LogPosition,
        members: &BTreeMap<u64, Node>,
    ) -> Result<(), String> {
        let voters = members.keys().copied().collect();
        let first = Membership::new(vec![voters], members.clone())
            .map_err(|_| "a voter is not among those who take part")?;
        self.push(StoredMembership::new(log_id_at(at), first), at);
        Ok(())
    }

    /// Where the log says of the first of them, as the journal counts.
    pub(crate) fn begins_at(&self) -> u64 {
        let first = self.0.first().and_then(|one| one.log_id().as_ref());
        first.map_or(0, |id| entry::place(id).index)
    }

    /// Says so if `listed` are others than those who take part, or elsewhere.
    pub(crate) fn note_differing(&self, listed: &BTreeMap<u64, Node>) {
        let Some(newest) = self.0.last() else { return };
        let known: BTreeMap<u64, Node> =
            newest.membership().nodes().map(|(id, node)| (*id, node.clone())).collect();
        if !listed.is_empty() && known != *listed {
            let known = numbers(&known.into_keys().collect());
            tracing::info!(
                "the members have been changed since the cluster began: it is that of {known}, and \
                 cluster.members of the settings counts no more"
            );
        }
    }

    /// A newer one; what is flushed ends at `flushed`.
    pub(crate) fn push(&mut self, membership: StoredMembership, flushed: LogPosition) {
        self.0.push(membership);
        let flushed = log_id_at(flushed);
        let in_force = self.0.iter().rposition(|one| *one.log_id() <= flushed).unwrap_or(0);
        let surplus = in_force.min(self.0.len().saturating_sub(Self::KEPT));
        let surplus = surplus.max(self.0.len().saturating_sub(Self::KEPT_MAX));
        self.0.drain(..surplus);
    }

    /// Whether `listed` are those who take part, whatever their addresses are.
    pub(crate) fn check(&self, listed: &BTreeMap<u64, Node>) -> Result<(), String> {
        let Some(newest) = self.0.last() else { return Ok(()) };
        let known: BTreeSet<u64> = newest.membership().nodes().map(|(id, _)| *id).collect();
        let listed: BTreeSet<u64> = listed.keys().copied().collect();
        if known == listed {
            return Ok(());
        }
        let (known, listed) = (numbers(&known), numbers(&listed));
        Err(format!(
            "the settings list {listed}, and this data directory is that of a member of the \
             cluster of {known}: have cluster.members list {known}, on every member; their \
             addresses may be others"
        ))
    }

    /// Those who take part are where `listed` says.
    pub(crate) fn set_addresses(&mut self, listed: &BTreeMap<u64, Node>) -> Result<(), String> {
        for one in &mut self.0 {
            let membership = one.membership();
            let nodes = membership.nodes().map(|(id, known)| {
                let node = listed.get(id).unwrap_or(known);
                (*id, node.clone())
            });
            let nodes: BTreeMap<u64, Node> = nodes.collect();
            let moved = Membership::new(membership.get_joint_config().clone(), nodes)
                .map_err(|_| "a voter is not among those who take part")?;
            *one = StoredMembership::new(*one.log_id(), moved);
        }
        Ok(())
    }

    /// The newest that was in force at `at`; nobody if that is not known any more.
    pub(crate) fn as_of(&self, at: Option<LogId>) -> StoredMembership {
        let found = self.0.iter().rev().find(|membership| *membership.log_id() <= at);
        found.cloned().unwrap_or_default()
    }

    /// What the engine is told of a state that was kept at `position`; it names nobody if that is
    /// not known any more.
    pub(crate) fn meta(&self, position: LogPosition) -> SnapshotMeta {
        let last_log_id = log_id_at(position);
        SnapshotMeta { last_log_id, last_membership: self.as_of(last_log_id) }
    }

    /// Each with its term, its index in the journal and its length in four octets.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for one in &self.0 {
            let place = one.log_id().as_ref().map(entry::place).unwrap_or_default();
            let members = entry::encode_membership(one.membership());
            out.extend_from_slice(&place.term.to_le_bytes());
            out.extend_from_slice(&place.index.to_le_bytes());
            let length = u32::try_from(members.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&members);
        }
        out
    }

    pub(crate) fn decode(mut octets: &[u8]) -> Result<Self, Malformed> {
        const SHORT: Malformed = Malformed("who takes part is incomplete in the database");
        let mut all = Vec::new();
        while !octets.is_empty() {
            let (term, rest) = octets.split_first_chunk().ok_or(SHORT)?;
            let (index, rest) = rest.split_first_chunk().ok_or(SHORT)?;
            let (length, rest) = rest.split_first_chunk().ok_or(SHORT)?;
            let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| SHORT)?;
            let (members, rest) = rest.split_at_checked(length).ok_or(SHORT)?;
            let (term, index) = (u64::from_le_bytes(*term), u64::from_le_bytes(*index));
            let members = members.get(2..).ok_or(SHORT)?;
            let membership = entry::decode_membership(members)?;
            let id = log_id_at(LogPosition { term, index });
            all.push(StoredMembership::new(id, membership));
            octets = rest;
        }
        Ok(Self(all))
    }
}

/// A member, as a data directory knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownMember {
    /// Where it is.
    pub node: Node,
    /// Whether it counts towards a majority.
    pub is_voter: bool,
}

/// Who takes part, by number: as a state keeps it, or, if there is one, as a later entry of the log
/// says.
///
/// # Errors
/// A sentence, when they cannot be read.
pub fn known_members(
    kept: &[u8],
    entry: Option<&[u8]>,
) -> Result<BTreeMap<u64, KnownMember>, String> {
    let read = || match entry {
        Some(entry) => entry::decode_membership(entry.get(2..).unwrap_or_default()).map(Some),
        None => {
            let all = Memberships::decode(kept)?;
            Ok(all.0.last().map(|newest| newest.membership().clone()))
        }
    };
    let newest = read().map_err(|malformed: Malformed| malformed.0.to_owned())?;
    let Some(newest) = newest else { return Ok(BTreeMap::new()) };
    let voters: BTreeSet<u64> = newest.voter_ids().collect();
    let known = newest
        .nodes()
        .map(|(id, node)| (*id, KnownMember { node: node.clone(), is_voter: voters.contains(id) }));
    Ok(known.collect())
}

/// Whether nobody takes part.
pub(crate) fn is_nobody(membership: &StoredMembership) -> bool {
    membership.membership().nodes().next().is_none()
}

/// The engine's name for a place in the journal; index 0 is before the first.
pub(crate) fn log_id_at(position: LogPosition) -> Option<LogId> {
    let LogPosition { term, index } = position;
    (index > 0).then(|| entry::log_id(journal::JournalPosition { term, index }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(index: u64) -> LogPosition {
        LogPosition { term: 1, index }
    }

    fn of(index: u64) -> StoredMembership {
        let nodes = BTreeMap::from([(index, Node::default())]);
        let members = Membership::new(vec![BTreeSet::from([index])], nodes).unwrap();
        StoredMembership::new(log_id_at(at(index)), members)
    }

    /// A copy that named members of a later time than its own ended the engine that took it.
    #[test]
    fn who_took_part_at_the_end_of_what_is_flushed_is_known() {
        let mut all = Memberships::default();
        for index in [3, 9, 10, 12] {
            all.push(of(index), at(8));
        }
        for (flushed, in_force) in [(8, 3), (9, 9), (11, 10), (12, 12), (20, 12)] {
            assert_eq!(all.meta(at(flushed)).last_membership, of(in_force), "{flushed}");
        }
        assert!(is_nobody(&all.meta(at(2)).last_membership));
        // What is flushed needs no more of them, but for the two that the engine may want.
        all.push(of(30), at(29));
        assert_eq!(all.0, [of(12), of(30)]);
        assert_eq!(Memberships::decode(&all.encode()).unwrap().0, all.0);
        // Where nothing is ever flushed they have an end.
        (31..131).for_each(|index| all.push(of(index), at(29)));
        assert_eq!(all.0.len(), Memberships::KEPT_MAX);
        assert!(is_nobody(&all.meta(at(29)).last_membership));
    }
}
