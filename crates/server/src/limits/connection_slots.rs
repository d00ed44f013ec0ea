//! Slots of connections that have not authenticated: they have a share of all, so that whoever
//! signs in finds a slot. When they have it, a new one takes the slot of another.
//!
//! Invariant: of those who give up their slot the address that has most is first, and of its
//! connections the one that was silent for longest. Whoever holds slots takes them from himself.
//! Invariant: to find one takes as long however many there are: at most [`LOOKED_AT_MAX`] of them,
//! those that came first, are looked at.
//! Invariant: a connection is one of them until its bind has succeeded.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::connection::presence::{Presence, Why, network};
use crate::metrics::counters::Counter;

/// The slots of connections that have not authenticated.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    max: AtomicUsize,
    taken: Mutex<Taken>,
    /// Those that were ended for another one, and are still there.
    leaving: AtomicUsize,
    /// Those that were ever ended for another one.
    pub(crate) replaced: Counter,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    occupants: FxHashMap<u64, Occupant>,
    /// Those of each address, in the order in which they came.
    of_address: FxHashMap<IpAddr, BTreeSet<u64>>,
    /// Addresses by how many they have, and by the first of them.
    by_count: BTreeSet<(usize, u64, IpAddr)>,
}

impl Taken {
    fn put(&mut self, occupant: Occupant) -> u64 {
        let (number, address) = (self.next, occupant.address);
        self.next += 1;
        self.occupants.insert(number, occupant);
        self.change(address, |numbers| numbers.insert(number));
        number
    }

    fn remove(&mut self, number: u64) -> Option<Occupant> {
        let occupant = self.occupants.remove(&number)?;
        self.change(occupant.address, |numbers| numbers.remove(&number));
        Some(occupant)
    }

    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let numbers = self.of_address.entry(address).or_default();
        if let Some(first) = numbers.first() {
            self.by_count.remove(&(numbers.len(), *first, address));
        }
        change(numbers);
        match numbers.first() {
            Some(first) => {
                self.by_count.insert((numbers.len(), *first, address));
            }
            None => {
                self.of_address.remove(&address);
            }
        }
    }

    /// The one that was silent for longest, of the addresses that have most.
    fn first_to_go(&self) -> Option<u64> {
        let (most, ..) = self.by_count.last()?;
        let greediest = self.by_count.range((*most, 0, IpAddr::from([0; 4]))..);
        let theirs = greediest.filter_map(|(.., address)| self.of_address.get(address)).flatten();
        let silent = theirs
            .take(LOOKED_AT_MAX)
            .filter_map(|number| Some((self.occupants.get(number)?.presence.active_ms(), *number)));
        silent.min().map(|(_, number)| number)
    }
}

#[derive(Debug)]
struct Occupant {
    address: IpAddr,
    presence: Arc<Presence>,
}

/// What a connection has of it.
#[derive(Debug)]
pub(crate) struct Slot {
    address: IpAddr,
    presence: Arc<Presence>,
    /// While it has not authenticated.
    number: Option<u64>,
}

impl ConnectionSlots {
    /// With so many.
    pub(crate) fn new(max: usize) -> Self {
        let (leaving, replaced) = (AtomicUsize::new(0), Counter::default());
        let max = AtomicUsize::new(max.max(1));
        Self { max, taken: Mutex::default(), leaving, replaced }
    }

