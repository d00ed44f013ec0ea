//! Runs like those that others published: exact searches and the mix of the Unified Directory paper
//! spread over all nodes, and a consumer that is searched while a supplier feeds it.
//!
//! All nodes share one machine, so what they take here says nothing of several machines. What says
//! something is the CPU of each node for an operation: from it a model tells what nodes of
//! [`MODEL_CORES`] cores each could take, until the one with most to do has no core left, or one of
//! its threads that cannot share its work has none.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

use super::{ADDED_STEP, CONNECTIONS, Run};
use crate::figures::{figure, median, quantile, thousands};
use crate::ground::note;
use crate::load::{Figures, Load};
use crate::servers::Server;
use crate::servers::members;
use crate::threads::Snapshot;

/// Numbers of nodes.
const NODES: [u64; 4] = [1, 3, 5, 7];
/// Cores of a node of the model: those of the published runs.
const MODEL_CORES: f64 = 16.0;
/// The mix, in per cent of the requests: bind, search, compare, add, modify.
const MIX: &str = "bind=20,search=59,compare=10,add=1,modify=10";
/// Nodes of the cluster with a consumer.
const CONSUMER_NODES: u64 = 3;
/// The share of what a consumer alone can answer that it is asked.
const HALF: f64 = 0.5;
/// Updates a second that the supplier takes meanwhile.
const UPDATES_PER_S: u64 = 200;
/// How much longer the updates take than the searches, in seconds.
const AROUND_SECONDS: u64 = 3;

/// What one load over so many nodes has shown.
struct Row {
    nodes: u64,
    per_s: f64,
    p99_us: f64,
    /// CPU for an operation of all nodes together, of the leader, and of another one, in µs.
    all_us: f64,
    leader_us: f64,
    other_us: f64,
    /// Of the thread of any node that does most alone.
    alone_us: f64,
}

/// The tables.
pub(super) fn measure(run: &mut Run<'_>) -> Result<String, String> {
    let mut exact = Vec::new();
    let mut mixed = Vec::new();
    for nodes in NODES {
        let members = run.nodes("seeds", nodes)?;
        exact.push(row(run, &members, &exact_words(run))?);
        let words = mix_words(run);
        mixed.push(row(run, &members, &words)?);
        members.into_iter().try_for_each(Server::stop)?;
    }
    let mut text = table("exact searches", &exact);
    let _ = writeln!(text, "\n{}", table("the mix 20/59/10/1/10", &mixed));
    let _ = writeln!(text, "{}", consumer(run)?);
    Ok(text)
}

fn exact_words(run: &Run<'_>) -> Vec<String> {
    let filter = format!("(uid=user.[1-{}])", run.asked.setup.entries);
    ["search", "--expect", "1", "--filter", &filter, "cn"].map(str::to_owned).to_vec()
}

fn mix_words(run: &mut Run<'_>) -> Vec<String> {
    let first = run.next.to_string();
    run.next += ADDED_STEP;
    let filter = format!("(uid=user.[1-{}])", run.asked.setup.entries);
    let entries = run.asked.setup.entries.to_string();
    let words = ["mixed", "--mix", MIX, "--first", &first, "--entries", &entries, "-b"];
    let words = words.into_iter().chain([testing::crash::server::SUFFIX, "-f", &filter, "cn"]);
    words.map(str::to_owned).collect()
}

