//! The result of a run, for people and as JSON.

use std::fmt;

use ldap::result::ResultCode;
use serde_json::{Value, json};

use super::run::{Outcome, Plan};

/// The figures of one run.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) operation: &'static str,
    pub(crate) connections: usize,
    pub(crate) outstanding: usize,
    /// Requests a second that were asked for.
    pub(crate) rate: Option<u32>,
    operations: u64,
    /// Requests made in all, those outside the measured time too.
    made: u64,
    seconds: f64,
    entries: u64,
    wrong: u64,
    /// 50 %, 99 %, 99.9 % and the slowest, in µs.
    latencies_us: [f64; 4],
    /// Name, number and count of each result code.
    codes: Vec<(&'static str, u32, u64)>,
    server_cpu_us: Option<f64>,
    /// Cores the server kept busy.
    server_cores: Option<f64>,
    client_cpu_us: f64,
    server_memory_bytes: Option<(u64, u64)>,
}

impl Summary {
    pub(crate) fn new(operation: &'static str, plan: &Plan, outcome: &Outcome) -> Self {
        let seconds = outcome.measured.as_secs_f64();
        let tally = &outcome.tally;
        let operations = tally.latencies_ns.len();
        let at = |quantile| tally.latencies_ns.value_at_quantile(quantile) as f64 / 1000.0;
        let per_operation = |total_us: u64| total_us as f64 / operations.max(1) as f64;
        let code = |(code, count): (&u32, &u64)| {
            let name = ResultCode::from_code(*code).map_or("unknown", ResultCode::name);
            (name, *code, *count)
        };
        Self {
            operation,
            connections: plan.connections,
            outstanding: plan.outstanding,
            rate: plan.rate,
            operations,
            made: outcome.made,
            seconds,
            entries: tally.entries,
            wrong: tally.wrong,
            latencies_us: [at(0.5), at(0.99), at(0.999), at(1.0)],
            codes: tally.codes.iter().map(code).collect(),
            server_cpu_us: outcome.server_cpu_us.map(per_operation),
            server_cores: outcome.server_cpu_us.map(|total| total as f64 / 1e6 / seconds.max(1e-6)),
            client_cpu_us: per_operation(outcome.client_cpu_us),
            server_memory_bytes: outcome
                .server_memory
                .map(|memory| (memory.resident_bytes, memory.anonymous_bytes)),
        }
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.operations as f64 / self.seconds } else { 0.0 }
    }

    /// All figures; units are in the names.
    pub(crate) fn to_json(&self) -> Value {
        let [p50, p99, p999, max] = self.latencies_us;
        let codes: serde_json::Map<String, Value> =
            self.codes.iter().map(|(_, code, count)| (code.to_string(), json!(count))).collect();
        json!({
            "operation": self.operation,
            "connections": self.connections,
            "outstanding": self.outstanding,
            "rate": self.rate,
            "requests_made": self.made,
            "operations": self.operations,
            "seconds": self.seconds,
            "operations_per_s": self.rate(),
            "entries": self.entries,
            "wrong_answers": self.wrong,
            "latency_us": { "p50": p50, "p99": p99, "p99_9": p999, "max": max },
            "result_codes": codes,
            "server_cpu_us_per_operation": self.server_cpu_us,
            "server_cores": self.server_cores,
            "client_cpu_us_per_operation": self.client_cpu_us,
            "server_resident_bytes": self.server_memory_bytes.map(|(resident, _)| resident),
            "server_anonymous_bytes": self.server_memory_bytes.map(|(_, anonymous)| anonymous),
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, p999, max] = self.latencies_us;
        let rate = self.rate.map_or_else(String::new, |rate| format!(", {rate} a second"));
        writeln!(
            f,
            "{}: {} connections, {} outstanding each{rate}, {:.1} s",
            self.operation, self.connections, self.outstanding, self.seconds
        )?;
        writeln!(f, "  throughput  {:.0} operations/s ({} in all)", self.rate(), self.operations)?;
        writeln!(f, "  latency     p50 {p50:.0} µs, p99 {p99:.0}, p99.9 {p999:.0}, max {max:.0}")?;
        if let Some((cpu, cores)) = self.server_cpu_us.zip(self.server_cores) {
            writeln!(f, "  server CPU  {cpu:.1} µs an operation, {cores:.2} cores busy")?;
        }
        writeln!(f, "  client CPU  {:.1} µs an operation", self.client_cpu_us)?;
        if let Some((resident, anonymous)) = self.server_memory_bytes {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let (resident, own) = (mib(resident), mib(anonymous));
            writeln!(f, "  server RAM  {resident:.1} MiB resident, {own:.1} of it not files")?;
        }
        if self.entries > 0 {
            writeln!(f, "  entries     {}", self.entries)?;
        }
        write!(f, "  answers    ")?;
        for (name, code, count) in &self.codes {
            write!(f, " {name} ({code}) {count}")?;
        }
        if self.wrong > 0 {
            write!(f, "; WRONG: {}, warm-up included", self.wrong)?;
        }
        Ok(())
    }
}
