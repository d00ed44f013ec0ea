//! What is counted of searches. None of it is touched by a search that an index answers.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct SearchCounters {
    pub(crate) unindexed: AtomicU64,
    pub(crate) unindexed_refused: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SearchCounts {
    /// Searches that were begun although no index helped.
    pub unindexed: u64,
    /// Searches that were refused, or ended before all was found, because no index helps.
    pub unindexed_refused: u64,
}

impl SearchCounters {
    pub(crate) fn read(&self) -> SearchCounts {
        SearchCounts {
            unindexed: self.unindexed.load(Ordering::Relaxed),
            unindexed_refused: self.unindexed_refused.load(Ordering::Relaxed),
        }
    }
}
