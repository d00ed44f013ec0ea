//! What is done in a round, and what must hold meanwhile.
//!
//! Invariant: when a round ends well, all that was done is undone: every node runs, reaches every
//! other, and has room, speed, the right time, whole files and syncs that work.

mod flips;
mod media;
mod members;
mod splits;
mod upgrades;

use std::time::Duration;

pub(super) use self::upgrades::Programs;
use super::fault::{Fault, Rest};
use super::load::{BUSY, NO_ROOM, OTHER, SUCCESS, UNAVAILABLE};
use super::{HEALTHY_MAX, LOOK_EVERY, Run};
use crate::client::{ClientError, Search};
use crate::crash::server::{SUFFIX, now, pause};

impl Run {
    /// Does it, and undoes it.
    pub(super) fn strike(&mut self, fault: Fault, victims: &[usize]) -> Result<(), String> {
        let first = victims.first().copied().unwrap_or_default();
        match fault {
            Fault::Kill(_, rest) => self.kill(victims, rest),
            Fault::Pause(_) => self.freeze(victims),
            Fault::Partition(partition) => self.partition(partition),
            Fault::FullDisk(_) => self.fill_disk(first),
            Fault::SlowDisk(_) => self.slow_disks(victims),
            Fault::Clock(_) => self.set_clock(first),
            Fault::Flip(flip) => self.flip(flip),
            Fault::Power(_, rest) => self.cut_power(victims, rest),
            Fault::FailedSync(part, _) => self.fail_syncs(part, first),
            Fault::Members(change) => self.change_members(change),
            Fault::Upgrade(upgrade) => self.upgrade(upgrade),
        }
    }

    fn kill(&mut self, victims: &[usize], rest: Rest) -> Result<(), String> {
        for which in victims {
            self.cluster.kill(*which)?;
        }
        self.rest(rest);
        for which in victims {
            self.cluster.start_again(*which)?;
        }
        Ok(())
    }

    /// Waits as long as nodes stay down.
    fn rest(&mut self, rest: Rest) {
        pause(Duration::from_millis(match rest {
            Rest::Short => self.chance.below(SHORT_MAX_MS + 1),
            Rest::Long => LONG_MS + self.chance.below(LONG_MORE_MS),
        }));
    }

    fn freeze(&mut self, victims: &[usize]) -> Result<(), String> {
        // Many short times, few long ones.
        let most = (self.pause_max.as_millis() as f64 / PAUSE_MIN_MS).max(1.0);
        let time = PAUSE_MIN_MS * most.powf(self.chance.below(1000) as f64 / 1000.0);
        for which in victims {
            self.cluster.freeze(*which)?;
        }
        self.watch(Duration::from_millis(time as u64), victims)?;
        for which in victims {
            self.cluster.thaw(*which)?;
        }
        // The first answers of the nodes that were frozen: none shows less than it has shown.
        self.look(&[])?;
        victims.iter().try_for_each(|which| self.read_at(*which))
    }

    /// Fills the disk of a node under load with much in it, until the log needs more room.
    fn fill_disk(&mut self, which: usize) -> Result<(), String> {
        use std::sync::atomic::Ordering::Relaxed;
        self.cluster.disks()?.fill(which)?;
        self.shared.padding.store(PADDING_BYTES, Relaxed);
        let (begin, before) = (now(), self.acknowledged());
        while begin.elapsed() < FULL_MAX && self.acknowledged() < before + PADDED_WRITES {
            self.look(&[which])?;
            pause(LOOK_EVERY);
        }
        let is_stopped = self.acknowledged() < before + PADDED_WRITES;
        let what = if is_stopped { "writes stop or are few" } else { "writes go on" };
        self.read_at(which)?;
        self.shared.padding.store(0, Relaxed);
        self.cluster.disks()?.free(which)?;
        let begin = now();
        let needs_start = self.cannot_go_on(which)?;
        if needs_start {
            self.cluster.kill(which)?;
            self.cluster.start_again(which)?;
        }
        let after = if needs_start { "after a restart" } else { "by itself" };
        self.totals.count(format!("with a full disk, {what}; the node goes on {after}"));
        self.wait_healthy(false)?;
        self.wait_writes()?;
        self.totals.took("all is well after a full disk has room again, after", begin.elapsed());
        Ok(())
    }

    /// Whether a node has ended or says that it cannot go on.
    pub(super) fn cannot_go_on(&mut self, which: usize) -> Result<bool, String> {
        if self.cluster.ended(which)?.is_some() {
            return Ok(true);
        }
        Ok(self.cluster.view(which)?.is_some_and(|view| view.error.is_some()))
    }

