//! What the measured time took of the load generator, and what its machine did to it.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::record::Latency;
use super::stalls::{Look, StallReport, Stalls};
use super::tally::{Delta, Tally};
use crate::failure::Failure;

/// Open from the beginning of the measured time to its end.
#[derive(Debug)]
pub(crate) struct Account {
    began_ns: u64,
    stalls: Stalls,
}

/// What an account came to; of one process, or of all agents.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Toll {
    /// CPU time of all threads, but for the one that looks for stalls.
    pub(crate) cpu_ns: u64,
    /// How much later than asked a thread was woken, each with its number.
    pub(crate) stalls_ns: Vec<(u64, u64)>,
}

impl Account {
    /// For the measured time of this plan, which begins.
    pub(crate) fn open(plan: &Plan) -> Result<Self, Failure> {
        let look = if plan.rate().is_some() { Look::Often } else { Look::Seldom };
        let stalls = Stalls::begin(look)?;
        Ok(Self { began_ns: cpu_ns(ClockId::ProcessCPUTime), stalls })
    }

    pub(crate) fn close(self) -> Toll {
        let StallReport { stalls_ns, cpu_ns: looking_ns } = self.stalls.end();
        let spent_ns = cpu_ns(ClockId::ProcessCPUTime).saturating_sub(self.began_ns);
        Toll { cpu_ns: spent_ns.saturating_sub(looking_ns), stalls_ns }
    }
}

impl Toll {
    /// Adds that of another process.
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.stalls_ns.extend(other.stalls_ns);
    }

    /// The stalls of all machines together.
    pub(crate) fn stalls(&self) -> Option<Latency> {
        let mut tally = Tally::new().ok().filter(|_| !self.stalls_ns.is_empty())?;
        tally.add(Delta { latencies_ns: self.stalls_ns.clone(), ..Delta::default() });
        Some(Latency::of(&tally.latencies_ns))
    }
}

/// All CPU time of this process, with threads that have ended, or of this thread; exact to the ns,
/// where `/proc/self/stat` counts in 10 ms.
pub(super) fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (s, ns) = (time.tv_sec, time.tv_nsec);
    u64::try_from(s).unwrap_or(0).saturating_mul(1_000_000_000) + u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_tick_is_seen() {
        let plan = Plan {
            name: String::new(),
            streams: Vec::new(),
            threads: 1,
            warmup_ms: 0,
            duration_ms: 0,
            seed: 0,
        };
        let account = Account::open(&plan).unwrap();
        let mut sum = 0_u64;
        for number in 0..200_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let toll = account.close();
        assert!((1_000..10_000_000_000).contains(&toll.cpu_ns), "{}", toll.cpu_ns);
        assert!(!toll.cpu_ns.is_multiple_of(10_000_000), "{}", toll.cpu_ns);
    }
}
