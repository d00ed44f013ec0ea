//! `cargo xtask bench-access`: what access control, logs and password schemes cost, roster and
//! slapd in turns on one machine in one run, as tables for `docs/performance.md`.
//!
//! Both hold the same people with the same indexes. A thousand people each have their passwords as
//! `{SSHA}`, `{SSHA512}` and `{ARGON2}`, made by slapd's own program with its defaults; the same
//! hashes for both. `roster bench` asks, and checks every answer. The rows of a table are measured
//! in turns, every other turn backwards, and each figure is the median of its turns. A machine's
//! speed drifts by more than what is to be measured, so rows are also compared turn by turn with
//! the row they have to be compared with: the median of these ratios, and between what half of
//! them lie. Many short turns tell more than few long ones (`--seconds 1 --turns 9 --rows search`).
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

use std::fmt::Write as _;
use std::path::Path;

use testing::crash::server::SUFFIX;

use crate::Error;
use crate::figures::{half, median};
use crate::ground::{Ground, OF_SCHEME, Setup, load_average, note};
use crate::load::{Load, people};
use crate::options;
use crate::servers::peers::{SLAPD_PACKAGES, Slapd};
use crate::servers::{self, Server};
use crate::shell::source;
use crate::test::{Package, install_missing};

/// People, length of each load and turns unless told otherwise.
const DEFAULT_ENTRIES: u64 = 20_000;
const DEFAULT_SECONDS: u64 = 3;
const DEFAULT_TURNS: u64 = 3;
/// The server that the one with logs is compared with.
const QUIET: &str = "roster, logs off";
/// What the other rows of a server are compared with.
const AS_ADMINISTRATOR: &str = "search as the administrator";
/// The schemes, each with the module of slapd that knows it.
const SCHEMES: [&str; 3] = ["{SSHA} pw-sha2", "{SSHA512} pw-sha2", "{ARGON2} argon2"];
const MODULES: &[Package] = &[Package {
    name: "slapd-contrib",
    is_present: || Path::new("/usr/lib/ldap/pw-sha2.so").exists(),
}];
/// Who searches where access control is measured: a person.
const USER: (&str, &str) = ("uid=user.1,ou=people,dc=example,dc=com", "password");

#[derive(Debug)]
struct Asked {
    setup: Setup,
    with_slapd: bool,
    /// Only rows whose names begin so.
    rows: String,
}

/// Runs everything that `arguments` ask for and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    // slapd's program hashes the passwords.
    install_missing(SLAPD_PACKAGES)?;
    install_missing(MODULES)?;
    asked.setup.measure("bench-access", |ground| measure(&asked, ground)).map(drop)
}

/// What is measured: a server and a load.
struct Row {
    name: String,
    server: usize,
    who: Option<(&'static str, &'static str)>,
    words: Vec<String>,
    cpu_us: Vec<f64>,
    per_s: Vec<f64>,
}

