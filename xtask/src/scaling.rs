//! `cargo xtask scaling`: what a second worker costs, on a machine with two cores, and what follows
//! from it for more of them, as text for `docs/performance.md`.
//!
//! Two servers with one worker each, on a core of their own, share nothing but the kernel and the
//! machine. One server with two workers, on the same two cores under the same load, shares its
//! locks, counters, queues and memory as well. What its workers take more for an operation is what
//! sharing costs: in the universal scalability law N / (1 + σ(N−1) + κN(N−1)) it is σ + 2κ.
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

mod law;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use testing::crash::server::SUFFIX;

use crate::Error;
use crate::figures::{ends, median};
use crate::ground::{Ground, Setup, load_average, machine, note};
use crate::load::{Load, Running, people};
use crate::options;
use crate::servers::{self, Server};
use crate::threads::{self, Snapshot, Spent, keep_on};

/// People, length of a run and turns unless told otherwise.
const DEFAULT_ENTRIES: u64 = 20_000;
const DEFAULT_SECONDS: u64 = 3;
const DEFAULT_TURNS: u64 = 6;
/// Connections of each generator.
const CONNECTIONS: u64 = 25;
/// Of one server that is asked by one generator alone.
const CORES: [&str; 2] = ["0", "1"];

/// What is measured.
struct Case {
    name: &'static str,
    /// Which servers, and the core each generator is kept on.
    servers: &'static [usize],
    cores: [Option<&'static str>; 2],
    job: Job,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Job {
    Search,
    Modify,
}

const ONE: usize = 0;
const OTHER: usize = 1;
const BOTH: usize = 2;
const FREE: usize = 3;

/// The servers of a case are asked by a generator each; one that is named twice, by two.
const CASES: [Case; 5] = [
    Case {
        name: "one worker on a core, the generator on the other",
        servers: &[ONE],
        cores: [Some("1"), None],
        job: Job::Search,
    },
    Case {
        name: "two servers with one worker, each on its core",
        servers: &[ONE, OTHER],
        cores: [None, None],
        job: Job::Search,
    },
    Case {
        name: "one server with two workers, each on its core",
        servers: &[BOTH, BOTH],
        cores: [None, None],
        job: Job::Search,
    },
    Case {
        name: "one server with two workers, on any core",
        servers: &[FREE, FREE],
        cores: [None, None],
        job: Job::Search,
    },
    Case {
        name: "modify, one server with two workers",
        servers: &[FREE, FREE],
        cores: [None, None],
        job: Job::Modify,
    },
];
/// The cases whose difference is the cost of sharing.
const APART: usize = 1;
const TOGETHER: usize = 2;
const MODIFY: usize = 4;

/// Measures, and prints what follows.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut setup = Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, DEFAULT_TURNS);
    options::read(arguments, |name, value| setup.take(name, value))?;
    setup.measure("scaling", measure).map(drop)
}

fn measure(ground: &Ground<'_>) -> Result<String, String> {
    let file = ground.people(&[])?;
    let mut servers = Vec::new();
    for (name, workers) in [("one", "1"), ("other", "1"), ("both", "2"), ("free", "2")] {
        note(&format!("loading {name}"));
        let settings = [
            ("ROSTER_SERVER__WORKERS", workers),
            ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
            ("ROSTER_ACCESS_LOG__FORMAT", "json"),
        ];
        let folder = ground.folder.join(name);
        servers.push(servers::roster_with(&ground.program, &folder, &file, &settings)?);
    }
    for (server, core) in servers.iter().zip(CORES) {
        keep_on(server.id(), core, true)?;
    }
    if let Some(both) = servers.get(BOTH) {
        for (name, core) in [("worker-0", CORES[0]), ("worker-1", CORES[1])] {
            for thread in threads::named(both.id(), name) {
                keep_on(thread, core, false)?;
            }
        }
    }
    let mut turns: Vec<Vec<Outcome>> = CASES.iter().map(|_| Vec::new()).collect();
    for turn in 0..ground.setup.turns {
        let mut order: Vec<(&Case, &mut Vec<Outcome>)> = CASES.iter().zip(&mut turns).collect();
        // What comes after what must make no difference.
        if turn % 2 == 1 {
            order.reverse();
        }
        for (case, outcomes) in order {
            let outcome = once(ground, &servers, case)?;
            note(&format!("turn {}: {}: {}", turn + 1, case.name, outcome.line()));
            outcomes.push(outcome);
        }
    }
    let calls = servers.get(BOTH).map(|both| calls(ground, both));
    Ok(told(ground.setup, &turns, calls.and_then(Result::ok)))
}

/// What came of a case once.
#[derive(Clone, Debug)]
struct Outcome {
    per_s: f64,
    /// CPU for one operation, by kind of thread.
    cpu_us: BTreeMap<String, f64>,
}

impl Outcome {
    fn workers_us(&self) -> f64 {
        self.cpu_us.get("worker").copied().unwrap_or_default()
    }

