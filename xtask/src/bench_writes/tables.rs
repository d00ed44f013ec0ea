//! The figures as Markdown, for `docs/performance.md`.

use std::fmt;
use std::fmt::Write as _;

use crate::load::Figures;
use crate::servers::Recovered;

/// What came of one load.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) per_s: f64,
    /// Requests made in all, the warm-up included.
    pub(super) made: u64,
    cores: f64,
    /// 50 %, 99 %, 99.9 % and the slowest, in µs.
    latencies_us: [f64; 4],
    /// Memory of the server that no file backs, at most.
    peak_bytes: u64,
    /// Writes that went on at the same time, and their latencies.
    with: Option<(f64, [f64; 4])>,
}

const PERCENTILES: [&str; 4] = ["p50", "p99", "p99_9", "max"];

impl Row {
    pub(super) fn new(figures: &Figures, peak_bytes: u64) -> Result<Self, String> {
        let stream = |number: usize| {
            let per_s = figures.number(&format!("/streams/{number}/operations_per_s"))?;
            Ok::<_, String>((per_s, figures.latencies_us(number, PERCENTILES)?))
        };
        let (per_s, latencies_us) = stream(0)?;
        Ok(Self {
            per_s,
            made: figures.number("/streams/0/made")? as u64,
            cores: figures.number("/cost/server/cores")?,
            latencies_us,
            peak_bytes,
            with: figures.has_stream(1).then(|| stream(1)).transpose()?,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (latencies, peak) = (milliseconds(&self.latencies_us), mib(self.peak_bytes));
        write!(f, "{:.0}/s, {latencies} ms, {peak} MiB", self.per_s)
    }
}

/// p50 · p99 · p99.9 in ms.
fn milliseconds(latencies_us: &[f64; 4]) -> String {
    let [p50, p99, p999, _] = latencies_us.map(|latency| latency / 1000.0);
    format!("{p50:.2} · {p99:.2} · {p999:.2}")
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// All tables of a run.
#[derive(Debug)]
pub(super) struct Tables {
    head: String,
    notes: Vec<String>,
    searches: String,
    more: String,
}

impl Tables {
    pub(super) fn new(entries: u64, connections: u64, seconds: u64) -> Self {
        Self {
            head: format!("{entries} people, {connections} connections, {seconds} s each run"),
            notes: Vec::new(),
            searches: String::new(),
            more: String::new(),
        }
    }

    pub(super) fn note(&mut self, text: String) {
        println!("xtask: {text}");
        self.notes.push(text);
    }

    /// Searches, and what went on beside them.
    pub(super) fn searches(&mut self, what: &str, row: &Row) {
        let beside = match &row.with {
            Some((per_s, latencies)) => format!("{per_s:.0} | {}", milliseconds(latencies)),
            None => "– | –".to_owned(),
        };
        let (per_s, latencies) = (row.per_s, milliseconds(&row.latencies_us));
        let (cores, peak) = (row.cores, mib(row.peak_bytes));
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.searches,
            "| {what} | {per_s:.0} | {latencies} | {beside} | {cores:.2} | {peak} |"
        );
    }

    pub(super) fn recovery(&mut self, added: &Row, recovered: &Recovered) {
        let _ = writeln!(
            self.more,
            "Killed after {} adds at {:.0}/s, with {} MiB of journal files: served again after \
             {:.2} s, nobody missing.",
            added.made,
            added.per_s,
            mib(recovered.journal_bytes),
            recovered.start.as_secs_f64()
        );
    }

    pub(super) fn soak(&mut self, modify: &Row, add: &Row, peaks: &[(u64, u64)]) {
        let _ = writeln!(
            self.more,
            "Modifies at full speed beside adds at a steady rate:\n\n\
             | | operations/s | p50 · p99 · p99.9 ms | slowest ms |\n|---|---:|---:|---:|"
        );
        for (name, figures) in [("modify", modify), ("add", add)] {
            let [_, _, _, slowest] = figures.latencies_us;
            let latencies = milliseconds(&figures.latencies_us);
            let slowest = slowest / 1000.0;
            let per_s = figures.per_s;
            let _ = writeln!(self.more, "| {name} | {per_s:.0} | {latencies} | {slowest:.1} |");
        }
        let _ = writeln!(
            self.more,
            "\n| minute | memory not backed by files, at most, MiB | files on disk, MiB |\n\
             |---:|---:|---:|"
        );
        for (minute, (anonymous, disk)) in (1..).zip(peaks) {
            let _ = writeln!(self.more, "| {minute} | {} | {} |", mib(*anonymous), mib(*disk));
        }
    }
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.\n{}.\n", self.head, self.notes.join("; "))?;
        if !self.searches.is_empty() {
            writeln!(
                f,
                "| searches | a second | p50 · p99 · p99.9 ms | writes a second \
                 | their p50 · p99 · p99.9 ms | server's cores | memory, MiB |\n\
                 |---|---:|---:|---:|---:|---:|---:|\n{}",
                self.searches
            )?;
        }
        write!(f, "{}", self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_a_row() {
        let figures = Figures::parse(
            r#"{"streams": [{"operations_per_s": 20000.0, "made": 7,
            "latency": {"p50": 1000.0, "p99": 2000.0, "p99_9": 3000.0, "max": 4000.0}}],
            "cost": {"server": {"cores": 0.5}}}"#,
        );
        let own = Row::new(&figures.unwrap(), 5 << 20).unwrap();
        let mut tables = Tables::new(1, 2, 3);
        tables.searches("alone", &own);
        let text = tables.to_string();
        let row = "| alone | 20000 | 1.00 · 2.00 · 3.00 | – | – | 0.50 | 5 |";
        assert!(text.contains(row), "{text}");
        assert!(Row::new(&Figures::parse("{}").unwrap(), 0).is_err());
    }
}
