//! Searches that have parked: their receiver has no room, or others waited for the thread, and they
//! gave it up. Each knows where it goes on.
//!
//! Invariant: a parked search holds nothing of the store. It goes on with the newest snapshot and
//! with the rules that hold then: no entry is sent twice, and none is left out that was there all
//! the time, because ids stay and are in order. Of entries in another order the same holds while
//! they were sorted in memory and fit into the budget. Otherwise it goes on behind the last
//! position, as a page does: an entry whose key changes meanwhile may be left out. A walk remembers
//! what it has sent, within the budget, so that such an entry does not come twice.
//! Invariant: an entry that waits to be sent in parts counts as sent, and the search goes on with
//! it, if it still matches then.
//! Invariant: what was counted and told so far counts on: limits hold as if it had not parked; but
//! following chains again, or sorting again, is work again.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schema::EntryId;
use store::Lsn;

use super::budget::{Budget, Held};
use super::sorted::position::ListPosition;
use super::stream::state::StreamPosition;
use crate::request::completion::Completion;
use crate::request::controls::response::ResponseControl;

/// Where a search goes on.
pub(crate) struct Parked {
    pub(super) phase: Phase,
    /// Entries sent for this request, and candidates looked at.
    pub(super) sent: u32,
    pub(super) seen: CandidatesSeen,
    /// What the result is to say.
    pub(super) controls: Vec<ResponseControl>,
    /// When it began on the pool, and with how many candidates, without an index or not.
    pub(super) begun: Duration,
    pub(super) planned: Option<(u64, bool)>,
    /// What it has cost, in steps.
    pub(super) spent: u64,
    /// The entry before which it has parked, which is to be sent in parts when it is its turn.
    pub(crate) deferred: Option<EntryId>,
    /// It waits until there is room for that.
    pub(super) waits_for_room: bool,
    /// Where it is among the changes, of one that goes on with them.
    pub(super) stream: Option<Box<StreamPosition>>,
    /// What its response says so far.
    pub(crate) so_far: Completion,
}

/// How many candidates were looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CandidatesSeen {
    /// All of them, for the log.
    pub(crate) candidates: u64,
    /// Those that the asker may find, where only they count for limits.
    pub(super) counted: u64,
}

/// What it was at.
pub(super) enum Phase {
    /// Its candidates, in the order of their ids, up to this one; that was sent last.
    Candidates { after: EntryId, last: EntryId },
    /// Its candidates up to this one, and so many of them match: they are counted only.
    Counted { after: EntryId, count: u64 },
    /// Its entries in their order.
    Sorted(List),
    /// The referral objects in scope, up to this one.
    References { after: EntryId },
    /// Entries that the server makes itself: so many of them were sent.
    Made { sent: usize },
    /// Changes, up to this part of this record; the page has so many entries.
    Changes { lsn: Lsn, part: usize, of_page: u32 },
    /// Changes, to tell of the entries that they were made to.
    Stream,
    /// The same as when it had parked before: only the entry that had waited is done with.
    AsBefore,
}

/// What is left of a sorted search.
pub(super) struct List {
    /// The position of the entry sent last.
    pub(super) last: ListPosition,
    pub(super) rest: Rest,
}

/// How the rest of a list is found.
pub(super) enum Rest {
    /// These entries are next.
    Kept(Kept),
    /// By walking the index on, past these entries, which were sent.
    Walk(Cell<Option<SentIds>>),
    /// By sorting again what comes after the last.
    Sort,
}

/// Entries that a walk has sent: the key of one may change, and lead it there again.
pub(super) struct SentIds {
    ids: BTreeSet<EntryId>,
    held: Held,
}

/// Entries that were sorted in memory and are to be sent.
#[derive(Clone)]
pub(super) struct Kept {
    list: Arc<Counted>,
    from: usize,
}

/// A list whose octets are counted.
struct Counted {
    positions: Vec<ListPosition>,
    /// Where it was cut, if there may be more behind it.
    cut: Option<ListPosition>,
    _held: Held,
}

impl Parked {
    /// The same, where it is after `before`.
    pub(super) fn after(self: Box<Self>, before: Option<Box<Self>>) -> Box<Self> {
        match before {
            Some(before) if matches!(self.phase, Phase::AsBefore) => {
                Box::new(Self { phase: before.phase, ..*self })
            }
            Some(_) | None => self,
        }
    }

    /// How many entries that the server makes itself were sent.
    pub(super) fn made(&self) -> usize {
        match self.phase {
            Phase::Made { sent } => sent,
            Phase::Candidates { .. }
            | Phase::AsBefore
            | Phase::Stream
            | Phase::Counted { .. }
            | Phase::Sorted(_)
            | Phase::Changes { .. }
            | Phase::References { .. } => 0,
        }
    }

    /// Whether it has read all changes that there are, and waits for the next; or for room for an
    /// entry that one of them is about.
    pub(crate) fn waits_for_change(&self) -> bool {
        self.waits_for_room || self.stream.as_ref().is_some_and(|stream| stream.waits_for_change())
    }

