//! Which updates are on their way to the node that decides. All share one connection, also with
//! reads that ask that node: whoever had filled it would have all others wait.
//!
//! Invariant: what is on its way is bounded in requests, over all, for strangers and for each who
//! asks, and in octets for each who asks; but one of each that has nothing on its way may always
//! go, as far as octets are concerned.
//! Invariant: the others wait here: those who ask take turns, and of one who asks they leave in the
//! order in which they came. None waits while nothing is on its way.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::request::asker_queues::{Asker, AskerQueues, QueueSize};

/// The updates.
#[derive(Debug)]
pub(super) struct Window<T> {
    on_its_way: OnItsWay,
    waiting: AskerQueues<Waiting<T>>,
}

/// What is on its way.
#[derive(Debug, Default)]
struct OnItsWay {
    of: FxHashMap<Asker, Own>,
    all: usize,
    strangers: usize,
}

/// Of one who asks.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    requests: usize,
    octets: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    octets: usize,
}

impl<T> Window<T> {
    /// Nothing is on its way.
    pub(super) fn new() -> Self {
        // How many wait is bounded where they are let in.
        let size = QueueSize { max: usize::MAX, reserved: 0, asker_max: usize::MAX };
        Self { on_its_way: OnItsWay::default(), waiting: AskerQueues::new(size) }
    }

    /// One comes. Given back when it may go at once; then it has to leave.
    pub(super) fn enter(&mut self, asker: Asker, octets: usize, item: T) -> Option<T> {
        if self.waiting.waits(asker) || !self.on_its_way.has_room(asker, octets) {
            self.waiting.put_back(asker, Waiting { item, octets });
            return None;
        }
        self.on_its_way.add(asker, octets);
        Some(item)
    }

    /// One is not on its way any more. Those that may go now; each has to leave.
    pub(super) fn leave(&mut self, asker: Asker, octets: usize) -> Vec<T> {
        let Self { on_its_way, waiting } = self;
        on_its_way.remove(asker, octets);
        let mut go = Vec::new();
        while let Some((asker, Waiting { item, octets })) =
            waiting.take_fitting(|asker, one| on_its_way.has_room(asker, one.octets))
        {
            on_its_way.add(asker, octets);
            go.push(item);
        }
        go
    }

    /// Those that wait; they do not any more.
    pub(super) fn give_up(&mut self) -> Vec<T> {
        self.waiting.retain(|_| false).into_iter().map(|one| one.item).collect()
    }
}

impl OnItsWay {
    fn has_room(&self, asker: Asker, octets: usize) -> bool {
        let Own { requests, octets: held } = self.of.get(&asker).copied().unwrap_or_default();
        self.all < MAX
            && (!asker.is_stranger() || self.strangers < STRANGERS_MAX)
            && requests < ASKER_MAX
            && (requests == 0 || held.saturating_add(octets) <= ASKER_MAX_BYTES)
    }

    fn add(&mut self, asker: Asker, octets: usize) {
        self.all += 1;
        self.strangers += usize::from(asker.is_stranger());
        let own = self.of.entry(asker).or_default();
        (own.requests, own.octets) = (own.requests + 1, own.octets + octets);
    }

    fn remove(&mut self, asker: Asker, octets: usize) {
        self.all -= 1;
        self.strangers -= usize::from(asker.is_stranger());
        if let Entry::Occupied(mut entry) = self.of.entry(asker) {
            let own = entry.get_mut();
            (own.requests, own.octets) = (own.requests - 1, own.octets - octets);
            if own.requests == 0 {
                entry.remove();
            }
        }
    }
}

/// Requests on their way at a time: three quarters of what the connection takes, or reads would
/// have no room on it.
const MAX: usize = 768;
/// Of those, requests of strangers.
const STRANGERS_MAX: usize = 256;
/// Requests of one who asks: so few that the node that decides answers each within a few seconds,
/// also where it has to hash a password for each.
pub(super) const ASKER_MAX: usize = 64;
/// Octets of those, if they are more than one: others have room beside them in what the node that
/// decides reads before it has answered.
const ASKER_MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use schema::EntryId;

    use super::*;

    fn entry(id: u64) -> Asker {
        Asker::Entry(EntryId(id))
    }

    fn stranger(id: u32) -> Asker {
        Asker::Address(std::net::Ipv4Addr::from_bits(id).into())
    }

    #[test]
    fn one_who_asks_fills_its_own_share_alone() {
        let mut window = Window::new();
        assert!((0..ASKER_MAX).all(|at| window.enter(entry(1), 1, at) == Some(at)));
        assert!((0..2).all(|at| window.enter(entry(1), 1, 100 + at).is_none()));
        assert_eq!(window.enter(Asker::Root, 1, 200), Some(200));
        assert!(window.leave(Asker::Root, 1).is_empty());
        assert_eq!(window.leave(entry(1), 1), [100]);
        assert_eq!(window.leave(entry(1), 1), [101]);
        assert!((0..ASKER_MAX).all(|_| window.leave(entry(1), 1).is_empty()));
        assert!(window.on_its_way.of.is_empty() && window.on_its_way.all == 0);
    }

    #[test]
    fn octets_of_one_who_asks_are_bounded_and_its_first_always_goes() {
        let mut window = Window::new();
        assert_eq!(window.enter(entry(1), 100 << 20, "a"), Some("a"));
        assert_eq!(window.enter(entry(1), 1, "b"), None);
        assert_eq!(window.enter(entry(2), ASKER_MAX_BYTES - 1, "c"), Some("c"));
        assert_eq!(window.enter(entry(2), 2, "d"), None);
        assert_eq!(window.enter(entry(2), 1, "e"), None, "it does not overtake the one before it");
        assert_eq!(window.leave(entry(2), ASKER_MAX_BYTES - 1), ["d", "e"]);
        assert_eq!(window.leave(entry(1), 100 << 20), ["b"]);
    }

    #[test]
    fn those_who_ask_take_turns_and_strangers_do_not_fill_it() {
        let mut window = Window::new();
        let all = u32::try_from(STRANGERS_MAX).unwrap();
        assert!((0..all).all(|one| window.enter(stranger(one), 1, 0).is_some()));
        assert_eq!(window.enter(stranger(all), 1, 1), None);
        for one in 0..(MAX - STRANGERS_MAX) as u64 {
            assert_eq!(window.enter(entry(one), 1, 2), Some(2));
        }
        for (asker, item) in [(10_000, 3), (10_000, 4), (10_001, 5)] {
            assert_eq!(window.enter(entry(asker), 1, item), None);
        }
        let went: Vec<_> = (0..4).flat_map(|_| window.leave(stranger(0), 1)).collect();
        let at = |item| went.iter().position(|one| *one == item).unwrap();
        assert_eq!(went.len(), 4);
        assert!(at(3) < at(5) && at(5) < at(4), "{went:?}");
        assert_eq!(window.enter(stranger(all + 1), 1, 6), None);
        assert_eq!(window.give_up(), [6]);
    }
}
