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
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testing::crash::server::{SUFFIX, now, scratch};
use testing::slapd::Slapd;

use crate::Error;
use crate::bench_writes::{answer, generate, load_average, note};
use crate::servers::{self, Server};
use crate::shell::{self, roster};

/// People unless told otherwise.
const DEFAULT_ENTRIES: u64 = 20_000;
/// Length of each run in seconds unless told otherwise.
const DEFAULT_SECONDS: u64 = 3;
/// Turns unless told otherwise.
const DEFAULT_TURNS: u64 = 3;
/// Connections of each load.
const CONNECTIONS: &str = "50";
/// How many people have their passwords in one scheme.
const OF_SCHEME: u64 = 1_000;
/// The server that the one with logs is compared with.
const QUIET: &str = "roster, logs off";
/// What the other rows of a server are compared with.
const AS_ADMINISTRATOR: &str = "search as the administrator";
/// The schemes, each with the module of slapd that knows it.
const SCHEMES: [(&str, &str); 3] =
    [("{SSHA}", "pw-sha2"), ("{SSHA512}", "pw-sha2"), ("{ARGON2}", "argon2")];
/// Who searches where access control is measured: a person.
const USER: &str = "uid=user.1,ou=people,dc=example,dc=com";

/// slapd as its administrators would set it up for this: by attribute, in one place, the most asked
/// for first.
const SLAPD_RULES: &str = "sizelimit unlimited
moduleload pw-sha2
moduleload argon2
access to attrs=userPassword by self write by anonymous auth by * none
access to attrs=uid,objectClass,entry by users read by * none
access to attrs=cn,sn,givenName,initials,mail by users read by * none
access to attrs=telephoneNumber,homePhone,pager,mobile by users read by * none
access to attrs=employeeNumber,street,l,st,postalCode by users read by * none
access to attrs=postalAddress,description by users read by * none
access to * by * none";

#[derive(Debug)]
struct Asked {
    entries: u64,
    seconds: u64,
    turns: u64,
    with_slapd: bool,
    /// Only rows whose names begin so.
    rows: String,
    roster: Option<PathBuf>,
    folder: PathBuf,
}

/// Runs everything that `arguments` ask for and prints the tables.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let asked = parse(arguments)?;
    if !Slapd::is_installed() {
        return Err(Error::Unable {
            reason: "slapd is not installed, whose program hashes the passwords".to_owned(),
            hint: "'apt-get install slapd slapd-contrib'".to_owned(),
        });
    }
    let program = match &asked.roster {
        Some(path) => path.clone(),
        None => roster()?,
    };
    let begin = now();
    let result = measure(&asked, &program);
    let _ = std::fs::remove_dir_all(&asked.folder);
    println!("\n{}", result.map_err(Error::Wrong)?);
    println!("xtask: bench-access: {} s", begin.elapsed().as_secs());
    Ok(())
}

/// What is measured: a server and a load.
struct Row {
    name: String,
    server: usize,
    arguments: Vec<String>,
    cpu_us: Vec<f64>,
    per_s: Vec<f64>,
}

fn measure(asked: &Asked, program: &Path) -> Result<String, String> {
    let folder = &asked.folder;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let people = folder.join("people.ldif");
    note("making the people");
    generate(program, asked.entries, &people)?;
    hash_passwords(&people)?;
    note("loading");
    let quiet = [
        ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
        ("ROSTER_ACCESS_LOG__FORMAT", "off"),
        ("ROSTER_AUDIT_LOG__FORMAT", "off"),
    ];
    let logged = [
        ("ROSTER_PASSWORD__REHASH_ON_BIND", "off"),
        ("ROSTER_ACCESS_LOG__FORMAT", "json"),
        ("ROSTER_AUDIT_LOG__FORMAT", "json"),
    ];
    let mut list = vec![
        servers::roster_with(program, &folder.join("quiet"), &people, &quiet)?,
        servers::roster_with(program, &folder.join("logged"), &people, &logged)?,
    ];
    for server in &list {
        give(server, "examples/access-control.ldif")?;
    }
    if asked.with_slapd {
        list.push(servers::slapd_with(&folder.join("slapd"), &people, SLAPD_RULES)?);
    }
    let mut rows = rows(&list);
    rows.retain(|row| row.name.starts_with(&asked.rows));
    for turn in 0..asked.turns {
        note(&format!("turn {} of {}", turn + 1, asked.turns));
        for row in &mut rows {
            let server = list.get(row.server).ok_or("there is no such server")?;
            load(asked, program, server, row)?;
        }
        // What comes after what must make no difference; the figures of a turn stay beside.
        rows.reverse();
    }
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let mut text = format!(
        "{} people, {CONNECTIONS} connections, {} turns of {} s; {}\n\n\
         | load | server CPU, median | all turns | operations/s | turn by turn |\n\
         |---|---:|---:|---:|---|\n",
        asked.entries,
        asked.turns,
        asked.seconds,
        load_average()
    );
    let told: Vec<String> = rows.iter().map(|row| compared(row, &rows)).collect();
    for (row, told) in rows.iter_mut().zip(told) {
        let all: Vec<String> = row.cpu_us.iter().map(|one| format!("{one:.1}")).collect();
        let (cpu_us, per_s) = (median(&mut row.cpu_us), median(&mut row.per_s));
        let all = all.join(" · ");
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
        let mut ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |place: usize| ratios.get(place).copied();
        let quarter = ratios.len() / 4;
        let (low, high) = (at(quarter)?, at(ratios.len().checked_sub(quarter + 1)?)?);
        Some(format!("{:.3} × {called} ({low:.3}–{high:.3})", at(ratios.len() / 2)?))
    });
    told.collect::<Vec<_>>().join("; ")
}

