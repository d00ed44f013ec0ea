//! `cargo xtask latency`: how late answers are at a steady rate below the capacity, of the echo
//! server and of roster, each on a core of its own with the load on the other, and beside them what
//! the machine itself did in the same seconds; as a table for `docs/performance.md`.
//!
//! Where a tail comes from can be told by comparing: what the echo has as well is not roster's;
//! what roster's access log does not know of happened outside of its worker; when a thread that
//! only sleeps is woken late, nothing that runs there could answer.
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

mod machine;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use testing::crash::server::{SUFFIX, pause};

use self::machine::{Probe, Waits, percentiles};
use crate::Error;
use crate::bench::build_echo;
use crate::figures::thousands;
use crate::ground::{Ground, Setup, load_average, machine as here, note};
use crate::load::{Figures, Load};
use crate::options;
use crate::servers::{self, Server, peers};
use crate::threads::{self, keep_on};

/// People, length of each load at a steady rate, and turns, unless told otherwise.
const DEFAULT_ENTRIES: u64 = 20_000;
const DEFAULT_SECONDS: u64 = 20;
const DEFAULT_TURNS: u64 = 1;
/// Length of the load that finds out the capacity.
const CAPACITY_SECONDS: u64 = 4;
/// Of the capacity, in percent.
const DEFAULT_SHARES: [u64; 3] = [70, 50, 30];
const DEFAULT_CONNECTIONS: [u64; 2] = [50, 8];
/// Where the server runs, and where the load does.
const SERVER_CORE: &str = "0";
const LOAD_CORE: &str = "1";
const LOOK_PAUSE: Duration = Duration::from_millis(100);
const PERCENTILES: [&str; 5] = ["p50", "p99", "p99_9", "p99_99", "max"];

#[derive(Debug)]
struct Asked {
    setup: Setup,
    shares: Vec<u64>,
    connections: Vec<u64>,
    echo: Option<PathBuf>,
    /// Only the worker is on the server's core; the log's thread, the flusher's and so on are not.
    is_apart: bool,
}

/// Runs what `arguments` ask for and prints the table.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut asked = Asked {
        setup: Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, DEFAULT_TURNS),
        shares: DEFAULT_SHARES.to_vec(),
        connections: DEFAULT_CONNECTIONS.to_vec(),
        echo: None,
        is_apart: false,
    };
    options::read(arguments, |name, value| {
        match name {
            "--shares" => asked.shares = value.numbers()?,
            "--connections" => asked.connections = value.numbers()?,
            "--apart" => asked.is_apart = true,
            "--echo" => asked.echo = Some(value.path()?),
            _ => return asked.setup.take(name, value),
        }
        Ok(true)
    })?;
    let echo = asked.echo.clone().map_or_else(build_echo, Ok)?;
    asked.setup.measure("latency", |ground| measure(&asked, ground, &echo)).map(drop)
}

fn measure(asked: &Asked, ground: &Ground<'_>, echo: &std::path::Path) -> Result<String, String> {
    let people = ground.people(&[])?;
    let settings = [
        ("ROSTER_SERVER__WORKERS", "1"),
        ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
        ("ROSTER_ACCESS_LOG__FORMAT", "json"),
        ("ROSTER_ACCESS_LOG__ROTATE_SIZE_MIB", "0"),
    ];
    let folder = ground.folder.join("roster");
    let servers = [
        peers::echo(echo, 760)?,
        servers::roster_with(&ground.program, &folder, &people, &settings)?,
    ];
    for server in &servers {
        keep_on(server.id(), SERVER_CORE, true)?;
        if asked.is_apart {
            let others = threads::list(server.id()).into_iter().skip(1);
            for (thread, _) in others.filter(|(_, name)| !name.starts_with("worker")) {
                keep_on(thread, LOAD_CORE, false)?;
            }
        }
    }
    let Asked { setup, shares, connections, .. } = asked;
    let loads = (shares.len() * connections.len() * servers.len()) as u64 * setup.turns;
    note(&format!("{loads} loads of {} s: {} s", setup.seconds, loads * (setup.seconds + 2)));
    let mut text = format!(
        "Searches by uid, whole entries, {} people, one worker; loads of {} s; the server on one \
         core, the load on the other; {}. {}.\n\n{HEAD}",
        thousands(setup.entries as f64),
        setup.seconds,
        here(),
        load_average()
    );
    for connections in connections {
        // The floor is asked as often: at its own capacity the load would need more than a core.
        let [_, roster] = &servers;
        let capacity = started(ground, roster, *connections, CAPACITY_SECONDS, &[])?;
        let capacity = capacity.figures.per_s();
        note(&format!("roster: {capacity:.0}/s with {connections} connections"));
        for share in shares {
            let rate = capacity * *share as f64 / 100.0;
            for _ in 0..setup.turns {
                for server in &servers {
                    let line = at_rate(ground, server, *connections, *share, rate)?;
                    note(&line);
                    let _ = writeln!(text, "{line}");
                }
            }
        }
    }
    let _ = write!(text, "\n{}. {TOLD}", load_average());
    Ok(text)
}

