//! `cargo xtask bench-writes`: what writes cost, roster and slapd in turns on one machine in one
//! run, as tables for `docs/performance.md`.
//!
//! Both hold the same people with the same indexes, both make every write durable before they
//! answer, and the same program (`roster bench`) asks both and checks every answer.
//! Start at [`run`]; the servers are in `servers.rs`, the tables in `tables`.
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

mod tables;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testing::crash::server::{now, pause, scratch};
use testing::slapd::Slapd;

use self::tables::{Figures, Tables};
use crate::Error;
use crate::servers::{self, Server};
use crate::shell::{self, roster};

/// People unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
/// Length of each run in seconds unless told otherwise.
const DEFAULT_SECONDS: u64 = 10;
/// Connections of each load unless told otherwise.
const DEFAULT_CONNECTIONS: u64 = 50;
/// Adds a second of a soak, beside modifies at full speed.
const SOAK_ADDS_PER_S: u64 = 500;
/// The first made-up person that is added: far behind those that are loaded.
const FIRST_ADDED: u64 = 100_000_000;
/// Numbers between the people that one run adds and those of the next.
const ADDED_STEP: u64 = 10_000_000;
/// Writes of the probe that says how fast the disk is.
const PROBE_WRITES: usize = 300;
/// Octets of each.
const PROBE_BYTES: usize = 4096;

/// What the command line says.
#[derive(Debug)]
struct Asked {
    entries: u64,
    seconds: u64,
    connections: u64,
    turns: u64,
    soak_minutes: u64,
    with_slapd: bool,
    roster: Option<PathBuf>,
    folder: PathBuf,
}

/// Runs everything that `arguments` ask for and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    if asked.with_slapd && !Slapd::is_installed() {
        return Err(Error::Unable {
            reason: "slapd is not installed".to_owned(),
            hint: "'apt-get install slapd', or --no-slapd".to_owned(),
        });
    }
    let program = match &asked.roster {
        Some(path) => path.clone(),
        None => roster()?,
    };
    let begin = now();
    let result = measure(&asked, &program);
    let _ = std::fs::remove_dir_all(&asked.folder);
    let tables = result.map_err(Error::Wrong)?;
    println!("\n{tables}");
    println!("xtask: bench-writes: {} s", begin.elapsed().as_secs());
    Ok(())
}

fn measure(asked: &Asked, program: &Path) -> Result<Tables, String> {
    let folder = &asked.folder;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut tables = Tables::new(asked.entries, asked.connections, asked.seconds);
    tables.note(probe(folder)?);
    tables.note(load_average());
    note("making the people");
    let people = folder.join("people.ldif");
    generate(program, asked.entries, &people)?;
    let mut run = Run { asked, program, servers: Vec::new(), added: FIRST_ADDED };
    note("loading roster");
    let begin = now();
    run.servers.push(servers::roster(program, &folder.join("roster"), &people)?);
    tables.note(format!("roster import: {:.1} s", begin.elapsed().as_secs_f64()));
    if asked.with_slapd {
        note("loading slapd");
        let begin = now();
        run.servers.push(servers::slapd(&folder.join("slapd"), &people)?);
        tables.note(format!("slapadd -q: {:.1} s", begin.elapsed().as_secs_f64()));
    }
    // Gives the disk back before anything is measured.
    let _ = std::fs::remove_file(&people);
    if asked.soak_minutes > 0 {
        run.soak(&mut tables)?;
    } else {
        for _ in 0..asked.turns {
            run.writes(&mut tables)?;
        }
        run.searches_beside_writes(&mut tables)?;
        run.recovery(&mut tables)?;
    }
    tables.note(load_average());
    Ok(tables)
}

struct Run<'a> {
    asked: &'a Asked,
    program: &'a Path,
    /// roster first.
    servers: Vec<Server>,
    /// The number of the next person to add.
    added: u64,
}