fn measure(asked: &Asked, ground: &Ground<'_>) -> Result<String, String> {
    let (setup, folder) = (&asked.setup, &ground.folder);
    let file = ground.people(&SCHEMES)?;
    note("loading");
    let mut list = Vec::new();
    for (name, format) in [("quiet", "off"), ("logged", "json")] {
        let settings = [
            ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
            ("ROSTER_ACCESS_LOG__FORMAT", format),
            ("ROSTER_AUDIT_LOG__FORMAT", format),
        ];
        let server = servers::roster_with(&ground.program, &folder.join(name), &file, &settings)?;
        server.modify(&source("examples/access-control.ldif")?)?;
        list.push(server);
    }
    if asked.with_slapd {
        let modules = "moduleload pw-sha2\nmoduleload argon2";
        let slapd = Slapd { modules, has_rules: true, ..Slapd::default() };
        list.push(slapd.start(&folder.join("slapd"), &file)?);
    }
    let mut rows = rows(&list);
    rows.retain(|row| row.name.starts_with(&asked.rows));
    for turn in 0..setup.turns {
        note(&format!("turn {} of {}", turn + 1, setup.turns));
        for row in &mut rows {
            let server = list.get(row.server).ok_or("there is no such server")?;
            let load = Load::new(server, setup.seconds, &row.words);
            let load = load.by(row.who.unwrap_or((server.dn, server.password)));
            let figures = ground.run(load)?;
            row.cpu_us.push(figures.cpu_us()?);
            row.per_s.push(figures.per_s());
        }
        // What comes after what must make no difference; the figures of a turn stay beside.
        rows.reverse();
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let mut text = format!(
        "{} people, 50 connections, {} turns of {} s; {}\n\n\
         | load | server CPU, median | all turns | operations/s | turn by turn |\n\
         |---|---:|---:|---:|---|\n",
        setup.entries,
        setup.turns,
        setup.seconds,
        load_average()
    );
    for row in &rows {
        let all: Vec<String> = row.cpu_us.iter().map(|one| format!("{one:.1}")).collect();
        let (cpu_us, per_s) = (median(&row.cpu_us), median(&row.per_s));
        let (all, told) = (all.join(" · "), compared(row, &rows));
        let _ = writeln!(text, "| {} | {cpu_us:.1} µs | {all} | {per_s:.0} | {told} |", row.name);
    }
    Ok(text)
}

/// A search beside those it has to be compared with: the same without logs, and by the
/// administrator.
fn compared(row: &Row, rows: &[Row]) -> String {
    let Some((load, who)) = row.name.split_once(": ") else { return String::new() };
    let mut others = Vec::new();
    if load.starts_with("search") && load != AS_ADMINISTRATOR {
        others.push((format!("{AS_ADMINISTRATOR}: {who}"), "the administrator"));
    }
    if load.starts_with("search") && who.starts_with("roster") && who != QUIET {
        others.push((format!("{load}: {QUIET}"), "the same without logs"));
    }
    let told = others.iter().filter_map(|(name, called)| {
        let other = rows.iter().find(|other| other.name == *name)?;
        let pairs = row.cpu_us.iter().zip(&other.cpu_us);
        let ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
        let (low, high) = half(&ratios);
        Some(format!("{:.3} × {called} ({low:.3}–{high:.3})", median(&ratios)))
    });
    told.collect::<Vec<_>>().join("; ")
}

fn rows(list: &[Server]) -> Vec<Row> {
    let search = ["search", "-b", SUFFIX, "-f", "(uid=user.[1-20000])"];
    let mut rows = Vec::new();
    for (number, _) in list.iter().enumerate() {
        let on = match number {
            0 => QUIET,
            1 => "roster, access log and audit log as JSON",
            _ => "slapd, log off",
        };
        let mut row = |what: &str, who, words: &[&str]| {
            let (name, words) = (format!("{what}: {on}"), words.iter().map(|&word| word.into()));
            let (cpu_us, per_s) = (Vec::new(), Vec::new());
            rows.push(Row { name, server: number, who, words: words.collect(), cpu_us, per_s });
        };
        row(AS_ADMINISTRATOR, None, &search);
        row("search as a user, rules by attribute", Some(USER), &search);
        for (place, scheme) in SCHEMES.iter().enumerate() {
            if number == 1 {
                continue;
            }
            let scheme = scheme.split(' ').next().unwrap_or_default();
            let first = OF_SCHEME * place as u64 + 1;
            let numbers = format!("{first}-{}", first + OF_SCHEME - 1);
            row(&format!("bind {scheme}"), None, &["bind", "--dn", &people(&numbers)]);
            // Found by one connection, bound on another.
            let cycle = ["auth", "-b", SUFFIX, "-f", &format!("(uid=user.[{numbers}])")];
            row(&format!("cycle of search and bind {scheme}"), Some(USER), &cycle);
        }
    }
    rows.sort_by_key(|row| row.name.split(':').next().map(str::to_owned));
    rows
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let setup = Setup::new(DEFAULT_ENTRIES, DEFAULT_SECONDS, DEFAULT_TURNS);
    let mut asked = Asked { setup, with_slapd: true, rows: String::new() };
    options::read(arguments, |name, value| {
        match name {
            "--no-slapd" => asked.with_slapd = false,
            "--rows" => asked.rows = value.text()?,
            _ => return asked.setup.take(name, value),
        }
        Ok(true)
    })?;
    asked.setup.entries = asked.setup.entries.max(DEFAULT_ENTRIES);
    Ok(asked)
}