/// Turns of one load over all members.
fn row(run: &Run<'_>, members: &[Server], words: &[String]) -> Result<Row, String> {
    let leader = if members.len() > 1 { members::leader(members)? } else { 0 };
    let (mut per_s, mut p99_us) = (Vec::new(), Vec::new());
    let mut spent: Vec<Vec<f64>> = vec![Vec::new(); members.len()];
    let mut alone = Vec::new();
    let Some((first, others)) = members.split_first() else { return Err("no members".to_owned()) };
    for turn in 0..run.asked.setup.turns {
        let words = fresh(words, turn);
        let before: Vec<Snapshot> = members.iter().map(|one| Snapshot::of(&[one.id()])).collect();
        let load = Load::new(first, run.asked.setup.seconds, &words);
        let figures = run.ground.run(load.connections(CONNECTIONS).beside(others))?;
        if members.len() > 1 {
            members::settle(members)?;
        }
        let mut most: f64 = 0.0;
        for ((member, before), spent) in members.iter().zip(&before).zip(&mut spent) {
            let (now, made) = (Snapshot::of(&[member.id()]), figures.made().max(1) as f64);
            spent.push(now.since(before).all_us() / made);
            most = most.max(now.most_of_one_us(before) / made);
        }
        alone.push(most);
        per_s.push(figures.per_s());
        p99_us.push(slowest_p99(&figures)?);
    }
    let each: Vec<f64> = spent.iter().map(|turns| median(turns)).collect();
    let others: Vec<f64> =
        each.iter().enumerate().filter(|(at, _)| *at != leader).map(|(_, us)| *us).collect();
    let row = Row {
        nodes: members.len() as u64,
        per_s: median(&per_s),
        p99_us: median(&p99_us),
        all_us: each.iter().sum(),
        leader_us: each.get(leader).copied().unwrap_or_default(),
        other_us: if others.is_empty() { 0.0 } else { median(&others) },
        alone_us: median(&alone),
    };
    note(&format!(
        "  {} nodes: {} µs in all, {}/s",
        row.nodes,
        figure(row.all_us),
        thousands(row.per_s)
    ));
    Ok(row)
}

/// The words of another turn: nobody is added twice.
fn fresh(words: &[String], turn: u64) -> Vec<String> {
    let mut words = words.to_vec();
    if let Some(at) = words.iter().position(|word| word == "--first")
        && let Some(first) = words.get_mut(at + 1)
        && let Ok(number) = first.parse::<u64>()
    {
        *first = (number + turn * (ADDED_STEP / 100)).to_string();
    }
    words
}

/// The 99th percentile of the kind of operation that has the highest.
fn slowest_p99(figures: &Figures) -> Result<f64, String> {
    let mut worst: f64 = 0.0;
    let mut stream = 0;
    while figures.has_stream(stream) {
        let [p99] = figures.latencies_us(stream, ["p99"])?;
        (worst, stream) = (worst.max(p99), stream + 1);
    }
    Ok(worst)
}

fn table(what: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "| nodes, {what} over all of them, {CONNECTIONS} connections | a second, on this machine \
         | p99 ms | CPU of all nodes | the leader | another node | most of one thread \
         | model: a second, nodes with {MODEL_CORES:.0} cores |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for row in rows {
        let other = if row.nodes > 1 { format!("{} µs", figure(row.other_us)) } else { dash() };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} µs | {} µs | {other} | {} µs | {} |",
            row.nodes,
            thousands(row.per_s),
            figure(row.p99_us / 1000.0),
            figure(row.all_us),
            figure(row.leader_us),
            figure(row.alone_us),
            thousands(row.model_per_s())
        );
    }
    text
}

impl Row {
    /// What comes of a node with so many cores that has most to do.
    fn model_per_s(&self) -> f64 {
        let busiest_us = self.leader_us.max(self.other_us) / MODEL_CORES;
        1e6 / busiest_us.max(self.alone_us)
    }
}

fn dash() -> String {
    "–".to_owned()
}

