//! How far followers are behind the leader while it writes at full speed: each member is asked all
//! the time what it shows, and what followers say is compared with what the leader said before and
//! after.
//!
//! What a member says is taken to be true in the middle between request and response.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use testing::client::Client;
use testing::crash::server::{now, pause};

use super::{CONNECTIONS, Job, Run};
use crate::figures::{figure, quantile, thousands};
use crate::ground::note;
use crate::load::Load;
use crate::servers::{Server, members};

/// How long all are asked, at least, and how long to wait between two rounds of asking.
const SECONDS_MIN: u64 = 5;
const ROUND_PAUSE: Duration = Duration::from_millis(5);

/// What a member said: a moment of the run, and the number of the last change it showed, each as a
/// number that can stand between two others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    at_ms: f64,
    applied: f64,
}

/// How far behind a follower was once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lag {
    records: f64,
    ms: f64,
}

/// What one load gave.
struct Row {
    nodes: usize,
    job: Job,
    per_s: f64,
    lags: Vec<Lag>,
    /// How long members took to answer, in ms.
    answers_ms: Vec<f64>,
}

/// The table.
pub(super) fn measure(run: &mut Run<'_>) -> Result<String, String> {
    let mut rows = Vec::new();
    for count in run.asked.nodes.clone().into_iter().filter(|count| *count > 1) {
        let servers = run.nodes("lag", count)?;
        for job in Job::ALL {
            let row = row(run, &servers, job)?;
            note(&format!("  {count} nodes, {}", row.text()));
            rows.push(row);
        }
    }
    Ok(table(&rows))
}

fn row(run: &mut Run<'_>, servers: &[Server], job: Job) -> Result<Row, String> {
    let leader = members::leader(servers)?;
    let server = servers.get(leader).ok_or("there is no such node")?;
    let seconds = run.asked.setup.seconds.max(SECONDS_MIN);
    let load = Load::new(server, seconds, &run.words(job)).connections(CONNECTIONS);
    let mut clients = members::clients(servers)?;
    let mut load = load.start(&run.ground.program, &run.asked.setup.with)?;
    let begin = now();
    let mut said: Vec<Vec<Said>> = servers.iter().map(|_| Vec::new()).collect();
    let mut answers_ms = Vec::new();
    while !load.has_ended() {
        for (client, said) in clients.iter_mut().zip(&mut said) {
            let (one, answer_ms) = ask(client, begin)?;
            said.push(one);
            answers_ms.push(answer_ms);
        }
        pause(ROUND_PAUSE);
    }
    let figures = load.end()?;
    members::settle(servers)?;
    let led = said.get(leader).map(|led| busy(led)).unwrap_or_default();
    let followers = said.iter().enumerate().filter(|(place, _)| *place != leader);
    let lags = followers.flat_map(|(_, said)| said).filter_map(|said| lag(led, *said));
    let lags: Vec<Lag> = lags.collect();
    Ok(Row { nodes: servers.len(), job, per_s: figures.per_s(), lags, answers_ms })
}

/// What a member says now, and how long it took to say it.
fn ask(client: &mut Client, begin: Instant) -> Result<(Said, f64), String> {
    let ms = || begin.elapsed().as_secs_f64() * 1000.0;
    let from_ms = ms();
    let view = members::view(client)?;
    let to_ms = ms();
    let at_ms = from_ms.midpoint(to_ms);
    Ok((Said { at_ms, applied: view.applied as f64 }, to_ms - from_ms))
}

/// What the leader said while it wrote: without what it said before the first change and after the
/// last one.
fn busy(said: &[Said]) -> &[Said] {
    let (Some(first), Some(last)) = (said.first(), said.last()) else { return &[] };
    let from = said.partition_point(|one| one.applied <= first.applied).saturating_sub(1);
    let to = said.partition_point(|one| one.applied < last.applied);
    said.get(from..=to.min(said.len() - 1)).unwrap_or_default()
}

/// How far behind the leader a follower was when it said this; `None` when it is not known what
/// the leader had then.
fn lag(led: &[Said], said: Said) -> Option<Lag> {
    let pair = |is_before: &dyn Fn(&Said) -> bool| {
        let next = led.partition_point(is_before);
        Some((*led.get(next.checked_sub(1)?)?, *led.get(next)?))
    };
    let (before, after) = pair(&|one| one.at_ms <= said.at_ms)?;
    let records = between(said.at_ms, [before.at_ms, after.at_ms], [before.applied, after.applied])
        - said.applied;
    if records <= 0.0 {
        return Some(Lag { records: 0.0, ms: 0.0 });
    }
    let (before, after) = pair(&|one| one.applied <= said.applied)?;
    let then_ms =
        between(said.applied, [before.applied, after.applied], [before.at_ms, after.at_ms]);
    Some(Lag { records, ms: (said.at_ms - then_ms).max(0.0) })
}

/// What belongs to `at`, which lies between two numbers to which two others belong.
fn between(at: f64, [from, to]: [f64; 2], [first, last]: [f64; 2]) -> f64 {
    if to <= from { first } else { first + (last - first) * (at - from) / (to - from) }
}

impl Row {
    /// Half of the lags, 99 % of them and all are no greater: records and ms.
    fn quantiles(&self) -> [String; 2] {
        let text = |of: fn(&Lag) -> f64| {
            let figures: Vec<f64> = self.lags.iter().map(of).collect();
            [0.5, 0.99, 1.0].map(|share| figure(quantile(&figures, share))).join(" · ")
        };
        [text(|lag| lag.records), text(|lag| lag.ms)]
    }

    fn text(&self) -> String {
        let [records, ms] = self.quantiles();
        let (job, per_s) = (self.job.name(), thousands(self.per_s));
        format!("{job}: {per_s}/s, {records} records, {ms} ms, {} samples", self.lags.len())
    }
}

fn table(rows: &[Row]) -> String {
    let mut text =
        "| nodes | | a second | records behind: p50 · p99 · most | ms behind: p50 · p99 \
                    · most | samples | answer of a member, p50 · p99 ms |\n\
                    |---:|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let ([records, ms], per_s) = (row.quantiles(), thousands(row.per_s));
        let answers = [0.5, 0.99].map(|share| figure(quantile(&row.answers_ms, share)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {per_s} | {records} | {ms} | {} | {} |",
            row.nodes,
            row.job.name(),
            row.lags.len(),
            answers.join(" · ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn said(at_ms: f64, applied: f64) -> Said {
        Said { at_ms, applied }
    }

    #[test]
    fn a_follower_is_behind_by_records_and_time() {
        let all =
            [(0.0, 5.0), (10.0, 5.0), (20.0, 105.0), (30.0, 205.0), (40.0, 205.0), (50.0, 205.0)];
        let all = all.map(|(at_ms, applied)| said(at_ms, applied));
        let led = busy(&all);
        assert_eq!(led, &all[1..=3]);
        assert_eq!(lag(led, said(25.0, 105.0)), Some(Lag { records: 50.0, ms: 5.0 }));
        assert_eq!(lag(led, said(25.0, 155.0)), Some(Lag { records: 0.0, ms: 0.0 }));
        // Before the first change and after the last one.
        assert_eq!((lag(led, said(5.0, 5.0)), lag(led, said(45.0, 205.0))), (None, None));
    }
}
