//! `cargo xtask bench`: roster beside OpenLDAP, 389 Directory Server and OpenDJ, in turns on one
//! machine in one run, with an echo server as the floor, as a table for `docs/performance.md`.
//!
//! All hold the same people with the same indexes and the same hashes of passwords, are set up as
//! `scripts/peers/` says why, and do the jobs of `jobs.rs`, for which `roster bench` asks them and
//! checks every answer. roster has its access log on, and whoever searches is under its ACIs.
//!
//! Invariant: only servers started here, on loopback, are asked; they end with the run, and their
//! data are removed.

mod jobs;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testing::crash::server::{now, scratch};

use self::jobs::{Added, JOBS, Job, SMALL_BYTES, WHOLE_BYTES, Who};
use self::table::{Cell, Row, between, table};
use crate::bench_access::{give, hash_passwords_as};
use crate::bench_writes::{generate, load_average, note};
use crate::servers::guard::Guard;
use crate::servers::{self, Server, peers};
use crate::shell::{self, cargo, output, root, step, target};
use crate::test::install_missing;
use crate::{Error, shell::command};

/// People unless told otherwise, and in the short form.
const DEFAULT_ENTRIES: u64 = 100_000;
const QUICK_ENTRIES: u64 = 20_000;
/// Length of each run in seconds, and turns, unless told otherwise.
const DEFAULT_SECONDS: u64 = 10;
const DEFAULT_TURNS: u64 = 3;
const QUICK_SECONDS: u64 = 3;
/// Length of each run before anything is measured: caches fill, and Java compiles what is hot.
const PRIMING_SECONDS: u64 = 3;
/// Connections of each load.
const CONNECTIONS: &str = "50";
/// A delete of fewer people begins to count at once: else none are left to be measured.
const SHORT_ADDS: u64 = 20_000;
/// Who searches in roster.
const PERSON: (&str, &str) = ("uid=user.1,ou=people,dc=example,dc=com", "password");
const PAGE: &str = "docs/performance.md";
/// Between these marks of the page.
const MARK: &str = "bench";

/// The servers that can be compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Roster,
    Slapd,
    Ds389,
    OpenDj,
}

const KINDS: [(&str, Kind); 4] = [
    ("roster", Kind::Roster),
    ("slapd", Kind::Slapd),
    ("389", Kind::Ds389),
    ("opendj", Kind::OpenDj),
];

#[derive(Clone, Debug)]
struct Asked {
    is_quick: bool,
    entries: u64,
    seconds: u64,
    turns: u64,
    kinds: Vec<Kind>,
    /// Another build of the server and of the load generator than the present one.
    roster: Option<PathBuf>,
    echo: Option<PathBuf>,
    /// A command that each load is run with, such as `nice`.
    with: Vec<String>,
    /// Only jobs with this in their names.
    only: Option<String>,
}

/// Runs everything that `arguments` ask for; the full form writes the table.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    for kind in &asked.kinds {
        install_missing(match kind {
            // slapd's program hashes the passwords.
            Kind::Roster | Kind::Slapd => peers::SLAPD_PACKAGES,
            Kind::Ds389 => peers::DS389_PACKAGES,
            Kind::OpenDj => peers::OPENDJ_PACKAGES,
        })?;
    }
    let program = match &asked.roster {
        Some(path) => path.clone(),
        None => shell::roster()?,
    };
    let echo = match &asked.echo {
        Some(path) => path.clone(),
        None => build_echo()?,
    };
    let begin = now();
    let folder = scratch("bench");
    let guard = Guard::folder(&folder);
    let result = measure(&asked, &program, &echo, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    drop(guard);
    let text = result.map_err(Error::Wrong)?;
    println!("\n{text}\nxtask: bench: {} s", begin.elapsed().as_secs());
    let is_whole = KINDS.iter().all(|(_, kind)| asked.kinds.contains(kind));
    if is_whole && !asked.is_quick && asked.only.is_none() {
        write(&text)?;
    }
    Ok(())
}

/// Puts the table into the page.
fn write(text: &str) -> Result<(), Error> {
    let path = root().join(PAGE);
    let wrong = |error: std::io::Error| Error::Wrong(format!("{PAGE}: {error}"));
    let page = std::fs::read_to_string(&path).map_err(wrong)?;
    let page = between(&page, MARK, text)
        .ok_or_else(|| Error::Wrong(format!("{PAGE} has no marks for the table")))?;
    std::fs::write(&path, page).map_err(wrong)?;
    println!("xtask: the table is in {PAGE}");
    Ok(())
}

