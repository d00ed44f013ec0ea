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
    /// Those who wait until a number is applied, oldest first.
    barriers: Vec<Barrier>,
    /// How often they have grown older.
    age: u64,
}

struct Barrier {
    asked: Lsn,
    done: BarrierDone,
    /// The age in which it came.
    since: u64,
}

impl LogProgress {
    /// Of a log that has applied all up to `applied`.
    pub fn new(applied: Lsn, role: Role) -> Self {
        let state = State { applied, role, is_closed: false, barriers: Vec::new(), age: 0 };
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
        waiting.into_iter().for_each(|one| (one.done)(Err(NotNow::Closed)));
        true
    }

    /// Records up to `last` are applied.
    pub fn reached(&self, last: Lsn) {
        let mut state = self.state();
        state.applied = state.applied.max(last);
        let reached: Vec<_> = state.barriers.extract_if(.., |one| one.asked <= last).collect();
        drop(state);
        self.moved.notify_all();
        reached.into_iter().for_each(|one| (one.done)(Ok(last)));
    }

    /// Those who wait grow older by one; whoever has waited for more than `ages` of them waits no
    /// more, and is told so.
    pub fn grow_older(&self, ages: u64, why: NotNow) {
        let mut state = self.state();
        state.age += 1;
        let oldest = state.age.saturating_sub(ages);
        let late = state.barriers.partition_point(|one| one.since < oldest);
        let late: Vec<_> = state.barriers.drain(..late).collect();
        drop(state);
        late.into_iter().for_each(|one| (one.done)(Err(why.clone())));
    }

    /// How many wait until a number is applied.
    pub fn waiting(&self) -> usize {
        self.state().barriers.len()
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
            let since = state.age;
            state.barriers.push(Barrier { asked, done, since });
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
        waiting.into_iter().for_each(|one| (one.done)(Err(NotNow::Closed)));
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn who_waits_for_too_long_is_told_so_and_forgotten() {
        let progress = LogProgress::new(Lsn(1), Role::Alone);
        let (told, heard) = mpsc::channel();
        let wait = |number: u64, asked| {
            let told = told.clone();
            progress.when_applied(asked, Box::new(move |out| told.send((number, out)).unwrap()));
        };
        let late = NotNow::NoQuorum { heard: None };
        wait(1, Lsn(5));
        progress.grow_older(2, late.clone());
        wait(2, Lsn(2));
        wait(3, Lsn(5));
        progress.grow_older(2, late.clone());
        assert_eq!((progress.waiting(), heard.try_recv().ok()), (3, None));
        progress.grow_older(2, late.clone());
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(1, Err(late.clone()))]);
        progress.reached(Lsn(2));
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(2, Ok(Lsn(2)))]);
        progress.grow_older(2, late.clone());
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(3, Err(late))]);
        assert_eq!(progress.waiting(), 0);
        // None of them is told twice.
        progress.close();
        assert_eq!(heard.try_recv().ok(), None);
    }
}
