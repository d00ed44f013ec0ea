//! What the layers of the overlay are made of: pieces of arenas, and a table that finds keys by
//! their hashes.
//!
//! Invariant: a hash is computed once for a key, whatever the number of layers that are asked for
//! it or that it is merged into.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The hash of a row's key; another one in each process, so that nobody can choose keys that share
/// their hashes.
#[inline]
pub(crate) fn row_hash(key: &[u8]) -> u32 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(|| RandomState::new().hash_one(0));
    xxh3_64_with_seed(key, seed) as u32
}

/// A piece of an arena: where it starts and how long it is. Also says "there is none".
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span(u64);

/// So many low bits are the length; a record takes up to 2^28 octets.
const LENGTH_BITS: u32 = 29;
const LENGTH_MASK: u64 = (1 << LENGTH_BITS) - 1;
/// The largest arena: 32 Gi octets or elements.
const START_MAX: u64 = u64::MAX >> LENGTH_BITS;

impl Span {
    /// No piece.
    pub(crate) const NONE: Self = Self(LENGTH_MASK);

    #[inline]
    pub(crate) fn new(start: usize, length: usize) -> Self {
        let (start, length) = (start as u64, length as u64);
        assert!(start <= START_MAX && length < LENGTH_MASK, "a layer does not fit into memory");
        Self((start << LENGTH_BITS) | length)
    }

    #[inline]
    pub(crate) const fn is_none(self) -> bool {
        self.0 & LENGTH_MASK == LENGTH_MASK
    }

    /// The piece; `arena` is the one the span was made for.
    #[inline]
    pub(crate) fn of<T>(self, arena: &[T]) -> &[T] {
        let start = (self.0 >> LENGTH_BITS) as usize;
        let length = (self.0 & LENGTH_MASK) as usize;
        arena.get(start..start + length).unwrap_or_default()
    }
}

/// Finds the numbers of slots by hashes of their keys. Open addressing: a cell holds the hash and
/// the number of a slot, so that a key that is not there costs one cache line and no comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    /// The hash in the upper half, the number of the slot plus one in the lower; zero is empty. The
    /// length is a power of two.
    cells: Vec<u64>,
    used: usize,
}

impl Cells {
    /// A table that takes so many slots without growing.
    pub(crate) fn with_room(slots: usize) -> Self {
        if slots == 0 {
            return Self::default();
        }
        let length = (slots + slots / 2 + 1).next_power_of_two();
        Self { cells: vec![0; length], used: 0 }
    }

    /// The slot with this hash whose key is the one: `is_it` compares.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.cells.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let cell = *self.cells.get(at)?;
            if cell == 0 {
                return None;
            }
            if (cell >> 32) as u32 == hash {
                let slot = (cell as u32).wrapping_sub(1);
                if is_it(slot) {
                    return Some(slot);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts in a slot that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if (self.used + 1) * 3 > self.cells.len() * 2 {
            self.grow();
        }
        self.used += 1;
        self.place((u64::from(hash) << 32) | (u64::from(slot) + 1));
    }

    fn place(&mut self, new: u64) {
        let mask = self.cells.len().wrapping_sub(1);
        let mut at = (new >> 32) as usize & mask;
        while let Some(cell) = self.cells.get_mut(at) {
            if *cell == 0 {
                *cell = new;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let length = (self.cells.len() * 2).max(CELLS_MIN);
        let before = std::mem::replace(&mut self.cells, vec![0; length]);
        before.into_iter().filter(|cell| *cell != 0).for_each(|cell| self.place(cell));
    }

    /// Takes out a slot that is there.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let mask = self.cells.len().wrapping_sub(1);
        let wanted = (u64::from(hash) << 32) | (u64::from(slot) + 1);
        let mut at = hash as usize & mask;
        while self.cells.get(at).is_some_and(|cell| *cell != wanted && *cell != 0) {
            at = (at + 1) & mask;
        }
        self.used = self.used.saturating_sub(1);
        // What comes after it may have been put there because its own place was taken.
        let mut hole = at;
        loop {
            at = (at + 1) & mask;
            let Some(&cell) = self.cells.get(at).filter(|cell| **cell != 0) else { break };
            let home = (cell >> 32) as usize & mask;
            let from_home = at.wrapping_sub(home) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                if let Some(free) = self.cells.get_mut(hole) {
                    *free = cell;
                }
                hole = at;
            }
        }
        if let Some(free) = self.cells.get_mut(hole) {
            *free = 0;
        }
    }

    /// Takes everything out and keeps the room, unless that is far too large.
    pub(crate) fn clear(&mut self) {
        if self.cells.len() > CELLS_KEPT_MAX {
            self.cells = Vec::new();
        } else if self.used > 0 {
            self.cells.fill(0);
        }
        self.used = 0;
    }

    /// What the table takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.cells.len() * size_of::<u64>()
    }
}

const CELLS_MIN: usize = 16;
/// A table that was once used for a large batch is not kept for the small ones after it: clearing
/// it would cost more than they do.
const CELLS_KEPT_MAX: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_are_pieces_or_none() {
        let arena = [1, 2, 3, 4];
        assert_eq!(Span::new(1, 2).of(&arena), [2, 3]);
        assert_eq!(Span::new(4, 0).of(&arena), []);
        assert!(Span::NONE.is_none() && !Span::new(0, 0).is_none());
        assert!(!Span::new(START_MAX as usize, 1 << 28).is_none());
        assert_eq!(Span::NONE.of(&arena), []);
    }

    proptest! {
        /// Few hashes, so that they collide, and hashes that share their low bits.
        #[test]
        fn cells_agree_with_a_map(
            steps in prop::collection::vec((0_u32..24, any::<bool>()), 0..300),
        ) {
            let hash = |slot: u32| [0, 1, 14, 15, 16, 0x10000][slot as usize % 6];
            let mut cells = Cells::default();
            let mut model = BTreeMap::new();
            for (slot, is_added) in steps {
                match (is_added, model.contains_key(&slot)) {
                    (true, false) => {
                        cells.insert(hash(slot), slot);
                        model.insert(slot, ());
                    }
                    (false, true) => {
                        cells.remove(hash(slot), slot);
                        model.remove(&slot);
                    }
                    (true, true) | (false, false) => {}
                }
                for slot in 0..24 {
                    let found = cells.find(hash(slot), |found| found == slot);
                    prop_assert_eq!(found.is_some(), model.contains_key(&slot));
                }
            }
            cells.clear();
            prop_assert_eq!(cells.find(hash(1), |_| true), None);
        }
    }
}
