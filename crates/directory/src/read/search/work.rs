//! The work that a search has done, counted in steps.

use std::cell::Cell;

use schema::ResolvedFilter;

/// The work that a search has done, and why it may do no more.
#[derive(Default)]
pub(crate) struct Work {
    /// Steps until the next look.
    pub(super) left: Cell<u64>,
    pub(super) spent: Cell<u64>,
    /// The same for what the asker may not find.
    pub(super) unseen_left: Cell<u64>,
    pub(super) unseen: Cell<u64>,
    pub(super) over: Cell<Option<Over>>,
    /// Of an unindexed search: candidates that may be looked at beside those that it finds, and
    /// whether it has ended because it had found too few.
    pub(super) spare: Cell<Option<u64>>,
    pub(super) has_found_too_few: Cell<bool>,
    /// What the asker may not find may have decided where it goes on.
    keeps_order: Cell<bool>,
}

impl Work {
    /// The work of a search that goes on.
    pub(super) fn after(spent: u64) -> Self {
        Self { spent: Cell::new(spent), ..Self::default() }
    }

    /// What was done, in steps.
    pub(super) fn spent(&self) -> u64 {
        self.spent.get().saturating_sub(self.left.get())
    }

    /// What the asker may not find may have decided where the search goes on.
    pub(super) fn keep_order(&self) {
        self.keeps_order.set(true);
    }

    /// Whether later requests of the connection must not overtake it: that would tell.
    pub(super) fn keeps_order(&self) -> bool {
        self.keeps_order.get()
    }
}

/// Why a search does no more.
#[derive(Clone, Copy)]
pub(super) enum Over {
    /// The thread that reads requests has others to serve.
    Here,
    /// Its asker may not have more done.
    Limit,
    Late,
    Abandoned,
}

/// How many terms a filter has.
pub(super) fn terms(filter: &ResolvedFilter) -> u64 {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => {
            parts.iter().fold(1, |sum, part| sum + terms(part))
        }
        ResolvedFilter::Not(part) => 1 + terms(part),
        ResolvedFilter::Substrings(assertion) => 1 + assertion.any.len() as u64,
        ResolvedFilter::Present(_)
        | ResolvedFilter::Equality(_)
        | ResolvedFilter::GreaterOrEqual(_)
        | ResolvedFilter::LessOrEqual(_)
        | ResolvedFilter::Approx(_)
        | ResolvedFilter::Extensible(_)
        | ResolvedFilter::Undefined => 1,
    }
}
