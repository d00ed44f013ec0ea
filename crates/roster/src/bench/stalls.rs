//! The machine's own stalls: how much later than asked a thread is woken that only sleeps.
//!
//! A request whose client or server could not run for 5 ms is 5 ms late, whatever the server does.
//! On a shared machine that is what the last percentiles of a latency tell of. A thread that asks
//! for a millisecond of sleep again and again meets the same stalls (as jHiccup does it), so that
//! the two can be seen beside each other.
//!
//! Invariant: a stall counts once for every interval that it lasts, less long each time: what is
//! told is the share of moments, not of stalls.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::ClockId;

use super::own::cpu_ns;
use super::run::{now, pause};
use super::tally::Tally;
use crate::failure::Failure;

/// The thread that sleeps.
#[derive(Debug)]
pub(crate) struct Stalls {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<StallReport>,
}

/// What it has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct StallReport {
    /// How much later than asked it was woken, in ns, each with its number.
    pub(crate) stalls_ns: Vec<(u64, u64)>,
    /// CPU time that it took itself.
    pub(crate) cpu_ns: u64,
}

/// How often it looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// Every millisecond, for 2 % of a core: at a rate, where latencies are what is asked for.
    Often,
    /// Every ten milliseconds, which no figure shows.
    Seldom,
}

impl Stalls {
    /// Begins to look.
    pub(crate) fn begin(look: Look) -> Result<Self, Failure> {
        let interval = match look {
            Look::Often => INTERVAL,
            Look::Seldom => 10 * INTERVAL,
        };
        let stalls_ns = Tally::new()?.latencies_ns;
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            // The usual 50 µs would be all that is seen of a machine that is quiet.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            let sleep = |time| {
                let before = now();
                pause(time);
                now().saturating_duration_since(before)
            };
            let goes_on = || !ended.load(Ordering::Relaxed);
            let stalls_ns = follow(stalls_ns, interval, sleep, goes_on);
            StallReport { stalls_ns: rows(&stalls_ns), cpu_ns: cpu_ns(ClockId::ThreadCPUTime) }
        });
        Ok(Self { is_over, thread })
    }

    /// What was seen.
    pub(crate) fn end(self) -> StallReport {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn rows(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// Sleeps while it `goes_on`; `sleep` says how long that took.
fn follow(
    mut stalls_ns: Histogram<u64>,
    interval: Duration,
    mut sleep: impl FnMut(Duration) -> Duration,
    mut goes_on: impl FnMut() -> bool,
) -> Histogram<u64> {
    while goes_on() {
        let mut late = sleep(interval).saturating_sub(interval).min(STALL_MAX);
        loop {
            stalls_ns.saturating_record((late.as_nanos() as u64).max(1));
            let Some(rest) = late.checked_sub(interval).filter(|rest| !rest.is_zero()) else {
                break;
            };
            late = rest;
        }
    }
    stalls_ns
}

/// How long it asks to sleep, or a tenth of it.
const INTERVAL: Duration = Duration::from_millis(1);
/// Longer than this is a machine that was suspended.
const STALL_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen by a thread that is woken so many µs late.
    fn seen(late_us: &[u64]) -> Vec<(u64, u64)> {
        let mut late = late_us.iter().copied();
        let left = std::cell::Cell::new(late_us.len());
        let sleep = |time: Duration| {
            left.set(left.get() - 1);
            time + Duration::from_micros(late.next().unwrap())
        };
        let stalls_ns =
            follow(Tally::new().unwrap().latencies_ns, INTERVAL, sleep, || left.get() > 0);
        // A histogram is exact to three digits.
        let us = |(ns, count)| ((ns as f64 / 1e4).round() as u64 * 10, count);
        rows(&stalls_ns).into_iter().map(us).collect()
    }

    #[test]
    fn what_is_late_is_told() {
        assert_eq!(seen(&[]), []);
        assert_eq!(seen(&[60, 60, 80]), [(60, 2), (80, 1)]);
        assert_eq!(seen(&[0]), [(0, 1)]);
    }

    #[test]
    fn a_long_stall_counts_for_all_who_met_it() {
        // Who came 1 ms after it began waited 1 ms less.
        assert_eq!(seen(&[3_500]), [(500, 1), (1_500, 1), (2_500, 1), (3_500, 1)]);
        let suspended: u64 = seen(&[3_600_000_000]).iter().map(|row| row.1).sum();
        assert_eq!(suspended, 60_000);
    }

    #[test]
    fn this_machine_wakes_a_thread_in_the_end() {
        for look in [Look::Often, Look::Seldom] {
            // A busy machine takes longer.
            let is_seen = [30, 300, 3_000].into_iter().any(|wait_ms| {
                let stalls = Stalls::begin(look).unwrap();
                pause(Duration::from_millis(wait_ms));
                let seen = stalls.end();
                !seen.stalls_ns.is_empty() && seen.cpu_ns > 0
            });
            assert!(is_seen, "{look:?}");
        }
    }
}
