//! Searches on a follower while it applies what a leader decides at full speed, and on a server
//! alone: at the same rate, turn by turn.
//!
//! The machine is shared by all that runs, and a search takes more CPU where other work drives its
//! memory out of the caches. So the server alone is measured twice: with nothing else, and while
//! the cluster beside it writes as fast as it does when its follower is searched.

use std::fmt::Write as _;
use std::time::Duration;

use testing::crash::server::pause;

use super::stages::per_operation;
use super::{CONNECTIONS, Job, Run};
use crate::figures::{figure, half, median, thousands};
use crate::ground::note;
use crate::load::{Figures, Load};
use crate::servers::members::{self, View};
use crate::servers::{Server, roster};
use crate::threads::{Snapshot, Spent};

/// The threads that search.
const SEARCHING: &str = "worker";
/// How long it is found out what a server can search.
const CAPACITY_SECONDS: u64 = 2;
/// The share of it that is asked for: the machine also has to write.
const SHARE: f64 = 0.25;
/// How long writes go on before searches begin, and after they end.
const AROUND_SECONDS: u64 = 2;
/// Nodes of the cluster.
const NODES: u64 = 3;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Case {
    Alone,
    AloneBesideWrites,
    FollowerThatApplies,
}

/// What came of the turns of a case.
#[derive(Debug)]
struct Row {
    case: Case,
    per_s: Vec<f64>,
    p99_us: Vec<f64>,
    searching_us: Vec<f64>,
    all_us: Vec<f64>,
    applied_per_s: Vec<f64>,
}

impl Case {
    const ALL: [Self; 3] = [Self::Alone, Self::AloneBesideWrites, Self::FollowerThatApplies];

    const fn name(self) -> &'static str {
        match self {
            Self::Alone => "server alone",
            Self::AloneBesideWrites => "server alone, while a cluster beside it writes",
            Self::FollowerThatApplies => "follower, while it applies",
        }
    }
}

/// The table, with the ratios turn by turn.
pub(super) fn measure(run: &mut Run<'_>) -> Result<String, String> {
    let folder = run.ground.folder.join("reads-alone");
    let alone = roster(&run.ground.program, &folder, &run.people)?;
    let members = run.nodes("reads", NODES)?;
    let rate = search(run, &alone, CAPACITY_SECONDS, None)?.per_s() * SHARE;
    let rate = (rate as u64).max(1);
    note(&format!("  searches at {rate}/s"));
    let empty = || Vec::with_capacity(run.asked.setup.turns as usize);
    let mut rows = Case::ALL.map(|case| Row {
        case,
        per_s: empty(),
        p99_us: empty(),
        searching_us: empty(),
        all_us: empty(),
        applied_per_s: empty(),
    });
    for turn in 0..run.asked.setup.turns {
        let mut order: Vec<&mut Row> = rows.iter_mut().collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for row in order {
            row.measure(run, &alone, &members, rate)?;
        }
    }
    Ok(table(&rows, rate))
}

fn search(
    run: &Run<'_>,
    server: &Server,
    seconds: u64,
    rate: Option<u64>,
) -> Result<Figures, String> {
    let mut words = vec!["search".to_owned(), "--expect".to_owned(), "1".to_owned()];
    let filter = format!("(uid=user.[1-{}])", run.asked.setup.entries);
    words.extend(["--filter".to_owned(), filter]);
    words.extend(rate.into_iter().flat_map(|rate| ["--rate".to_owned(), rate.to_string()]));
    run.ground.run(Load::new(server, seconds, &words).connections(CONNECTIONS))
}

