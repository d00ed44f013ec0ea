//! Octets that are held for those who ask: for all, for strangers, and for each.
//!
//! Invariant: whoever holds little may always hold a little more: others with much are not in its
//! way. More than a little is held only as long as there is room, and one who asks never takes all
//! of that; but the first thing of the administrator's is always taken, and that of another where
//! nobody holds anything.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::request::asker_queues::Asker;

/// What is held.
#[derive(Debug)]
pub struct AskerBytes {
    max: usize,
    all: usize,
    strangers: usize,
    /// Of those who hold something.
    of: FxHashMap<Asker, usize>,
}

impl AskerBytes {
    /// At most `max` octets, and a quarter of that for each who asks and for all strangers.
    pub fn new(max: usize) -> Self {
        Self { max, all: 0, strangers: 0, of: FxHashMap::default() }
    }

    /// Counts octets, if there is room for them.
    pub(crate) fn hold(&mut self, asker: Asker, octets: usize) -> bool {
        let own = self.of.get(&asker).copied().unwrap_or(0);
        if !self.has_room(asker, own, octets) {
            return false;
        }
        self.all += octets;
        self.strangers += if asker.is_stranger() { octets } else { 0 };
        self.of.insert(asker, own + octets);
        true
    }

    /// They are not held any more.
    pub(crate) fn release(&mut self, asker: Asker, octets: usize) {
        self.all -= octets;
        self.strangers -= if asker.is_stranger() { octets } else { 0 };
        if let Some(own) = self.of.get_mut(&asker) {
            *own -= octets;
            if *own == 0 {
                self.of.remove(&asker);
            }
        }
    }

    /// Octets that are held over all.
    pub(crate) fn held(&self) -> usize {
        self.all
    }

    fn has_room(&self, asker: Asker, own: usize, octets: usize) -> bool {
        let share = self.max / SHARES;
        let fits = |held: usize, max: usize| held == 0 || held.saturating_add(octets) <= max;
        match asker {
            Asker::Root => fits(own, self.max),
            Asker::Entry(_) => {
                let is_little = own.saturating_add(octets) <= ALWAYS_BYTES.min(share);
                is_little || (fits(own, share) && fits(self.all, self.max))
            }
            Asker::Address(_) | Asker::Local => {
                fits(self.strangers, share) && fits(self.all, self.max)
            }
        }
    }
}

/// Octets that are counted for one who asks, as long as this lives.
pub struct AskerHeld {
    all: Arc<Mutex<AskerBytes>>,
    asker: Asker,
    octets: usize,
}

impl AskerHeld {
    /// None yet.
    pub fn new(all: &Arc<Mutex<AskerBytes>>, asker: Asker) -> Self {
        Self { all: Arc::clone(all), asker, octets: 0 }
    }

    /// How many there are.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Counts more, if there is room for them.
    pub fn grow(&mut self, octets: usize) -> bool {
        let has_room = self.lock().hold(self.asker, octets);
        self.octets += if has_room { octets } else { 0 };
        has_room
    }

    fn lock(&self) -> MutexGuard<'_, AskerBytes> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AskerHeld {
    fn drop(&mut self) {
        if self.octets > 0 {
            self.lock().release(self.asker, self.octets);
        }
    }
}

impl fmt::Debug for AskerHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskerHeld").field("octets", &self.octets).finish_non_exhaustive()
    }
}

/// An update that takes no more is not counted in octets: how many wait is bounded as well.
pub(crate) const SMALL_BYTES: usize = 4 * 1024;

/// One who asks has so much of the whole at the most: one part of so many.
const SHARES: usize = 4;

/// So much is always held for one who has signed in.
const ALWAYS_BYTES: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use schema::EntryId;

    use super::*;

    const ONE: Asker = Asker::Entry(EntryId(1));
    const OTHER: Asker = Asker::Entry(EntryId(2));
    const MIB: usize = 1 << 20;

    #[test]
    fn nobody_takes_it_all_and_who_holds_little_gets_in() {
        let mut held = AskerBytes::new(16 * MIB);
        assert!(held.hold(ONE, 3 * MIB) && held.hold(ONE, MIB));
        assert!(!held.hold(ONE, 1), "its share is full");
        assert!(held.hold(Asker::Local, 4 * MIB));
        assert!(!held.hold(Asker::Local, 1), "the share of strangers is full");
        assert!(held.hold(OTHER, 8 * MIB), "the first one, while there is room");
        let third = Asker::Entry(EntryId(3));
        assert!(!held.hold(third, MIB), "nothing is left");
        assert!(held.hold(third, ALWAYS_BYTES), "but for a little");
        assert!(!held.hold(third, 1));
        assert!(held.hold(Asker::Root, 16 * MIB), "others are not in the way of this one");
        assert!(!held.hold(Asker::Root, 1));
        held.release(Asker::Root, 16 * MIB);
        assert!(held.hold(Asker::Root, 100 * MIB), "the first one, however large");
        held.release(Asker::Root, 100 * MIB);
        for (asker, octets) in [(ONE, 4), (Asker::Local, 4), (OTHER, 8)] {
            held.release(asker, octets * MIB);
        }
        held.release(third, ALWAYS_BYTES);
        assert_eq!((held.held(), held.strangers, held.of.len()), (0, 0, 0));
        assert!(held.hold(ONE, 100 * MIB), "nobody else holds anything");
    }
}
