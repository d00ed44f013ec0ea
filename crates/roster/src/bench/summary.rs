//! The record of a run for people.

use std::collections::BTreeMap;
use std::fmt;

use ldap::result::ResultCode;

use super::record::{BenchRecord, Compared, Latency, NULL, ServerShare, Step};
use super::same::REQUESTS_REMEMBERED_MAX;

/// Shows a record.
#[derive(Debug)]
pub(crate) struct Summary<'r>(pub(crate) &'r BenchRecord);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.0;
        let load = &record.load;
        let rate = load.rate.map_or_else(String::new, |rate| format!(", {rate:.0} a second"));
        let tls = if load.tls == "none" { String::new() } else { format!(", {}", load.tls) };
        let agents = match load.agents {
            0 | 1 => String::new(),
            agents => format!(", {agents} agents"),
        };
        writeln!(
            f,
            "{}: {} connections, {} outstanding each{rate}{tls}{agents}, {:.1} s",
            record.name, load.connections, load.outstanding, load.measured_s
        )?;
        if load.cut_short {
            let asked_s = load.duration_s;
            writeln!(f, "  CUT SHORT   the requested duration was {asked_s:.0} s")?;
        }
        if let Some(replay) = &record.replay {
            writeln!(f, "  log         {replay}")?;
        }
        let per_s = record.operations() as f64 / load.measured_s.max(1e-6);
        let all = record.operations();
        writeln!(f, "  throughput  {per_s:.0} operations/s ({all} in all)")?;
        let is_one = record.streams.len() == 1;
        for stream in &record.streams {
            let name = if is_one { "latency" } else { &stream.name };
            let per_s = match is_one {
                true => String::new(),
                false => format!("{:.0}/s, ", stream.operations_per_s),
            };
            writeln!(f, "  {name:<10}  {per_s}{}", percentiles(&stream.latency))?;
        }
        if let Some(stalls) = &record.machine.stalls {
            writeln!(f, "  stalls      {} (of this machine)", percentiles(stalls))?;
        }
        let (late, skipped) = record
            .streams
            .iter()
            .fold((0, 0), |(late, skipped), stream| (late + stream.late, skipped + stream.skipped));
        if late + skipped > 0 {
            writeln!(f, "  lateness    {late} responses later than the limit, {skipped} not sent")?;
        }
        if let Some(spent) = &record.cost.server {
            writeln!(f, "{spent}")?;
        }
        for (number, step) in record.steps.iter().enumerate() {
            let name = if number == 0 { "steps" } else { "" };
            writeln!(f, "  {name:<10}  {}", step_line(step))?;
        }
        let width = record.servers.iter().map(|share| share.server.uri.len()).max().unwrap_or(0);
        for (number, share) in record.servers.iter().enumerate() {
            let name = if number == 0 { "servers" } else { "" };
            writeln!(f, "  {name:<10}  {:<width$}  {}", share.server.uri, line(share))?;
        }
        let client = record.cost.client_cpu_us_per_operation;
        writeln!(f, "  client CPU  {client:.1} µs an operation")?;
        let entries: u64 = record.streams.iter().map(|stream| stream.entries).sum();
        if entries > 0 {
            writeln!(f, "  entries     {entries}")?;
        }
        for compared in record.streams.iter().filter_map(|stream| stream.compared.as_ref()) {
            writeln!(f, "  same count  {}", same_count(compared))?;
        }
        answers(record, f)
    }
}

/// A step and what came of it.
fn step_line(step: &Step) -> String {
    let Step { name, seconds, operations, operations_per_s, .. } = step;
    let mut line = format!("{name:<8}  {seconds:.1} s, ");
    line.push_str(&match &**name {
        NULL => "nothing asked".to_owned(),
        _ => format!(
            "{operations} operations ({operations_per_s:.0}/s), {}",
            percentiles(&step.latency)
        ),
    });
    if let Some(spent) = &step.spent {
        line.push_str(&format!(", {:.3} cores busy", spent.cores));
    }
    line
}

/// What one of several servers did.
fn line(share: &ServerShare) -> String {
    let ServerShare { operations, operations_per_s, errors, wrong, connections, .. } = share;
    let mut line = format!(
        "{connections} connections, {operations} operations ({operations_per_s:.0}/s), errors \
         {errors}, {}",
        percentiles(&share.latency)
    );
    if let Some(spent) = &share.spent {
        let (cpu_us, cores) = (spent.cpu_us_per_operation, spent.cores);
        line.push_str(&format!(", CPU {cpu_us:.1} µs an operation, {cores:.2} cores"));
    }
    if *wrong > 0 {
        line.push_str(&format!("; WRONG: {wrong}"));
    }
    if let Some(reason) = &share.lost {
        let lost = share.lost_connections;
        line.push_str(&format!("; LOST: {lost} connections: {reason}"));
    }
    line
}

/// How far it was seen that a request finds as many entries every time.
fn same_count(compared: &Compared) -> String {
    let Compared { requests, answers, forgotten } = compared;
    let all = match forgotten {
        0 => String::new(),
        _ => format!(
            "; {forgotten} NOT COMPARED: at most {REQUESTS_REMEMBERED_MAX} requests are remembered"
        ),
    };
    format!("{answers} responses compared with the first to each of {requests} requests{all}")
}

fn percentiles(latency: &Latency) -> String {
    format!(
        "p50 {:.0} µs, p99 {:.0}, p99.9 {:.0}, p99.99 {:.0}, p99.999 {:.0}, max {:.0}",
        latency.p50, latency.p99, latency.p99_9, latency.p99_99, latency.p99_999, latency.max
    )
}

fn answers(record: &BenchRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut codes: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut wrong, mut errors) = (0, 0);
    // Cycles repeat the answers of their operations.
    for stream in record.streams.iter().filter(|stream| stream.name != super::plan::CYCLE) {
        for (code, count) in &stream.result_codes {
            *codes.entry(*code).or_default() += count;
        }
        wrong += stream.wrong;
        errors += stream.errors;
    }
    write!(f, "  answers    ")?;
    for (code, count) in codes {
        let name = ResultCode::from_code(code).map_or("unknown", ResultCode::name);
        write!(f, " {name} ({code}) {count}")?;
    }
    if wrong > 0 {
        write!(f, "; WRONG: {wrong}, warm-up included")?;
    }
    if errors > 0 {
        write!(f, "; NOT ANSWERED: {errors}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_told_when_it_was_reached() {
        let mut compared = Compared { requests: 9, answers: 191, forgotten: 0 };
        let all = same_count(&compared);
        assert_eq!(all, "191 responses compared with the first to each of 9 requests");
        compared.forgotten = 5;
        let more = "; 5 NOT COMPARED: at most 1048576 requests are remembered";
        assert_eq!(same_count(&compared), all + more);
    }
}
