//! What a node has confirmed to a leader. A disk that decays may lose it; the engine takes for
//! granted that none does.
//!
//! Invariant: the engine is not told of a conflict with what was confirmed in the same leadership:
//! a node that has lost what it had counts as one that is not there.

use std::sync::{Mutex, PoisonError};

use crate::types::{LogId, Vote};

/// The last entry that a node confirmed, and to which leadership.
#[derive(Default)]
pub(crate) struct Confirmed(Mutex<State>);

#[derive(Default)]
struct State {
    last: Option<(Vote, LogId)>,
    is_reported: bool,
}

impl Confirmed {
    /// The node has all up to `reached`.
    pub(super) fn note(&self, vote: &Vote, reached: Option<LogId>) {
        let Some(reached) = reached else { return };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut state.last {
            Some((of, last)) if of == vote => *last = (*last).max(reached),
            _ => *state = State { last: Some((*vote, reached)), is_reported: false },
        }
    }

    /// The node does not have `prev`; whether it once said that it had.
    pub(super) fn has_lost(&self, vote: &Vote, prev: LogId, node: u64) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let has_lost = state.last.as_ref().is_some_and(|(of, last)| of == vote && prev <= *last);
        // Once, not for each attempt.
        if has_lost && !std::mem::replace(&mut state.is_reported, true) {
            tracing::error!(
                node,
                index = prev.index + 1,
                "the member has lost entries that it had confirmed: its disk is not to be relied \
                 on; stop it, make it anew, and have another member lead"
            );
        }
        has_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry;

    fn id(term: u64, index: u64) -> LogId {
        entry::log_id(journal::JournalPosition { term, index })
    }

    fn vote(term: u64) -> Vote {
        Vote::new_committed(term, 1)
    }

    #[test]
    fn what_was_confirmed_is_lost_only_in_the_same_leadership() {
        let confirmed = Confirmed::default();
        let lost = |term, index| confirmed.has_lost(&vote(term), id(term, index), 2);
        assert!(!lost(3, 5));
        confirmed.note(&vote(3), Some(id(3, 7)));
        confirmed.note(&vote(3), Some(id(3, 6)));
        confirmed.note(&vote(3), None);
        assert_eq!([lost(3, 8), lost(3, 7), lost(3, 1), lost(4, 1)], [false, true, true, false]);
        confirmed.note(&vote(4), Some(id(4, 9)));
        assert_eq!([lost(4, 9), lost(3, 7)], [true, false]);
    }
}