    /// Whether it tells what changes, which takes as long as its client stays.
    pub(super) fn is_live(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_live())
    }

    /// Entries sent, and candidates looked at.
    pub(super) const fn counts(&self) -> (u32, CandidatesSeen) {
        (self.sent, self.seen)
    }

    /// Entries of the page, of a search for changes.
    pub(super) const fn of_page(&self) -> u32 {
        match self.phase {
            Phase::Changes { of_page, .. } => of_page,
            Phase::Candidates { .. }
            | Phase::AsBefore
            | Phase::Stream
            | Phase::Counted { .. }
            | Phase::Sorted(_)
            | Phase::References { .. }
            | Phase::Made { .. } => 0,
        }
    }

    /// The part of a change that was sent last, of a search for changes.
    pub(super) fn change(&self) -> Option<(Lsn, usize)> {
        match self.phase {
            Phase::Changes { lsn, part, .. } => Some((lsn, part)),
            Phase::Candidates { .. }
            | Phase::AsBefore
            | Phase::Stream
            | Phase::Counted { .. }
            | Phase::Sorted(_)
            | Phase::References { .. }
            | Phase::Made { .. } => None,
        }
    }

    /// The rest of a list, when it is at one.
    pub(super) fn list(&self) -> Option<&List> {
        match &self.phase {
            Phase::Sorted(list) => Some(list),
            Phase::Candidates { .. }
            | Phase::AsBefore
            | Phase::Stream
            | Phase::Counted { .. }
            | Phase::References { .. }
            | Phase::Changes { .. }
            | Phase::Made { .. } => None,
        }
    }

    /// Whether its answer has told of the base already: not while nothing was sent.
    pub(super) fn has_told(&self) -> bool {
        match self.phase {
            Phase::Candidates { .. } | Phase::Counted { .. } | Phase::Sorted(_) => {
                self.sent > u32::from(self.deferred.is_some())
            }
            Phase::References { .. }
            | Phase::Made { .. }
            | Phase::AsBefore
            | Phase::Stream
            | Phase::Changes { .. } => true,
        }
    }
}

impl SentIds {
    pub(super) fn new(budget: &Budget) -> Self {
        Self { ids: BTreeSet::new(), held: budget.nothing() }
    }

    pub(super) fn add(&mut self, id: EntryId) {
        self.ids.insert(id);
    }

    pub(super) fn contains(&self, id: EntryId) -> bool {
        self.ids.contains(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Keeps them while the search is parked, if there is room for them.
    pub(super) fn keep(mut self, max: usize) -> Option<Self> {
        let bytes = self.ids.len() * SENT_ID_BYTES;
        self.held.grow_to(bytes, max).then_some(self)
    }
}

/// What an id takes in a set, about.
const SENT_ID_BYTES: usize = 16;

impl Kept {
    /// Keeps positions; none when they are more octets than there is room for. `cut` is the last of
    /// them, if there may be more behind it.
    pub(super) fn new(
        positions: Vec<ListPosition>,
        cut: Option<ListPosition>,
        budget: &Budget,
        max: usize,
    ) -> Option<Self> {
        let bytes = positions.iter().map(ListPosition::bytes).sum::<usize>();
        let held = budget.hold(bytes, max)?;
        Some(Self { list: Arc::new(Counted { positions, cut, _held: held }), from: 0 })
    }

    /// What is to be sent.
    pub(super) fn positions(&self) -> &[ListPosition] {
        self.list.positions.get(self.from..).unwrap_or_default()
    }

    /// Where it was cut, if there may be more behind it.
    pub(super) fn cut(&self) -> Option<&ListPosition> {
        self.list.cut.as_ref()
    }

    /// The same without the first `count`.
    pub(super) fn behind(&self, count: usize) -> Self {
        Self { list: Arc::clone(&self.list), from: self.from + count }
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, seen, .. } = self;
        f.debug_struct("Parked")
            .field("sent", sent)
            .field("seen", &seen.candidates)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(count: u64) -> Vec<ListPosition> {
        (1..=count).map(|id| ListPosition { key: vec![1; 36], id: EntryId(id) }).collect()
    }

    #[test]
    fn what_a_walk_has_sent_counts_while_it_is_kept() {
        let budget = Budget::default();
        let mut sent = SentIds::new(&budget);
        (1..=10).for_each(|id| sent.add(EntryId(id)));
        let mut sent = sent.keep(200).unwrap();
        assert!(budget.hold(41, 200).is_none(), "160 octets are taken");
        (1..=12).for_each(|id| sent.add(EntryId(id)));
        let mut sent = sent.keep(200).unwrap();
        assert!(sent.contains(EntryId(12)) && !sent.contains(EntryId(13)));
        sent.add(EntryId(13));
        assert!(sent.keep(200).is_none(), "they would be 208 octets");
        assert!(budget.hold(200, 200).is_some());
    }

    #[test]
    fn kept_lists_share_a_budget_and_give_it_back() {
        let budget = Budget::default();
        let keep = |count| Kept::new(positions(count), None, &budget, 1_000);
        let first = keep(6).unwrap();
        assert!(keep(6).is_none(), "they would be 1,200 octets");
        let rest = first.behind(2);
        drop(first);
        assert!(keep(6).is_none(), "the rest holds the list");
        let ids = rest.positions().iter().map(|position| position.id.0).collect::<Vec<_>>();
        assert_eq!(ids, [3, 4, 5, 6]);
        assert!(rest.behind(9).positions().is_empty());
        drop(rest);
        assert!(keep(10).is_some());
    }
}
