//! What a search leaves for the access log that nobody can see from its response.
//!
//! Invariant: noting costs a store to memory of this thread, whether anybody reads it or not.

use std::cell::Cell;

use crate::request::completion::Completion;

/// Where a search leaves it.
#[derive(Debug, Default)]
pub(crate) struct Note {
    candidates: Cell<u64>,
    is_unindexed: Cell<bool>,
}

impl Note {
    /// What was noted of an operation that goes on.
    pub(crate) fn resume(completion: &Completion) -> Self {
        let Completion { candidates, is_unindexed, .. } = *completion;
        Self { candidates: Cell::new(candidates), is_unindexed: Cell::new(is_unindexed) }
    }

    /// So many candidates were looked at up to now.
    pub(crate) fn candidates(&self, seen: u64) {
        self.candidates.set(seen);
    }

    /// No index helps.
    pub(crate) fn unindexed(&self) {
        self.is_unindexed.set(true);
    }

    /// Adds what was noted to the outcome.
    pub(crate) fn add_to(&self, completion: &mut Completion) {
        completion.candidates = self.candidates.get();
        completion.is_unindexed = self.is_unindexed.get();
    }
}
