//! One guess under way, as long as its bind is: see `attempts.rs`.

use std::fmt;
use std::sync::Arc;

use environment::Clock;
use schema::EntryId;
use store::Lsn;

use super::account::AccountState;
use super::attempts::Guess;
use super::pending::{Accounts, FoundAccount};
use super::set::Governing;

/// A guess under way, as long as its bind is.
pub(crate) struct Attempt {
    accounts: Arc<Accounts>,
    clock: Arc<dyn Clock>,
    account: GuessedAccount,
    guess: Guess,
    is_right: bool,
}

/// The account of a guess, as it was when that began.
#[derive(Debug)]
pub(crate) struct GuessedAccount {
    pub(crate) id: EntryId,
    pub(crate) lsn: Lsn,
    pub(crate) governing: Arc<Governing>,
    pub(crate) stored: AccountState,
}

impl GuessedAccount {
    fn seen(&self) -> FoundAccount<'_> {
        let policy = &self.governing.policy;
        FoundAccount { id: self.id, policy, stored: &self.stored, lsn: self.lsn }
    }
}

impl Attempt {
    /// A guess that has its place in the table.
    pub(crate) fn new(
        accounts: &Arc<Accounts>,
        clock: &Arc<dyn Clock>,
        account: GuessedAccount,
        guess: Guess,
    ) -> Self {
        let (accounts, clock) = (Arc::clone(accounts), Arc::clone(clock));
        Self { accounts, clock, account, guess, is_right: false }
    }

    /// Which guess it is.
    pub(crate) fn guess(&self) -> &Guess {
        &self.guess
    }

    /// Whose password it guesses.
    pub(crate) fn id(&self) -> EntryId {
        self.account.id
    }

    /// Its hash has shown that it is right.
    pub(crate) fn set_right(&mut self) {
        self.is_right = true;
    }

    /// Its bind is looked at once more, from the beginning: it is no failure.
    pub(crate) fn take_back(mut self) {
        self.is_right = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let account = self.account.seen();
        self.accounts.end(&account, &self.guess, self.is_right, self.clock.now());
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("account", &self.account.id).finish_non_exhaustive()
    }
}
