//! What a plan costs: the constants that choices are made by, and the count of what was done.
//!
//! Invariant: costs are in nanoseconds of one processor. They need not be right for a machine, only
//! in proportion: a choice compares costs with one another.

use crate::read::view::List;

/// A row is found by its key.
pub(super) const ROW_NS: u64 = 300;
/// The next row is read.
pub(super) const NEXT_ROW_NS: u64 = 80;
/// An id is taken from a row, or looked up in one.
pub(super) const ID_NS: u64 = 5;
/// An id of a range is gathered, and put in its place among those of other keys.
pub(super) const RANGE_ID_NS: u64 = 20;
/// An entry is read and found not to match.
pub(super) const TEST_NS: u64 = 1200;
/// An entry that is sent anyway is tested before.
pub(super) const RETEST_NS: u64 = 500;

/// With so few candidates no further index is asked, unless it was asked already.
pub(super) const FEW_CANDIDATES: u64 = 8;
/// A list of more ids than this is not loaded as a whole when it can be streamed.
pub(super) const STREAM_IDS_MIN: u64 = 16_384;
/// When few entries are wanted, a list of more ids than this is not loaded as a whole either.
pub(super) const STREAM_WANTED_IDS_MIN: u64 = 1024;
/// The most lists of a range that are counted: some milliseconds.
pub(super) const RANGE_PROBES_MAX: u64 = 16_384;
/// The most entries with subordinates whose levels make up a subtree.
pub(super) const BRANCHES_MAX: u64 = 65_536;
/// The most grams of one piece that are looked up; a long piece has as many, spread over it.
pub(super) const GRAMS_MAX: usize = 12;
/// Lists of up to this many ids are in their head.
const INLINE_IDS: u64 = 64;

/// What planning did, and what testing its candidates will do: the same for the same data on every
/// machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Work {
    /// Rows of indexes that are read.
    pub rows: u64,
    /// Ids that are taken from them.
    pub ids: u64,
    /// Entries that are to be tested.
    pub tests: u64,
}

impl Work {
    /// All of it as one number, about nanoseconds.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.planning_cost() + self.tests * TEST_NS
    }

    /// The part of it that is planning.
    #[must_use]
    pub const fn planning_cost(&self) -> u64 {
        self.rows * ROW_NS + self.ids * ID_NS
    }
}

/// How many rows the chunks of a list are, about.
pub(super) fn chunk_rows(list: &List<'_>, entries: u64) -> u64 {
    let count = list.count();
    if count <= INLINE_IDS {
        return 0;
    }
    // A chunk spans up to 65,536 ids as long as that keeps it below a kilobyte.
    (count / 512).max(entries >> 16).min(entries >> 13) + 1
}

/// The rows and ids that are read to keep what a list holds of `within` candidates.
pub(super) fn intersect_work(list: &List<'_>, within: u64, entries: u64) -> Work {
    let (count, rows) = (list.count(), chunk_rows(list, entries));
    if rows == 0 {
        return Work { rows: 0, ids: count.min(within) + 1, tests: 0 };
    }
    // Of a long set whole bitmaps are compared, and not id by id.
    Work { rows: rows.min(within), ids: within.min(count.max(STREAM_IDS_MIN)), tests: 0 }
}

/// The part of `within` candidates that is expected to be among `count` of all entries.
pub(super) fn expected(within: u64, count: u64, entries: u64) -> u64 {
    if count >= entries {
        return within;
    }
    let part = (u128::from(within) * u128::from(count)).div_ceil(u128::from(entries.max(1)));
    u64::try_from(part).unwrap_or(within)
}
