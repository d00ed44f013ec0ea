//! Searches that have parked: their receiver has no room, or others waited for the thread, and they
//! gave it up. Each knows where it goes on.
//!
//! Invariant: a parked search holds nothing of the store. It goes on with the newest snapshot and
//! with the rules that hold then: no entry is sent twice, and none is left out that was there all
//! the time, because ids stay and are in order. Of entries in another order the same holds while
//! they were sorted in memory and fit into the budget. Otherwise it goes on behind the last place,
//! as a page does: an entry whose key changes meanwhile may be left out. A walk remembers what it
//! has sent, within the budget, so that such an entry does not come twice.
//! Invariant: what was counted and told so far counts on: limits hold as if it had not parked; but
//! following chains again, or sorting again, is work again.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ldap::message::MessageId;
use schema::EntryId;

use super::Outcome;
use super::run::Seen;
use super::sorted::Place;
use crate::request::completion::Completion;
use crate::request::controls::response::ResponseControl;

/// Where a search goes on.
pub(crate) struct Parked {
    pub(super) phase: Phase,
    /// Entries sent for this request, and candidates looked at.
    pub(super) sent: u32,
    pub(super) seen: Seen,
    /// What the result is to say.
    pub(super) controls: Vec<ResponseControl>,
    /// When it began on the pool, and with how many candidates, without an index or not.
    pub(super) begun: Duration,
    pub(super) planned: Option<(u64, bool)>,
    /// What it has cost, in steps.
    pub(super) spent: u64,
    /// What its response says so far.
    pub(crate) so_far: Completion,
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
}

/// What is left of a sorted search.
pub(super) struct List {
    /// The place of the entry sent last.
    pub(super) last: Place,
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
    /// The octets that are counted.
    bytes: usize,
    budget: Budget,
}

/// Entries that were sorted in memory and are to be sent.
#[derive(Clone)]
pub(super) struct Kept {
    list: Arc<Counted>,
    from: usize,
}

/// A list whose octets are counted.
struct Counted {
    places: Vec<Place>,
    /// Where it was cut, if there may be more behind it.
    cut: Option<Place>,
    bytes: usize,
    budget: Budget,
}

/// What lists of parked searches hold, over all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Parked {
    /// The search parks; `sent` entries were sent, `seen` candidates looked at.
    pub(super) fn at(phase: Phase, (sent, seen): (u32, Seen)) -> Outcome {
        Outcome::Parked(Box::new(Self {
            phase,
            sent,
            seen,
            controls: Vec::new(),
            begun: Duration::ZERO,
            planned: None,
            spent: 0,
            so_far: Completion::of(MessageId::UNSOLICITED, None),
        }))
    }

    /// How many entries that the server makes itself were sent.
    pub(super) fn made(&self) -> usize {
        match self.phase {
            Phase::Made { sent } => sent,
            Phase::Candidates { .. }
            | Phase::Counted { .. }
            | Phase::Sorted(_)
            | Phase::References { .. } => 0,
        }
    }

    /// The rest of a list, when it is at one.
    pub(super) fn list(&self) -> Option<&List> {
        match &self.phase {
            Phase::Sorted(list) => Some(list),
            Phase::Candidates { .. }
            | Phase::Counted { .. }
            | Phase::References { .. }
            | Phase::Made { .. } => None,
        }
    }

    /// Whether its answer has told of the base already: not while nothing was sent.
    pub(super) fn has_told(&self) -> bool {
        match self.phase {
            Phase::Candidates { .. } | Phase::Counted { .. } => self.sent > 0,
            Phase::Sorted(_) | Phase::References { .. } | Phase::Made { .. } => true,
        }
    }
}

