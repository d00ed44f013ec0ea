//! Partitions: which packets are dropped, who can still write, and who must not.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Outcome;
use crate::chance::Chance;
use crate::cluster::fault::Partition;
use crate::cluster::network::Link;
use crate::cluster::{HEALTHY_MAX, LOOK_EVERY, Run};
use crate::crash::server::{now, pause};

/// What a partition does to the nodes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Split {
    dropped: BTreeSet<Link>,
    /// One of these must be able to write.
    majority: Vec<usize>,
    /// None of these can.
    minority: Vec<usize>,
    /// Whether the minority knows that it hears nobody.
    is_deaf: bool,
}

impl Run {
    /// Drops packets between nodes for a while; what must hold then is asserted.
    pub(super) fn partition(&mut self, partition: Partition) -> Result<(), String> {
        let leader = self.wait_healthy(false)?;
        let count = self.cluster.count();
        let split = match partition {
            Partition::Leader => alone(leader, count),
            Partition::Halves => {
                let minority = self.draw((0..count).collect(), (count - 1) / 2);
                apart(&minority, count)
            }
            Partition::OneWay => {
                let which = self.draw((0..count).collect(), 1);
                one_way(which.first().copied().unwrap_or_default(), count, &mut self.chance)
            }
            Partition::Bridge => {
                let order = self.draw((0..count).collect(), count);
                bridge(&order)
            }
            Partition::Flapping => return self.flap(),
            Partition::Loss => {
                let percent = LOSS_MIN + self.chance.below(LOSS_MAX - LOSS_MIN + 1);
                self.cluster.network()?.lose(percent)?;
                let time = Duration::from_millis(LOSS_MS + self.chance.below(LOSS_MS));
                self.watch(time, &[])?;
                return self.cluster.network()?.heal();
            }
        };
        self.cluster.network()?.cut(&split.dropped)?;
        self.check(&split).map_err(|error| format!("{error}; {split:?}"))?;
        let time = Duration::from_millis(HOLD_MS + self.chance.below(HOLD_MS));
        self.watch(time, &[])?;
        self.cluster.network()?.heal()
    }

    fn check(&mut self, split: &Split) -> Result<(), String> {
        self.write_in_majority(&split.majority)?;
        for which in &split.minority {
            self.read_at(*which)?;
            self.refuse_in_minority(*which, split.is_deaf)?;
            self.read_at(*which)?;
        }
        Ok(())
    }

    fn write_in_majority(&mut self, majority: &[usize]) -> Result<(), String> {
        let begin = now();
        for which in majority.iter().cycle() {
            if self.write_at(*which)? == Outcome::Acknowledged {
                break;
            }
            if begin.elapsed() > HEALTHY_MAX {
                let limit = HEALTHY_MAX.as_secs();
                return Err(format!("the majority writes nothing in {limit} s"));
            }
            self.look(&[])?;
            pause(LOOK_EVERY);
        }
        self.totals.took("the majority of a partition writes, after", begin.elapsed());
        Ok(())
    }

    /// A node that was cut off acknowledges nothing; where it hears nobody, it says that writes
    /// are unavailable.
    fn refuse_in_minority(&mut self, which: usize, is_deaf: bool) -> Result<(), String> {
        let begin = now();
        loop {
            let asked = now();
            match self.write_at(which)? {
                Outcome::Acknowledged => {
                    return Err(format!("node {} was cut off and acknowledged", which + 1));
                }
                Outcome::Refused => {
                    let what = "a node that was cut off answers unavailable, after";
                    self.totals.took(what, asked.elapsed());
                    return Ok(());
                }
                Outcome::Unknown | Outcome::NotAsked if !is_deaf => return Ok(()),
                Outcome::Unknown | Outcome::NotAsked => {}
            }
            if begin.elapsed() > HEALTHY_MAX {
                let limit = HEALTHY_MAX.as_secs();
                return Err(format!(
                    "node {} was cut off and does not answer unavailable in {limit} s",
                    which + 1
                ));
            }
            pause(LOOK_EVERY);
        }
    }

