//! The line that is shown for each second of a run: what was answered in that second and on
//! average, and the latencies since the beginning.

use hdrhistogram::Histogram;

use super::record::Second;
use crate::output;

/// What was shown so far.
#[derive(Debug)]
pub(crate) struct Live {
    is_told: bool,
    lines: u64,
}

impl Live {
    /// Shows lines if somebody is to be told.
    pub(crate) const fn new(is_told: bool) -> Self {
        Self { is_told, lines: 0 }
    }

    /// Shows the second that is over.
    pub(crate) fn tell(&mut self, second: &Second, total_ns: &Histogram<u64>, errors: u64) {
        if !self.is_told {
            return;
        }
        if self.lines.is_multiple_of(HEAD_EVERY) {
            output::note(format_args!("{HEAD}"));
        }
        self.lines += 1;
        output::note(format_args!("{}", line(second, total_ns, errors)));
    }
}

fn line(second: &Second, total_ns: &Histogram<u64>, errors: u64) -> String {
    let at = |quantile| milliseconds(total_ns.value_at_quantile(quantile) as f64 / 1e6);
    let average = total_ns.len() as f64 / second.at_s.max(0.001);
    let recent = second.p50_us.map_or_else(|| "-".to_owned(), |us| milliseconds(us / 1e3));
    format!(
        "{:>6.0} {:>10} {average:>10.0} {recent:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {errors:>8}",
        second.at_s,
        second.operations,
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(0.99999)
    )
}

/// Three digits that count.
fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.3}"),
        ms if ms < 1000.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

const HEAD: &str = "  time       operations/s                 latency, ms
     s     recent    average   recent      p50      p99    p99.9   p99.99  p99.999   errors";
/// Lines between two heads.
const HEAD_EVERY: u64 = 25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_its_head_and_a_terminal() {
        let mut total_ns = Histogram::new_with_bounds(1, 1_000_000_000_000, 3).unwrap();
        total_ns.record_n(123_000, 999_999).unwrap();
        total_ns.record(5_000_000_000).unwrap();
        let second =
            Second { at_s: 10.0, operations: 100_000, p50_us: Some(120.0), ..Second::default() };
        let line = line(&second, &total_ns, 3);
        let start = "    10     100000     100000    0.120    0.123    0.123";
        let want = format!("{start}    0.123    0.123    0.123        3");
        assert_eq!(line, want);
        assert!(HEAD.lines().all(|head| head.len() <= line.len()));
        assert!(line.len() < 100);
    }
}
