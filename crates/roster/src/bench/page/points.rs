//! The seconds of a run, thinned out to as many points as a picture or a table can show.

use super::super::record::{BenchRecord, Second};

/// Some seconds of a run together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    /// When they ended.
    pub(super) at_s: f64,
    pub(super) operations_per_s: f64,
    /// The highest of the medians, and so on.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) p99_9_us: Option<f64>,
    pub(super) max_us: Option<f64>,
    /// Cores of the server that were busy.
    pub(super) cores: Option<f64>,
    pub(super) anonymous_bytes: Option<f64>,
}

/// At most so many points, each for as many seconds as the others.
pub(super) fn points(record: &BenchRecord, points_max: usize) -> Vec<Point> {
    let every = every(record, points_max);
    let mut before_s = 0.0;
    let chunks = record.seconds.chunks(every).map(|chunk| point(chunk, &mut before_s));
    let mut points: Vec<Point> = chunks.collect();
    // A rest of a second has few operations, whose rate says little.
    if let [.., last, rest] = points.as_slice()
        && (rest.at_s - last.at_s) * 2.0 < last.at_s / (points.len() - 1) as f64
    {
        points.pop();
    }
    points
}

/// How many seconds a point stands for.
pub(super) fn every(record: &BenchRecord, points_max: usize) -> usize {
    record.seconds.len().div_ceil(points_max.max(1)).max(1)
}

fn point(seconds: &[Second], before_s: &mut f64) -> Point {
    let Some(last) = seconds.last() else { return Point::default() };
    let length_s = (last.at_s - *before_s).max(1e-3);
    *before_s = last.at_s;
    let highest = |of: fn(&Second) -> Option<f64>| seconds.iter().filter_map(of).reduce(f64::max);
    let operations: f64 = seconds.iter().map(|second| second.operations as f64).sum();
    let cpu_us =
        seconds.iter().try_fold(0.0, |sum, second| second.server_cpu_us.map(|us| sum + us as f64));
    Point {
        at_s: last.at_s,
        operations_per_s: operations / length_s,
        p50_us: highest(|second| second.p50_us),
        p99_us: highest(|second| second.p99_us),
        p99_9_us: highest(|second| second.p99_9_us),
        max_us: highest(|second| second.max_us),
        cores: cpu_us.map(|us| us / 1e6 / length_s),
        anonymous_bytes: highest(|second| second.server_anonymous_bytes.map(|bytes| bytes as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_put_together_evenly() {
        let second = |at: u32| Second {
            at_s: f64::from(at),
            operations: 100,
            p99_us: Some(f64::from(at % 10)),
            server_cpu_us: Some(500_000),
            ..Second::default()
        };
        let record =
            BenchRecord { seconds: (1..=100).map(second).collect(), ..BenchRecord::default() };
        let points = points(&record, 10);
        assert_eq!(points.len(), 10);
        for point in points {
            assert_eq!((point.operations_per_s, point.cores), (100.0, Some(0.5)));
            assert_eq!((point.p99_us, point.p50_us), (Some(9.0), None));
        }
    }

    #[test]
    fn a_rest_of_a_second_is_no_point() {
        let second = |at_s| Second { at_s, operations: 10, ..Second::default() };
        let seconds = [1.0, 2.0, 2.1].map(second).to_vec();
        let record = BenchRecord { seconds, ..BenchRecord::default() };
        assert_eq!(points(&record, 100).len(), 2);
    }
}
