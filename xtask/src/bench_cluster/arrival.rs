//! Writes on one of three servers, by the time until the last of the three has the last of them.

use std::fmt::Write as _;

use testing::crash::server::now;

use super::trio::{Kind, Trio, differing};
use super::{CONNECTIONS, Job, Run};
use crate::figures::{figure, thousands};
use crate::ground::note;
use crate::load::Load;

/// Length of each load before anything is measured: caches fill, and Java compiles what is hot.
const PRIMING_SECONDS: u64 = 3;

/// What one load gave.
#[derive(Clone, Debug)]
pub(super) struct Row {
    job: Job,
    /// Answered by the one that was asked, a second.
    answered_per_s: f64,
    /// From the first request until all had the last one, by what was written.
    arrived_per_s: f64,
    /// From the last answer until all had it.
    behind_s: f64,
    /// People that are not the same on all three, and that are missing where they were added.
    differing: usize,
    missing: u64,
}

/// Both kinds of write on a kind of server.
pub(super) fn measure(run: &mut Run<'_>, trio: &mut Trio) -> Result<(Kind, Vec<Row>), String> {
    for job in Job::ALL {
        let (first, words) = (trio.first()?, run.words(job));
        let load = Load::new(trio.server(first)?, PRIMING_SECONDS, &words);
        run.ground.run(load.connections(CONNECTIONS))?;
        trio.settle(first)?;
    }
    let mut rows = Vec::new();
    for job in Job::ALL {
        let row = row(run, trio, job)?;
        note(&format!("  {}: {}", trio.kind.title(), row.text()));
        rows.push(row);
    }
    Ok((trio.kind, rows))
}

fn row(run: &mut Run<'_>, trio: &mut Trio, job: Job) -> Result<Row, String> {
    let (first, people) = (trio.first()?, trio.held()?.first().map_or(0, |held| held.len()));
    let words = run.words(job);
    let load = Load::new(trio.server(first)?, run.asked.setup.seconds, &words);
    let begin = now();
    let figures = run.ground.run(load.connections(CONNECTIONS))?;
    let answered = now();
    trio.settle(first)?;
    let (behind_s, all_s) = (answered.elapsed().as_secs_f64(), begin.elapsed().as_secs_f64());
    let held = trio.held()?;
    let made = figures.made();
    let should = people as u64 + if job == Job::Add { made } else { 0 };
    let least = held.iter().map(|one| one.len() as u64).min().unwrap_or_default();
    Ok(Row {
        job,
        answered_per_s: figures.per_s(),
        arrived_per_s: made as f64 / all_s,
        behind_s,
        differing: differing(&held),
        missing: should.saturating_sub(least),
    })
}

impl Row {
    fn text(&self) -> String {
        let (job, behind_s) = (self.job.name(), figure(self.behind_s));
        let (answered, arrived) = (thousands(self.answered_per_s), thousands(self.arrived_per_s));
        format!("{job}: {answered}/s, on all three {arrived}/s, {behind_s} s later")
    }
}

/// All rows of all kinds.
pub(super) fn table(all: &[(Kind, Vec<Row>)]) -> String {
    let mut text = format!(
        "| {CONNECTIONS} connections to one of three | | answered a second | a second until all \
         three have them | s from the last answer until then | people that differ | missing |\n\
         |---|---|---:|---:|---:|---:|---:|\n"
    );
    for (kind, row) in all.iter().flat_map(|(kind, rows)| rows.iter().map(move |row| (kind, row))) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            kind.title(),
            row.job.name(),
            thousands(row.answered_per_s),
            thousands(row.arrived_per_s),
            figure(row.behind_s),
            row.differing,
            row.missing
        );
    }
    text
}
