//! Somebody who looks for entries that have the same: they find what a search of theirs would find,
//! and nothing else.
//!
//! Invariant: what is hidden from the asker changes nothing but how long it takes; a limit on that
//! is one on time.

use schema::{AttributeDescription, Meter, ResolvedFilter, Truth};
use store::StoredEntry;

use super::check::Look;
use crate::access::guard::Guard;
use crate::read::search::usable::Usable;

/// Who looks, with the rights of now.
pub(super) struct Asker<'a> {
    guard: &'a Guard<'a>,
    /// Whether there is no more time.
    is_over: &'a dyn Fn() -> bool,
}

/// What an entry is to the asker.
pub(super) enum Candidate {
    /// They would find it.
    Match,
    /// They would not, and may know that it was looked at.
    Seen,
    /// They may not know.
    Hidden,
}

impl<'a> Asker<'a> {
    pub(super) const fn new(guard: &'a Guard<'a>, is_over: &'a dyn Fn() -> bool) -> Self {
        Self { guard, is_over }
    }

    pub(super) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// Whether the asker may search for all values that an index may hold of an attribute.
    pub(super) fn counts_all(&self, description: &AttributeDescription) -> bool {
        self.guard.may_search_all_of(description)
    }

    /// The filter without what the asker may use nowhere, if that is less.
    pub(super) fn usable(&self, filter: &ResolvedFilter) -> Option<ResolvedFilter> {
        Usable::of(filter, self.guard).filter
    }

    /// Whether the asker would find an entry.
    pub(super) fn looks_at(
        &self,
        look: &Look<'_>,
        filter: &ResolvedFilter,
        stored: &StoredEntry<'_>,
    ) -> Candidate {
        let rights = self.guard.on(stored);
        if !rights.may_see() {
            return Candidate::Hidden;
        }
        let seen = rights.searchable(stored);
        let is_true = |filter: &ResolvedFilter| {
            let mut more = || if self.is_over() { 0 } else { STEPS };
            let mut meter = Meter::new(STEPS, &mut more);
            filter.matches_within(look.schema, &seen, &mut meter) == Truth::True && !meter.is_over()
        };
        if is_true(filter) {
            return Candidate::Match;
        }
        // What made it a candidate may be hidden.
        let whole = |one: &AttributeDescription| self.counts_all(one);
        match is_true(&look.view.indexable(filter, &whole).filter) {
            true => Candidate::Seen,
            false => Candidate::Hidden,
        }
    }
}

/// Steps of an evaluation between two looks at the clock.
const STEPS: u64 = 100_000;
