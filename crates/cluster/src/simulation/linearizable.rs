//! Whether what clients saw of one register can have happened in one order, in which each call
//! takes effect at one moment between its beginning and its end.
//!
//! No two writes write the same value, so what a read saw says which write it came after, and it
//! need not be searched for an order (Gibbons and Korach, *Testing Shared Memories*, 1997). A write
//! and the reads that saw it are a cluster; between the first end and the last beginning of its
//! calls, its zone, the register has its value in any order if the end comes first. Two such zones
//! must not overlap, and no cluster must lie within the zone of another.

use std::collections::BTreeMap;
use std::fmt;

/// A moment; no two calls begin or end at the same.
pub(super) type Moment = u64;

/// One call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Call {
    /// What it wrote or saw; 0 is what the register begins with.
    pub(super) value: u64,
    pub(super) is_write: bool,
    pub(super) began: Moment,
    /// None for a write of which nobody knows whether it happened.
    pub(super) ended: Option<Moment>,
}

/// A write and the reads that saw it.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    write: Call,
    first_end: Moment,
    last_begin: Moment,
}

impl Cluster {
    fn of(write: Call) -> Self {
        let first_end = write.ended.unwrap_or(Moment::MAX);
        Self { write, first_end, last_begin: write.began }
    }

    fn is_forward(&self) -> bool {
        self.first_end < self.last_begin
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { write, first_end, last_begin } = self;
        write!(f, "{} (written from {}", write.value, write.began)?;
        write!(f, ", its first call ended at {first_end}, its last began at {last_begin})")
    }
}

/// Says what is wrong with the calls of one register.
pub(super) fn check(calls: &[Call]) -> Result<(), String> {
    let first = Call { value: 0, is_write: true, began: 0, ended: Some(0) };
    let mut clusters = BTreeMap::from([(0, Cluster::of(first))]);
    for write in calls.iter().filter(|call| call.is_write) {
        let before = clusters.insert(write.value, Cluster::of(*write));
        assert!(before.is_none(), "no two writes write the same");
    }
    for read in calls.iter().filter(|call| !call.is_write) {
        let Some(ended) = read.ended else { continue };
        let Some(cluster) = clusters.get_mut(&read.value) else {
            return Err(format!("a read saw {}, which nobody wrote", read.value));
        };
        if ended < cluster.write.began {
            return Err(format!("a read saw {} before it was written", read.value));
        }
        cluster.first_end = cluster.first_end.min(ended);
        cluster.last_begin = cluster.last_begin.max(read.began);
    }
    // A write that nobody saw and nobody was told of need not have happened.
    clusters.retain(|_, cluster| cluster.first_end < Moment::MAX);
    let (mut forward, backward): (Vec<_>, Vec<_>) =
        clusters.into_values().partition(Cluster::is_forward);
    forward.sort_by_key(|cluster| cluster.first_end);
    for (one, next) in forward.iter().zip(forward.iter().skip(1)) {
        if next.first_end < one.last_begin {
            return Err(format!("the register had {one} and {next} at the same time"));
        }
    }
    for within in backward {
        let around = forward.partition_point(|zone| zone.first_end < within.last_begin);
        if let Some(zone) = around.checked_sub(1).map(|at| forward[at])
            && within.first_end < zone.last_begin
        {
            return Err(format!("the register had {within} while it had {zone}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::world::Dice;
    use super::*;

    /// Tries all orders.
    fn has_order(calls: &[Call], value: u64) -> bool {
        if calls.iter().all(|call| call.ended.is_none()) {
            return true;
        }
        (0..calls.len()).any(|at| {
            let call = calls[at];
            let ended = calls.iter().filter_map(|other| other.ended).min().unwrap();
            let fits = call.is_write || call.value == value;
            let mut rest = calls.to_vec();
            rest.remove(at);
            call.began < ended && fits && has_order(&rest, call.value)
        })
    }

    /// A history by chance, some of which have an order.
    fn history(dice: &Dice) -> Vec<Call> {
        let count = 2 + dice.below(6);
        let mut moments: Vec<Moment> = (1..=2 * count).collect();
        let mut take = || moments.remove(dice.below(moments.len() as u64) as usize);
        let writes = 1 + dice.below(3);
        (1..=count)
            .map(|number| {
                let (one, other) = (take(), take());
                let is_write = number <= writes;
                let value = if is_write { number } else { dice.below(writes + 1) };
                let is_known = !is_write || dice.percent(70);
                let ended = is_known.then_some(one.max(other));
                Call { value, is_write, began: one.min(other), ended }
            })
            .collect()
    }

    #[test]
    fn it_says_the_same_as_a_search_through_all_orders() {
        let dice = Dice::new(1);
        let mut with_order = 0;
        for round in 0..20_000 {
            let calls = history(&dice);
            let expected = has_order(&calls, 0);
            with_order += u32::from(expected);
            assert_eq!(check(&calls).is_ok(), expected, "round {round}: {calls:?}");
        }
        assert!((2_000..18_000).contains(&with_order), "{with_order} of 20000 have an order");
    }
}
