//! Durable writes by number of nodes and of connections, asked on the leader and through a
//! follower, and what they cost on each.

use std::fmt::Write as _;

use super::stages::{Stages, per_operation};
use super::{CONNECTIONS, Job, Run};
use crate::figures::{figure, thousands};
use crate::ground::note;
use crate::load::{Figures, Load};
use crate::servers::{Server, members};
use crate::threads::{Snapshot, Spent};

/// Who is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Through {
    Leader,
    Follower,
}

/// What the table says of a load.
#[derive(Debug)]
struct Row {
    nodes: usize,
    through: Through,
    connections: u64,
    per_s: f64,
    /// 50 %, 99 % and 99.9 %, in µs.
    latencies_us: [f64; 3],
    /// CPU of the leader, of the follower that is asked, and of one that is not, in µs.
    cpu_us: [Option<f64>; 3],
}

/// What came of a load.
struct Measured {
    row: Row,
    /// What threads spent on each operation, by the title of a column.
    spent: Vec<(String, Spent)>,
    /// Whether the lead went elsewhere.
    has_moved: bool,
}

const PERCENTILES: [&str; 3] = ["p50", "p99", "p99_9"];

/// What came of all loads.
struct Tables {
    of_jobs: [(Job, Vec<Row>, Stages); 2],
    /// During so many loads the lead went elsewhere.
    moved: u64,
    /// What is told of loads without figures.
    gone: String,
}

/// Both kinds of write as tables, and what threads spent.
pub(super) fn measure(run: &mut Run<'_>) -> Result<String, String> {
    let of_jobs = Job::ALL.map(|job| (job, Vec::new(), Stages::default()));
    let mut tables = Tables { of_jobs, moved: 0, gone: String::new() };
    for count in run.asked.nodes.clone() {
        let servers = run.nodes("writes", count)?;
        for job in 0..Job::ALL.len() {
            for through in [Through::Leader, Through::Follower] {
                if servers.len() > 1 || through == Through::Leader {
                    tables.put(run, &servers, job, through);
                }
            }
        }
    }
    Ok(tables.text(shown(&run.asked.connections)))
}

/// The number of connections whose threads are told.
fn shown(connections: &[u64]) -> u64 {
    let exact = connections.iter().find(|one| **one == CONNECTIONS);
    exact.or(connections.last()).copied().unwrap_or(CONNECTIONS)
}

/// A load that is to be made.
#[derive(Clone, Copy, Debug)]
struct One {
    job: Job,
    through: Through,
    connections: u64,
}

impl Tables {
    /// Loads of all numbers of connections.
    fn put(&mut self, run: &mut Run<'_>, servers: &[Server], job: usize, through: Through) {
        let Some((job, rows, stages)) = self.of_jobs.get_mut(job) else { return };
        for connections in run.asked.connections.clone() {
            let one = One { job: *job, through, connections };
            match one.measure(run, servers) {
                Ok(Measured { row, spent, has_moved }) => {
                    self.moved += u64::from(has_moved);
                    note(&format!("  {} nodes, {}: {}", row.nodes, job.name(), row.text()));
                    if connections == shown(&run.asked.connections) {
                        stages.put(&spent);
                    }
                    rows.push(row);
                }
                // What goes wrong with one load says nothing of the others.
                Err(error) => self.gone.push_str(&run.gives_none(error)),
            }
        }
    }

    fn text(&self, connections: u64) -> String {
        let mut text = String::new();
        for (job, rows, stages) in &self.of_jobs {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", table(*job, rows));
            let _ = writeln!(text, "{}", stages.table(job.name(), connections));
        }
        if self.moved > 0 {
            let moved = self.moved;
            let _ = writeln!(text, "The lead went to another node during {moved} of these loads.");
        }
        text + &self.gone
    }
}

