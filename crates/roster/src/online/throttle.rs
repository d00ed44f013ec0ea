//! How many updates may be outstanding while others search: additive increase, multiplicative
//! decrease, by what a search takes meanwhile.
//!
//! A pure function of the latencies it is told. Probes are judged in rounds; of a round the second
//! slowest counts, so that one that met with bad luck does not. Until the first round is too slow
//! the number of updates doubles.
//!
//! Invariant: at least one update is outstanding; what even that is too much for waits between
//! updates.

use std::time::Duration;

/// The regulator.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    latency_max: Duration,
    requests_max: f64,
    /// Updates outstanding; below 1, the part of the time in which one is.
    level: f64,
    is_starting: bool,
    round: Vec<Duration>,
    /// How often it was lowered.
    lowered: u64,
}

impl Throttle {
    /// Keeps searches below `latency_max`, with at most `requests_max` updates outstanding.
    pub(crate) fn new(latency_max: Duration, requests_max: usize) -> Self {
        Self {
            latency_max,
            requests_max: requests_max as f64,
            level: LEVEL_START.min(requests_max as f64),
            is_starting: true,
            round: Vec::with_capacity(ROUND_PROBES),
            lowered: 0,
        }
    }

    /// A search took so long.
    pub(crate) fn probed(&mut self, latency: Duration) {
        self.round.push(latency);
        if latency > self.latency_max * FAR_TOO_SLOW {
            return self.lower();
        }
        if self.round.len() < ROUND_PROBES {
            return;
        }
        self.round.sort_unstable();
        let judged = self.round.iter().rev().nth(1).copied().unwrap_or_default();
        if judged > self.latency_max {
            return self.lower();
        }
        self.round.clear();
        let raised = match self.level {
            level if self.is_starting || level < 1.0 => level * 2.0,
            level => level + STEP,
        };
        self.level = raised.min(self.requests_max);
    }

    /// The server says that it is busy.
    pub(crate) fn lower(&mut self) {
        self.round.clear();
        self.is_starting = false;
        self.level = (self.level / 2.0).max(LEVEL_MIN);
        self.lowered += 1;
    }

    /// How many updates may be outstanding.
    pub(crate) fn requests(&self) -> usize {
        (self.level as usize).max(1)
    }

    /// How long to wait before the next update, when the last one took `took`.
    pub(crate) fn pause(&self, took: Duration) -> Duration {
        if self.level >= 1.0 {
            return Duration::ZERO;
        }
        took.mul_f64(1.0 / self.level - 1.0).min(PAUSE_MAX)
    }

    /// How often it was lowered.
    pub(crate) const fn lowered(&self) -> u64 {
        self.lowered
    }
}

/// What searches may take beside an import when the user does not say: a multiple of what they
/// take before it.
pub(crate) fn latency_max_default(idle: &mut [Duration]) -> Duration {
    idle.sort_unstable();
    let usual = idle.get(idle.len() * 9 / 10).copied().unwrap_or_default();
    (usual * IDLE_MULTIPLE).max(LATENCY_MAX_MIN)
}

/// Searches may take so many times what nine of ten take before the import …
pub(crate) const IDLE_MULTIPLE: u32 = 4;
/// … and this in any case.
pub(crate) const LATENCY_MAX_MIN: Duration = Duration::from_millis(5);
/// Probes that are judged together.
const ROUND_PROBES: usize = 8;
/// A probe that took so many times what it may is not waited with until the end of its round.
const FAR_TOO_SLOW: u32 = 3;
/// Updates outstanding at first.
const LEVEL_START: f64 = 4.0;
/// So many more are tried after each good round.
const STEP: f64 = 1.0;
/// At least one update is outstanding for this part of the time.
const LEVEL_MIN: f64 = 1.0 / 64.0;
/// The longest wait between two updates.
const PAUSE_MAX: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rounds(throttle: &mut Throttle, count: usize, latency: Duration) {
        (0..count * ROUND_PROBES).for_each(|_| throttle.probed(latency));
    }

    #[test]
    fn it_doubles_until_a_round_is_too_slow_and_then_creeps() {
        let mut throttle = Throttle::new(10 * MS, 64);
        assert_eq!(throttle.requests(), 4);
        rounds(&mut throttle, 3, MS);
        assert_eq!(throttle.requests(), 32);
        rounds(&mut throttle, 1, 11 * MS);
        assert_eq!((throttle.requests(), throttle.lowered()), (16, 1));
        rounds(&mut throttle, 3, MS);
        assert_eq!(throttle.requests(), 19);
        rounds(&mut throttle, 100, MS);
        assert_eq!(throttle.requests(), 64, "there is an upper end");
    }

    #[test]
    fn one_slow_probe_of_a_round_is_chance_and_two_are_not() {
        let mut throttle = Throttle::new(10 * MS, 64);
        let mut round = |slow: usize| {
            (0..ROUND_PROBES).for_each(|n| throttle.probed(if n < slow { 20 * MS } else { MS }));
            throttle.requests()
        };
        assert_eq!(round(1), 8);
        assert_eq!(round(2), 4);
    }

    #[test]
    fn a_probe_that_is_far_too_slow_is_acted_on_at_once() {
        let mut throttle = Throttle::new(10 * MS, 64);
        throttle.probed(81 * MS);
        assert_eq!(throttle.requests(), 2);
        // The probes before it do not count again.
        (0..ROUND_PROBES - 1).for_each(|_| throttle.probed(MS));
        assert_eq!(throttle.requests(), 2);
        throttle.probed(MS);
        assert_eq!(throttle.requests(), 3);
    }

    #[test]
    fn below_one_update_there_are_pauses() {
        let mut throttle = Throttle::new(10 * MS, 64);
        assert_eq!(throttle.pause(MS), Duration::ZERO);
        rounds(&mut throttle, 4, 11 * MS);
        assert_eq!((throttle.requests(), throttle.pause(MS)), (1, 3 * MS));
        rounds(&mut throttle, 20, 11 * MS);
        assert_eq!((throttle.requests(), throttle.pause(MS)), (1, 63 * MS));
        assert_eq!(throttle.pause(1000 * MS), PAUSE_MAX);
        // From there it comes back quickly.
        rounds(&mut throttle, 6, MS);
        assert_eq!((throttle.requests(), throttle.pause(MS)), (1, Duration::ZERO));
        rounds(&mut throttle, 2, MS);
        assert_eq!(throttle.requests(), 3);
    }

    #[test]
    fn the_default_follows_what_searches_take_without_an_import() {
        let mut idle: Vec<Duration> = (1..=10).map(|n| n * MS).collect();
        idle.reverse();
        assert_eq!(latency_max_default(&mut idle), 40 * MS);
        assert_eq!(latency_max_default(&mut [MS / 10; 32]), LATENCY_MAX_MIN);
        assert_eq!(latency_max_default(&mut []), LATENCY_MAX_MIN);
    }
}