impl Run<'_> {
    /// One `roster bench`; its JSON, and the memory the server had at most.
    fn bench(
        &self,
        server: &Server,
        operation: &str,
        seconds: u64,
        more: &[&str],
    ) -> Result<Figures, String> {
        let mut child = self.start(server, operation, seconds, more)?;
        let mut peak = server.anonymous_bytes();
        while child.try_wait().map_err(|error| error.to_string())?.is_none() {
            peak = peak.max(server.anonymous_bytes());
            pause(servers::SAMPLE_PAUSE);
        }
        let value = answer(child, server, operation)?;
        let figures = Figures::new(&value, peak)?;
        note(&format!("  {}: {operation}: {figures}", server.name));
        Ok(figures)
    }

    fn start(
        &self,
        server: &Server,
        operation: &str,
        seconds: u64,
        more: &[&str],
    ) -> Result<std::process::Child, String> {
        let (seconds, connections) = (seconds.to_string(), self.asked.connections.to_string());
        let (uri, pid) = (format!("ldap://{}", server.address), server.id().to_string());
        std::process::Command::new(self.program)
            .args(["bench", operation, "--json", "-H", &uri, "--server-pid", &pid])
            .args(["-D", server.dn, "-w", server.password, "-t", &seconds, "-c", &connections])
            .args(more)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))
    }

    /// The names of all people that were loaded.
    fn everybody(&self) -> String {
        format!("uid=user.[1-{}],ou=people,dc=example,dc=com", self.asked.entries)
    }

    /// Modify, add and delete, each on both servers in turn.
    fn writes(&mut self, tables: &mut Tables) -> Result<(), String> {
        let seconds = self.asked.seconds;
        let everybody = self.everybody();
        let mut added = Vec::new();
        note("modify");
        let run = |server: &Server| self.bench(server, "modify", seconds, &["--dn", &everybody]);
        tables.writes("modify, unindexed", self.each(run)?);
        note("add");
        let first = self.added.to_string();
        let run = |server: &Server| self.bench(server, "add", seconds, &["--first", &first]);
        let figures = self.each(run)?;
        added.extend(figures.iter().map(|figures| figures.made));
        tables.writes("add, ~20 attributes", figures);
        note("delete");
        let mut figures = Vec::new();
        for (server, count) in self.servers.iter().zip(&added) {
            // Some are left, so that no delete of the last moment names nobody.
            let (low, high) = (self.added + 1, self.added + (*count).max(2) - 1);
            let dn = format!("uid=user.[{low}-{high}],ou=people,dc=example,dc=com");
            let warmup = if *count > SHORT_ADDS { "1" } else { "0" };
            let more = ["--dn", &dn, "--warmup", warmup];
            figures.push(self.bench(server, "delete", seconds, &more)?);
        }
        tables.writes("delete", figures);
        self.added += ADDED_STEP;
        Ok(())
    }

    fn each(
        &self,
        mut run: impl FnMut(&Server) -> Result<Figures, String>,
    ) -> Result<Vec<Figures>, String> {
        self.servers.iter().map(&mut run).collect()
    }

    /// Searches at half of what the server can do, alone and while writes run at full speed.
    fn searches_beside_writes(&mut self, tables: &mut Tables) -> Result<(), String> {
        note("search");
        let filter = format!("(uid=user.[1-{}])", self.asked.entries);
        let everybody = self.everybody();
        let seconds = self.asked.seconds;
        let search = |server: &Server, seconds: u64, more: &[&str]| {
            let more = [&["--filter", &filter, "--expect", "1"], more].concat();
            self.bench(server, "search", seconds, &more)
        };
        let mut rows = Vec::new();
        for server in &self.servers {
            let capacity = search(server, seconds.min(CAPACITY_SECONDS), &[])?;
            let rate = ((capacity.per_s / 2.0) as u64).max(1).to_string();
            let alone = search(server, seconds, &["--rate", &rate])?;
            let modify = ["--rate", &rate, "--with", "modify", "--with-dn", &everybody];
            let beside = search(server, seconds, &modify)?;
            let first = self.added.to_string();
            let add = ["--rate", &rate, "--with", "add", "--with-first", &first];
            let beside_adds = search(server, seconds, &add)?;
            rows.push((server.name, [capacity, alone, beside, beside_adds]));
        }
        for (name, figures) in rows {
            tables.searches(name, figures);
        }
        self.added += ADDED_STEP;
        Ok(())
    }

    /// Kills roster right after writes at full speed and measures until it serves again.
    fn recovery(&mut self, tables: &mut Tables) -> Result<(), String> {
        note("recovery");
        let first = self.added.to_string();
        let seconds = self.asked.seconds;
        let server = self.servers.first().ok_or("roster is not there")?;
        let figures = self.bench(server, "add", seconds, &["--first", &first])?;
        let server = self.servers.first_mut().ok_or("roster is not there")?;
        let recovered = servers::kill_and_start(server)?;
        let server = self.servers.first().ok_or("roster is not there")?;
        let (low, high) = (self.added + 1, self.added + figures.made.max(2) - 1);
        let filter = format!("(uid=user.[{low}-{high}])");
        // Nobody that was added may be missing.
        self.bench(server, "search", 2, &["--filter", &filter, "--expect", "1"])?;
        self.added += ADDED_STEP;
        tables.recovery(&figures, &recovered);
        Ok(())
    }

    /// Writes for a long time: is memory bounded, do latencies stay?
    fn soak(&mut self, tables: &mut Tables) -> Result<(), String> {
        let minutes = self.asked.soak_minutes;
        note(&format!("soak: {minutes} minutes"));
        let server = self.servers.first().ok_or("roster is not there")?;
        let everybody = self.everybody();
        let seconds = minutes * 60;
        let rate = SOAK_ADDS_PER_S.to_string();
        let first = self.added.to_string();
        let mut modify = self.start(server, "modify", seconds, &["--dn", &everybody])?;
        let add = self.start(server, "add", seconds, &["--rate", &rate, "--first", &first])?;
        let begin = now();
        let mut peaks: Vec<(u64, u64)> = Vec::new();
        while modify.try_wait().map_err(|error| error.to_string())?.is_none() {
            let minute = (begin.elapsed().as_secs() / 60) as usize;
            if peaks.len() <= minute {
                peaks.push((0, 0));
            }
            if let Some((anonymous, disk)) = peaks.get_mut(minute) {
                *anonymous = (*anonymous).max(server.anonymous_bytes());
                *disk = (*disk).max(server.disk_bytes());
            }
            pause(servers::SAMPLE_PAUSE);
        }
        let modify = Figures::new(&answer(modify, server, "modify")?, 0)?;
        let add = Figures::new(&answer(add, server, "add")?, 0)?;
        tables.soak(&modify, &add, &peaks);
        Ok(())
    }
}