fn rows(list: &[Server]) -> Vec<Row> {
    let search = |name: &str, password: &str| {
        ["search", "-D", name, "-w", password, "-b", SUFFIX, "-f", "(uid=user.[1-20000])"]
            .map(str::to_owned)
            .to_vec()
    };
    let mut rows = Vec::new();
    for (number, server) in list.iter().enumerate() {
        let who = match number {
            0 => QUIET,
            1 => "roster, access log and audit log as JSON",
            _ => "slapd, log off",
        };
        let mut row = |what: &str, arguments: Vec<String>| {
            let name = format!("{what}: {who}");
            let (cpu_us, per_s) = (Vec::new(), Vec::new());
            rows.push(Row { name, server: number, arguments, cpu_us, per_s });
        };
        row(AS_ADMINISTRATOR, search(server.dn, server.password));
        row("search as a user, rules by attribute", search(USER, "password"));
        for (place, (scheme, _)) in SCHEMES.iter().enumerate() {
            if number == 1 {
                continue;
            }
            let first = OF_SCHEME * place as u64 + 1;
            let name = format!("user.[{first}-{}]", first + OF_SCHEME - 1);
            let dn = format!("uid={name},ou=people,{SUFFIX}");
            row(&format!("bind {scheme}"), vec!["bind".to_owned(), "--dn".to_owned(), dn]);
            // Found by one connection, bound on another.
            let filter = format!("(uid={name})");
            let auth = ["auth", "-D", USER, "-w", "password", "-b", SUFFIX, "-f", &filter];
            row(&format!("cycle of search and bind {scheme}"), auth.map(str::to_owned).to_vec());
        }
    }
    rows.sort_by_key(|row| row.name.split(':').next().map(str::to_owned));
    rows
}

fn load(asked: &Asked, program: &Path, server: &Server, row: &mut Row) -> Result<(), String> {
    let child = Command::new(program)
        .arg("bench")
        .args(&row.arguments)
        .args(["--json", "-H", &format!("ldap://{}", server.address), "-c", CONNECTIONS])
        .args(["--server-pid", &server.id().to_string(), "-t", &asked.seconds.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let value = answer(child, server, &row.name)?;
    let number = |pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| format!("roster bench gives no {pointer}: {value}"))
    };
    row.cpu_us.push(number("/cost/server/cpu_us_per_operation")?);
    row.per_s.push(number("/streams/0/operations_per_s")?);
    Ok(())
}

/// Gives the first people hashed passwords, scheme by scheme; the others have that of the first.
fn hash_passwords(people: &Path) -> Result<(), String> {
    let hashes: Result<Vec<_>, _> =
        SCHEMES.iter().map(|(scheme, module)| hash(scheme, Some(module))).collect();
    put_passwords(people, &hashes?)
}

/// Gives all people passwords hashed by a scheme that needs no module.
pub(crate) fn hash_passwords_as(people: &Path, scheme: &str) -> Result<(), String> {
    put_passwords(people, &[hash(scheme, None)?])
}

/// "password" as slapd's own program hashes it.
fn hash(scheme: &str, module: Option<&str>) -> Result<String, String> {
    let mut command = Command::new("slappasswd");
    if let Some(module) = module {
        command.args(["-o", &format!("module-load={module}")]);
    }
    let output = command.args(["-n", "-h", scheme, "-s", "password"]).output();
    let output = output.map_err(|error| format!("slappasswd: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("slappasswd: {why}(Debian package slapd-contrib)"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn put_passwords(people: &Path, hashes: &[String]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", people.display());
    let first = hashes.first().ok_or("there are schemes")?;
    let mut text = String::new();
    let mut number = 0;
    for line in std::fs::read_to_string(people).map_err(failed)?.lines() {
        if line.starts_with("userPassword:") {
            let hash = hashes.get(number / OF_SCHEME as usize).unwrap_or(first);
            let _ = writeln!(text, "userPassword: {hash}");
            number += 1;
        } else {
            let _ = writeln!(text, "{line}");
        }
    }
    std::fs::write(people, text).map_err(failed)
}

/// Changes roster by a file of the source tree.
pub(crate) fn give(server: &Server, file: &str) -> Result<(), String> {
    let output = Command::new("ldapmodify")
        .args(["-x", "-H", &format!("ldap://{}", server.address), "-D", server.dn])
        .args(["-w", server.password, "-f"])
        .arg(shell::root().join(file))
        .output()
        .map_err(|error| format!("ldapmodify: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ldapmodify: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        entries: DEFAULT_ENTRIES,
        seconds: DEFAULT_SECONDS,
        turns: DEFAULT_TURNS,
        with_slapd: true,
        rows: String::new(),
        roster: None,
        folder: scratch("bench-access"),
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if name == "--no-slapd" {
            asked.with_slapd = false;
            continue;
        }
        let value =
            arguments.next().ok_or_else(|| Error::usage(format!("{name} takes a value")))?;
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Error::usage(format!("{name} takes a number above 0"))),
        };
        match name.as_str() {
            "--entries" => asked.entries = number()?.max(DEFAULT_ENTRIES),
            "--seconds" => asked.seconds = number()?,
            "--turns" => asked.turns = number()?,
            "--rows" => asked.rows.clone_from(value),
            "--roster" => asked.roster = Some(PathBuf::from(value)),
            "--folder" => asked.folder = PathBuf::from(value),
            other => return Err(Error::usage(format!("unknown option: {other}"))),
        }
    }
    Ok(asked)
}