/// A follower at half of what it can answer, while the leader takes updates.
fn consumer(run: &mut Run<'_>) -> Result<String, String> {
    let members = run.nodes("seeds", CONSUMER_NODES)?;
    let leader = members::leader(&members)?;
    let at = (leader + 1) % members.len();
    let (Some(supplier), Some(consumer)) = (members.get(leader), members.get(at)) else {
        return Err("there are no members".to_owned());
    };
    let folder = run.ground.folder.join(format!("seeds-{CONSUMER_NODES}"));
    let log = folder.join(format!("member{}/data/logs/access.log", at + 1));
    let words = exact_words(run);
    let seconds = run.asked.setup.seconds;
    let load = Load::new(consumer, seconds, &words).connections(CONNECTIONS);
    let rate = (run.ground.run(load)?.per_s() * HALF) as u64;
    let first = run.next.to_string();
    run.next += ADDED_STEP;
    let (updates, entries) = (UPDATES_PER_S.to_string(), run.asked.setup.entries.to_string());
    let mut text = format!(
        "| consumer, {}/s exact searches | updates a second of the supplier | p99 · p99.9 · most \
         ms in the consumer's access log | p99.9 ms at the client |\n|---|---:|---:|---:|\n",
        thousands(rate as f64)
    );
    for is_fed in [false, true] {
        let feed = ["mixed", "--mix", "add=20,modify=80", "--first", &first, "--rate", &updates];
        let feed = [&feed[..], &["--entries", &entries]].concat();
        let feed = Load::new(supplier, seconds + AROUND_SECONDS, &feed).connections(4);
        let (program, with) = (&run.ground.program, &run.asked.setup.with);
        let feed = if is_fed { Some(feed.start(program, with)?) } else { None };
        let from = std::fs::metadata(&log).map_or(0, |file| file.len());
        let asked = rate.to_string();
        let words = words.iter().cloned().chain(["--rate".to_owned(), asked]);
        let words: Vec<String> = words.collect();
        let load = Load::new(consumer, seconds, &words).connections(CONNECTIONS);
        let figures = run.ground.run(load)?;
        feed.map(crate::load::Running::end).transpose()?;
        members::settle(&members)?;
        let elapsed = elapsed_us(&log, from)?;
        let told = [0.99, 0.999, 1.0].map(|share| figure(quantile(&elapsed, share) / 1000.0));
        let [client] = figures.latencies_us(0, ["p99_9"])?;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            if is_fed { "while it is fed" } else { "alone" },
            if is_fed { &updates } else { "–" },
            told.join(" · "),
            figure(client / 1000.0)
        );
    }
    members.into_iter().try_for_each(Server::stop)?;
    Ok(text)
}

/// How long searches took, by the lines of an access log behind so many octets, in µs.
fn elapsed_us(log: &Path, from: u64) -> Result<Vec<f64>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let mut file = std::fs::File::open(log).map_err(failed)?;
    // A log that was begun anew meanwhile is read from its beginning.
    let is_same = file.metadata().map_err(failed)?.len() >= from;
    file.seek(SeekFrom::Start(if is_same { from } else { 0 })).map_err(failed)?;
    let elapsed = searches_us(BufReader::new(file)).map_err(failed)?;
    if elapsed.is_empty() { Err(format!("{}: no search", log.display())) } else { Ok(elapsed) }
}

fn searches_us(log: impl BufRead) -> std::io::Result<Vec<f64>> {
    let mut elapsed = Vec::new();
    for line in log.lines() {
        let line = line?;
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        if told.get("kind").is_some_and(|kind| kind == "search") {
            elapsed.extend(told.get("elapsed_us").and_then(Value::as_f64));
        }
    }
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_node_bounds_the_model() {
        let row = |nodes, leader_us, other_us| Row {
            nodes,
            per_s: 1000.0,
            p99_us: 2000.0,
            all_us: leader_us + other_us * (nodes - 1) as f64,
            leader_us,
            other_us,
            alone_us: leader_us / 10.0,
        };
        let text = table("searches", &[row(1, 20.0, 0.0), row(7, 4.0, 2.0)]);
        assert!(
            text.contains("| 1 | 1,000 | 2.0 | 20 µs | 20 µs | – | 2.0 µs | 500,000 |"),
            "{text}"
        );
        assert!(
            text.contains("| 7 | 1,000 | 2.0 | 16 µs | 4.0 µs | 2.0 µs | 0.4 µs | 2,500,000 |"),
            "{text}"
        );
    }

    #[test]
    fn searches_of_a_log_have_times() {
        let log = "{\"kind\":\"bind\",\"elapsed_us\":7}\nno line\n\
                   {\"kind\":\"search\",\"elapsed_us\":5}\n";
        assert_eq!(searches_us(log.as_bytes()).unwrap(), [5.0]);
    }
}
