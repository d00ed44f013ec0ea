//! Octets that are held for those who ask: for all, for strangers, and for each.
//!
//! Invariant: whoever holds little may always hold a little more: others with much are not in its
//! way. More than a little is held only as long as there is room, and one who asks never takes all
//! of that; but the first thing of the administrator's is always taken, and that of another where
//! nobody holds anything.
//! Invariant: who waits for room is given it when there is some, in the order in which they came,
//! and is called without the lock.

use std::collections::BTreeMap;
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
    waiting: Waiting,
}

/// Those who wait for room.
#[derive(Default)]
struct Waiting {
    all: BTreeMap<u64, Wanted>,
    entered: u64,
    /// Nobody is given anything any more.
    is_closed: bool,
}

struct Wanted {
    asker: Asker,
    octets: usize,
    grant: Grant,
}

/// Called with what is held then; with none when the server is about to end.
pub(crate) type Grant = Box<dyn FnOnce(Option<AskerHeld>) + Send>;

impl AskerBytes {
    /// At most `max` octets, and a quarter of that for each who asks and for all strangers.
    pub fn new(max: usize) -> Self {
        let (of, waiting) = (FxHashMap::default(), Waiting::default());
        Self { max, all: 0, strangers: 0, of, waiting }
    }

    /// At most so many from now on; what is held beyond stays until it is released.
    pub(crate) fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Counts octets, if there is room for them.
    pub(crate) fn hold(&mut self, asker: Asker, octets: usize) -> bool {
        let own = self.held_by(asker);
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

    /// Octets that one who asks holds.
    fn held_by(&self, asker: Asker) -> usize {
        self.of.get(&asker).copied().unwrap_or(0)
    }

    /// Those who wait and have room now: it is held for them.
    fn grant(&mut self, this: &Arc<Mutex<Self>>) -> Vec<(Grant, AskerHeld)> {
        if self.waiting.all.is_empty() {
            return Vec::new();
        }
        let mut granted = Vec::new();
        for (number, wanted) in std::mem::take(&mut self.waiting.all) {
            let Wanted { asker, octets, grant } = wanted;
            if self.hold(asker, octets) {
                granted.push((grant, AskerHeld { all: Arc::clone(this), asker, octets }));
            } else {
                self.waiting.all.insert(number, Wanted { asker, octets, grant });
            }
        }
        granted
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

    /// The same, where one who asks holds no more than `own_max` then.
    pub(crate) fn grow_within(&mut self, octets: usize, own_max: usize) -> bool {
        let mut all = self.lock();
        let own = all.held_by(self.asker);
        let has_room = own.saturating_add(octets) <= own_max && all.hold(self.asker, octets);
        drop(all);
        self.octets += if has_room { octets } else { 0 };
        has_room
    }

    /// Has `grant` called with so many octets when there is room for them, unless what is returned
    /// is gone by then.
    pub(crate) fn wait(
        all: &Arc<Mutex<AskerBytes>>,
        asker: Asker,
        octets: usize,
        grant: Grant,
    ) -> RoomWait {
        let mut held = Self::new(all, asker);
        let mut desk = held.lock();
        desk.waiting.entered += 1;
        let wait = RoomWait { all: Arc::clone(all), number: desk.waiting.entered };
        if desk.waiting.is_closed {
            drop(desk);
            grant(None);
        } else if desk.hold(asker, octets) {
            drop(desk);
            held.octets = octets;
            grant(Some(held));
        } else {
            desk.waiting.all.insert(wait.number, Wanted { asker, octets, grant });
        }
        wait
    }

    /// Nobody is to wait any more.
    pub(crate) fn close(all: &Mutex<AskerBytes>) {
        let mut desk = all.lock().unwrap_or_else(PoisonError::into_inner);
        desk.waiting.is_closed = true;
        let waiting = std::mem::take(&mut desk.waiting.all);
        drop(desk);
        waiting.into_values().for_each(|wanted| (wanted.grant)(None));
    }

    fn lock(&self) -> MutexGuard<'_, AskerBytes> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for room, as long as this lives.
pub(crate) struct RoomWait {
    all: Arc<Mutex<AskerBytes>>,
    number: u64,
}

impl Drop for RoomWait {
    fn drop(&mut self) {
        let mut desk = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = desk.waiting.all.remove(&self.number);
        drop(desk);
        drop(wanted);
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("count", &self.all.len()).finish_non_exhaustive()
    }
}

impl Drop for AskerHeld {
    fn drop(&mut self) {
        if self.octets > 0 {
            let mut all = self.lock();
            all.release(self.asker, self.octets);
            let granted = all.grant(&self.all);
            drop(all);
            granted.into_iter().for_each(|(grant, held)| grant(Some(held)));
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

    #[test]
    fn who_waits_is_given_room_in_turn() {
        let all = Arc::new(Mutex::new(AskerBytes::new(4 * MIB)));
        let held = |asker| {
            let mut held = AskerHeld::new(&all, asker);
            held.grow(MIB).then_some(held)
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let wait = |asker| {
            let sender = sender.clone();
            let grant = move |held| sender.send(held).unwrap();
            AskerHeld::wait(&all, asker, MIB, Box::new(grant))
        };
        let first = held(ONE).unwrap();
        assert!(held(ONE).is_none(), "its share is full");
        let (waits, goes, _later) = (wait(ONE), wait(ONE), wait(ONE));
        let _other = wait(OTHER);
        assert_eq!(receiver.try_recv().unwrap().unwrap().octets(), MIB, "there is room for it");
        assert!(receiver.try_recv().is_err());
        drop(goes);
        drop(first);
        let given: AskerHeld = receiver.try_recv().unwrap().unwrap();
        assert!(receiver.try_recv().is_err(), "one after the other");
        drop((waits, given));
        assert_eq!(receiver.try_recv().unwrap().unwrap().octets(), MIB, "who has gone is not next");
        let own = held(ONE).unwrap();
        let _last = wait(ONE);
        AskerHeld::close(&all);
        assert!(receiver.try_recv().unwrap().is_none());
        let _none = wait(ONE);
        assert!(receiver.try_recv().unwrap().is_none(), "nobody waits any more");
        drop(own);
        assert_eq!(all.lock().unwrap().held(), 0);
    }

    #[test]
    fn one_may_be_held_to_less_than_its_share() {
        let all = Arc::new(Mutex::new(AskerBytes::new(400)));
        let mut held = AskerHeld::new(&all, ONE);
        assert!(held.grow_within(20, 50) && held.grow_within(20, 50));
        assert!(!held.grow_within(20, 50));
        assert_eq!(held.octets(), 40);
    }
}
