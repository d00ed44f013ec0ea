//! A rate that changes over time, and what is asked when: that of a recorded day.
//!
//! Invariant: the requests of a span come at random moments of it, as many as the span says on
//! average, and of the kinds of its mix.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How many requests there are in each span of time, and of which jobs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Pace {
    /// How long a span is.
    pub(crate) span_us: u64,
    /// How many requests each span has, of all connections and processes.
    pub(crate) counts: Vec<u32>,
    /// Which part of them is for these connections.
    pub(crate) share: f64,
    /// How many spans have the same mix.
    pub(crate) spans_of_mix: usize,
    /// The weights of all jobs, mix by mix.
    pub(crate) mixes: Vec<Vec<u32>>,
}

impl Pace {
    /// How long all of it is.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_micros(self.span_us.saturating_mul(self.counts.len() as u64))
    }

    /// Requests a second on average.
    pub(crate) fn mean(&self) -> f64 {
        let all: u64 = self.counts.iter().copied().map(u64::from).sum();
        all as f64 / self.duration().as_secs_f64().max(1e-6)
    }

    /// The weights of jobs so long after the beginning; none where nothing was asked.
    pub(crate) fn mix_at(&self, since: Duration) -> Option<&[u32]> {
        let mix = self.mixes.get(self.span_at(since) / self.spans_of_mix.max(1))?;
        mix.iter().any(|weight| *weight > 0).then_some(mix)
    }

    /// When the next request is due after `due`, if `gap` requests on average come until then: the
    /// spans are passed through until that many have come. Before the start it is as in the first.
    pub(crate) fn after(&self, due: Instant, start: Instant, gap: f64) -> Instant {
        let span = Duration::from_micros(self.span_us);
        let (mut at, mut left) = (due, gap);
        let mut place = self.span_at(at.saturating_duration_since(start));
        loop {
            let Some(count) = self.counts.get(place) else {
                // Nothing more comes.
                return at + FAR;
            };
            let end = start + span * u32::try_from(place + 1).unwrap_or(u32::MAX);
            let per_s = f64::from(*count) * self.share / span.as_secs_f64();
            let here = per_s * end.saturating_duration_since(at).as_secs_f64();
            if here >= left && per_s > 0.0 {
                return at + Duration::from_secs_f64(left / per_s);
            }
            left -= here;
            at = at.max(end);
            place += 1;
        }
    }

    fn span_at(&self, since: Duration) -> usize {
        let place = since.as_micros() / u128::from(self.span_us.max(1));
        usize::try_from(place).unwrap_or(usize::MAX)
    }

    /// What it must have, wherever it comes from.
    pub(crate) fn check(&self, jobs: usize, rate_max: f64) -> Result<(), Failure> {
        let span_s = self.span_us as f64 / 1e6;
        let most = f64::from(self.counts.iter().copied().max().unwrap_or(0));
        let is_good = (1..=SPANS_MAX).contains(&self.counts.len())
            && (SPAN_US_MIN..=SPAN_US_MAX).contains(&self.span_us)
            && (0.0..=1.0).contains(&self.share)
            && most / span_s <= rate_max
            && self.spans_of_mix > 0
            && self.mixes.len() == self.counts.len().div_ceil(self.spans_of_mix)
            && self.mixes.iter().all(|mix| mix.len() == jobs);
        if is_good { Ok(()) } else { Err(Failure::local("the times of the load are out of range")) }
    }
}

/// Seconds of ten days.
pub(crate) const SPANS_MAX: usize = 864_000;
/// From a second a thousand times as fast to one a hundred times as slow.
const SPAN_US_MIN: u64 = 1_000;
const SPAN_US_MAX: u64 = 100_000_000;
/// Later than any run lasts.
const FAR: Duration = Duration::from_secs(10 * 86_400);

#[cfg(test)]
mod tests {
    use super::super::run::now;
    use super::*;

    fn pace(counts: &[u32]) -> Pace {
        let mixes = counts.iter().map(|count| vec![*count, 1]).collect();
        Pace { span_us: 500_000, counts: counts.to_vec(), share: 1.0, spans_of_mix: 1, mixes }
    }

    /// As many as there are, where they are.
    #[test]
    fn requests_are_due_when_they_were() {
        let (pace, start) = (pace(&[10, 0, 0, 1_000, 20]), now());
        let mut due = start;
        let mut counts = [0_u32; 5];
        loop {
            // One request on average, always.
            due = pace.after(due, start, 1.0);
            let Some(count) = counts.get_mut(pace.span_at(due - start)) else { break };
            *count += 1;
        }
        for (count, want) in counts.iter().zip(&pace.counts) {
            assert!(count.abs_diff(*want) <= 1, "{counts:?}");
        }
        // Then nothing comes for long.
        assert!(pace.after(due, start, 1.0) > start + Duration::from_secs(86_400));
        let half = Pace { share: 0.5, ..pace };
        let first = half.after(start, start, 1.0) - start;
        assert!((0.099..0.101).contains(&first.as_secs_f64()), "{first:?}");
    }

    #[test]
    fn a_mix_is_that_of_its_time() {
        let pace = pace(&[10, 0, 3]);
        let at = |ms| pace.mix_at(Duration::from_millis(ms)).map(<[u32]>::to_vec);
        assert_eq!((at(0), at(499)), (Some(vec![10, 1]), Some(vec![10, 1])));
        assert_eq!((at(1_000), at(1_500)), (Some(vec![3, 1]), None));
        assert_eq!(pace.duration(), Duration::from_millis(1_500));
        assert!((pace.mean() - 13.0 / 1.5).abs() < 1e-9);
        pace.check(2, 1e6).unwrap();
        assert!(pace.check(1, 1e6).is_err() && pace.check(2, 19.0).is_err());
    }
}
