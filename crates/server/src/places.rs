//! Places of connections that have not authenticated: they have a share of all, so that whoever
//! signs in finds a place. When they have it, a new one takes the place of another.
//!
//! Invariant: of those who give up their place the address that has most is first, and of its
//! connections the one that was silent for longest. Whoever holds places takes them from himself.
//! Invariant: a connection is one of them until its bind has succeeded.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::counters::Counter;
use crate::presence::{Presence, Why, network};

/// The places of strangers.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    taken: Mutex<Taken>,
    /// Those that were told to end, and have not.
    leaving: AtomicUsize,
    /// Those that were ever told to.
    pub(crate) replaced: Counter,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    strangers: FxHashMap<u64, Stranger>,
}

#[derive(Debug)]
struct Stranger {
    address: IpAddr,
    presence: Arc<Presence>,
}

/// What a connection has of it.
#[derive(Debug)]
pub(crate) struct Seat {
    address: IpAddr,
    presence: Arc<Presence>,
    /// While it is a stranger.
    number: Option<u64>,
}

impl Places {
    /// With so many.
    pub(crate) fn new(max: usize) -> Self {
        let (leaving, replaced) = (AtomicUsize::new(0), Counter::default());
        Self { max: max.max(1), taken: Mutex::default(), leaving, replaced }
    }

    /// A place for one that has not authenticated; another may have to end for it.
    pub(crate) fn take(&self, address: IpAddr, presence: &Arc<Presence>) -> Seat {
        let mut seat =
            Seat { address: network(address), presence: Arc::clone(presence), number: None };
        self.sit_down(&mut seat);
        seat
    }

    /// Whether it has authenticated is now so.
    pub(crate) fn note(&self, seat: &mut Seat, is_stranger: bool) {
        match seat.number {
            None if is_stranger => self.sit_down(seat),
            Some(number) if !is_stranger => {
                self.lock().strangers.remove(&number);
                seat.number = None;
            }
            Some(_) | None => {}
        }
    }

    /// The connection is gone.
    pub(crate) fn give_back(&self, seat: &mut Seat) {
        if let Some(number) = seat.number.take() {
            self.lock().strangers.remove(&number);
        }
        if seat.presence.ended() == Some(Why::Place) {
            self.leaving.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Has one end, for a connection that finds no place at all; says whether there was one.
    pub(crate) fn make_room(&self) -> bool {
        self.replace(&mut self.lock(), 1) > 0
    }

    /// Those that were told to end, and have not: their places are free.
    pub(crate) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Relaxed)
    }

    fn sit_down(&self, seat: &mut Seat) {
        let mut taken = self.lock();
        if taken.strangers.len() >= self.max {
            // A few at once: looking for them takes as long as looking for one.
            self.replace(&mut taken, 1 + self.max / FRACTION);
        }
        let number = taken.next;
        taken.next += 1;
        let stranger = Stranger { address: seat.address, presence: Arc::clone(&seat.presence) };
        taken.strangers.insert(number, stranger);
        seat.number = Some(number);
    }

    /// Has one end, and up to `most` as long as an address has several. Returns how many.
    fn replace(&self, taken: &mut Taken, most: usize) -> usize {
        let mut by_address = FxHashMap::<IpAddr, Vec<(u64, u64)>>::default();
        for (number, stranger) in &taken.strangers {
            let entry = (stranger.presence.active_ms(), *number);
            by_address.entry(stranger.address).or_default().push(entry);
        }
        // The one that was silent for longest is the last.
        by_address.values_mut().for_each(|list| list.sort_unstable_by(|one, other| other.cmp(one)));
        let mut ended = 0;
        while ended < most {
            let first =
                by_address.values_mut().filter(|list| !list.is_empty()).max_by_key(|list| {
                    (list.len(), list.last().map(|(active, _)| std::cmp::Reverse(*active)))
                });
            let Some(list) = first.filter(|list| ended == 0 || list.len() > 1) else { break };
            let Some((_, number)) = list.pop() else { break };
            if let Some(stranger) = taken.strangers.remove(&number)
                && stranger.presence.end(Why::Place)
            {
                self.leaving.fetch_add(1, Ordering::Relaxed);
                self.tell(&stranger);
            }
            ended += 1;
        }
        ended
    }

    fn tell(&self, stranger: &Stranger) {
        let count = self.replaced.add(1);
        if count.is_power_of_two() {
            let address = stranger.address;
            tracing::warn!(
                %address,
                count,
                "connections that have not authenticated give up their places: \
                 limits.connections_anonymous_percent is reached"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many of all places are made free at once, of addresses that have several.
const FRACTION: usize = 100;

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
        let places = Places::new(4);
        let all = [(1, 5), (1, 3), (1, 4), (2, 0)].map(|(last, active)| {
            let presence = presence(active);
            (places.take(address(last), &presence), presence)
        });
        let ended = || all.each_ref().map(|(_, presence)| presence.ended().is_some());
        assert_eq!(ended(), [false; 4]);
        let newest = presence(9);
        let _of_newest = places.take(address(2), &newest);
        assert_eq!(ended(), [false, true, false, false]);
        // Now both have two: the one that was silent for longest goes.
        let _next = places.take(address(3), &presence(9));
        assert_eq!(ended(), [false, true, false, true]);
        assert_eq!((places.leaving(), places.replaced.value()), (2, 2));
        for (mut seat, _) in all {
            places.give_back(&mut seat);
        }
        assert_eq!(places.leaving(), 0);
        assert_eq!(places.lock().strangers.len(), 2);
    }

    #[test]
    fn who_has_signed_in_keeps_his_place() {
        let places = Places::new(1);
        let first = presence(0);
        let mut seat = places.take(address(1), &first);
        places.note(&mut seat, false);
        let second = presence(1);
        let _second = places.take(address(1), &second);
        assert_eq!((first.ended(), second.ended()), (None, None));
        // Until he signs out.
        places.note(&mut seat, true);
        assert_eq!((first.ended(), second.ended()), (None, Some(Why::Place)));
        assert!(places.make_room());
        assert_eq!(first.ended(), Some(Why::Place));
        assert!(!places.make_room());
    }
}
