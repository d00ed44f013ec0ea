//! The state of an account after what binds have left.
//!
//! Invariant: what was noted once is not noted twice, and what came after clears what came before,
//! in whatever order events come.

use std::time::Duration;

use environment::Timestamp;

use super::account::AccountState;
use super::account_event::{Event, What};
use super::attributes::after as later;
use super::rules::PasswordPolicy;

/// The state after these events.
pub(super) fn replay(
    state: AccountState,
    events: impl Iterator<Item = Event>,
    policy: &PasswordPolicy,
) -> AccountState {
    events.fold(state, |state, Event { at, what, .. }| match what {
        What::Failure => state.after_failure(policy, at),
        // It was let in when it came, under the policy of then.
        What::Success => match state.after_success(policy, at) {
            Ok(login) => login.state,
            Err(_) => state,
        },
    })
}

/// The state after events that were noted here or at another node, at `now` of the node that
/// decides. What was noted already is not noted twice, and what a later success or a new password
/// clears is cleared, in whatever order they come.
pub(crate) fn merge(
    state: AccountState,
    events: impl Iterator<Item = Event>,
    policy: &PasswordPolicy,
    now: Timestamp,
) -> AccountState {
    // A time that is far ahead is that of a wrong clock, or was imported: it clears nothing.
    let near = later(now, NEAR);
    events.fold(state, |state, event| {
        let at = event.at;
        let clears = |moment: Option<Timestamp>| moment.filter(|moment| *moment <= near);
        let (success, changed) = (clears(state.last_success), clears(state.changed));
        if changed.is_some_and(|changed| at <= changed) {
            return state;
        }
        let is_before = success.is_some_and(|success| at <= success);
        let is_known = state.failures.contains(&at)
            || state.grace_uses.contains(&at)
            || event.what == What::Success && state.last_success == Some(at);
        match event.what {
            _ if is_known => state,
            What::Failure if is_before => state.after_use(policy),
            What::Failure | What::Success => {
                let last = state.last_success.filter(|_| is_before);
                let mut after = replay(state, std::iter::once(event), policy);
                after.last_success = last.or(after.last_success);
                after
            }
        }
    })
}

/// How far the clocks of nodes may be apart for the order of what they note: more than the 10
/// seconds that a node may be off and still lead.
pub(super) const NEAR: Duration = Duration::from_secs(60);
