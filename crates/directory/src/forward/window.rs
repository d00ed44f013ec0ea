//! Which updates are on their way to the node that decides. All share one connection, also with
//! reads that ask that node: whoever had filled it would have all others wait.
//!
//! Invariant: what is on its way is bounded in requests, over all and for strangers, and in cost
//! and octets for each who asks; but one of each that has nothing on its way may always go, as far
//! as octets are concerned.
//! Invariant: the others wait here: those who ask take turns, and of one who asks they leave in the
//! order in which they came. None waits while nothing is on its way.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::request::asker_queues::{Asker, AskerQueues, QueueSize};

/// What one is counted as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) asker: Asker,
    pub(super) octets: usize,
    /// Whether the node that decides may have to hash a password for it, which takes long.
    pub(super) may_hash: bool,
}

impl Load {
    const fn cost(self) -> usize {
        if self.may_hash { HASH_COST } else { 1 }
    }
}

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
    cost: usize,
    octets: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    load: Load,
}

impl<T> Window<T> {
    /// Nothing is on its way.
    pub(super) fn new() -> Self {
        // How many wait is bounded where they are let in.
        let size = QueueSize { max: usize::MAX, reserved: 0, asker_max: usize::MAX };
        Self { on_its_way: OnItsWay::default(), waiting: AskerQueues::new(size) }
    }

    /// One comes. Given back when it may go at once; then it has to leave.
    pub(super) fn enter(&mut self, load: Load, item: T) -> Option<T> {
        if self.waiting.waits(load.asker) || !self.on_its_way.has_room(load) {
            self.waiting.put_back(load.asker, Waiting { item, load });
            return None;
        }
        self.on_its_way.add(load);
        Some(item)
    }

    /// One is not on its way any more. Those that may go now; each has to leave.
    pub(super) fn leave(&mut self, load: Load) -> Vec<T> {
        let Self { on_its_way, waiting } = self;
        on_its_way.remove(load);
        let mut go = Vec::new();
        while let Some((_, Waiting { item, load })) =
            waiting.take_fitting(|_, one| on_its_way.has_room(one.load))
        {
            on_its_way.add(load);
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
    fn has_room(&self, load: Load) -> bool {
        let Own { cost, octets } = self.of.get(&load.asker).copied().unwrap_or_default();
        self.all < MAX
            && (!load.asker.is_stranger() || self.strangers < STRANGERS_MAX)
            && cost + load.cost() <= ASKER_COST_MAX
            && (cost == 0 || octets.saturating_add(load.octets) <= ASKER_MAX_BYTES)
    }

    fn add(&mut self, load: Load) {
        self.all += 1;
        self.strangers += usize::from(load.asker.is_stranger());
        let own = self.of.entry(load.asker).or_default();
        (own.cost, own.octets) = (own.cost + load.cost(), own.octets + load.octets);
    }

    fn remove(&mut self, load: Load) {
        self.all -= 1;
        self.strangers -= usize::from(load.asker.is_stranger());
        if let Entry::Occupied(mut entry) = self.of.entry(load.asker) {
            let own = entry.get_mut();
            (own.cost, own.octets) = (own.cost - load.cost(), own.octets - load.octets);
            if own.cost == 0 {
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
/// Cost of what one who asks has on its way: so many requests, that a distant node that decides can
/// be kept busy.
pub(super) const ASKER_COST_MAX: usize = 512;
/// Cost of one that may have a password hashed: so few of them go that the node that decides
/// answers each within a few seconds.
const HASH_COST: usize = 8;
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

    fn of(asker: Asker, octets: usize) -> Load {
        Load { asker, octets, may_hash: false }
    }

    #[test]
    fn one_who_asks_fills_its_own_share_alone() {
        let mut window = Window::new();
        assert!((0..ASKER_COST_MAX).all(|at| window.enter(of(entry(1), 1), at) == Some(at)));
        assert!((0..2).all(|at| window.enter(of(entry(1), 1), 100 + at).is_none()));
        assert_eq!(window.enter(of(Asker::Root, 1), 200), Some(200));
        assert!(window.leave(of(Asker::Root, 1)).is_empty());
        assert_eq!(window.leave(of(entry(1), 1)), [100]);
        assert_eq!(window.leave(of(entry(1), 1)), [101]);
        assert!((0..ASKER_COST_MAX).all(|_| window.leave(of(entry(1), 1)).is_empty()));
        assert!(window.on_its_way.of.is_empty() && window.on_its_way.all == 0);
    }

    /// They would be answered too late.
    #[test]
    fn fewer_go_that_may_have_a_password_hashed() {
        let mut window = Window::new();
        let hashing = Load { may_hash: true, ..of(entry(1), 1) };
        assert!((0..ASKER_COST_MAX / HASH_COST).all(|at| window.enter(hashing, at) == Some(at)));
        assert_eq!(window.enter(of(entry(1), 1), 100), None);
        assert_eq!(window.enter(hashing, 101), None);
        assert_eq!(window.leave(hashing), [100]);
        assert_eq!(window.leave(of(entry(1), 1)), [101]);
    }

    #[test]
    fn octets_of_one_who_asks_are_bounded_and_its_first_always_goes() {
        let mut window = Window::new();
        assert_eq!(window.enter(of(entry(1), 100 << 20), "a"), Some("a"));
        assert_eq!(window.enter(of(entry(1), 1), "b"), None);
        assert_eq!(window.enter(of(entry(2), ASKER_MAX_BYTES - 1), "c"), Some("c"));
        assert_eq!(window.enter(of(entry(2), 2), "d"), None);
        assert_eq!(
            window.enter(of(entry(2), 1), "e"),
            None,
            "it does not overtake the one before it"
        );
        assert_eq!(window.leave(of(entry(2), ASKER_MAX_BYTES - 1)), ["d", "e"]);
        assert_eq!(window.leave(of(entry(1), 100 << 20)), ["b"]);
    }

    #[test]
    fn those_who_ask_take_turns_and_strangers_do_not_fill_it() {
        let mut window = Window::new();
        let all = u32::try_from(STRANGERS_MAX).unwrap();
        assert!((0..all).all(|one| window.enter(of(stranger(one), 1), 0).is_some()));
        assert_eq!(window.enter(of(stranger(all), 1), 1), None);
        for one in 0..(MAX - STRANGERS_MAX) as u64 {
            assert_eq!(window.enter(of(entry(one), 1), 2), Some(2));
        }
        for (asker, item) in [(10_000, 3), (10_000, 4), (10_001, 5)] {
            assert_eq!(window.enter(of(entry(asker), 1), item), None);
        }
        let went: Vec<_> = (0..4).flat_map(|_| window.leave(of(stranger(0), 1))).collect();
        let at = |item| went.iter().position(|one| *one == item).unwrap();
        assert_eq!(went.len(), 4);
        assert!(at(3) < at(5) && at(5) < at(4), "{went:?}");
        assert_eq!(window.enter(of(stranger(all + 1), 1), 6), None);
        assert_eq!(window.give_up(), [6]);
    }
}
