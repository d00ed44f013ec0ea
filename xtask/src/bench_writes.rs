//! `cargo xtask bench-writes`: what searches wait for while others write, how long roster takes to
//! serve again after it was killed in the middle of writes, and, with `--soak`, whether its memory
//! stays bounded; as tables for `docs/performance.md`. What writes cost, and other servers', is
//! told by `cargo xtask bench`.
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

mod tables;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use testing::crash::server::{now, pause};

use self::tables::{Row, Tables};
use crate::Error;
use crate::ground::{Ground, Setup, load_average, note};
use crate::load::{Figures, Load, people};
use crate::options;
use crate::servers::{self, Server};

/// People, length of a load and connections unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
const DEFAULT_SECONDS: u64 = 10;
const DEFAULT_CONNECTIONS: u64 = 50;
/// Adds a second of a soak, beside modifies at full speed.
const SOAK_ADDS_PER_S: u64 = 500;
/// The first made-up person that is added: far behind those that are loaded.
const FIRST_ADDED: u64 = 100_000_000;
/// Numbers between the people that one run adds and those of the next.
const ADDED_STEP: u64 = 10_000_000;
/// The longest run that finds out how many searches the server can do.
const CAPACITY_SECONDS: u64 = 5;
/// Writes of the probe that says how fast the disk is, and octets of each.
const PROBE_WRITES: usize = 300;
const PROBE_BYTES: usize = 4096;

/// What the command line says.
#[derive(Debug)]
struct Asked {
    setup: Setup,
    connections: u64,
    soak_minutes: u64,
}

/// Runs everything that `arguments` ask for and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    asked.setup.measure("bench-writes", |ground| measure(&asked, ground)).map(drop)
}

fn measure(asked: &Asked, ground: &Ground<'_>) -> Result<String, String> {
    let setup = &asked.setup;
    let mut tables = Tables::new(setup.entries, asked.connections, setup.seconds);
    tables.note(probe(&ground.folder)?);
    tables.note(load_average());
    let file = ground.people(&[])?;
    note("loading");
    let begin = now();
    let server = servers::roster(&ground.program, &ground.folder.join("roster"), &file)?;
    tables.note(format!("roster import: {:.1} s", begin.elapsed().as_secs_f64()));
    let mut run = Run { asked, ground, server, added: FIRST_ADDED };
    if asked.soak_minutes > 0 {
        run.soak(&mut tables)?;
    } else {
        run.searches_beside_writes(&mut tables)?;
        run.recovery(&mut tables)?;
    }
    tables.note(load_average());
    Ok(tables.to_string())
}

struct Run<'a> {
    asked: &'a Asked,
    ground: &'a Ground<'a>,
    server: Server,
    /// The number of the next person to add.
    added: u64,
}

