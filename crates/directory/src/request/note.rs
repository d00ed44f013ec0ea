//! What an operation leaves for the access log: what nobody can see from its answer.
//!
//! Invariant: noting costs a store to memory of this thread, whether anybody reads it or not.

use std::cell::Cell;

use crate::password_policy::PolicyError;

/// What was noted of one operation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Noted {
    /// How many candidates a search looked at.
    pub candidates: u64,
    /// No index helped, whether the search was carried out or refused for it.
    pub is_unindexed: bool,
    /// What the password policy had against it, asked for by the client or not.
    pub policy: Option<PolicyError>,
    /// A change of a password sent an old one that was not right.
    pub is_wrong_guess: bool,
}

/// Where the operation under way on this thread leaves it.
#[derive(Debug, Default)]
pub(crate) struct Note {
    candidates: Cell<u64>,
    is_unindexed: Cell<bool>,
    policy: Cell<Option<PolicyError>>,
    is_wrong_guess: Cell<bool>,
}

impl Note {
    /// So many candidates were looked at up to now.
    pub(crate) fn candidates(&self, seen: u64) {
        self.candidates.set(seen);
    }

    /// No index helps.
    pub(crate) fn unindexed(&self) {
        self.is_unindexed.set(true);
    }

    /// The password policy refuses.
    pub(crate) fn policy(&self, error: PolicyError) {
        self.policy.set(Some(error));
    }

    /// The old password that was sent is wrong.
    pub(crate) fn wrong_guess(&self) {
        self.is_wrong_guess.set(true);
    }

    /// What was noted of an operation that goes on.
    pub(crate) fn restore(&self, noted: Noted) {
        let Noted { candidates, is_unindexed, policy, is_wrong_guess } = noted;
        self.is_wrong_guess.set(is_wrong_guess);
        self.candidates.set(candidates);
        self.is_unindexed.set(is_unindexed);
        self.policy.set(policy);
    }

    /// What was noted; nothing is afterwards.
    pub(crate) fn take(&self) -> Noted {
        Noted {
            candidates: self.candidates.take(),
            is_unindexed: self.is_unindexed.take(),
            policy: self.policy.take(),
            is_wrong_guess: self.is_wrong_guess.take(),
        }
    }
}
