//! `cargo xtask bench-search`: what filters cost, roster and slapd in turns on one machine in one
//! run, as a table for `docs/performance.md`.
//!
//! Both hold the same people with the same indexes. Before anything is measured, both are asked
//! some filters of each kind with `ldapsearch` and must find the same number of entries; then
//! `roster bench` asks both and checks the result codes.
//!
//! The filters have numbers with more digits where there are more people, so that about the same
//! number of entries is found however large the directory is.
//!
//! With `--stopping` it measures instead how soon searches end that nobody waits for.
//!
//! Invariant: only servers started here, on loopback, are asked, and they end with the run.

mod stopping;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testing::crash::server::{SUFFIX, now, scratch};
use testing::slapd::Slapd;

use crate::Error;
use crate::bench_writes::{answer, generate, load_average, note};
use crate::servers::{self, Server};
use crate::shell::roster;

/// People unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
/// Length of each run in seconds unless told otherwise.
const DEFAULT_SECONDS: u64 = 6;
/// Connections of each load.
const CONNECTIONS: &str = "50";
/// Filters of each kind that both servers are asked before.
const SAMPLES: u64 = 6;
/// How often each search is stopped in each way unless told otherwise.
const DEFAULT_TRIES: u32 = 12;
/// What a substring filter may cost: so many times the exact one, and so much for each entry.
const EXACT_TIMES: f64 = 3.0;
const ENTRY_CPU_US: f64 = 3.0;

const HEAD: &str = "

| filter | entries | roster, CPU µs | operations/s | p50 · p99 ms | allowed, µs \
| slapd, CPU µs | operations/s | ratio of CPU |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
";

/// One kind of filter.
struct Kind {
    name: &'static str,
    /// `{n}` is a person's number; `{uid}`, `{ddd}`, `{phone}`, `{mail}` are so many digits as the
    /// size of the directory asks for.
    filter: &'static str,
    expect: &'static str,
}

/// The six of the Unified Directory paper, and three plain substrings.
const KINDS: &[Kind] = &[
    Kind { name: "exact", filter: "(uid=user.{n})", expect: "1" },
    Kind { name: "uid substring", filter: "(&(uid=user.{uid}*)(l=Clear Falls))", expect: "0-" },
    Kind {
        name: "complex + exact",
        filter: "(&(uid=user.{n})(telephoneNumber=*{ddd}*)(title=*or))",
        expect: "0-1",
    },
    Kind {
        name: "complex + uid substring",
        filter: "(&(telephoneNumber=*{phone}*)(|(title=*or)(uid=user.{uid}*)))",
        expect: "0-",
    },
    Kind {
        name: "complex + mail substring",
        filter: "(&(telephoneNumber=*{phone}*)(|(mail=user.{mail}*)(title=*or)))",
        expect: "0-",
    },
    Kind {
        name: "complex + givenName",
        filter: "(&(telephoneNumber=*{phone}*)(|(givenName=Werner)(title=*or)))",
        expect: "0-",
    },
    Kind { name: "middle of a number", filter: "(telephoneNumber=*{phone}*)", expect: "0-" },
    Kind { name: "end of a number", filter: "(telephoneNumber=*{phone})", expect: "0-" },
    Kind { name: "begin of a name", filter: "(uid=user.{mail}*)", expect: "0-" },
];

#[derive(Debug)]
struct Asked {
    entries: u64,
    seconds: u64,
    with_slapd: bool,
    roster: Option<PathBuf>,
    folder: PathBuf,
    /// The folder is left as it is, and what is in it is used.
    keep: bool,
    /// How soon searches end is measured, and nothing else.
    stopping: bool,
    tries: u32,
}

impl Asked {
    /// The filter as `roster bench` takes it.
    fn pattern(&self, kind: &Kind) -> String {
        let more = self.entries.max(1).ilog10().saturating_sub(5);
        // With 2,000,000 people, numbers of seven digits begin with 1.
        let digits = |count: u32| {
            let low = 10_u64.pow(count - 1);
            let high = if more > 0 { 2 * low } else { 10 * low } - 1;
            format!("[{low}-{high}]")
        };
        let any = |count: u32| {
            format!("[{:0width$}-{}]", 0, "9".repeat(count as usize), width = count as usize)
        };
        kind.filter
            .replace("{n}", &format!("[1-{}]", self.entries))
            .replace("{uid}", &digits(2 + 2 * more))
            .replace("{mail}", &digits(4 + more))
            .replace("{ddd}", &any(3))
            .replace("{phone}", &any(5 + more))
    }
}