impl One {
    /// Runs it, until all nodes have applied everything.
    fn measure(self, run: &mut Run<'_>, servers: &[Server]) -> Result<Measured, String> {
        let leader = leader(servers)?;
        let other = |steps: usize| (leader + steps) % servers.len();
        let asked = if self.through == Through::Leader { leader } else { other(1) };
        let words = run.words(self.job);
        let server = servers.get(asked).ok_or("there is no such node")?;
        let load = Load::new(server, run.asked.setup.seconds, &words).connections(self.connections);
        let before: Vec<Snapshot> = servers.iter().map(|one| Snapshot::of(&[one.id()])).collect();
        let figures = run.ground.run(load)?;
        // What followers have still to do belongs to the operations, too.
        if servers.len() > 1 {
            members::settle(servers)?;
        }
        let spent = servers.iter().zip(&before);
        let spent: Vec<Spent> =
            spent.map(|(one, before)| Snapshot::of(&[one.id()]).since(before)).collect();
        let spent_on =
            |place: usize| spent.get(place).map(|one| per_operation(one, figures.made()));
        let (on_leader, on_asked) = (spent_on(leader), spent_on(asked));
        let on_asked = on_asked.filter(|_| asked != leader);
        // With three nodes, the one that is neither.
        let place = other(if asked == leader { 1 } else { 2 });
        let on_other = spent_on(place).filter(|_| place != leader);
        let row = self.row(servers.len(), &figures, [&on_leader, &on_asked, &on_other])?;
        let named = [("leader", on_leader), ("follower asked", on_asked), ("follower", on_other)];
        let title = |who: &str| match (servers.len(), self.through) {
            (1, _) => "alone".to_owned(),
            (count, Through::Leader) => format!("{count}: {who}"),
            (count, Through::Follower) => format!("{count}, through a follower: {who}"),
        };
        let named = named.into_iter().filter_map(|(who, spent)| Some((title(who), spent?)));
        let has_moved = self::leader(servers)? != leader;
        Ok(Measured { row, spent: named.collect(), has_moved })
    }

    fn row(
        self,
        nodes: usize,
        figures: &Figures,
        spent: [&Option<Spent>; 3],
    ) -> Result<Row, String> {
        Ok(Row {
            nodes,
            through: self.through,
            connections: self.connections,
            per_s: figures.per_s(),
            latencies_us: figures.latencies_us(0, PERCENTILES)?,
            cpu_us: spent.map(|one| one.as_ref().map(Spent::all_us)),
        })
    }
}

/// The place of the leader; a server alone is its own.
fn leader(servers: &[Server]) -> Result<usize, String> {
    if servers.len() == 1 { Ok(0) } else { members::leader(servers) }
}

impl Row {
    fn latencies(&self) -> String {
        let [p50, p99, p999] = self.latencies_us.map(|latency| figure(latency / 1000.0));
        format!("{p50} · {p99} · {p999}")
    }

    fn cpu(&self) -> [String; 3] {
        self.cpu_us.map(|us| us.map_or_else(|| "–".to_owned(), |us| format!("{} µs", figure(us))))
    }

    fn through(&self) -> &'static str {
        match self.through {
            _ if self.nodes == 1 => "itself",
            Through::Leader => "the leader",
            Through::Follower => "a follower",
        }
    }

    fn text(&self) -> String {
        let (through, latencies) = (self.through(), self.latencies());
        let (connections, per_s) = (self.connections, thousands(self.per_s));
        let cpu = self.cpu().join(" · ");
        format!("{through}, {connections} connections: {per_s}/s, {latencies} ms, {cpu}")
    }
}

fn table(job: Job, rows: &[Row]) -> String {
    let mut text = format!(
        "| nodes | asked | connections | {} a second | p50 · p99 · p99.9 ms | CPU: leader \
         | follower asked | another follower |\n|---:|---|---:|---:|---:|---:|---:|---:|\n",
        match job {
            Job::Modify => "modifies",
            Job::Add => "adds",
        }
    );
    for row in rows {
        let (nodes, through, connections) = (row.nodes, row.through(), row.connections);
        let (per_s, latencies, cpu) = (thousands(row.per_s), row.latencies(), row.cpu());
        let cpu = cpu.join(" | ");
        let _ = writeln!(
            text,
            "| {nodes} | {through} | {connections} | {per_s} | {latencies} | {cpu} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_all_figures() {
        let row = Row {
            nodes: 3,
            through: Through::Follower,
            connections: 50,
            per_s: 12_345.0,
            latencies_us: [1_000.0, 2_500.0, 30_000.0],
            cpu_us: [Some(40.0), Some(51.4), None],
        };
        let text = table(Job::Add, &[row]);
        let last = text.lines().last().unwrap();
        let want = "| 3 | a follower | 50 | 12,345 | 1.0 · 2.5 · 30 | 40 µs | 51 µs | – |";
        assert_eq!(last, want);
        assert_eq!((shown(&[1, 50, 200]), shown(&[1, 10])), (50, 10));
    }
}
