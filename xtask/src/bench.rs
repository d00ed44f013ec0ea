//! `cargo xtask bench`: roster beside OpenLDAP, 389 Directory Server and OpenDJ, in turns on one
//! machine in one run, with an echo server as the floor, as a table for `docs/performance.md`.
//!
//! All hold the same people with the same indexes and the same hashes of passwords, are set up as
//! `scripts/peers/` says why, and do the jobs of `jobs.rs`, for which `roster bench` asks them and
//! checks every answer. roster has its access log on, and whoever searches is under its ACIs. The
//! others are measured twice: as they are usually measured, without a log and by an administrator,
//! and like roster, with the same rules and a log (`columns.rs`).
//!
//! Invariant: only servers started here, on loopback, are asked; they end with the run, and their
//! data are removed.

mod alike;
mod columns;
mod jobs;
mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use testing::crash::server::{now, pause};

use self::alike::Asking;
use self::columns::{Column, FEWER_TURNS, Kind};
use self::jobs::{Extent, JOBS, Job};
use self::table::{Cell, Row, between, table};
use crate::Error;
use crate::figures::thousands;
use crate::ground::{Ground, Setup, load_average, machine, note};
use crate::options;
use crate::shell::{cargo, root, step, target};
use crate::test::install_missing;
use crate::threads::Snapshot;

/// People unless told otherwise, and in the short form.
const DEFAULT_ENTRIES: u64 = 100_000;
const QUICK_ENTRIES: u64 = 20_000;
/// Length of each run in seconds, and turns, unless told otherwise.
const DEFAULT_SECONDS: u64 = 2;
const DEFAULT_TURNS: u64 = 5;
const QUICK_SECONDS: u64 = 3;
/// Length of each run before anything is measured: caches fill, and Java compiles what is hot.
const PRIMING_SECONDS: u64 = 3;
/// A second of warm-up, and what starting and ending a load takes.
const AROUND_SECONDS: f64 = 1.3;
/// How long nothing is asked, to see what the servers do by themselves.
const IDLE_SECONDS: u64 = 5;
const PAGE: &str = "docs/performance.md";
/// Between these marks of the page.
const MARK: &str = "bench";

#[derive(Debug)]
struct Asked {
    setup: Setup,
    is_quick: bool,
    kinds: Vec<Kind>,
    echo: Option<PathBuf>,
    /// Only jobs with this in their names.
    only: Option<String>,
}

/// Runs everything that `arguments` ask for; the full form writes the table.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    asked.kinds.iter().try_for_each(|kind| install_missing(kind.packages()))?;
    let echo = asked.echo.clone().map_or_else(build_echo, Ok)?;
    let text = asked.setup.measure("bench", |ground| measure(&asked, ground, &echo))?;
    let is_whole = Kind::ALL.iter().all(|(_, kind)| asked.kinds.contains(kind));
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

/// The floor, built.
pub(crate) fn build_echo() -> Result<PathBuf, Error> {
    let words = ["build", "--quiet", "--release", "--package", "server", "--example", "echo"];
    step("the echo server", cargo(&words))?;
    Ok(target().join("release/examples/echo"))
}

fn measure(asked: &Asked, ground: &Ground<'_>, echo: &Path) -> Result<String, String> {
    let people = ground.people(&["{SSHA}"])?;
    let (mut columns, mut loads) = (vec![Column::echo(echo)?], Vec::new());
    for kind in &asked.kinds {
        let begin = now();
        let column = Column::load(*kind, ground, &people)?;
        let told = format!("{} {:.1} s", column.name(), begin.elapsed().as_secs_f64());
        note(&format!("loaded and started: {told}"));
        loads.push(told);
        columns.push(column);
    }
    if asked.setup.folder.is_none() {
        let _ = std::fs::remove_file(&people);
    }
    let rows = JOBS.iter().filter(|job| asked.wants(job));
    let rows = rows.map(|job| Row::new(job, columns.len())).collect();
    let mut run = Run { ground, columns, rows, wrong: Vec::new() };
    run.tell_length();
    run.look()?;
    run.prime();
    let idle = run.idle();
    for turn in 0..asked.setup.turns {
        run.turn(turn);
    }
    Ok(run.told(&loads.join(", "), &idle))
}

/// A run under way.
struct Run<'a> {
    ground: &'a Ground<'a>,
    /// The floor, roster, and the others.
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// What was answered wrongly.
    wrong: Vec<String>,
}

