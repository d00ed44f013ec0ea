//! How far a log has come, for those who wait: barriers, readers of its tail, watchers of its role.
//!
//! Invariant: what is applied only grows; after a failure or the end it does not move any more.
//! Invariant: every barrier is answered exactly once, and never with a lock held.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::Lsn;

use super::{BarrierDone, NotNow, Role, RoleWatcher};

/// What an engine shares with those who wait for it.
pub struct LogProgress {
    state: Mutex<State>,
    /// Told when `state` changes.
    moved: Condvar,
    watchers: Mutex<Vec<RoleWatcher>>,
}

struct State {
    applied: Lsn,
    role: Role,
    is_closed: bool,
    /// Those who wait until a number is applied.
    barriers: Vec<(Lsn, BarrierDone)>,
}

impl LogProgress {
    /// Of a log that has applied all up to `applied`.
    pub fn new(applied: Lsn, role: Role) -> Self {
        let state = State { applied, role, is_closed: false, barriers: Vec::new() };
        Self { state: Mutex::new(state), moved: Condvar::new(), watchers: Mutex::default() }
    }

    /// The last record that is applied.
    pub fn applied(&self) -> Lsn {
        self.state().applied
    }

    /// What this machine is.
    pub fn role(&self) -> Role {
        self.state().role.clone()
    }

    /// Why nothing is committed any more, if so.
    pub fn failed(&self) -> Option<String> {
        match &self.state().role {
            Role::Failed(reason) => Some(reason.clone()),
            Role::Deciding(_) | Role::Following { .. } | Role::Alone => None,
        }
    }

    /// Whether the log was closed.
    pub fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// Has `watcher` told every new role, the present one first.
    pub fn watch(&self, watcher: RoleWatcher) {
        // The lock is held, so that no new role comes before the present one.
        let mut watchers = self.watchers();
        watcher(&self.role());
        watchers.push(watcher);
    }

    /// Takes a new role; a log that failed keeps that. Returns whether it is another one.
    pub fn set_role(&self, role: Role) -> bool {
        let watchers = self.watchers();
        let mut state = self.state();
        if state.role == role || matches!(state.role, Role::Failed(_)) {
            return false;
        }
        state.role = role.clone();
        let waiting = match &role {
            Role::Failed(_) => std::mem::take(&mut state.barriers),
            Role::Deciding(_) | Role::Following { .. } | Role::Alone => Vec::new(),
        };
        drop(state);
        self.moved.notify_all();
        watchers.iter().for_each(|watcher| watcher(&role));
        drop(watchers);
        waiting.into_iter().for_each(|(_, done)| done(Err(NotNow::Closed)));
        true
    }

    /// Records up to `last` are applied.
    pub fn reached(&self, last: Lsn) {
        let mut state = self.state();
        state.applied = state.applied.max(last);
        let reached: Vec<_> = state.barriers.extract_if(.., |(asked, _)| *asked <= last).collect();
        drop(state);
        self.moved.notify_all();
        reached.into_iter().for_each(|(_, done)| done(Ok(last)));
    }

    /// Calls `done` when `asked` is applied, or never will be.
    pub fn when_applied(&self, asked: Lsn, done: BarrierDone) {
        let mut state = self.state();
        let applied = state.applied;
        let outcome = if asked <= applied {
            Ok(applied)
        } else if state.is_over() {
            Err(NotNow::Closed)
        } else {
            state.barriers.push((asked, done));
            return;
        };
        drop(state);
        done(outcome);
    }

    /// Nothing more is applied.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let waiting = std::mem::take(&mut state.barriers);
        drop(state);
        self.moved.notify_all();
        waiting.into_iter().for_each(|(_, done)| done(Err(NotNow::Closed)));
    }

    /// Waits until more than `seen` is applied or nothing more will be, no longer than `timeout`;
    /// the last record that is applied, and whether it stays the last.
    pub fn wait_past(&self, seen: Lsn, timeout: Duration) -> (Lsn, bool) {
        let waits = |state: &mut State| state.applied <= seen && !state.is_over();
        let state = self.moved.wait_timeout_while(self.state(), timeout, waits);
        let (state, _) = state.unwrap_or_else(PoisonError::into_inner);
        (state.applied, state.is_over())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<RoleWatcher>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.is_closed || matches!(self.role, Role::Failed(_))
    }
}

impl fmt::Debug for LogProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("LogProgress")
            .field("applied", &state.applied)
            .field("role", &state.role)
            .field("is_closed", &state.is_closed)
            .finish_non_exhaustive()
    }
}
