//! What an operation leaves for the access log that nobody can see from its response.
//!
//! Invariant: noting costs a store to memory of this thread, whether anybody reads it or not.

use std::cell::Cell;

use crate::completion::Completion;

/// Where the operation under way on this thread leaves it.
#[derive(Debug, Default)]
pub(crate) struct Note {
    candidates: Cell<u64>,
    is_unindexed: Cell<bool>,
    is_wrong_guess: Cell<bool>,
}

impl Note {
    /// What was noted of an operation that goes on.
    pub(crate) fn resume(completion: &Completion) -> Self {
        let Completion { candidates, is_unindexed, is_wrong_guess, .. } = *completion;
        Self {
            candidates: Cell::new(candidates),
            is_unindexed: Cell::new(is_unindexed),
            is_wrong_guess: Cell::new(is_wrong_guess),
        }
    }

    /// So many candidates were looked at up to now.
    pub(crate) fn candidates(&self, seen: u64) {
        self.candidates.set(seen);
    }

    /// No index helps.
    pub(crate) fn unindexed(&self) {
        self.is_unindexed.set(true);
    }

    /// The old password that was sent is wrong.
    pub(crate) fn wrong_guess(&self) {
        self.is_wrong_guess.set(true);
    }

    /// Whether one was.
    pub(crate) fn is_wrong_guess(&self) -> bool {
        self.is_wrong_guess.get()
    }

    /// Adds what was noted to the outcome.
    pub(crate) fn add_to(&self, completion: &mut Completion) {
        completion.candidates = self.candidates.get();
        completion.is_unindexed = self.is_unindexed.get();
        completion.is_wrong_guess = self.is_wrong_guess.get();
    }
}
