//! Counters of the server as a whole. None is touched by a request that goes well.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that any thread may change.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds and returns the new value.
    pub(crate) fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, Ordering::Relaxed) + more
    }

    pub(crate) fn subtract(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections that are open.
    pub(crate) connections: Counter,
    /// Connections refused because too many were open.
    pub(crate) refused: Counter,
    /// How often none could be accepted.
    pub(crate) not_accepted: Counter,
    /// Requests that panicked.
    pub(crate) panics: Counter,
    /// Searches that gave up their thread, because their client did not read; each time counts.
    pub(crate) parked: Counter,
    /// Searches that gave up their thread because their time slice was over and others waited, or
    /// to have their rights renewed; each time counts.
    pub(crate) yielded: Counter,
    /// Requests whose passwords were hashed on the hash pool, and how long that took, in µs.
    pub(crate) hashes: Counter,
    pub(crate) hash_us: Counter,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that are open.
    pub connections: u64,
    /// Connections refused because too many were open, since the start.
    pub refused: u64,
    /// Requests that panicked, since the start.
    pub panics: u64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        Counts {
            connections: self.connections.value(),
            refused: self.refused.value(),
            panics: self.panics.value(),
        }
    }
}
