//! How the memory of a load is shared out.
//!
//! Invariants: names and places come first, for nothing can do without them; what they leave is
//! shared out anew as they grow, so that all together stay within the budget. When they leave too
//! little the load ends.

use std::sync::atomic::{AtomicU64, Ordering};

use super::BulkError;
use super::target::PIECE_BYTES;

/// The memory of one load.
#[derive(Debug)]
pub(super) struct Budget {
    memory_bytes: u64,
    names_max_bytes: u64,
    threads: u64,
    names_bytes: AtomicU64,
}

impl Budget {
    /// Of the memory, `own_bytes` are not to be shared out.
    pub(super) fn new(memory_bytes: u64, own_bytes: u64, threads: usize) -> Self {
        let others_bytes = (memory_bytes / 4).max(own_bytes + SORTING_MIN_BYTES);
        let names_max_bytes = memory_bytes.saturating_sub(others_bytes);
        Self {
            memory_bytes: memory_bytes.saturating_sub(own_bytes),
            names_max_bytes: names_max_bytes.max(NAMES_MIN_BYTES),
            threads: threads as u64,
            names_bytes: AtomicU64::new(0),
        }
    }

    /// Names and places of so many entries take so much. True when that was another number before.
    pub(super) fn put_names(&self, names_bytes: u64, entries: u64) -> Result<bool, BulkError> {
        let max_bytes = self.names_max_bytes;
        if names_bytes > max_bytes {
            return Err(BulkError::NoMemory { entries, names_bytes, max_bytes });
        }
        Ok(self.names_bytes.swap(names_bytes, Ordering::Relaxed) != names_bytes)
    }

    /// From now on they take no more than this.
    pub(super) fn leave_names(&self, names_bytes: u64) {
        self.names_bytes.store(names_bytes, Ordering::Relaxed);
    }

    fn left_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.names_bytes.load(Ordering::Relaxed))
    }

    /// What one thread gathers in; rows that grow and sorting take twice as much again.
    pub(super) fn part_bytes(&self) -> usize {
        let part = self.left_bytes() / (self.threads + 1) / 12;
        usize::try_from(part).unwrap_or(usize::MAX).clamp(PART_MIN_BYTES, PART_MAX_BYTES)
    }

    /// Of the runs that are made now: a merge has one block of each in memory for each thread.
    pub(super) fn block_bytes(&self) -> usize {
        (self.part_bytes() / BLOCKS).clamp(BLOCK_MIN_BYTES, BLOCK_MAX_BYTES)
    }

    /// What runs take until they are spilled.
    pub(super) fn runs_bytes(&self) -> u64 {
        self.left_bytes() / 2
    }

    /// How many threads merge runs, when each reads so many octets at a time.
    pub(super) fn merging_threads(&self, read_bytes: u64) -> usize {
        let most = self.left_bytes() / 8 / read_bytes.max(1);
        most.clamp(1, self.threads.max(1)) as usize
    }

    /// The most octets of runs that are merged as one range, whose rows take about twice as much.
    pub(super) fn range_bytes(&self) -> u64 {
        (self.memory_bytes / 64 / self.threads.max(1)).clamp(RANGE_MIN_BYTES, RANGE_MAX_BYTES)
    }

    /// So many pieces of each range that is merged may wait to be written.
    pub(super) fn pieces_ahead(&self) -> usize {
        let ahead = self.memory_bytes / 32 / self.threads.max(1) / PIECE_BYTES as u64;
        ahead.clamp(PIECES_AHEAD_MIN, PIECES_AHEAD_MAX) as usize
    }

    /// A commit comes after so many octets: LMDB keeps what was not committed in memory.
    pub(super) fn commit_bytes(&self) -> u64 {
        (self.memory_bytes / 16).clamp(COMMIT_MIN_BYTES, COMMIT_MAX_BYTES)
    }
}

/// So much is left for sorting: with less there are so many runs that merging them takes long.
const SORTING_MIN_BYTES: u64 = 64 << 20;
/// So much names may take in any case.
const NAMES_MIN_BYTES: u64 = 2 << 20;
/// Less is not worth a run.
const PART_MIN_BYTES: usize = 16 << 10;
/// More makes sorting slower than merging becomes faster.
const PART_MAX_BYTES: usize = 256 << 20;
/// A run has about so many blocks, or more.
const BLOCKS: usize = 32;
const BLOCK_MIN_BYTES: usize = 2 << 10;
const BLOCK_MAX_BYTES: usize = 32 << 10;
const RANGE_MIN_BYTES: u64 = 64 << 10;
const RANGE_MAX_BYTES: u64 = 8 << 20;
const PIECES_AHEAD_MIN: u64 = 2;
/// 64 MiB of each range.
const PIECES_AHEAD_MAX: u64 = 128;
const COMMIT_MIN_BYTES: u64 = 2 << 20;
const COMMIT_MAX_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_take_the_others_have_not() {
        let budget = Budget::new((1 << 30) + 300, 300, 2);
        let before = (budget.part_bytes(), budget.runs_bytes());
        assert_eq!(before, ((1 << 30) / 36, 1 << 29));
        assert!(matches!(budget.put_names(1 << 29, 7), Ok(true)));
        assert!(matches!(budget.put_names(1 << 29, 8), Ok(false)));
        assert_eq!((budget.part_bytes(), budget.runs_bytes()), ((1 << 29) / 36, 1 << 28));
        let Err(BulkError::NoMemory { entries, .. }) = budget.put_names(900 << 20, 9) else {
            panic!("a quarter must be left");
        };
        assert_eq!(entries, 9);
    }

    #[test]
    fn a_load_within_nothing_still_has_the_least_of_all() {
        let budget = Budget::new(100, 200, 64);
        assert!(matches!(budget.put_names(NAMES_MIN_BYTES, 1), Ok(true)));
        assert_eq!(budget.part_bytes(), PART_MIN_BYTES);
        assert_eq!((budget.runs_bytes(), budget.merging_threads(1 << 20)), (0, 1));
        assert_eq!(budget.pieces_ahead(), 2);
    }
}
