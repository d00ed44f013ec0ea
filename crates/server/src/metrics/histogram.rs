//! Times in buckets: eight to a doubling, from 1 µs to a minute.
//!
//! Invariant: a bucket holds the whole microseconds from its lower end up to, and without, its
//! upper end; every time is in one.

use super::meter::Own;

/// Times as the thread records them that spends them.
#[derive(Debug)]
pub(super) struct Times {
    buckets: [Own; BUCKETS],
    sum_us: Own,
}

impl Default for Times {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Own::default()), sum_us: Own::default() }
    }
}

impl Times {
    #[inline]
    pub(super) fn record(&self, time_us: u64) {
        if let Some(bucket) = self.buckets.get(index(time_us)) {
            bucket.add(1);
        }
        self.sum_us.add(time_us);
    }
}

/// Times that were added up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum_us: 0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, times: &Times) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&times.buckets) {
            *sum += bucket.value();
        }
        self.sum_us += times.sum_us.value();
    }

    /// How many times there are.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All of them together, in µs.
    pub(crate) fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Below which time, in µs, this share of them is; none of none.
    pub(crate) fn percentile_us(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let wanted = (count as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        let mut indexed = self.buckets.iter().enumerate();
        indexed.find_map(|(index, bucket)| {
            below += bucket;
            (*bucket > 0 && below >= wanted).then(|| upper_us(index))
        })
    }

    /// Upper ends in µs, two to a doubling, each with how many times are below it.
    pub(crate) fn below(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut below = 0;
        let each = self.buckets.iter().enumerate().map(move |(index, bucket)| {
            below += bucket;
            (upper_us(index), below)
        });
        each.take(BUCKETS - 1).filter(|(end, _)| is_coarse(*end))
    }

    /// The buckets that hold something, each with its upper end in µs.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let each = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        each.map(|(index, count)| (upper_us(index), *count))
    }
}

#[inline]
fn index(time_us: u64) -> usize {
    if time_us < PARTS {
        return time_us as usize;
    }
    let octave = u64::from(time_us.ilog2());
    let part = (time_us >> (octave - PARTS_LOG)) & (PARTS - 1);
    ((octave - PARTS_LOG + 1) * PARTS + part).min(BUCKETS as u64 - 1) as usize
}

/// Where the bucket ends; the last one holds all that is longer, too.
fn upper_us(index: usize) -> u64 {
    let index = index as u64;
    if index < PARTS {
        return index + 1;
    }
    let (octave, part) = (index / PARTS - 1, index % PARTS);
    (PARTS + part + 1) << octave
}

/// Whether it is a power of two, or half way to the next.
const fn is_coarse(end_us: u64) -> bool {
    end_us.is_power_of_two() || (end_us.is_multiple_of(3) && (end_us / 3).is_power_of_two())
}

/// Buckets of one doubling.
const PARTS: u64 = 1 << PARTS_LOG;
const PARTS_LOG: u64 = 3;

/// The last bucket ends at 2^26 µs, 67 s.
const BUCKETS: usize = ((26 - PARTS_LOG + 1) * PARTS) as usize + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_ends_behind_it() {
        let mut last = 0;
        for index_of in 0..BUCKETS - 1 {
            let end = upper_us(index_of);
            assert_eq!(index(end - 1), index_of, "{end}");
            assert_eq!(index(last), index_of, "{last}");
            last = end;
        }
        assert_eq!(last, 1 << 26);
        assert_eq!(index(last), BUCKETS - 1);
        assert_eq!(index(u64::MAX), BUCKETS - 1);
        // No bucket of a time above 8 µs is wider than an eighth of it.
        let is_narrow = |index: usize| {
            (upper_us(index) - upper_us(index - 1)) * PARTS <= upper_us(index - 1).max(PARTS)
        };
        assert!((1..BUCKETS - 1).all(is_narrow));
    }

    #[test]
    fn percentiles_and_coarse_buckets() {
        let times = Times::default();
        for time in 1..=100 {
            times.record(time);
        }
        let mut all = Histogram::default();
        assert_eq!(all.percentile_us(0.5), None);
        all.add(&times);
        assert_eq!((all.count(), all.sum_us()), (100, 5_050));
        assert_eq!(all.percentile_us(0.5), Some(52));
        assert_eq!(all.percentile_us(0.99), Some(104));
        let below = all.below().take(14).collect::<Vec<_>>();
        let want = [
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 3),
            (6, 5),
            (8, 7),
            (12, 11),
            (16, 15),
            (24, 23),
            (32, 31),
            (48, 47),
            (64, 63),
            (96, 95),
            (128, 100),
        ];
        assert_eq!(below, want);
        assert_eq!(all.below().last(), Some((1 << 26, 100)));
        assert_eq!(all.filled().map(|(_, count)| count).sum::<u64>(), 100);
        times.record(u64::MAX / 2);
        let mut all = Histogram::default();
        all.add(&times);
        assert_eq!(all.below().last(), Some((1 << 26, 100)), "what took longer is in none");
        assert_eq!(all.count(), 101);
    }
}