const HEAD: &str = "\
| connections, share of roster's capacity | a second | server | its answers: p50 · p99 · p99.9 · \
p99.99 · most, ms | as its log has it: p99.9 · p99.99 · most | a thread that sleeps, server's \
core: p99 · p99.9 · p99.99 · most | load's core | stolen, ms | waited for a core: worker · load, \
ms |
|---|---:|---|---:|---:|---:|---:|---:|---:|
";
const TOLD: &str = "\
Answers count from when the request was due. The thread that sleeps asks for a millisecond, above
all others where the system allows that (`chrt`): when it is late, the whole core stood still.
*Waited for a core* is what the system says of threads that could run while something else did.";

/// What came of a load, and what was seen meanwhile.
struct Seen {
    figures: Figures,
    /// Of both cores, in µs.
    late_us: [Vec<u64>; 2],
    stolen_ms: f64,
    waits: Waits,
}

/// Runs a load on its core and looks at the machine meanwhile.
fn started(
    ground: &Ground<'_>,
    server: &Server,
    connections: u64,
    seconds: u64,
    more: &[&str],
) -> Result<Seen, String> {
    let filter = format!("(uid=user.[1-{}])", ground.setup.entries);
    let words = [&["search", "-b", SUFFIX, "-f", &filter, "--expect", "1"], more].concat();
    let load = Load::new(server, seconds, &words).connections(connections);
    let mut with = ground.setup.with.clone();
    with.extend(["taskset", "-c", LOAD_CORE].map(str::to_owned));
    let probes = [Probe::start(SERVER_CORE)?, Probe::start(LOAD_CORE)?];
    let stolen = machine::stolen_ms();
    let mut running = load.start(&ground.program, &with)?;
    let mut waits = Waits::begin(server.id());
    while !running.has_ended() {
        waits.look(running.id());
        pause(LOOK_PAUSE);
    }
    let figures = running.end()?;
    let late_us = probes.map(Probe::end);
    Ok(Seen { figures, late_us, stolen_ms: machine::stolen_ms() - stolen, waits })
}

/// A line of the table.
fn at_rate(
    ground: &Ground<'_>,
    server: &Server,
    connections: u64,
    share: u64,
    rate: f64,
) -> Result<String, String> {
    let log = ground.folder.join("roster/data/logs/access.log");
    let before = fs::metadata(&log).map_or(0, |metadata| metadata.len());
    let rate = format!("{rate:.0}");
    let seen = started(ground, server, connections, ground.setup.seconds, &["--rate", &rate])?;
    let latencies = seen.figures.latencies_us(0, PERCENTILES)?.map(ms);
    let logged = match server.name {
        "roster" => machine::elapsed_us(&log, before)?,
        _ => Vec::new(),
    };
    let told = |late_us: &[u64], shares: &[f64]| match late_us {
        [] => "–".to_owned(),
        some => {
            let texts = percentiles(some, shares).into_iter().map(|us| ms(us as f64));
            texts.collect::<Vec<_>>().join(" · ")
        }
    };
    let all = [0.99, 0.999, 0.9999, 1.0];
    let [server_core, load_core] = &seen.late_us;
    let (worker_ms, load_ms) = seen.waits.ms();
    Ok(format!(
        "| {connections}, {share} % | {} | {} | {} | {} | {} | {} | {:.0} | {worker_ms:.0} · \
         {load_ms:.0} |",
        thousands(seen.figures.per_s()),
        server.name,
        latencies.join(" · "),
        told(&logged, &all[1..]),
        told(server_core, &all),
        told(load_core, &all),
        seen.stolen_ms,
    ))
}

fn ms(us: f64) -> String {
    format!("{:.2}", us / 1000.0)
}
