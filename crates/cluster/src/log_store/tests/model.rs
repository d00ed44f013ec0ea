//! What a log should hold, and random operations on it.

use std::collections::{BTreeMap, BTreeSet};

use openraft::EntryPayload;
use openraft::type_config::TypeConfigExt;

use super::super::*;
use crate::types::{Membership, Node, RecordBytes};

/// splitmix64: a test depends on its seed alone.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(super) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Append(Vec<Entry>),
    /// Entries behind this one are void.
    Truncate(Option<LogId>),
    /// Beyond the last entry when a snapshot was taken from elsewhere.
    Purge(LogId),
    Vote(Vote),
    Committed(LogId),
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Model {
    pub(super) purged: Option<LogId>,
    pub(super) entries: BTreeMap<u64, Entry>,
    pub(super) vote: Option<Vote>,
    pub(super) committed: Option<LogId>,
}

pub(super) fn id(term: u64, index: u64) -> LogId {
    LogId::new(term.into(), index)
}

impl Model {
    pub(super) fn last(&self) -> Option<LogId> {
        self.entries.last_key_value().map(|(_, entry)| entry.log_id).or(self.purged)
    }

    pub(super) fn next(&self) -> u64 {
        self.last().map_or(0, |last| last.index + 1)
    }

    /// The id of an entry that is there, or of the last purged one.
    fn id_at(&self, index: u64) -> Option<LogId> {
        self.entries.get(&index).map(|entry| entry.log_id).or(self.purged)
    }

    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Append(entries) => {
                self.entries
                    .extend(entries.iter().map(|entry| (entry.log_id.index, entry.clone())));
            }
            Step::Truncate(after) => {
                self.entries.split_off(&after.map_or(0, |after| after.index + 1));
            }
            Step::Purge(upto) => {
                if self.entries.contains_key(&upto.index) {
                    self.entries = self.entries.split_off(&(upto.index + 1));
                } else {
                    self.entries.clear();
                    self.committed = None;
                }
                self.purged = Some(*upto);
            }
            Step::Vote(vote) => self.vote = Some(*vote),
            Step::Committed(place) => self.committed = Some(*place),
        }
    }

    /// Something that the engine might do next.
    pub(super) fn step(&self, chance: &mut Chance) -> Step {
        let next = self.next();
        let low = self.entries.first_key_value().map_or(next, |(first, _)| *first);
        let committed = self.committed.map_or(low, |committed| committed.index.max(low));
        let term = self.last().map_or(1, |last| **last.committed_leader_id());
        match chance.below(20) {
            0 | 1 => Step::Vote(match self.vote {
                Some(vote) if !vote.committed && chance.one_in(2) => {
                    Vote::new_committed(vote.leader_id.term, vote.leader_id.voted_for)
                }
                vote => {
                    let before = vote.map_or(0, |vote| vote.leader_id.term);
                    Vote::new(before.max(term) + 1, 1 + chance.below(3))
                }
            }),
            2 | 3 if self.committed.is_some() && next > committed + 1 => {
                Step::Truncate(self.id_at(committed + chance.below(next - committed)))
            }
            2 if self.committed.is_none() && !self.entries.is_empty() => {
                let after = (low + chance.below(next - low)).checked_sub(1);
                Step::Truncate(after.and_then(|after| self.id_at(after)))
            }
            4 | 5 if !self.entries.is_empty() => {
                let upto = low + chance.below(next - low);
                Step::Purge(self.id_at(upto).unwrap())
            }
            6 if chance.one_in(10) => Step::Purge(id(term + 1, next + chance.below(50))),
            7 | 8 if next > committed => {
                Step::Committed(self.id_at(committed + chance.below(next - committed)).unwrap())
            }
            _ => {
                let mut term = term;
                let entries = (next..next + 1 + chance.below(6)).map(|index| {
                    term += u64::from(chance.one_in(40));
                    Entry { log_id: id(term, index), payload: payload(index, chance) }
                });
                Step::Append(entries.collect())
            }
        }
    }
}

fn payload(index: u64, chance: &mut Chance) -> EntryPayload<RecordBytes, u64, Node> {
    let length = match chance.below(20) {
        0 => return EntryPayload::Blank,
        1 => {
            let node = Node { address: format!("node{index}:1636"), ..Node::default() };
            let nodes = BTreeMap::from([(1, node.clone()), (2, node)]);
            let voters = BTreeSet::from([1 + chance.below(2)]);
            return EntryPayload::Membership(Membership::new(vec![voters], nodes).unwrap());
        }
        2 => chance.below(20_000),
        _ => chance.below(400),
    };
    let mut octets = format!("record {index} {} ", chance.below(1 << 60)).into_bytes();
    octets.resize(octets.len() + length as usize, index as u8);
    EntryPayload::Normal(RecordBytes(octets.into()))
}

/// What a log shows.
pub(super) async fn found(log: &mut LogStore) -> Model {
    let state = log.get_log_state().await.unwrap();
    let entries = log.try_get_log_entries(..).await.unwrap();
    let found = Model {
        purged: state.last_purged_log_id,
        entries: entries.into_iter().map(|entry| (entry.log_id.index, entry)).collect(),
        vote: log.read_vote().await.unwrap(),
        committed: log.read_committed().await.unwrap(),
    };
    let next = found.purged.map_or(0, |purged| purged.index + 1);
    assert!(found.entries.keys().copied().eq(next..found.next()), "a gap: {found:?}");
    assert_eq!(state.last_log_id, found.last());
    found
}

/// Appends; what comes back learns the outcome.
pub(super) async fn append(
    log: &mut LogStore,
    entries: Vec<Entry>,
) -> impl Future<Output = io::Result<()>> + Unpin + use<> {
    let (told, outcome) = Types::oneshot();
    let taken = log.append(entries, IOFlushed::signal(told)).await;
    Box::pin(async {
        taken?;
        outcome.await.unwrap()
    })
}

/// Does what is not an append.
pub(super) async fn control(log: &mut LogStore, step: &Step) -> io::Result<()> {
    match step {
        Step::Append(entries) => append(log, entries.clone()).await.await,
        Step::Truncate(after) => log.truncate_after(*after).await,
        Step::Purge(upto) => log.purge(*upto).await,
        Step::Vote(vote) => log.save_vote(vote).await,
        Step::Committed(place) => log.save_committed(Some(*place)).await,
    }
}