impl Run<'_> {
    fn load(&self, seconds: u64, words: &[&str]) -> Load<'_> {
        Load::new(&self.server, seconds, words).connections(self.asked.connections)
    }

    /// One load, and the memory the server had at most.
    fn bench(&self, seconds: u64, words: &[&str]) -> Result<Row, String> {
        let load = self.load(seconds, words);
        let mut load = load.start(&self.ground.program, &self.asked.setup.with)?;
        let mut peak_bytes = self.server.anonymous_bytes();
        while !load.has_ended() {
            peak_bytes = peak_bytes.max(self.server.anonymous_bytes());
            pause(servers::SAMPLE_PAUSE);
        }
        let row = Row::new(&load.end()?, peak_bytes)?;
        note(&format!("  {}: {row}", words.first().unwrap_or(&"")));
        Ok(row)
    }

    /// The names of all people that were loaded.
    fn everybody(&self) -> String {
        people(&format!("1-{}", self.asked.setup.entries))
    }

    /// Searches at half of what the server can do, alone and while writes run at full speed.
    fn searches_beside_writes(&mut self, tables: &mut Tables) -> Result<(), String> {
        let filter = format!("(uid=user.[1-{}])", self.asked.setup.entries);
        let (everybody, first) = (self.everybody(), self.added.to_string());
        let seconds = self.asked.setup.seconds;
        let search = |seconds: u64, more: &[&str]| {
            let words = [&["search", "--filter", &filter, "--expect", "1"], more].concat();
            self.bench(seconds, &words)
        };
        let capacity = search(seconds.min(CAPACITY_SECONDS), &[])?;
        let rate = ((capacity.per_s / 2.0) as u64).max(1).to_string();
        tables.searches("as fast as it can", &capacity);
        tables.searches("half of that", &search(seconds, &["--rate", &rate])?);
        let modify = ["--rate", &rate, "--with", "modify", "--with-dn", &everybody];
        tables.searches("half, with modifies", &search(seconds, &modify)?);
        let add = ["--rate", &rate, "--with", "add", "--with-first", &first];
        tables.searches("half, with adds", &search(seconds, &add)?);
        self.added += ADDED_STEP;
        Ok(())
    }

    /// Kills roster right after writes at full speed and measures until it serves again.
    fn recovery(&mut self, tables: &mut Tables) -> Result<(), String> {
        note("recovery");
        let first = self.added.to_string();
        let row = self.bench(self.asked.setup.seconds, &["add", "--first", &first])?;
        let recovered = servers::kill_and_start(&mut self.server)?;
        let (low, high) = (self.added + 1, self.added + row.made.max(2) - 1);
        let filter = format!("(uid=user.[{low}-{high}])");
        // Nobody that was added may be missing.
        self.bench(2, &["search", "--filter", &filter, "--expect", "1"])?;
        self.added += ADDED_STEP;
        tables.recovery(&row, &recovered);
        Ok(())
    }

    /// Writes for a long time: is memory bounded, do latencies stay?
    fn soak(&mut self, tables: &mut Tables) -> Result<(), String> {
        let (minutes, program) = (self.asked.soak_minutes, &self.ground.program);
        note(&format!("soak: {minutes} minutes"));
        let (everybody, first) = (self.everybody(), self.added.to_string());
        let rate = SOAK_ADDS_PER_S.to_string();
        let start = |words: &[&str]| self.load(minutes * 60, words).start(program, &[]);
        let mut modify = start(&["modify", "--dn", &everybody])?;
        let add = start(&["add", "--rate", &rate, "--first", &first])?;
        let begin = now();
        let mut peaks: Vec<(u64, u64)> = Vec::new();
        while !modify.has_ended() {
            let minute = (begin.elapsed().as_secs() / 60) as usize;
            if peaks.len() <= minute {
                peaks.push((0, 0));
            }
            if let Some((anonymous, disk)) = peaks.get_mut(minute) {
                *anonymous = (*anonymous).max(self.server.anonymous_bytes());
                *disk = (*disk).max(self.server.disk_bytes());
            }
            pause(servers::SAMPLE_PAUSE);
        }
        let row = |figures: Figures| Row::new(&figures, 0);
        tables.soak(&row(modify.end()?)?, &row(add.end()?)?, &peaks);
        Ok(())
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

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let setup = Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, 0);
    let mut asked = Asked { setup, connections: DEFAULT_CONNECTIONS, soak_minutes: 0 };
    options::read(arguments, |name, value| {
        match name {
            "--connections" => asked.connections = value.number()?,
            "--soak" => asked.soak_minutes = value.minutes()?,
            _ => return asked.setup.take(name, value),
        }
        Ok(true)
    })?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_defaults() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&[]).unwrap().setup.entries, 100_000);
        let asked = parse(&words("--soak 10m --entries 1000000")).unwrap();
        assert_eq!((asked.soak_minutes, asked.setup.entries), (10, 1_000_000));
        for wrong in ["--turns 3", "--soak 10h", "--entries", "--other 1"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