    /// Cuts the leader of the moment off, again and again, for moments.
    fn flap(&mut self) -> Result<(), String> {
        let mut leader = self.wait_leader()?;
        for _ in 0..FLAPS {
            let dropped = alone(leader, self.cluster.count()).dropped;
            self.cluster.network()?.cut(&dropped)?;
            let time = Duration::from_millis(FLAP_MS + self.chance.below(FLAP_MORE_MS));
            self.watch(time, &[])?;
            self.cluster.network()?.heal()?;
            let time = Duration::from_millis(FLAP_MS + self.chance.below(FLAP_MORE_MS));
            self.watch(time, &[])?;
            leader = self.wait_leader()?;
        }
        Ok(())
    }
}

/// All between one node and the others.
fn alone(which: usize, count: usize) -> Split {
    apart(&[which], count)
}

/// All between a minority and the others, in both directions.
fn apart(minority: &[usize], count: usize) -> Split {
    let majority: Vec<usize> = (0..count).filter(|which| !minority.contains(which)).collect();
    let mut dropped = BTreeSet::new();
    for one in &majority {
        for other in minority {
            dropped.insert(Link { from: *one, to: *other });
            dropped.insert(Link { from: *other, to: *one });
        }
    }
    Split { dropped, majority, minority: minority.to_vec(), is_deaf: true }
}

/// All from a node to the others, or from the others to it.
fn one_way(which: usize, count: usize, chance: &mut Chance) -> Split {
    let is_deaf = chance.once_in(2);
    let mut split = apart(&[which], count);
    split.dropped.retain(|link| is_deaf == (link.to == which));
    split.is_deaf = is_deaf;
    split
}

/// All between two sides; the first node reaches both.
fn bridge(order: &[usize]) -> Split {
    let (_, others) = order.split_at(1.min(order.len()));
    let (one, other) = others.split_at(others.len() / 2);
    let mut dropped = BTreeSet::new();
    for from in one {
        for to in other {
            dropped.insert(Link { from: *from, to: *to });
            dropped.insert(Link { from: *to, to: *from });
        }
    }
    Split { dropped, majority: order.to_vec(), minority: Vec::new(), is_deaf: false }
}

/// Packets lost of a hundred, at least and at most.
const LOSS_MIN: u64 = 2;
const LOSS_MAX: u64 = 30;
/// The shortest time for which packets are lost; the longest is twice as long.
const LOSS_MS: u64 = 3000;
/// How much longer a partition lasts than what is asserted takes: an election at least. It may be
/// twice as long.
const HOLD_MS: u64 = 2000;
/// How often a leader is cut off in a round.
const FLAPS: usize = 5;
/// The shortest time for which it is cut off, and for which it is not.
const FLAP_MS: u64 = 200;
/// How much longer either may be.
const FLAP_MORE_MS: u64 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    fn links(split: &Split) -> Vec<[usize; 2]> {
        split.dropped.iter().map(|link| [link.from, link.to]).collect()
    }

    #[test]
    fn a_partition_drops_what_its_name_says() {
        let split = alone(1, 3);
        assert_eq!(links(&split), [[0, 1], [1, 0], [1, 2], [2, 1]]);
        assert_eq!((split.majority, split.minority), (vec![0, 2], vec![1]));
        assert_eq!(apart(&[0, 4], 5).dropped.len(), 12);
        assert_eq!(links(&bridge(&[2, 0, 1])), [[0, 1], [1, 0]]);
        assert_eq!(bridge(&[0, 1, 2, 3, 4]).dropped.len(), 8);
        let mut chance = Chance::new(1, 1);
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            let split = one_way(0, 3, &mut chance);
            seen.insert((links(&split), split.is_deaf));
        }
        let want = [(vec![[0, 1], [0, 2]], false), (vec![[1, 0], [2, 0]], true)];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), want);
    }
}