/// Runs everything that `arguments` ask for and prints the table.
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
    if !asked.keep {
        let _ = std::fs::remove_dir_all(&asked.folder);
    }
    println!("\n{}", result.map_err(Error::Wrong)?);
    println!("xtask: bench-search: {} s", begin.elapsed().as_secs());
    Ok(())
}

fn measure(asked: &Asked, program: &Path) -> Result<String, String> {
    let folder = &asked.folder;
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let people = folder.join("people.ldif");
    if !people.exists() {
        note("making the people");
        generate(program, asked.entries, &people)?;
    }
    note("loading");
    if asked.stopping {
        let server = folder.join("roster");
        let server = servers::roster_with(program, &server, &people, &stopping::SETTINGS)?;
        let table = stopping::run(&server, asked.tries)?;
        return Ok(format!("{} people; {}\n\n{table}", asked.entries, load_average()));
    }
    let mut list = vec![servers::roster(program, &folder.join("roster"), &people)?];
    if asked.with_slapd {
        list.push(servers::slapd(&folder.join("slapd"), &people)?);
    }
    let mut text = format!(
        "{} people, {CONNECTIONS} connections, {} s each; {}",
        asked.entries,
        asked.seconds,
        load_average()
    );
    for server in &list {
        let _ = write!(text, "; {} takes {} MiB", server.name, server.disk_bytes() >> 20);
    }
    text.push_str(HEAD);
    // What the first load reads from the disk, and maps, is no part of what a filter costs.
    if let Some(kind) = KINDS.first() {
        note("warming up");
        for server in &list {
            bench(asked, program, server, kind, &asked.pattern(kind))?;
        }
    }
    let mut exact = None;
    for kind in KINDS {
        let pattern = asked.pattern(kind);
        note(&pattern);
        compare(&list, &pattern)?;
        let mut figures = Vec::new();
        for server in &list {
            figures.push(bench(asked, program, server, kind, &pattern)?);
        }
        let own = figures.first().ok_or("roster is not there")?;
        let exact = *exact.get_or_insert(own.cpu_us);
        let allowed = EXACT_TIMES * exact + ENTRY_CPU_US * own.entries;
        let _ = write!(
            text,
            "| {} `{}` | {:.1} | {:.1} | {:.0} | {:.2} · {:.2} | {allowed:.0} |",
            kind.name,
            kind.filter.replace('|', "\\|"),
            own.entries,
            own.cpu_us,
            own.per_s,
            own.p50_ms,
            own.p99_ms
        );
        match figures.get(1) {
            Some(other) => {
                let _ = writeln!(
                    text,
                    " {:.1} | {:.0} | {:.1} |",
                    other.cpu_us,
                    other.per_s,
                    other.cpu_us / own.cpu_us
                );
            }
            None => text.push_str(" – | – | – |\n"),
        }
    }
    let _ = write!(text, "\n{}", load_average());
    Ok(text)
}

/// Both find the same number of entries for some filters of a kind.
fn compare(list: &[Server], pattern: &str) -> Result<(), String> {
    for sample in 0..SAMPLES {
        let filter = fill(pattern, sample);
        let mut counts = Vec::new();
        for server in list {
            counts.push(count(server, &filter)?);
        }
        if counts.windows(2).any(|pair| pair.first() != pair.last()) {
            return Err(format!("{filter} finds {counts:?} entries"));
        }
    }
    Ok(())
}