fn build_echo() -> Result<PathBuf, Error> {
    let words = ["build", "--quiet", "--release", "--package", "server", "--example", "echo"];
    step("the echo server", cargo(&words))?;
    Ok(target().join("release/examples/echo"))
}

fn measure(asked: &Asked, program: &Path, echo: &Path, folder: &Path) -> Result<String, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let people = folder.join("people.ldif");
    note("making the people");
    generate(program, asked.entries, &people)?;
    hash_passwords_as(&people, "{SSHA}")?;
    let floors = [
        (SMALL_BYTES, peers::echo(echo, SMALL_BYTES)?),
        (WHOLE_BYTES, peers::echo(echo, WHOLE_BYTES)?),
    ];
    let mut list = Vec::new();
    let mut loads = Vec::new();
    for kind in &asked.kinds {
        let begin = now();
        let server = load(*kind, program, folder, &people)?;
        let seconds = begin.elapsed().as_secs_f64();
        note(&format!("{}: loaded and started in {seconds:.1} s", server.name));
        loads.push(format!("{} {seconds:.1} s", server.name));
        list.push((server, Added::default()));
    }
    let _ = std::fs::remove_file(&people);
    let is_wanted = |job: &&Job| {
        (job.is_quick || !asked.is_quick)
            && asked.only.as_ref().is_none_or(|part| job.name.contains(part.as_str()))
    };
    let mut rows: Vec<Row> = JOBS
        .iter()
        .filter(is_wanted)
        .map(|job| Row { job, cells: vec![None; list.len() + 1] })
        .collect();
    let priming = Asked { seconds: PRIMING_SECONDS, with: Vec::new(), ..asked.clone() };
    for (server, added) in &mut list {
        note(&format!("priming {}", server.name));
        for row in rows.iter().filter(|row| server.name == "OpenDJ" || row.job.is_first()) {
            if let Err(error) = bench(&priming, program, server, row.job, added, &mut None) {
                note(&error);
            }
        }
    }
    let mut wrong = Vec::new();
    for turn in 0..asked.turns {
        for row in &mut rows {
            note(&format!("turn {} of {}: {}", turn + 1, asked.turns, row.job.name));
            let floor = floors.iter().find(|(bytes, _)| Some(*bytes) == row.job.echo_bytes);
            if let (Some((_, floor)), Some(cell)) = (floor, row.cells.first_mut()) {
                bench(asked, program, floor, row.job, &mut Added::default(), cell)?;
            }
            for ((server, added), cell) in list.iter_mut().zip(row.cells.iter_mut().skip(1)) {
                // What one server answers wrongly is no figure; the others have theirs.
                if let Err(error) = bench(asked, program, server, row.job, added, cell) {
                    note(&error);
                    wrong.push(format!("{} on {}", row.job.name, server.name));
                    *cell = None;
                }
            }
        }
    }
    let mut names = vec!["echo"];
    names.extend(list.iter().map(|(server, _)| server.name));
    let own = names.iter().position(|name| *name == "roster").unwrap_or_default();
    let wrong = match wrong.as_slice() {
        [] => String::new(),
        list => format!(" Without what was answered wrongly: {}.", list.join(", ")),
    };
    Ok(format!(
        "{} people, {CONNECTIONS} connections, one request outstanding each; {} turns of {} s, \
         the median; \
         {}. {}. Loading and starting: {}.{wrong}\n\n{}",
        asked.entries,
        asked.turns,
        asked.seconds,
        machine(),
        load_average(),
        loads.join(", "),
        table(&names, own, &rows)
    ))
}

/// Loads a server and starts it.
fn load(kind: Kind, program: &Path, folder: &Path, people: &Path) -> Result<Server, String> {
    match kind {
        Kind::Roster => {
            let settings =
                [("ROSTER_PASSWORD__REHASH_ON_BIND", "off"), ("ROSTER_ACCESS_LOG__FORMAT", "json")];
            let server = servers::roster_with(program, &folder.join("roster"), people, &settings)?;
            give(&server, "examples/access-control.ldif")?;
            give(&server, "scripts/peers/roster.ldif")?;
            Ok(server)
        }
        Kind::Slapd => peers::slapd(&folder.join("slapd"), people),
        Kind::Ds389 => peers::ds389(&folder.join("389"), people),
        Kind::OpenDj => peers::opendj(&folder.join("opendj"), people),
    }
}

