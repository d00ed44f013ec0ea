//! What readers use: how often each index was asked, and whether names and rows were remembered.
//!
//! Invariant: only the thread of a reader, or the writer, writes its counters, with plain loads and
//! stores. Whoever wants to know adds them up.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one reader. Aligned so that no line of it lies next to another one's: the
/// processor fetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Uses {
    /// By the ids of the indexes; the last place is for all that are larger.
    indexes: [AtomicU64; INDEX_PLACES],
    names: CacheCounters,
    rows: CacheCounters,
}

#[derive(Debug, Default)]
struct CacheCounters {
    known: AtomicU64,
    read: AtomicU64,
}

impl Default for Uses {
    fn default() -> Self {
        Self {
            indexes: std::array::from_fn(|_| AtomicU64::default()),
            names: CacheCounters::default(),
            rows: CacheCounters::default(),
        }
    }
}

/// The sum of several.
#[derive(Clone, Debug)]
pub(crate) struct UsesSum {
    indexes: Vec<u64>,
    pub(crate) names: CacheUses,
    pub(crate) rows: CacheUses,
}

impl Default for UsesSum {
    fn default() -> Self {
        let (names, rows) = (CacheUses::default(), CacheUses::default());
        Self { indexes: vec![0; INDEX_PLACES], names, rows }
    }
}

/// How often something was wanted that may be remembered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheUses {
    /// It was remembered.
    pub known: u64,
    /// It was read in the tables.
    pub read: u64,
}

impl Uses {
    /// An index was asked.
    #[inline]
    pub(crate) fn index(&self, id: u16) {
        if let Some(counter) = self.indexes.get(place(id)) {
            one_more(counter);
        }
    }

    /// The name of a superior was wanted.
    #[inline]
    pub(crate) fn name(&self, is_known: bool) {
        self.names.count(is_known);
    }

    /// A row of the base was wanted: one that is remembered, or is so from now on.
    #[inline]
    pub(crate) fn row(&self, is_known: bool) {
        self.rows.count(is_known);
    }
}

impl CacheCounters {
    #[inline]
    fn count(&self, is_known: bool) {
        one_more(if is_known { &self.known } else { &self.read });
    }
}

#[inline]
fn one_more(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl UsesSum {
    pub(crate) fn add(&mut self, uses: &Uses) {
        for (sum, one) in self.indexes.iter_mut().zip(&uses.indexes) {
            *sum += one.load(Ordering::Relaxed);
        }
        self.names.add(&uses.names);
        self.rows.add(&uses.rows);
    }

    /// Of the index with this id.
    pub(crate) fn index(&self, id: u16) -> u64 {
        self.indexes.get(place(id)).copied().unwrap_or(0)
    }

    /// Takes over what `other` has of an index.
    pub(crate) fn set_index(&mut self, id: u16, other: &Self) {
        if let Some(sum) = self.indexes.get_mut(place(id)) {
            *sum = other.index(id);
        }
    }
}

impl CacheUses {
    fn add(&mut self, counters: &CacheCounters) {
        self.known += counters.known.load(Ordering::Relaxed);
        self.read += counters.read.load(Ordering::Relaxed);
    }
}

#[inline]
fn place(id: u16) -> usize {
    usize::from(id).min(INDEX_PLACES - 1)
}

/// Whether an index is counted by itself.
pub(crate) const fn has_place(id: u16) -> bool {
    (id as usize) < INDEX_PLACES - 1
}

/// Indexes that are counted each by itself, and one place for all others.
const INDEX_PLACES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_of_its_own_is_counted_together() {
        let uses = Uses::default();
        for id in [3, 3, 510, 511, 4000] {
            uses.index(id);
        }
        let mut sum = UsesSum::default();
        sum.add(&uses);
        assert_eq!([3, 4, 510, 511, 600].map(|id| sum.index(id)), [2, 0, 1, 2, 2]);
        assert_eq!([510, 511].map(has_place), [true, false]);
    }

    #[test]
    fn uses_share_no_line_with_others() {
        assert_eq!(align_of::<Uses>() % 128, 0);
    }
}