impl Budget {
    /// Takes octets of it, if there are so many.
    fn take(&self, bytes: usize, max: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).filter(|&all| all <= max);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

impl SentIds {
    pub(super) fn new(budget: &Budget) -> Self {
        Self { ids: BTreeSet::new(), bytes: 0, budget: budget.clone() }
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
        let more = (self.ids.len() * SENT_ID_BYTES).saturating_sub(self.bytes);
        if !self.budget.take(more, max) {
            return None;
        }
        self.bytes += more;
        Some(self)
    }
}

impl Drop for SentIds {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What an id takes in a set, about.
const SENT_ID_BYTES: usize = 16;

impl Kept {
    /// Keeps places; none when they are more octets than there is room for. `cut` is the last of
    /// them, if there may be more behind it.
    pub(super) fn new(
        places: Vec<Place>,
        cut: Option<Place>,
        (budget, max): (&Budget, usize),
    ) -> Option<Self> {
        let bytes = places.iter().map(Place::bytes).sum::<usize>();
        let budget = budget.clone();
        if !budget.take(bytes, max) {
            return None;
        }
        Some(Self { list: Arc::new(Counted { places, cut, bytes, budget }), from: 0 })
    }

    /// What is to be sent.
    pub(super) fn places(&self) -> &[Place] {
        self.list.places.get(self.from..).unwrap_or_default()
    }

    /// Where it was cut, if there may be more behind it.
    pub(super) fn cut(&self) -> Option<&Place> {
        self.list.cut.as_ref()
    }

    /// The same without the first `count`.
    pub(super) fn behind(&self, count: usize) -> Self {
        Self { list: Arc::clone(&self.list), from: self.from + count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Outcome {
    /// Adds a response control to an answer.
    pub(super) fn with(self, control: ResponseControl) -> Self {
        match self {
            Self::Done(done) => Self::Done(done.with(control)),
            Self::Parked(mut parked) => {
                parked.controls.push(control);
                Self::Parked(parked)
            }
            Self::Abandoned | Self::TooMuch => self,
        }
    }

    /// The outcome of a search that has parked before: it says what it was to say, unless it has
    /// something else to say of the same.
    pub(super) fn resumed(self, parked: &Parked) -> Self {
        let mut outcome = self;
        for control in &parked.controls {
            let is_said = match &outcome {
                Self::Done(done) => done.says(control.oid),
                Self::Parked(_) | Self::Abandoned | Self::TooMuch => false,
            };
            if !is_said {
                outcome = outcome.with(control.clone());
            }
        }
        outcome
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

    fn places(count: u64) -> Vec<Place> {
        (1..=count).map(|id| Place { key: vec![1; 36], id: EntryId(id) }).collect()
    }

    #[test]
    fn what_a_walk_has_sent_counts_while_it_is_kept() {
        let budget = Budget::default();
        let mut sent = SentIds::new(&budget);
        (1..=10).for_each(|id| sent.add(EntryId(id)));
        let mut sent = sent.keep(200).unwrap();
        assert!(!budget.take(41, 200), "160 octets are taken");
        (1..=12).for_each(|id| sent.add(EntryId(id)));
        let mut sent = sent.keep(200).unwrap();
        assert!(sent.contains(EntryId(12)) && !sent.contains(EntryId(13)));
        sent.add(EntryId(13));
        assert!(sent.keep(200).is_none(), "they would be 208 octets");
        assert!(budget.take(200, 200));
    }

    #[test]
    fn kept_lists_share_a_budget_and_give_it_back() {
        let budget = Budget::default();
        let keep = |count| Kept::new(places(count), None, (&budget, 1_000));
        let first = keep(6).unwrap();
        assert!(keep(6).is_none(), "they would be 1,200 octets");
        let rest = first.behind(2);
        drop(first);
        assert!(keep(6).is_none(), "the rest holds the list");
        let ids = rest.places().iter().map(|place| place.id.0).collect::<Vec<_>>();
        assert_eq!(ids, [3, 4, 5, 6]);
        assert!(rest.behind(9).places().is_empty());
        drop(rest);
        assert!(keep(10).is_some());
    }
}
