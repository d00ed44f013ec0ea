//! The seconds of a run, as they go by: what a watcher is shown, and what a record keeps.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::plan::{CYCLE, Plan};
use super::record::Second;
use super::tally::{Delta, Tally};
use crate::failure::Failure;

/// All seconds so far.
#[derive(Debug)]
pub(crate) struct Seconds {
    /// Which kinds of operation count: cycles where there are any, since these hold the others.
    counted: Vec<bool>,
    /// The number of the last second of the measured time.
    last: u64,
    /// Seconds that are over.
    closed: Vec<Second>,
    /// Seconds for which reports still come; the first follows the last one closed.
    open: VecDeque<Open>,
    /// All of them together.
    pub(crate) total_ns: Histogram<u64>,
    pub(crate) errors: u64,
}

#[derive(Debug, Default)]
struct Open {
    latencies_ns: Option<Histogram<u64>>,
    errors: u64,
    spent: (Option<u64>, Option<u64>),
}

impl Seconds {
    pub(crate) fn new(plan: &Plan) -> Result<Self, Failure> {
        let kinds = plan.kinds();
        let has_cycles = kinds.contains(&CYCLE);
        Ok(Self {
            counted: kinds.iter().map(|kind| !has_cycles || *kind == CYCLE).collect(),
            last: plan.duration().as_millis().div_ceil(1000).saturating_sub(1) as u64,
            closed: Vec::new(),
            open: VecDeque::new(),
            total_ns: Tally::new()?.latencies_ns,
            errors: 0,
        })
    }

    /// Adds what was counted in a second; later than the last is in the last.
    pub(crate) fn add(&mut self, second: u64, kind: usize, delta: &Delta) {
        let second = second.min(self.last);
        let errors = delta.counts.wrong + delta.counts.errors;
        let is_counted = self.counted.get(kind) == Some(&true);
        let operations = if is_counted { delta.operations() } else { 0 };
        self.errors += errors;
        if is_counted {
            record(&mut self.total_ns, delta);
        }
        if let Some(closed) = usize::try_from(second).ok().and_then(|n| self.closed.get_mut(n)) {
            // A thread that was held up: it counts, though it is in no percentile any more.
            closed.operations += operations;
            closed.errors += errors;
            return;
        }
        let Some(open) = self.open_at(second) else { return };
        open.errors += errors;
        if operations == 0 {
            return;
        }
        if open.latencies_ns.is_none() {
            open.latencies_ns = Tally::new().ok().map(|tally| tally.latencies_ns);
        }
        if let Some(latencies) = &mut open.latencies_ns {
            record(latencies, delta);
        }
    }

    /// Notes what the server spent in a second, and its memory at the end of it.
    pub(crate) fn spent(&mut self, second: u64, cpu_us: Option<u64>, bytes: Option<u64>) {
        if let Some(open) = self.open_at(second.min(self.last)) {
            open.spent = (cpu_us, bytes);
        }
    }

    /// The second is over: its figures.
    pub(crate) fn close(&mut self, second: u64) -> Second {
        let second = second.min(self.last);
        while (self.closed.len() as u64) <= second {
            let open = self.open.pop_front().unwrap_or_default();
            self.closed.push(figures(self.closed.len() as u64 + 1, &open));
        }
        self.closed.last().copied().unwrap_or_default()
    }

    /// All seconds of a run that was measured so long.
    pub(crate) fn finish(mut self, measured: Duration) -> Vec<Second> {
        while let Some(open) = self.open.pop_front() {
            self.closed.push(figures(self.closed.len() as u64 + 1, &open));
        }
        if let Some(last) = self.closed.last_mut() {
            last.at_s = last.at_s.min(measured.as_secs_f64().max(last.at_s - 0.999));
        }
        self.closed
    }

    fn open_at(&mut self, second: u64) -> Option<&mut Open> {
        let place = usize::try_from(second).ok()?.checked_sub(self.closed.len())?;
        // Reports are of seconds that have been: no more than a few are open.
        if place >= OPEN_MAX {
            return self.open.back_mut();
        }
        while self.open.len() <= place {
            self.open.push_back(Open::default());
        }
        self.open.get_mut(place)
    }
}

fn record(latencies_ns: &mut Histogram<u64>, delta: &Delta) {
    for (latency, count) in &delta.latencies_ns {
        latencies_ns.saturating_record_n(*latency.max(&1), *count);
    }
}

fn figures(at_s: u64, open: &Open) -> Second {
    let us = |ns: u64| ns as f64 / 1000.0;
    let latencies = open.latencies_ns.as_ref().filter(|latencies| !latencies.is_empty());
    let at = |quantile| latencies.map(|latencies| us(latencies.value_at_quantile(quantile)));
    Second {
        at_s: at_s as f64,
        operations: latencies.map_or(0, Histogram::len),
        errors: open.errors,
        p50_us: at(0.5),
        p99_us: at(0.99),
        p99_9_us: at(0.999),
        max_us: latencies.map(|latencies| us(latencies.max())),
        server_cpu_us: open.spent.0,
        server_anonymous_bytes: open.spent.1,
    }
}

/// Seconds that reports may be ahead of the watcher.
const OPEN_MAX: usize = 64;