/// One load on one server; its figures go into the cell.
fn bench(
    asked: &Asked,
    program: &Path,
    server: &Server,
    job: &Job,
    added: &mut Added,
    cell: &mut Option<Cell>,
) -> Result<(), String> {
    let (dn, password) = match (server.name, job.who) {
        ("roster", Who::Person) => PERSON,
        _ => (server.dn, server.password),
    };
    let mut words = asked.with.clone();
    words.push(program.display().to_string());
    words.push("bench".to_owned());
    words.extend(job.arguments(asked.entries, added));
    let mut words = words.into_iter();
    let first = words.next().unwrap_or_default();
    let record = scratch("bench-record");
    let warmup = if job.deletes() && added.count() < SHORT_ADDS { "0" } else { "1" };
    let mut load = Command::new(first);
    load.args(words).arg("--output").arg(&record);
    load.args(["-H", &format!("ldap://{}", server.address), "-c", CONNECTIONS]);
    load.args(["-D", dn, "-w", password, "--warmup", warmup]);
    load.args(["-t", &asked.seconds.to_string(), "--server-pid", &server.id().to_string()]);
    let output = load.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let said = || {
        let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        format!("{} on {}: {}", job.name, server.name, String::from_utf8_lossy(&text))
    };
    let text = std::fs::read_to_string(&record);
    let _ = std::fs::remove_file(&record);
    if !output.status.success() {
        return Err(format!("{}{}", said(), server.log_tail()));
    }
    let text = text.map_err(|error| format!("{}{error}", said()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let streams = value.get("streams").and_then(Value::as_array).map(Vec::as_slice);
    let streams = streams.unwrap_or_default();
    let number = |stream: &Value, name: &str| stream.get(name).and_then(Value::as_f64);
    // A cycle is a search and a bind; those are told of beside it.
    let is_cycle = |stream: &&Value| stream.get("name").and_then(Value::as_str) == Some("cycle");
    let per_s = match streams.iter().find(is_cycle) {
        Some(cycle) => number(cycle, "operations_per_s"),
        None => streams.iter().map(|stream| number(stream, "operations_per_s")).sum(),
    };
    let cpu_us = value.pointer("/cost/server/cpu_us_per_operation").and_then(Value::as_f64);
    let (cpu_us, per_s) = cpu_us.zip(per_s).ok_or_else(|| format!("no figures: {text}"))?;
    if job.adds() {
        let made: Option<f64> = streams.iter().map(|stream| number(stream, "made")).sum();
        added.note(made.unwrap_or_default() as u64);
    }
    note(&format!("  {}: {cpu_us:.1} µs, {per_s:.0}/s", server.name));
    let cell = cell.get_or_insert_default();
    cell.cpu_us.push(cpu_us);
    cell.per_s.push(per_s);
    Ok(())
}

/// The day, and what it was measured on.
pub(crate) fn machine() -> String {
    let day = output(command("date", &["-u", "+%F"])).unwrap_or_default();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models = || info.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = models().next().unwrap_or_default().trim_start_matches(['\t', ' ', ':']);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}, {} cores of {model}, Linux {}", day.trim(), models().count(), kernel.trim())
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let is_quick = arguments.iter().any(|word| word == "--quick");
    let mut asked = Asked {
        is_quick,
        entries: if is_quick { QUICK_ENTRIES } else { DEFAULT_ENTRIES },
        seconds: if is_quick { QUICK_SECONDS } else { DEFAULT_SECONDS },
        turns: if is_quick { 1 } else { DEFAULT_TURNS },
        kinds: KINDS.iter().map(|(_, kind)| *kind).collect(),
        roster: None,
        echo: None,
        with: Vec::new(),
        only: None,
    };
    if is_quick {
        asked.kinds = vec![Kind::Roster, Kind::Slapd];
    }
    let mut arguments = arguments.iter().filter(|word| *word != "--quick");
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
            "--servers" => asked.kinds = kinds(value)?,
            "--roster" => asked.roster = Some(PathBuf::from(value)),
            "--echo" => asked.echo = Some(PathBuf::from(value)),
            "--with" => asked.with = value.split(' ').map(str::to_owned).collect(),
            "--only" => asked.only = Some(value.to_owned()),
            other => return Err(Error::usage(format!("unknown option: {other}"))),
        }
    }
    Ok(asked)
}

/// roster, which all are compared with, and those that are named.
fn kinds(names: &str) -> Result<Vec<Kind>, Error> {
    let mut kinds = vec![Kind::Roster];
    for name in names.split(',') {
        let known = KINDS.iter().find(|(known, _)| *known == name);
        let (_, kind) = known.ok_or_else(|| Error::usage(format!("unknown server: {name}")))?;
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    Ok(kinds)
}
