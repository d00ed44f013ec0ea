//! An open loop: when each request is due, whatever the answers do.
//!
//! Requests are due at random (Poisson), as those of many clients that know nothing of each other
//! are: the schedules of threads and processes add up to one of the same kind.
//!
//! Invariant: a request that could not be sent in time is late by its own latency, or counted as
//! skipped; it is never left out in silence.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::keys::unit;
use super::pace::Pace;
use crate::chance::Chance;

/// The schedule of one stream in one thread.
#[derive(Debug)]
pub(crate) struct Schedule {
    chance: Chance,
    tempo: Tempo,
    /// When the next request is due.
    pub(crate) due: Instant,
    /// Connections that could take it, once for each request they may have outstanding.
    pub(crate) idle: VecDeque<usize>,
}

/// How many requests there are a second.
#[derive(Debug)]
enum Tempo {
    /// Always as many.
    Even(f64),
    /// As many as there were at that time, which began here.
    Paced(Arc<Pace>, Instant),
}

impl Schedule {
    pub(crate) fn new(per_s: f64, chance: Chance, start: Instant) -> Self {
        Self::of(Tempo::Even(per_s), chance, start)
    }

    /// That of a recorded day, which begins with the measured time.
    pub(crate) fn paced(pace: Arc<Pace>, chance: Chance, start: Instant, day: Instant) -> Self {
        Self::of(Tempo::Paced(pace, day), chance, start)
    }

    fn of(tempo: Tempo, chance: Chance, start: Instant) -> Self {
        let mut schedule = Self { chance, tempo, due: start, idle: VecDeque::new() };
        schedule.pass();
        schedule
    }

    /// Goes on to the next request.
    pub(crate) fn pass(&mut self) {
        let gap = -(1.0 - unit(&mut self.chance)).ln();
        match &self.tempo {
            Tempo::Even(per_s) => {
                self.due += Duration::from_secs_f64((gap / per_s).min(GAP_MAX_S));
            }
            Tempo::Paced(pace, day) => self.due = pace.after(self.due, *day, gap),
        }
    }
}

/// The longest time between two requests, in seconds.
const GAP_MAX_S: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::run::now;

    #[test]
    fn requests_are_as_many_as_the_rate_says_and_spread_by_chance() {
        let start = now();
        let mut schedule = Schedule::new(10_000.0, Chance::new(1, 1), start);
        let mut gaps = Vec::new();
        let mut before = start;
        while schedule.due < start + Duration::from_secs(10) {
            gaps.push((schedule.due - before).as_secs_f64() * 10_000.0);
            before = schedule.due;
            schedule.pass();
        }
        let count = gaps.len() as f64;
        assert!((99_000.0..101_000.0).contains(&count), "{count}");
        // The gaps of a Poisson process deviate by as much as they are long.
        let variance = gaps.iter().map(|gap| (gap - 1.0).powi(2)).sum::<f64>() / count;
        assert!((0.95..1.05).contains(&variance), "{variance}");
    }
}