impl Row {
    /// One turn.
    fn measure(
        &mut self,
        run: &mut Run<'_>,
        alone: &Server,
        members: &[Server],
        rate: u64,
    ) -> Result<(), String> {
        let leader = members::leader(members)?;
        let at = |place: usize| members.get(place % members.len()).ok_or("there are no members");
        let (writing, follower) = (at(leader)?, at(leader + 1)?);
        let asked = if self.case == Case::FollowerThatApplies { follower } else { alone };
        let (seconds, words) = (run.asked.setup.seconds, run.words(Job::Modify));
        let writes = Load::new(writing, seconds + 2 * AROUND_SECONDS, &words);
        let writes = writes.connections(CONNECTIONS);
        let writes = match self.case {
            Case::Alone => None,
            _ => {
                let started = writes.start(&run.ground.program, &run.asked.setup.with)?;
                pause(Duration::from_secs(AROUND_SECONDS));
                Some(started)
            }
        };
        let mut client = follower.enter()?;
        let (first, before) = (members::view(&mut client)?, Snapshot::of(&[asked.id()]));
        let begin = testing::crash::server::now();
        let figures = search(run, asked, seconds, Some(rate))?;
        let spent = Snapshot::of(&[asked.id()]).since(&before);
        let (last, took) = (members::view(&mut client)?, begin.elapsed());
        if let Some(writes) = writes {
            writes.end()?;
        }
        members::settle(members)?;
        self.put(&figures, &per_operation(&spent, figures.made()))?;
        self.applied_per_s.push(applied_per_s(&first, &last, took));
        Ok(())
    }

    fn put(&mut self, figures: &Figures, spent: &Spent) -> Result<(), String> {
        let [p99_us] = figures.latencies_us(0, ["p99"])?;
        let searching_us = spent.0.get(SEARCHING).copied();
        let searching_us = searching_us.ok_or_else(|| format!("no thread is a {SEARCHING}"))?;
        self.per_s.push(figures.per_s());
        self.p99_us.push(p99_us);
        self.searching_us.push(searching_us);
        self.all_us.push(spent.all_us());
        let (name, us) = (self.case.name(), figure(searching_us));
        note(&format!("  {name}: {us} µs, {}/s", thousands(figures.per_s())));
        Ok(())
    }
}

fn applied_per_s(first: &View, last: &View, took: Duration) -> f64 {
    last.applied.saturating_sub(first.applied) as f64 / took.as_secs_f64().max(f64::EPSILON)
}

fn table(rows: &[Row; 3], rate: u64) -> String {
    let mut text = format!(
        "| {}/s searches by uid, {CONNECTIONS} connections | a second | p99 ms \
         | CPU of the threads that search | of all threads | changes applied a second |\n\
         |---|---:|---:|---:|---:|---:|\n",
        thousands(rate as f64)
    );
    for row in rows {
        let (low, high) = half(&row.searching_us);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} ({}–{}) µs | {} µs | {} |",
            row.case.name(),
            thousands(median(&row.per_s)),
            figure(median(&row.p99_us) / 1000.0),
            figure(median(&row.searching_us)),
            figure(low),
            figure(high),
            figure(median(&row.all_us)),
            match row.case {
                Case::FollowerThatApplies => thousands(median(&row.applied_per_s)),
                _ => "–".to_owned(),
            }
        );
    }
    let [alone, beside, follower] = rows;
    for (other, told) in [(alone, "alone"), (beside, "alone beside the same writes")] {
        let pairs = follower.searching_us.iter().zip(&other.searching_us);
        let ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
        let ((low, high), ratio) = (half(&ratios), median(&ratios));
        let _ = writeln!(
            text,
            "\nThe follower's searching threads take {ratio:.2} ({low:.2}–{high:.2}) times the \
             CPU of a server {told}."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_follower_is_compared_with_both() {
        let row = |case, us: f64| Row {
            case,
            per_s: vec![5000.0],
            p99_us: vec![900.0],
            searching_us: vec![us],
            all_us: vec![us + 30.0],
            applied_per_s: vec![7000.0],
        };
        let [one, two, three] = Case::ALL;
        let text = table(&[row(one, 10.0), row(two, 12.0), row(three, 12.6)], 5000);
        assert!(text.contains("| 5,000 | 0.9 | 13 (13–13) µs | 43 µs | 7,000 |"), "{text}");
        assert!(text.contains("take 1.26 (1.26–1.26) times the CPU of a server alone."), "{text}");
        assert!(text.contains("take 1.05 (1.05–1.05) times"), "{text}");
    }
}
