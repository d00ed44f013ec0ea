//! The machine's own stalls: how much later than asked a thread is woken that only sleeps.
//!
//! A request whose client or server could not run for 5 ms is 5 ms late, whatever the server does.
//! On a shared machine that is what the last percentiles of a latency tell of. A thread that asks
//! for a millisecond of sleep again and again meets the same stalls (as jHiccup does it), so that
//! the two can be seen beside each other.
//!
//! Invariant: a stall counts once for every millisecond that it lasts, less long each time: what is
//! told is the share of moments, not of stalls.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::run::{now, pause};
use super::tally::Tally;
use crate::failure::Failure;

/// The thread that sleeps.
#[derive(Debug)]
pub(crate) struct Stalls {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Histogram<u64>>,
}

impl Stalls {
    /// Begins to look.
    pub(crate) fn begin() -> Result<Self, Failure> {
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
            follow(stalls_ns, sleep, || !ended.load(Ordering::Relaxed))
        });
        Ok(Self { is_over, thread })
    }

    /// What was seen, in ns, each with its number.
    pub(crate) fn end(self) -> Vec<(u64, u64)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map(|stalls_ns| rows(&stalls_ns)).unwrap_or_default()
    }
}

fn rows(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let recorded = histogram.iter_recorded();
    recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

/// Sleeps while it `goes_on`; `sleep` says how long that took.
fn follow(
    mut stalls_ns: Histogram<u64>,
    mut sleep: impl FnMut(Duration) -> Duration,
    mut goes_on: impl FnMut() -> bool,
) -> Histogram<u64> {
    while goes_on() {
        let mut late = sleep(INTERVAL).saturating_sub(INTERVAL).min(STALL_MAX);
        loop {
            stalls_ns.saturating_record((late.as_nanos() as u64).max(1));
            let Some(rest) = late.checked_sub(INTERVAL).filter(|rest| !rest.is_zero()) else {
                break;
            };
            late = rest;
        }
    }
    stalls_ns
}

/// How long it asks to sleep.
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
        let stalls_ns = follow(Tally::new().unwrap().latencies_ns, sleep, || left.get() > 0);
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
        let stalls = Stalls::begin().unwrap();
        pause(Duration::from_millis(30));
        let woken: u64 = stalls.end().iter().map(|row| row.1).sum();
        assert!(woken > 0);
    }
}
