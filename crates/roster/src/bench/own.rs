//! What the measured time took of the load generator, and what its machine did to it.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::record::Latency;
use super::stalls::Stalls;
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
    /// CPU time of all threads.
    pub(crate) cpu_ns: u64,
    /// How much later than asked a thread was woken, each with its number.
    pub(crate) stalls_ns: Vec<(u64, u64)>,
}

impl Account {
    pub(crate) fn open() -> Result<Self, Failure> {
        let stalls = Stalls::begin()?;
        Ok(Self { began_ns: cpu_ns(), stalls })
    }

    pub(crate) fn close(self) -> Toll {
        let cpu_ns = cpu_ns().saturating_sub(self.began_ns);
        Toll { cpu_ns, stalls_ns: self.stalls.end() }
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

/// All CPU time of this process, those of its threads that have ended included; exact to the ns
/// where `/proc/self/stat` counts in 10 ms.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (s, ns) = (time.tv_sec, time.tv_nsec);
    u64::try_from(s).unwrap_or(0).saturating_mul(1_000_000_000) + u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_tick_is_seen() {
        let account = Account::open().unwrap();
        let mut sum = 0_u64;
        for number in 0..200_000_u64 {
            sum = std::hint::black_box(sum ^ number);
        }
        let toll = account.close();
        assert!((1_000..10_000_000_000).contains(&toll.cpu_ns), "{}", toll.cpu_ns);
        assert!(!toll.cpu_ns.is_multiple_of(10_000_000), "{}", toll.cpu_ns);
    }
}