    /// Lets nodes' syncs take as long as those of a disk that is failing.
    fn slow_disks(&mut self, victims: &[usize]) -> Result<(), String> {
        let bytes = SLOW_BYTES << self.chance.below(SLOW_STEPS);
        let time = Duration::from_millis(SLOW_MS + self.chance.below(SLOW_MORE_MS));
        for which in victims {
            self.cluster.disks()?.throttle(*which, bytes)?;
        }
        let leader = self.wait_leader()?;
        let watched = self.watch(time, &[]);
        for which in victims {
            self.cluster.disks()?.throttle(*which, 0)?;
        }
        watched?;
        let is_led = self.wait_leader()? == leader;
        let how = if is_led { "the leader stays" } else { "another leads" };
        let what = match victims {
            [which] if *which == leader => "the leader's disk is slow",
            [_] => "a follower's disk is slow",
            _ => "all disks are slow",
        };
        self.totals.count(format!("{what}: {how}"));
        Ok(())
    }

    /// Sets a node's clock an hour ahead or back, has leaders change by chance, and sets it right.
    fn set_clock(&mut self, which: usize) -> Result<(), String> {
        let is_ahead = self.chance.once_in(2);
        self.cluster.clocks()?.set(which, CLOCK_STEP, is_ahead)?;
        self.wait_writes()?;
        if self.chance.once_in(2) {
            let leader = self.wait_healthy(false)?;
            self.kill(&[leader], Rest::Short)?;
            self.wait_healthy(false)?;
            self.wait_writes()?;
        }
        self.cluster.clocks()?.set(which, Duration::ZERO, true)
    }

    /// Waits until one node at least says that it leads; the one with the highest term.
    pub(super) fn wait_leader(&mut self) -> Result<usize, String> {
        let begin = now();
        while begin.elapsed() < HEALTHY_MAX {
            let views = self.look(&[])?;
            let leads = views.iter().enumerate().filter_map(|(which, view)| {
                let view = view.as_ref().filter(|view| view.role == "leader")?;
                Some((view.term, which))
            });
            if let Some((_, which)) = leads.max() {
                return Ok(which);
            }
            pause(LOOK_EVERY);
        }
        Err(format!("nobody leads after {} s", HEALTHY_MAX.as_secs()))
    }

    /// Reads from what a node has: that takes no others.
    fn read_at(&mut self, which: usize) -> Result<(), String> {
        let search = Search {
            base: SUFFIX.to_owned(),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: Vec::new(),
        };
        let failed = |what: String| format!("node {} does not answer reads: {what}", which + 1);
        let found = self.cluster.door(which)?.enter().and_then(|mut it| it.search(&search));
        match found {
            Ok(found) if found.code == 0 && found.entries.len() == 1 => Ok(()),
            Ok(found) => Err(failed(format!("{found:?}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Asks a node for a write, over a connection of its own; whether it was acknowledged, was
    /// certainly not done, or nobody knows.
    fn write_at(&mut self, which: usize) -> Result<Outcome, String> {
        let entered = self.cluster.door(which)?.enter();
        let Ok(mut client) = entered else { return Ok(Outcome::NotAsked) };
        match self.probe.probe(&mut client) {
            Ok(SUCCESS) => Ok(Outcome::Acknowledged),
            Ok(BUSY | UNAVAILABLE | NO_ROOM) => Ok(Outcome::Refused),
            Ok(OTHER) | Err(ClientError::Gone(_) | ClientError::Late) => Ok(Outcome::Unknown),
            Ok(code) => Err(format!("node {} answered a write with {code}", which + 1)),
            Err(error) => Err(format!("node {}: {error}", which + 1)),
        }
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Acknowledged,
    /// It was not done.
    Refused,
    Unknown,
    /// The node let nobody in.
    NotAsked,
}

/// The longest of short rests.
const SHORT_MAX_MS: u64 = 50;
/// The shortest of long rests.
const LONG_MS: u64 = 1000;
/// How much longer a long rest may be.
const LONG_MORE_MS: u64 = 1000;
/// The shortest time for which a node is frozen.
const PAUSE_MIN_MS: f64 = 1000.0;
/// What each modification has more while a disk is full.
const PADDING_BYTES: usize = 64 << 10;
/// So many writes need more than the segments that the journal has ready, about half of them with
/// much in them.
const PADDED_WRITES: u64 = 3000;
/// The longest time for which a disk is full.
const FULL_MAX: Duration = Duration::from_secs(20);
/// What the slowest disk writes in a second: a sync takes half a second at least.
const SLOW_BYTES: u64 = 8 << 10;
/// Each step is twice as fast.
const SLOW_STEPS: u64 = 6;
/// The shortest time for which a disk is slow.
const SLOW_MS: u64 = 4000;
/// How much longer it may be.
const SLOW_MORE_MS: u64 = 6000;
/// How far a clock is off.
const CLOCK_STEP: Duration = Duration::from_secs(3600);
