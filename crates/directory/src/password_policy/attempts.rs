//! Guesses under way: binds that wait for a hash although their clients can know already that the
//! password is wrong, because a right one would have been answered at once.
//!
//! Invariant: to all others such a bind is one that has failed, from the moment it begins until it
//! is over. So failures and guesses under way together are no more than the policy allows.
//! Invariant: when nobody waits for it any more it stays a failure, unless its hash has shown that
//! the password is right.
//! Invariant: binds with the same password side by side are one guess until they are answered.

use environment::Timestamp;
use rustc_hash::FxHashMap;
use schema::EntryId;

use crate::bind::password_cache::Digest;

/// What tells one guess at an account from another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Guess {
    /// What is kept of a password, the same for the same one.
    Of(Digest),
    /// One like no other: where nothing is kept of passwords.
    Number(u64),
}

/// Which of the guesses under way are those of whoever asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Own<'g> {
    /// None.
    None,
    /// This one, if it is there: others have the same password.
    Same(&'g Guess),
    /// This one: it has its place among those that the policy allows.
    Held(&'g Guess),
}

/// The guesses under way at the accounts of one part of the table.
#[derive(Debug, Default)]
pub(super) struct UnderWay(FxHashMap<EntryId, Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    guess: Guess,
    begun: Timestamp,
    /// Binds that make it.
    binds: u32,
    /// Whether it is right is known, and was noted.
    is_settled: bool,
}

impl UnderWay {
    /// One bind more makes a guess.
    pub(super) fn begin(&mut self, id: EntryId, guess: &Guess, begun: Timestamp) {
        let entries = self.0.entry(id).or_default();
        match entries.iter_mut().find(|one| one.guess == *guess) {
            Some(entry) => entry.binds = entry.binds.saturating_add(1),
            None => {
                entries.push(Entry { guess: guess.clone(), begun, binds: 1, is_settled: false })
            }
        }
    }

    /// What the guess is was noted: it is none that may yet be wrong.
    pub(super) fn settle(&mut self, id: EntryId, guess: &Guess) {
        let mut entries = self.0.get_mut(&id).into_iter().flatten();
        if let Some(entry) = entries.find(|one| one.guess == *guess) {
            entry.is_settled = true;
        }
    }

    /// One bind of a guess is over. Says whether nobody makes it any more, and nothing of it was
    /// noted.
    pub(super) fn end(&mut self, id: EntryId, guess: &Guess) -> bool {
        let Some(entries) = self.0.get_mut(&id) else { return false };
        let Some(place) = entries.iter().position(|one| one.guess == *guess) else { return false };
        if let Some(entry) = entries.get_mut(place).filter(|entry| entry.binds > 1) {
            entry.binds -= 1;
            return false;
        }
        let entry = entries.swap_remove(place);
        if entries.is_empty() {
            self.0.remove(&id);
        }
        !entry.is_settled
    }

    /// When the guesses began that count as failures for whoever has these.
    pub(super) fn of_others<'u>(
        &'u self,
        id: EntryId,
        own: Own<'u>,
    ) -> impl Iterator<Item = Timestamp> + 'u {
        let entries = self.0.get(&id).map(Vec::as_slice).unwrap_or_default();
        let counts = move |one: &&Entry| match own {
            _ if one.is_settled => false,
            Own::None => true,
            Own::Same(guess) => one.guess != *guess,
            // They were asked for when it got its place.
            Own::Held(_) => false,
        };
        entries.iter().filter(counts).map(|one| one.begun)
    }
}
