//! What is counted: for each kind of operation the answers and their latencies, second by second.
//!
//! A thread counts into a tally of its own and hands over once a second what was added; whoever
//! watches adds these up. Counts pass between processes in the same form.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::answer::Fault;
use super::record::Compared;
use crate::failure::Failure;

/// What is counted beside latencies.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Counts {
    /// Requests sent, also outside the measured time.
    pub(crate) made: u64,
    /// Entries found.
    pub(crate) entries: u64,
    /// Wrong answers, also outside the measured time.
    pub(crate) wrong: u64,
    /// Requests that will not be answered any more.
    pub(crate) errors: u64,
    /// Answers slower than the limit.
    pub(crate) late: u64,
    /// Requests that were due and never sent.
    pub(crate) skipped: u64,
    /// Answers by result code.
    pub(crate) codes: BTreeMap<u32, u64>,
    /// The first wrong answer.
    pub(crate) first_wrong: Option<Fault>,
    /// Answers compared with earlier ones, also outside the measured time.
    pub(crate) compared: Compared,
}

/// What was counted since the last time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Delta {
    pub(crate) counts: Counts,
    /// Latencies in ns, each with its number; as exact as the histogram they come from.
    pub(crate) latencies_ns: Vec<(u64, u64)>,
}

/// What is counted apart: the operations of one kind on one server, by their numbers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Place {
    pub(crate) server: usize,
    pub(crate) kind: usize,
}

/// All tallies of a thread.
#[derive(Debug)]
pub(crate) struct Tallies {
    kinds: usize,
    /// Those of the first server, then those of the second, and so on.
    all: Vec<Tally>,
}

/// Counts and latencies of one kind of operation.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) latencies_ns: Histogram<u64>,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.made += other.made;
        self.entries += other.entries;
        self.wrong += other.wrong;
        self.errors += other.errors;
        self.late += other.late;
        self.skipped += other.skipped;
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        self.compared.add(other.compared);
    }

    fn is_empty(&self) -> bool {
        [self.made, self.wrong, self.errors, self.skipped].iter().all(|count| *count == 0)
            && self.codes.is_empty()
            && self.compared.is_empty()
    }
}

impl Tallies {
    pub(crate) fn new(servers: usize, kinds: usize) -> Result<Self, Failure> {
        let all = (0..servers * kinds).map(|_| Tally::new()).collect::<Result<_, _>>()?;
        Ok(Self { kinds, all })
    }

    /// The tally of this place.
    pub(crate) fn at(&mut self, Place { server, kind }: Place) -> Option<&mut Tally> {
        self.all.get_mut(server * self.kinds + kind).filter(|_| kind < self.kinds)
    }

    /// Hands over what was counted since the last time, without the places where nothing was.
    pub(crate) fn take(&mut self) -> Vec<(Place, Delta)> {
        let kinds = self.kinds.max(1);
        let deltas = (0..).zip(self.all.iter_mut().map(Tally::take));
        let deltas = deltas.filter(|(_, delta)| !delta.is_empty());
        let place = |number: usize| Place { server: number / kinds, kind: number % kinds };
        deltas.map(|(number, delta)| (place(number), delta)).collect()
    }
}

impl Tally {
    pub(crate) fn new() -> Result<Self, Failure> {
        let latencies_ns = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
            .map_err(|error| Failure::local(format!("cannot count latencies: {error}")))?;
        Ok(Self { counts: Counts::default(), latencies_ns })
    }

    /// Counts a right or wrong answer of the measured time.
    pub(crate) fn record(&mut self, code: u32, latency_ns: u64) {
        self.latencies_ns.saturating_record(latency_ns.max(1));
        match self.counts.codes.get_mut(&code) {
            Some(count) => *count += 1,
            None => {
                self.counts.codes.insert(code, 1);
            }
        }
    }

    /// Hands over what was counted since the last time.
    pub(crate) fn take(&mut self) -> Delta {
        let counts = std::mem::take(&mut self.counts);
        let recorded = self.latencies_ns.iter_recorded();
        let latencies_ns =
            recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        self.latencies_ns.reset();
        Delta { counts, latencies_ns }
    }

    pub(crate) fn add(&mut self, delta: Delta) {
        self.counts.add(delta.counts);
        for (latency, count) in delta.latencies_ns {
            self.latencies_ns.saturating_record_n(latency.max(1), count);
        }
    }
}

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.latencies_ns.is_empty()
    }

    pub(crate) fn operations(&self) -> u64 {
        self.latencies_ns.iter().map(|(_, count)| count).sum()
    }
}

/// Latencies above this count as this.
pub(crate) const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_second_by_second_adds_up() {
        let (mut thread, mut sum) = (Tally::new().unwrap(), Tally::new().unwrap());
        let mut whole = Tally::new().unwrap();
        for second in 0..3_u64 {
            for number in 1..1000 {
                let latency = number * 977 * (second + 1);
                thread.record(0, latency);
                whole.record(0, latency);
            }
            thread.counts.wrong += second;
            let delta = thread.take();
            assert_eq!(delta.operations(), 999);
            let text = serde_json::to_string(&delta).unwrap();
            sum.add(serde_json::from_str(&text).unwrap());
        }
        assert!(thread.take().is_empty());
        assert_eq!((sum.latencies_ns.len(), sum.counts.wrong), (2997, 3));
        assert_eq!(sum.counts.codes, BTreeMap::from([(0, 2997)]));
        for quantile in [0.5, 0.99, 0.999, 1.0] {
            let (one, other) = (&sum.latencies_ns, &whole.latencies_ns);
            assert_eq!(one.value_at_quantile(quantile), other.value_at_quantile(quantile));
        }
    }
}