    fn line(&self) -> String {
        let all: f64 = self.cpu_us.values().sum();
        let (workers, per_s) = (self.workers_us(), self.per_s);
        format!("workers {workers:.2} µs, all threads {all:.2} µs, {per_s:.0}/s")
    }
}

fn once(ground: &Ground<'_>, servers: &[Server], case: &Case) -> Result<Outcome, String> {
    let chosen: Vec<&Server> = case.servers.iter().filter_map(|at| servers.get(*at)).collect();
    let mut ids: Vec<u32> = chosen.iter().map(|server| server.id()).collect();
    ids.dedup();
    let before = Snapshot::of(&ids);
    let mut loads = Vec::new();
    for (number, (server, core)) in chosen.iter().zip(case.cores).enumerate() {
        loads.push(start(ground, server, case.job, core, number)?);
    }
    let (mut operations, mut per_s) = (0.0, 0.0);
    for load in loads {
        let figures = load.end()?;
        operations += figures.made() as f64;
        per_s += figures.per_s();
    }
    let Spent(spent) = Snapshot::of(&ids).since(&before);
    let each = |(name, us): (String, f64)| (name, us / operations);
    Ok(Outcome { per_s, cpu_us: spent.into_iter().map(each).collect() })
}

fn start<'a>(
    ground: &Ground<'_>,
    server: &'a Server,
    job: Job,
    core: Option<&str>,
    number: usize,
) -> Result<Running<'a>, String> {
    let entries = ground.setup.entries;
    let (filter, dn) = (format!("(uid=user.[1-{entries}])"), people(&format!("1-{entries}")));
    let mut words = match job {
        Job::Search => vec!["search", "-b", SUFFIX, "-f", &filter],
        Job::Modify => vec!["modify", "--dn", &dn],
    };
    // Everything counts, so that what was spent belongs to what was done.
    let seed = (number + 1).to_string();
    words.extend(["--warmup", "0", "--seed", &seed]);
    let mut with = ground.setup.with.clone();
    if let Some(core) = core {
        with.extend(["taskset", "-c", core].map(str::to_owned));
    }
    let load = Load::new(server, ground.setup.seconds, &words).connections(CONNECTIONS);
    load.start(&ground.program, &with)
}

/// System calls of one search, where `perf` can count them.
fn calls(ground: &Ground<'_>, server: &Server) -> Result<f64, String> {
    let loads: Result<Vec<Running<'_>>, String> =
        (0..2).map(|number| start(ground, server, Job::Search, None, number)).collect();
    let window = ground.setup.seconds.saturating_sub(1).max(1);
    let output = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &server.id().to_string()])
        .args(["--", "sleep", &window.to_string()])
        .output();
    let mut per_s = 0.0;
    for load in loads? {
        per_s += load.end()?.per_s();
    }
    let text = output.map_err(|error| error.to_string())?.stderr;
    let text = String::from_utf8_lossy(&text);
    let counted = text.lines().find(|line| line.contains("sys_enter")).unwrap_or_default();
    let counted = counted.split(',').next().and_then(|count| count.parse::<f64>().ok());
    let counted = counted.ok_or("perf counts nothing here")?;
    Ok(counted / window as f64 / per_s)
}

/// The tables.
fn told(setup: &Setup, turns: &[Vec<Outcome>], calls: Option<f64>) -> String {
    let mut text = format!(
        "{} people, {} turns of {} s, every other one backwards, {CONNECTIONS} connections a \
         generator; {}. {}.\n\n\
         | case | workers, CPU per operation | minimum · maximum | operations/s |\n\
         |---|---:|---:|---:|\n",
        setup.entries,
        setup.turns,
        setup.seconds,
        machine(),
        load_average()
    );
    for (case, outcomes) in CASES.iter().zip(turns) {
        let workers: Vec<f64> = outcomes.iter().map(Outcome::workers_us).collect();
        let per_s: Vec<f64> = outcomes.iter().map(|outcome| outcome.per_s).collect();
        let (cpu_us, rate, (low, high)) = (median(&workers), median(&per_s), ends(&workers));
        let name = case.name;
        let _ = writeln!(text, "| {name} | {cpu_us:.2} µs | {low:.2} · {high:.2} | {rate:.0} |");
    }
    if let Some(calls) = calls {
        let _ = writeln!(text, "\nSystem calls of one search: {calls:.2}.");
    }
    let of = |case: usize| turns.get(case).map(Vec::as_slice).unwrap_or_default();
    let shared: Vec<f64> = of(TOGETHER)
        .iter()
        .zip(of(APART))
        .map(|(together, apart)| together.workers_us() / apart.workers_us() - 1.0)
        .collect();
    text.push_str("\nThreads that exist only once, whatever the number of cores:\n\n");
    text.push_str("| thread | CPU per operation | limit |\n|---|---:|---:|\n");
    for (what, case) in [("search", TOGETHER), ("modify", MODIFY)] {
        for (name, us) in single(of(case)) {
            let most = 1e6 / us;
            let _ = writeln!(text, "| `{name}`, {what} | {us:.2} µs | {most:.0} operations/s |");
        }
    }
    text.push('\n');
    text.push_str(&law::told(&shared));
    text
}

/// The threads beside the workers that take more than a trace, with their medians.
fn single(outcomes: &[Outcome]) -> Vec<(String, f64)> {
    let mut names: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for outcome in outcomes {
        for (name, us) in &outcome.cpu_us {
            names.entry(name).or_default().push(*us);
        }
    }
    let medians = names.into_iter().map(|(name, us)| (name.to_owned(), median(&us)));
    let mut list: Vec<(String, f64)> =
        medians.filter(|(name, us)| name != "worker" && *us > 0.05).collect();
    list.sort_by(|one, other| other.1.total_cmp(&one.1));
    list
}