/// A filter of the pattern: numbers spread over their ranges.
fn fill(pattern: &str, sample: u64) -> String {
    let mut filter = String::new();
    let mut rest = pattern;
    while let Some((before, behind)) = rest.split_once('[') {
        let Some((range, after)) = behind.split_once(']') else { break };
        let Some((low, high)) = range.split_once('-') else { break };
        let (first, last): (u64, u64) = (low.parse().unwrap_or(0), high.parse().unwrap_or(0));
        let number = first + (last - first) / (SAMPLES + 1) * (sample + 1);
        let _ = write!(filter, "{before}{number:0width$}", width = low.len());
        rest = after;
    }
    filter.push_str(rest);
    filter
}

fn count(server: &Server, filter: &str) -> Result<usize, String> {
    let output = Command::new("ldapsearch")
        .args(["-x", "-LLL", "-H", &format!("ldap://{}", server.address)])
        .args(["-D", server.dn, "-w", server.password, "-b", SUFFIX, filter, "1.1"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("ldapsearch: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{filter} on {}: {why}", server.name));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.starts_with("dn:"))
        .count())
}

/// What came of one load.
struct Figures {
    cpu_us: f64,
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Entries of one search.
    entries: f64,
}

fn bench(
    asked: &Asked,
    program: &Path,
    server: &Server,
    kind: &Kind,
    pattern: &str,
) -> Result<Figures, String> {
    let child = Command::new(program)
        .args(["bench", "search", "--json", "-H", &format!("ldap://{}", server.address)])
        .args(["--server-pid", &server.id().to_string(), "-c", CONNECTIONS])
        .args(["-D", server.dn, "-w", server.password, "-t", &asked.seconds.to_string()])
        .args(["-b", SUFFIX, "-f", pattern, "--expect", kind.expect, "cn"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let value = answer(child, server, kind.name)?;
    let number = |pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_f64);
        found.ok_or_else(|| format!("roster bench gives no {pointer}: {value}"))
    };
    let figures = Figures {
        cpu_us: number("/cost/server/cpu_us_per_operation")?,
        per_s: number("/streams/0/operations_per_s")?,
        p50_ms: number("/streams/0/latency/p50")? / 1000.0,
        p99_ms: number("/streams/0/latency/p99")? / 1000.0,
        entries: number("/streams/0/entries")? / number("/streams/0/operations")?.max(1.0),
    };
    note(&format!(
        "  {}: {:.1} µs, {:.1} entries, {:.0}/s",
        server.name, figures.cpu_us, figures.entries, figures.per_s
    ));
    Ok(figures)
}

fn parse(arguments: &[String]) -> Result<Asked, Error> {
    let mut asked = Asked {
        entries: DEFAULT_ENTRIES,
        seconds: DEFAULT_SECONDS,
        with_slapd: true,
        roster: None,
        folder: scratch("bench-search"),
        keep: false,
        stopping: false,
        tries: DEFAULT_TRIES,
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--no-slapd" => asked.with_slapd = false,
            "--stopping" => (asked.stopping, asked.with_slapd) = (true, false),
            _ => {
                let value = arguments.next();
                let value = value.ok_or_else(|| Error::usage(format!("{name} takes a value")))?;
                asked.set(name, value)?;
            }
        }
    }
    Ok(asked)
}

impl Asked {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Error::usage(format!("{name} takes a number above 0"))),
        };
        match name {
            "--entries" => self.entries = number()?,
            "--seconds" => self.seconds = number()?,
            "--tries" => self.tries = u32::try_from(number()?).unwrap_or(u32::MAX),
            "--roster" => self.roster = Some(PathBuf::from(value)),
            "--folder" => {
                self.folder = PathBuf::from(value);
                self.keep = true;
            }
            other => return Err(Error::usage(format!("unknown option: {other}"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_fit_the_size_of_the_directory() {
        let asked = parse(&[]).unwrap();
        let kind = &KINDS[1];
        assert_eq!(asked.pattern(kind), "(&(uid=user.[10-99]*)(l=Clear Falls))");
        let large = Asked { entries: 2_000_000, ..asked };
        assert_eq!(large.pattern(kind), "(&(uid=user.[1000-1999]*)(l=Clear Falls))");
        assert_eq!(large.pattern(&KINDS[6]), "(telephoneNumber=*[000000-999999]*)");
        assert_eq!(fill("(a=[000-699]*)(b=[1-8])", 0), "(a=099*)(b=2)");
    }
}