impl Run<'_> {
    /// Says how long it will take.
    fn tell_length(&self) {
        let setup = self.ground.setup;
        let mut loads = 0;
        for (row, column) in
            self.rows.iter().flat_map(|row| self.columns.iter().map(move |column| (row, column)))
        {
            let is_twice = row.job.is_read() && column.kind.is_told_twice();
            loads += column.kind.turns(row.job, setup.turns) * if is_twice { 2 } else { 1 };
        }
        let seconds = loads as f64 * (setup.seconds as f64 + AROUND_SECONDS);
        note(&format!("{loads} loads of {} s: {:.0} minutes", setup.seconds, seconds / 60.0));
    }

    /// Whether all find and show the same.
    fn look(&mut self) -> Result<(), String> {
        let columns = || self.columns.iter().filter(|column| column.kind != Kind::Echo);
        let asking: Vec<Asking<'_>> = columns().map(Column::asking).collect();
        for row in &self.rows {
            if let Some(pattern) = row.job.filter(self.ground.setup.entries)
                && let Err(error) = alike::find(&asking, &pattern)
            {
                note(&error);
                self.wrong.push(error);
            }
        }
        let equal: Vec<Asking<'_>> = columns().map(Column::asking_equally).collect();
        alike::show(&equal, "uid=user.2,ou=people,dc=example,dc=com")
    }

    fn prime(&mut self) {
        let setup = self.ground.setup.lasting(PRIMING_SECONDS);
        let ground = Ground { setup: &setup, ..self.ground.clone() };
        for column in &mut self.columns {
            note(&format!("priming {}", column.name()));
            let is_java = column.kind == Kind::OpenDj;
            for row in self.rows.iter().filter(|row| is_java || row.job.is_first()) {
                let mut done = column.bench(&ground, row.job, &mut Cell::default());
                if row.job.is_read() && column.kind.is_told_twice() {
                    let again = column.bench_equally(&ground, row.job, &mut Cell::default());
                    done = done.and(again);
                }
                if let Err(error) = done {
                    note(&error);
                }
            }
        }
    }

    /// What each takes while nobody asks, as text.
    fn idle(&self) -> String {
        let ids: Vec<Vec<u32>> = self.columns.iter().map(Column::processes).collect();
        let before: Vec<Snapshot> = ids.iter().map(|ids| Snapshot::of(ids)).collect();
        pause(Duration::from_secs(IDLE_SECONDS));
        let texts = self.columns.iter().zip(&ids).zip(&before).skip(1);
        let texts = texts.map(|((column, ids), before)| {
            let us = Snapshot::of(ids).since(before).all_us();
            format!("{} {:.1} %", column.name(), us / (IDLE_SECONDS as f64 * 10_000.0))
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Each job once, on one server after the other; every other turn begins with the last one.
    fn turn(&mut self, turn: u64) {
        let turns = self.ground.setup.turns;
        for row in &mut self.rows {
            let job = row.job;
            let is_asked = |column: &Column| turn < column.kind.turns(job, turns);
            if self.columns.iter().any(is_asked) {
                note(&format!("turn {} of {turns}: {}", turn + 1, job.name));
            }
            let cells = row.plain.iter_mut().zip(&mut row.equal);
            let mut order: Vec<_> = self.columns.iter_mut().zip(cells).collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for (column, (plain, equal)) in order {
                if !is_asked(column) {
                    continue;
                }
                let name = column.name();
                let mut judge = |done: Result<(), String>, cell: &mut Cell| {
                    // What one server answers wrongly is no figure; the others have theirs.
                    if let Err(error) = done {
                        note(&error);
                        self.wrong.push(format!("{} on {name}", job.name));
                        cell.is_wrong = true;
                    }
                };
                judge(column.bench(self.ground, job, plain), plain);
                if job.is_read() && column.kind.is_told_twice() {
                    judge(column.bench_equally(self.ground, job, equal), equal);
                }
            }
        }
    }

    /// The table, and under what it came to be.
    fn told(mut self, loads: &str, idle: &str) -> String {
        for row in self.rows.iter_mut().filter(|row| row.job.is_read()) {
            let always = self.columns.iter().map(|column| !column.kind.is_told_twice());
            for (is_always, (plain, equal)) in always.zip(row.plain.iter().zip(&mut row.equal)) {
                if is_always {
                    plain.clone_into(equal);
                }
            }
        }
        let names: Vec<&str> = self.columns.iter().map(Column::name).collect();
        let own = names.iter().position(|name| *name == "roster").unwrap_or_default();
        let wrong = match self.wrong.as_slice() {
            [] => String::new(),
            list => format!(" Wrong or different responses: {}.", list.join(", ")),
        };
        let setup = self.ground.setup;
        format!(
            "{} people, 50 connections, one request outstanding each; loads of {} s. Cells are \
             medians, of {} turns if a range is given (half of the turns lie within it), of {} \
             otherwise; ratios are turn by turn. {}. {}. Loading and starting: {loads}. CPU of an \
             idle server, of a core: {idle}.{wrong}\n\n{}",
            thousands(setup.entries as f64),
            setup.seconds,
            setup.turns,
            setup.turns.min(FEWER_TURNS),
            machine(),
            load_average(),
            table(&names, own, &self.rows)
        )
    }
}

impl Asked {
    fn wants(&self, job: &Job) -> bool {
        match (&self.only, job.extent) {
            (Some(part), _) => job.name.contains(part.as_str()),
            (None, Extent::Quick) => true,
            (None, Extent::Whole) => !self.is_quick,
            (None, Extent::Named) => false,
        }
    }
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let is_quick = arguments.iter().any(|word| word == "--quick");
    let setup = match is_quick {
        true => Setup::new(QUICK_ENTRIES, QUICK_SECONDS, 1),
        false => Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, DEFAULT_TURNS),
    };
    let all = Kind::ALL.iter().map(|(_, kind)| *kind);
    let kinds = all.take(if is_quick { 2 } else { Kind::ALL.len() }).collect();
    let mut asked = Asked { setup, is_quick, kinds, echo: None, only: None };
    options::read(arguments, |name, value| {
        match name {
            "--quick" => {}
            "--servers" => asked.kinds = kinds_of(&value.text()?)?,
            "--echo" => asked.echo = Some(value.path()?),
            "--only" => asked.only = Some(value.text()?),
            _ => return asked.setup.take(name, value),
        }
        Ok(true)
    })?;
    Ok(asked)
}

/// roster, which all are compared with, and those that are named.
fn kinds_of(names: &str) -> Result<Vec<Kind>, Error> {
    let mut kinds = vec![Kind::Roster];
    for name in names.split(',') {
        let known = Kind::ALL.iter().find(|(known, _)| *known == name);
        let (_, kind) = known.ok_or_else(|| Error::usage(format!("unknown server: {name}")))?;
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
    }
    Ok(kinds)
}