/// The JSON of a load that has ended.
pub(crate) fn answer(
    child: std::process::Child,
    server: &Server,
    operation: &str,
) -> Result<Value, String> {
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if !output.status.success() {
        let log = server.log_tail();
        return Err(format!("{operation} on {}: {stdout}{stderr}{log}", server.name));
    }
    serde_json::from_str(&stdout).map_err(|error| format!("{operation}: {error}: {stdout}"))
}

/// Makes the LDIF file of so many people.
pub(crate) fn generate(program: &Path, entries: u64, file: &Path) -> Result<(), String> {
    let template = shell::root().join("examples/people.template");
    let status = std::process::Command::new(program)
        .arg("generate")
        .arg(template)
        .args(["--entries", &entries.to_string(), "-o"])
        .arg(file)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("roster generate: {other:?}")),
    }
}

/// How long one durable write of a block takes: what a group of writes waits for.
fn probe(folder: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let path = folder.join("probe");
    let mut file = File::create(&path).map_err(failed)?;
    let mut times_us = Vec::with_capacity(PROBE_WRITES);
    for _ in 0..PROBE_WRITES {
        let begin = now();
        file.write_all(&[7; PROBE_BYTES]).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        times_us.push(begin.elapsed().as_micros());
    }
    std::fs::remove_file(&path).map_err(failed)?;
    times_us.sort_unstable();
    let at = |share: usize| times_us.get(PROBE_WRITES * share / 100).copied().unwrap_or_default();
    Ok(format!("fdatasync of an appended 4 KB block: {} µs median, {} µs p99", at(50), at(99)))
}

/// What else the machine does.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average: {}", text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

pub(crate) fn note(text: &str) {
    println!("xtask: {text}");
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        entries: DEFAULT_ENTRIES,
        seconds: DEFAULT_SECONDS,
        connections: DEFAULT_CONNECTIONS,
        turns: 1,
        soak_minutes: 0,
        with_slapd: true,
        roster: None,
        folder: scratch("bench-writes"),
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if name == "--no-slapd" {
            asked.with_slapd = false;
            continue;
        }
        let value =
            arguments.next().ok_or_else(|| Error::usage(format!("{name} takes a value")))?;
        let number = || match value.trim_end_matches('m').parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Error::usage(format!("{name} takes a number above 0"))),
        };
        match name.as_str() {
            "--entries" => asked.entries = number()?,
            "--seconds" => asked.seconds = number()?,
            "--connections" => asked.connections = number()?,
            "--turns" => asked.turns = number()?,
            "--soak" => {
                asked.soak_minutes = number()?;
                asked.with_slapd = false;
            }
            "--roster" => asked.roster = Some(PathBuf::from(value)),
            "--folder" => asked.folder = PathBuf::from(value),
            other => return Err(Error::usage(format!("unknown option: {other}"))),
        }
    }
    Ok(asked)
}

/// The longest run that finds out how many searches a server can do.
const CAPACITY_SECONDS: u64 = 5;
/// With fewer than these, a second of warm-up would take most of what there is to delete.
const SHORT_ADDS: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let asked = parse(&[]).unwrap();
        assert_eq!((asked.entries, asked.turns, asked.with_slapd), (100_000, 1, true));
        let asked = parse(&words("--soak 10m --entries 1000000")).unwrap();
        assert_eq!((asked.soak_minutes, asked.with_slapd), (10, false));
        for wrong in ["--turns 0", "--entries", "--other 1"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
