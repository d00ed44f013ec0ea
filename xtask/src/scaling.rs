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
mod threads;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testing::crash::server::{SUFFIX, scratch};

use self::threads::{Snapshot, Spent};
use crate::Error;
use crate::bench::machine;
use crate::bench_writes::{generate, load_average, note};
use crate::servers::guard::Guard;
use crate::servers::{self, Server};
use crate::shell;

/// People, length of a run and turns unless told otherwise.
const DEFAULT_ENTRIES: u64 = 20_000;
const DEFAULT_SECONDS: u64 = 3;
const DEFAULT_TURNS: u64 = 5;
/// Connections of each generator.
const CONNECTIONS: &str = "25";
/// Of one server that is asked by one generator alone.
const CORES: [&str; 2] = ["0", "1"];

#[derive(Debug)]
struct Asked {
    entries: u64,
    seconds: u64,
    turns: u64,
    roster: Option<PathBuf>,
    with: Vec<String>,
}

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
    let asked = parse(arguments)?;
    let program = match &asked.roster {
        Some(path) => path.clone(),
        None => shell::roster()?,
    };
    let folder = scratch("scaling");
    let guard = Guard::folder(&folder);
    let result = measure(&asked, &program, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    drop(guard);
    println!("\n{}", result.map_err(Error::Wrong)?);
    Ok(())
}

fn measure(asked: &Asked, program: &Path, folder: &Path) -> Result<String, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let people = folder.join("people.ldif");
    generate(program, asked.entries, &people)?;
    let mut servers = Vec::new();
    for (name, workers) in [("one", "1"), ("other", "1"), ("both", "2"), ("free", "2")] {
        note(&format!("loading {name}"));
        let settings = [
            ("ROSTER_SERVER__WORKERS", workers),
            ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
            ("ROSTER_ACCESS_LOG__FORMAT", "json"),
        ];
        servers.push(servers::roster_with(program, &folder.join(name), &people, &settings)?);
    }
    for (server, core) in servers.iter().zip(CORES) {
        keep_on(&["-a"], server.id(), core)?;
    }
    if let Some(both) = servers.get(BOTH) {
        for (name, core) in [("worker-0", CORES[0]), ("worker-1", CORES[1])] {
            for thread in threads::named(both.id(), name) {
                keep_on(&[], thread, core)?;
            }
        }
    }
    let mut turns: Vec<Vec<Outcome>> = CASES.iter().map(|_| Vec::new()).collect();
    for turn in 0..asked.turns {
        for (case, outcomes) in CASES.iter().zip(&mut turns) {
            let outcome = once(asked, program, &servers, case)?;
            note(&format!("turn {}: {}: {}", turn + 1, case.name, outcome.line()));
            outcomes.push(outcome);
        }
    }
    let calls = servers.get(BOTH).map(|both| calls(asked, program, both));
    Ok(told(asked, &turns, calls.and_then(Result::ok)))
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

fn once(asked: &Asked, program: &Path, servers: &[Server], case: &Case) -> Result<Outcome, String> {
    let chosen: Vec<&Server> = case.servers.iter().filter_map(|at| servers.get(*at)).collect();
    let mut ids: Vec<u32> = chosen.iter().map(|server| server.id()).collect();
    ids.dedup();
    let before = Snapshot::of(&ids);
    let mut loads = Vec::new();
    for (number, (server, core)) in chosen.iter().zip(case.cores).enumerate() {
        loads.push(start(asked, program, server, case.job, core, number)?);
    }
    let (mut operations, mut per_s) = (0.0, 0.0);
    for load in loads {
        let (made, rate) = ended(load)?;
        operations += made;
        per_s += rate;
    }
    let Spent(spent) = Snapshot::of(&ids).since(&before);
    let each = |(name, us): (String, f64)| (name, us / operations);
    Ok(Outcome { per_s, cpu_us: spent.into_iter().map(each).collect() })
}

fn start(
    asked: &Asked,
    program: &Path,
    server: &Server,
    job: Job,
    core: Option<&str>,
    number: usize,
) -> Result<Child, String> {
    let mut words = asked.with.clone();
    if let Some(core) = core {
        words.extend(["taskset", "-c", core].map(str::to_owned));
    }
    words.extend([program.display().to_string(), "bench".to_owned()]);
    let people = asked.entries;
    let asks = match job {
        Job::Search => {
            let filter = format!("(uid=user.[1-{people}])");
            vec!["search".to_owned(), "-b".to_owned(), SUFFIX.to_owned(), "-f".to_owned(), filter]
        }
        Job::Modify => {
            let dn = format!("uid=user.[1-{people}],ou=people,{SUFFIX}");
            vec!["modify".to_owned(), "--dn".to_owned(), dn]
        }
    };
    words.extend(asks);
    let mut words = words.into_iter();
    let mut load = Command::new(words.next().unwrap_or_default());
    // Everything counts, so that what was spent belongs to what was done.
    load.args(words).args(["--json", "--warmup", "0", "-c", CONNECTIONS]);
    load.args(["-H", &format!("ldap://{}", server.address), "-t", &asked.seconds.to_string()]);
    load.args(["-D", server.dn, "-w", server.password, "--seed", &(number + 1).to_string()]);
    load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    load.spawn().map_err(|error| format!("the load: {error}"))
}

