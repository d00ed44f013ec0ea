//! The figures as Markdown, for `docs/performance.md`.

use std::fmt;
use std::fmt::Write as _;

use serde_json::Value;

use crate::servers::Recovered;

/// What came of one load.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) per_s: f64,
    /// Requests made in all, the warm-up included.
    pub(super) made: u64,
    cpu_us: f64,
    client_cpu_us: f64,
    cores: f64,
    /// 50 %, 99 %, 99.9 % and the slowest, in µs.
    latencies_us: [f64; 4],
    /// Memory of the server that no file backs, at most.
    peak_bytes: u64,
    /// Writes that went on at the same time, and their latencies.
    with: Option<(f64, [f64; 4])>,
}

impl Figures {
    /// Takes the figures out of what `roster bench --json` prints.
    pub(super) fn new(value: &Value, peak_bytes: u64) -> Result<Self, String> {
        let with = match value.pointer("/streams/1") {
            Some(_) => Some((number(value, "/streams/1/operations_per_s")?, latencies(value, 1)?)),
            None => None,
        };
        Ok(Self {
            per_s: number(value, "/streams/0/operations_per_s")?,
            made: number(value, "/streams/0/made")? as u64,
            cpu_us: number(value, "/cost/server/cpu_us_per_operation")?,
            client_cpu_us: number(value, "/cost/client_cpu_us_per_operation")?,
            cores: number(value, "/cost/server/cores")?,
            latencies_us: latencies(value, 0)?,
            peak_bytes,
            with,
        })
    }
}

fn number(value: &Value, pointer: &str) -> Result<f64, String> {
    let number = value.pointer(pointer).and_then(Value::as_f64);
    number.ok_or_else(|| format!("roster bench gives no {pointer}: {value}"))
}

fn latencies(value: &Value, stream: usize) -> Result<[f64; 4], String> {
    let at = |name: &str| number(value, &format!("/streams/{stream}/latency/{name}"));
    Ok([at("p50")?, at("p99")?, at("p99_9")?, at("max")?])
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (per_s, cpu, client) = (self.per_s, self.cpu_us, self.client_cpu_us);
        let (latencies, peak) = (milliseconds(&self.latencies_us), mib(self.peak_bytes));
        write!(f, "{per_s:.0}/s, {cpu:.1} µs (client {client:.1}), {latencies} ms, {peak} MiB")
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
    writes: String,
    searches: String,
    more: String,
}

impl Tables {
    pub(super) fn new(entries: u64, connections: u64, seconds: u64) -> Self {
        Self {
            head: format!("{entries} people, {connections} connections, {seconds} s each run"),
            notes: Vec::new(),
            writes: String::new(),
            searches: String::new(),
            more: String::new(),
        }
    }

    pub(super) fn note(&mut self, text: String) {
        println!("xtask: {text}");
        self.notes.push(text);
    }

    /// One operation; roster's figures come first.
    pub(super) fn writes(&mut self, operation: &str, figures: Vec<Figures>) {
        let cell = |figures: &Figures| {
            let (per_s, cpu) = (figures.per_s, figures.cpu_us);
            format!("{per_s:.0} | {cpu:.1} | {}", milliseconds(&figures.latencies_us))
        };
        let mut figures = figures.iter();
        let Some(own) = figures.next() else { return };
        let (other, ratios) = match figures.next() {
            Some(other) => {
                let (times, cpu) = (own.per_s / other.per_s, other.cpu_us / own.cpu_us);
                (cell(other), format!("{times:.1} · {cpu:.1}"))
            }
            None => ("– | – | –".to_owned(), "–".to_owned()),
        };
        let (own_cell, client, peak) = (cell(own), own.client_cpu_us, mib(own.peak_bytes));
        let line =
            format!("| {operation} | {own_cell} | {client:.1} | {peak} | {other} | {ratios} |");
        self.writes.push_str(&line);
        self.writes.push('\n');
    }

    /// Capacity, then at half of it: alone, beside modifies, beside adds.
    pub(super) fn searches(&mut self, name: &str, figures: [Figures; 4]) {
        let [capacity, alone, modify, add] = figures;
        let mut row = |what: &str, figures: &Figures| {
            let beside = match &figures.with {
                Some((per_s, latencies)) => format!("{per_s:.0} | {}", milliseconds(latencies)),
                None => "– | –".to_owned(),
            };
            let (per_s, latencies) = (figures.per_s, milliseconds(&figures.latencies_us));
            let cores = figures.cores;
            // Writing to a String cannot fail.
            let _ = writeln!(
                self.searches,
                "| {name}, {what} | {per_s:.0} | {latencies} | {beside} | {cores:.2} |"
            );
        };
        row("as fast as it can", &capacity);
        row("half of that", &alone);
        row("half, with modifies", &modify);
        row("half, with adds", &add);
    }

    pub(super) fn recovery(&mut self, added: &Figures, recovered: &Recovered) {
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

    pub(super) fn soak(&mut self, modify: &Figures, add: &Figures, peaks: &[(u64, u64)]) {
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
        if !self.writes.is_empty() {
            writeln!(
                f,
                "| operation | roster, operations/s | server CPU µs | p50 · p99 · p99.9 ms \
                 | client CPU µs | memory, MiB | slapd, operations/s | server CPU µs \
                 | p50 · p99 · p99.9 ms | ratios: speed · CPU |\n\
                 |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n{}",
                self.writes
            )?;
        }
        if !self.searches.is_empty() {
            writeln!(
                f,
                "| searches | a second | p50 · p99 · p99.9 ms | writes a second \
                 | their p50 · p99 · p99.9 ms | server's cores |\n\
                 |---|---:|---:|---:|---:|---:|\n{}",
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
        let json = r#"{"streams": [{"operations_per_s": 20000.0, "made": 7,
            "latency": {"p50": 1000.0, "p99": 2000.0, "p99_9": 3000.0, "max": 4000.0}}],
            "cost": {"server": {"cores": 0.5, "cpu_us_per_operation": 25.0},
            "client_cpu_us_per_operation": 8.0}}"#;
        let value = serde_json::from_str(json).unwrap();
        let own = Figures::new(&value, 5 << 20).unwrap();
        let other = Figures { per_s: 2000.0, cpu_us: 250.0, ..own.clone() };
        let mut tables = Tables::new(1, 2, 3);
        tables.writes("modify", vec![own, other]);
        let text = tables.to_string();
        let row = "| modify | 20000 | 25.0 | 1.00 · 2.00 · 3.00 | 8.0 | 5 \
                   | 2000 | 250.0 | 1.00 · 2.00 · 3.00 | 10.0 · 10.0 |";
        assert!(text.contains(row), "{text}");
        assert!(Figures::new(&Value::Null, 0).is_err());
    }
}
