//! Waiting for one position: the state after exactly one change, for whoever compares it with that
//! of another server.
//!
//! What is published comes in runs of changes, and their ends differ from server to server. Who
//! writes asks [`Awaited::is_end`] after each change, and ends its run there; what is published is
//! caught at that moment, with the base under it, before anything later covers it.
//!
//! Invariant: what is caught is the state after the change that was waited for, never another.
//! Invariant: nobody who writes waits for one who waits here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::stack::Ground;
use crate::overlay::version::Version;

/// The state that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// After this change; 0 while nobody waits.
    lsn: AtomicU64,
    slot: Mutex<Slot>,
    rung: Condvar,
}

#[derive(Debug, Default)]
enum Slot {
    /// Nobody waits.
    #[default]
    Empty,
    Waiting,
    Over(Catch),
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Catch {
    /// The state after the change that was waited for.
    Caught(Box<Caught>),
    /// A later one is published, or about to be, and that one never was by itself.
    Passed {
        /// The later one.
        at: Lsn,
    },
    /// The base cannot be read.
    Failed(StoreError),
}

/// A published state, and the base under it.
#[derive(Debug)]
pub(crate) struct Caught {
    pub(crate) ground: Ground,
    pub(crate) version: Version,
}

impl Awaited {
    /// Whether a run of changes is to end with this one.
    #[inline]
    pub(crate) fn is_end(&self, lsn: Lsn) -> bool {
        lsn.0 != 0 && self.lsn.load(Ordering::Relaxed) == lsn.0
    }

    /// Begins to wait for the state after `lsn`; false when somebody does already. Whoever calls
    /// this keeps others from publishing, and `lsn` is not published.
    pub(crate) fn begin(&self, lsn: Lsn) -> bool {
        let mut slot = self.slot();
        if !matches!(*slot, Slot::Empty) {
            return false;
        }
        *slot = Slot::Waiting;
        self.lsn.store(lsn.0, Ordering::Relaxed);
        true
    }

    /// A version is about to be published; nobody else publishes meanwhile.
    #[inline]
    pub(crate) fn note(&self, version: &Version) {
        let lsn = self.lsn.load(Ordering::Relaxed);
        if lsn != 0 && version.counters.lsn >= lsn {
            self.take(Lsn(lsn), version);
        }
    }

    #[cold]
    fn take(&self, lsn: Lsn, version: &Version) {
        let mut slot = self.slot();
        if matches!(*slot, Slot::Waiting) {
            *slot = Slot::Over(Catch::of(version, lsn));
            self.lsn.store(0, Ordering::Relaxed);
            self.rung.notify_all();
        }
    }

    /// Waits for what comes of it, and ends to wait; none when nothing came in time.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Catch> {
        let slot = self.slot();
        let is_waiting = |slot: &mut Slot| matches!(slot, Slot::Waiting);
        let waited = self.rung.wait_timeout_while(slot, limit, is_waiting);
        let (mut slot, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.lsn.store(0, Ordering::Relaxed);
        match std::mem::take(&mut *slot) {
            Slot::Over(catch) => Some(catch),
            Slot::Empty | Slot::Waiting => None,
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Catch {
    /// The state after `lsn`, of a version that has it. Nobody publishes meanwhile.
    pub(crate) fn of(version: &Version, lsn: Lsn) -> Self {
        let passed = Self::Passed { at: Lsn(version.counters.lsn) };
        let Some(version) = version.as_of(lsn) else { return passed };
        // What is flushed was published before, so the base has nothing that is later.
        match Ground::take(&version) {
            Ok(ground) if version.fits(&ground) => {
                Self::Caught(Box::new(Caught { ground, version }))
            }
            // An index became valid in the base just now.
            Ok(_) => passed,
            Err(error) => Self::Failed(error),
        }
    }
}