/// How many operations a load has done, and how many a second.
fn ended(load: Child) -> Result<(f64, f64), String> {
    let output = load.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let stream = value.pointer("/streams/0");
    let number = |name: &str| stream.and_then(|stream| stream.get(name)?.as_f64());
    let both = number("made").zip(number("operations_per_s"));
    both.ok_or_else(|| format!("no figures: {text}"))
}

/// System calls of one search, where `perf` can count them.
fn calls(asked: &Asked, program: &Path, server: &Server) -> Result<f64, String> {
    let loads: Result<Vec<Child>, String> =
        (0..2).map(|number| start(asked, program, server, Job::Search, None, number)).collect();
    let window = asked.seconds.saturating_sub(1).max(1);
    let output = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &server.id().to_string()])
        .args(["--", "sleep", &window.to_string()])
        .output();
    let mut per_s = 0.0;
    for load in loads? {
        per_s += ended(load)?.1;
    }
    let text = output.map_err(|error| error.to_string())?.stderr;
    let text = String::from_utf8_lossy(&text);
    let counted = text.lines().find(|line| line.contains("sys_enter")).unwrap_or_default();
    let counted = counted.split(',').next().and_then(|count| count.parse::<f64>().ok());
    let counted = counted.ok_or("perf counts nothing here")?;
    Ok(counted / window as f64 / per_s)
}

fn keep_on(options: &[&str], id: u32, core: &str) -> Result<(), String> {
    let output = Command::new("taskset")
        .args(options)
        .args(["-p", "-c", core, &id.to_string()])
        .output()
        .map_err(|error| format!("taskset: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("taskset: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// The tables.
fn told(asked: &Asked, turns: &[Vec<Outcome>], calls: Option<f64>) -> String {
    let mut text = format!(
        "{} people, {} turns of {} s, {CONNECTIONS} connections a generator; {}. {}.\n\n\
         | case | workers, CPU an operation | least · most | operations/s |\n\
         |---|---:|---:|---:|\n",
        asked.entries,
        asked.turns,
        asked.seconds,
        machine(),
        load_average()
    );
    for (case, outcomes) in CASES.iter().zip(turns) {
        let mut workers: Vec<f64> = outcomes.iter().map(Outcome::workers_us).collect();
        let mut per_s: Vec<f64> = outcomes.iter().map(|outcome| outcome.per_s).collect();
        let (cpu_us, rate) = (law::median(&mut workers), law::median(&mut per_s));
        let (low, high) = (workers.first().copied(), workers.last().copied());
        let _ = writeln!(
            text,
            "| {} | {cpu_us:.2} µs | {:.2} · {:.2} | {rate:.0} |",
            case.name,
            low.unwrap_or_default(),
            high.unwrap_or_default()
        );
    }
    if let Some(calls) = calls {
        let _ = writeln!(text, "\nSystem calls of one search: {calls:.2}.");
    }
    let of = |case: usize| turns.get(case).map(Vec::as_slice).unwrap_or_default();
    let mut shared: Vec<f64> = of(TOGETHER)
        .iter()
        .zip(of(APART))
        .map(|(together, apart)| together.workers_us() / apart.workers_us() - 1.0)
        .collect();
    text.push_str("\nThreads that there is one of, whatever the number of cores:\n\n");
    text.push_str("| thread | CPU an operation | it ends at |\n|---|---:|---:|\n");
    for (what, case) in [("search", TOGETHER), ("modify", MODIFY)] {
        for (name, us) in single(of(case)) {
            let most = 1e6 / us;
            let _ = writeln!(text, "| `{name}`, {what} | {us:.2} µs | {most:.0} operations/s |");
        }
    }
    text.push('\n');
    text.push_str(&law::told(&mut shared));
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
    let medians = names.into_iter().map(|(name, mut us)| (name.to_owned(), law::median(&mut us)));
    let mut list: Vec<(String, f64)> =
        medians.filter(|(name, us)| name != "worker" && *us > 0.05).collect();
    list.sort_by(|one, other| other.1.total_cmp(&one.1));
    list
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        entries: DEFAULT_ENTRIES,
        seconds: DEFAULT_SECONDS,
        turns: DEFAULT_TURNS,
        roster: None,
        with: Vec::new(),
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let value =
            arguments.next().ok_or_else(|| Error::usage(format!("{name} takes a value")))?;
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Error::usage(format!("{name} takes a number above 0"))),
        };
        match name.as_str() {
            "--entries" => asked.entries = number()?,
            "--seconds" => asked.seconds = number()?,
            "--turns" => asked.turns = number()?,
            "--roster" => asked.roster = Some(PathBuf::from(value)),
            "--with" => asked.with = value.split(' ').map(str::to_owned).collect(),
            other => return Err(Error::usage(format!("unknown option: {other}"))),
        }
    }
    Ok(asked)
}