    /// With so many from now on; who has one keeps it.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max.max(1), Ordering::Relaxed);
    }

    /// A slot for one that has not authenticated; another may have to end for it.
    pub(crate) fn take(&self, address: IpAddr, presence: &Arc<Presence>) -> Slot {
        let mut slot =
            Slot { address: network(address), presence: Arc::clone(presence), number: None };
        self.occupy(&mut slot);
        slot
    }

    /// Whether it has authenticated is now so.
    pub(crate) fn update(&self, slot: &mut Slot, is_anonymous: bool) {
        match slot.number {
            None if is_anonymous => self.occupy(slot),
            Some(number) if !is_anonymous => {
                self.lock().remove(number);
                slot.number = None;
            }
            Some(_) | None => {}
        }
    }

    /// The connection is gone.
    pub(crate) fn give_back(&self, slot: &mut Slot) {
        if let Some(number) = slot.number.take() {
            self.lock().remove(number);
        }
        if slot.presence.ended() == Some(Why::Slot) {
            self.leaving.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Has one end, for a connection that finds no slot at all; says whether there was one.
    pub(crate) fn make_room(&self) -> bool {
        self.replace(&mut self.lock())
    }

    /// Those that were ended for another one, and are still there: their slots are free.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Relaxed)
    }

    fn occupy(&self, slot: &mut Slot) {
        let mut taken = self.lock();
        if taken.occupants.len() >= self.max.load(Ordering::Relaxed) {
            self.replace(&mut taken);
        }
        let occupant = Occupant { address: slot.address, presence: Arc::clone(&slot.presence) };
        slot.number = Some(taken.put(occupant));
    }

    /// Has one end; says whether there was one.
    fn replace(&self, taken: &mut Taken) -> bool {
        let Some(occupant) = taken.first_to_go().and_then(|number| taken.remove(number)) else {
            return false;
        };
        if occupant.presence.end(Why::Slot) {
            self.leaving.fetch_add(1, Ordering::Relaxed);
            self.warn(&occupant);
        }
        true
    }

    fn warn(&self, occupant: &Occupant) {
        let count = self.replaced.add(1);
        if count.is_power_of_two() {
            let address = occupant.address;
            tracing::warn!(
                %address,
                count,
                "replacing connections that have not authenticated: \
                 limits.connections_anonymous_percent is reached"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many connections are looked at for one that gives up its slot.
const LOOKED_AT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn presence(active_s: u64) -> Arc<Presence> {
        Arc::new(Presence::new(Duration::from_secs(active_s)))
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn the_longest_silent_of_the_greediest_address_gives_up_its_place() {
        let slots = ConnectionSlots::new(4);
        let all = [(1, 5), (1, 3), (1, 4), (2, 0)].map(|(last, active)| {
            let presence = presence(active);
            (slots.take(address(last), &presence), presence)
        });
        let ended = || all.each_ref().map(|(_, presence)| presence.ended().is_some());
        assert_eq!(ended(), [false; 4]);
        let newest = presence(9);
        let _of_newest = slots.take(address(2), &newest);
        assert_eq!(ended(), [false, true, false, false]);
        // Now both have two: the one that was silent for longest goes.
        let _next = slots.take(address(3), &presence(9));
        assert_eq!(ended(), [false, true, false, true]);
        assert_eq!((slots.leaving(), slots.replaced.value()), (2, 2));
        for (mut slot, _) in all {
            slots.give_back(&mut slot);
        }
        assert_eq!(slots.leaving(), 0);
        let taken = slots.lock();
        assert_eq!(
            (taken.occupants.len(), taken.of_address.len(), taken.by_count.len()),
            (2, 2, 2)
        );
    }

    #[test]
    fn of_addresses_with_one_each_the_first_that_is_silent_goes() {
        let slots = ConnectionSlots::new(1_000);
        let mut all = Vec::new();
        for number in 0..1_000_u16 {
            let [high, low] = number.to_be_bytes();
            let presence = presence(if number == 200 { 1 } else { 2 + u64::from(number) });
            all.push((slots.take(IpAddr::from([192, 0, high, low]), &presence), presence));
        }
        let _new = slots.take(address(1), &presence(5_000));
        let ended = all.iter().position(|(_, presence)| presence.ended().is_some());
        assert_eq!(ended, Some(200));
        for (mut slot, _) in all {
            slots.give_back(&mut slot);
        }
        let taken = slots.lock();
        assert_eq!(
            (taken.occupants.len(), taken.of_address.len(), taken.by_count.len()),
            (1, 1, 1)
        );
    }

    #[test]
    fn who_has_signed_in_keeps_his_place() {
        let slots = ConnectionSlots::new(1);
        let first = presence(0);
        let mut slot = slots.take(address(1), &first);
        slots.update(&mut slot, false);
        let second = presence(1);
        let _second = slots.take(address(1), &second);
        assert_eq!((first.ended(), second.ended()), (None, None));
        // Until he signs out.
        slots.update(&mut slot, true);
        assert_eq!((first.ended(), second.ended()), (None, Some(Why::Slot)));
        assert!(slots.make_room());
        assert_eq!(first.ended(), Some(Why::Slot));
        assert!(!slots.make_room());
    }
}
