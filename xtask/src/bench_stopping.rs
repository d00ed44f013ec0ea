//! `cargo xtask bench-stopping`: how long the server goes on with a search that touches everything
//! after nobody waits for it any more, or its time is up.
//!
//! The end of the work is seen from outside: a thread of the scan pool works while the kernel says
//! that it runs or waits for the disk, or while it is switched in and out; one that waits for a job
//! does neither. A look every [`LOOK_PAUSE`] finds the last moment of work a little late, never
//! early.
//!
//! Invariant: every search is under way when it is stopped, else the try does not count.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use testing::client::{Client, ClientError, Control, Search, sort_by};
use testing::crash::server::{SUFFIX, now, pause};

use crate::Error;
use crate::ground::{Setup, load_average, note};
use crate::options;
use crate::servers::{self, Server};

/// People, and how often each search is stopped in each way, unless told otherwise.
const DEFAULT_ENTRIES: u64 = 100_000;
const DEFAULT_TRIES: u64 = 12;

/// How often the threads are looked at.
const LOOK_PAUSE: Duration = Duration::from_micros(200);
/// A thread that did nothing for so long has ended its work.
const QUIET: Duration = Duration::from_millis(40);
/// Work that goes on for longer than this after the stop is not waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// A search is stopped in its first seconds, or before its end.
const STOPPED_WITHIN: Duration = Duration::from_secs(6);
/// One that takes very long is stopped earlier.
const STOPPED_EARLY: Duration = Duration::from_secs(1);
/// Searches that take longer than this are not waited for.
const LONG_S: u32 = 12;
/// The time limit of searches that are to reach it.
const TIME_LIMIT_S: u32 = 1;
const TIME_LIMIT_EXCEEDED: i64 = 3;
/// Settings without which the large sort would be refused.
const SETTINGS: [(&str, &str); 2] = [
    ("ROSTER_LIMITS__SORT_ENTRIES_MAX", "3000000"),
    ("ROSTER_LIMITS__SORT_BYTES_MAX", "2000000000"),
];

const HEAD: &str = "

| search | whole, s | abandoned: ms | connection cut: ms | past the time limit of 1 s: ms |
|---|---:|---:|---:|---:|
";

/// A search that touches everything, or most of it.
struct Case {
    name: &'static str,
    filter: String,
    attributes: &'static [&'static str],
    sort: Option<&'static str>,
    /// Answers are read as they come.
    reads: bool,
}

impl Case {
    fn new(name: &'static str, filter: impl Into<String>) -> Self {
        Self { name, filter: filter.into(), attributes: &["1.1"], sort: None, reads: true }
    }

    fn search(&self) -> Search {
        Search {
            base: SUFFIX.to_owned(),
            scope: 2,
            filter: self.filter.clone(),
            attributes: self.attributes.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    fn controls(&self) -> Vec<Control> {
        self.sort.map(sort_by).into_iter().collect()
    }
}

fn cases() -> Vec<Case> {
    let any = |terms: &mut dyn Iterator<Item = String>| format!("(|{})", terms.collect::<String>());
    let letters = || (b'a'..=b'z').map(char::from);
    let pairs = || letters().flat_map(move |one| letters().map(move |two| (one, two)));
    let none = "(description=*no such text*)";
    let begins = any(&mut letters().map(|one| format!("(sn={one}*)(cn=*{one})")));
    let pieces = any(&mut pairs().map(|(one, two)| format!("(cn=*{one}{two}*)")));
    let words = any(&mut (0..2000).map(|word| format!("(description=no {word})")));
    vec![
        Case::new("every entry is tested", none),
        Case::new("every entry is tested with 2,000 terms", words),
        Case::new("short pieces, then a test", format!("(&(cn=*a*)(mail=*e*){none})")),
        Case::new("52 beginnings and ends, then a test", format!("(&{begins}{none})")),
        Case::new("676 pieces, then a test", format!("(&{pieces}{none})")),
        Case {
            sort: Some("description"),
            ..Case::new("all sorted in memory", "(objectClass=person)")
        },
        Case { sort: Some("sn"), ..Case::new("an index walked for the order", none) },
        Case {
            attributes: &["*"],
            reads: false,
            ..Case::new("a client that does not read", "(objectClass=person)")
        },
    ]
}

/// How a search is stopped.
#[derive(Clone, Copy, Debug)]
enum Way {
    Abandon,
    Cut,
}

/// Measures, and prints the table.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut setup = Setup::new(DEFAULT_ENTRIES, 0, 0);
    let mut tries = DEFAULT_TRIES;
    options::read(arguments, |name, value| {
        match name {
            "--tries" => tries = value.number()?,
            _ => return setup.take(name, value),
        }
        Ok(true)
    })?;
    let tries = u32::try_from(tries).unwrap_or(u32::MAX);
    let work = setup.measure("bench-stopping", |ground| {
        let people = ground.people(&[])?;
        let folder = ground.folder.join("roster");
        let server = servers::roster_with(&ground.program, &folder, &people, &SETTINGS)?;
        let table = table(&server, tries)?;
        Ok(format!("{} people; {}\n\n{table}", setup.entries, load_average()))
    });
    work.map(drop)
}

/// Stops every search in every way so many times; the table.
fn table(server: &Server, tries: u32) -> Result<String, String> {
    let threads = Threads::of(server.id())?;
    let mut text = HEAD.trim_start().to_owned();
    for case in cases() {
        note(case.name);
        let whole = whole(server, &case)?;
        let length = whole.unwrap_or(STOPPED_EARLY).min(STOPPED_WITHIN);
        let stopped = |way| {
            let mut times = Vec::new();
            for number in 0..tries {
                let at = length.mul_f64((f64::from(number) + 0.5) / f64::from(tries));
                times.extend(stopped(server, &threads, &case, way, at)?);
            }
            Ok::<_, String>(Times(times))
        };
        let (abandoned, cut) = (stopped(Way::Abandon)?, stopped(Way::Cut)?);
        let mut late = Times(Vec::new());
        let is_long = whole.is_none_or(|whole| whole > Duration::from_millis(1100));
        for _ in 0..if is_long { tries.div_ceil(4) } else { 0 } {
            late.0.push(lateness(server, &threads, &case)?);
        }
        let whole = whole.map_or("–".to_owned(), |whole| format!("{:.2}", whole.as_secs_f64()));
        let (abandoned, cut, late) = (abandoned.text(), cut.text(), late.text());
        note(&format!("  {whole} s; abandoned {abandoned}; cut {cut}; late {late}"));
        let _ = writeln!(text, "| {} | {whole} | {abandoned} | {cut} | {late} |", case.name);
    }
    text.push_str("\nMilliseconds: the median, the most, and of how many.");
    Ok(text)
}

fn connect(server: &Server) -> Result<Client, String> {
    let mut client = Client::connect(server.address).map_err(|error| error.to_string())?;
    client.bind(server.dn, server.password).map_err(|error| error.to_string())?;
    Ok(client)
}

/// How long the search takes when nothing stops it; none for one that takes too long, or would wait
/// for ever.
fn whole(server: &Server, case: &Case) -> Result<Option<Duration>, String> {
    if !case.reads {
        return Ok(None);
    }
    let failed = |error: ClientError| format!("{}: {error}", case.name);
    let mut took = None;
    // The first one brings what it reads into memory.
    for _ in 0..2 {
        let mut client = connect(server)?;
        let begin = now();
        client.begin_search(&case.search(), LONG_S, &case.controls()).map_err(failed)?;
        let answer = client.receive().map_err(failed)?;
        match answer.code {
            0 => took = Some(begin.elapsed()),
            TIME_LIMIT_EXCEEDED => return Ok(took),
            _ => return Err(format!("{}: {answer:?}", case.name)),
        }
    }
    Ok(took)
}

/// How long the server goes on after the search was stopped; none when it was over before.
fn stopped(
    server: &Server,
    threads: &Threads,
    case: &Case,
    way: Way,
    at: Duration,
) -> Result<Option<Duration>, String> {
    let failed = |error: ClientError| format!("{}: {error}", case.name);
    let mut client = connect(server)?;
    threads.quiet_since(now())?;
    let id = client.begin_search(&case.search(), 0, &case.controls()).map_err(failed)?;
    pause(at);
    if !threads.is_busy() {
        return Ok(None);
    }
    let begin = now();
    match way {
        Way::Abandon => client.abandon(id).map_err(failed)?,
        Way::Cut => drop(client),
    }
    threads.quiet_since(begin).map(Some)
}

/// How long after its time limit the search is answered, or the server is done with it where the
/// client does not read.
fn lateness(server: &Server, threads: &Threads, case: &Case) -> Result<Duration, String> {
    let failed = |error: ClientError| format!("{}: {error}", case.name);
    let mut client = connect(server)?;
    threads.quiet_since(now())?;
    let limit = Duration::from_secs(TIME_LIMIT_S.into());
    let begin = now();
    client.begin_search(&case.search(), TIME_LIMIT_S, &case.controls()).map_err(failed)?;
    if !case.reads {
        return Ok(threads.quiet_since(begin)?.saturating_sub(limit));
    }
    let answer = client.receive().map_err(failed)?;
    let took = begin.elapsed();
    if answer.code != TIME_LIMIT_EXCEEDED {
        return Err(format!("{}: {answer:?} after {took:?}", case.name));
    }
    Ok(took.saturating_sub(limit))
}

/// The threads of the scan pool.
struct Threads(Vec<PathBuf>);

impl Threads {
    fn of(process: u32) -> Result<Self, String> {
        let folder = format!("/proc/{process}/task");
        let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        let is_of_pool = |task: &PathBuf| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("scan-"))
        };
        let tasks = tasks.flatten().map(|task| task.path()).filter(is_of_pool);
        let threads: Vec<PathBuf> = tasks.map(|task| task.join("status")).collect();
        if threads.is_empty() {
            Err(format!("{folder} has no scan threads"))
        } else {
            Ok(Self(threads))
        }
    }

    /// Whether one works, and how often each was switched in and out so far.
    fn look(&self) -> (bool, Vec<String>) {
        let mut works = false;
        let switches = self.0.iter().map(|thread| {
            let status = fs::read_to_string(thread).unwrap_or_default();
            let state = status.lines().find_map(|line| line.strip_prefix("State:"));
            works |=
                state.is_some_and(|state| matches!(state.trim_start().get(..1), Some("R" | "D")));
            status.lines().filter(|line| line.contains("ctxt_switches")).collect()
        });
        let switches = switches.collect();
        (works, switches)
    }

    /// Whether one works now, or within the time that a wait for a client takes.
    fn is_busy(&self) -> bool {
        let before = self.look();
        pause(Duration::from_millis(5));
        let after = self.look();
        after.0 || after.1 != before.1
    }

    /// The time from `begin` until none works any more.
    fn quiet_since(&self, begin: Instant) -> Result<Duration, String> {
        let (mut last, mut before) = (begin, self.look().1);
        while last.elapsed() < QUIET {
            pause(LOOK_PAUSE);
            let (works, switches) = self.look();
            if works || switches != before {
                (last, before) = (now(), switches);
            }
            if begin.elapsed() > PATIENCE {
                break;
            }
        }
        Ok(last.saturating_duration_since(begin))
    }
}

struct Times(Vec<Duration>);

impl Times {
    fn text(mut self) -> String {
        self.0.sort_unstable();
        let ms = |time: &Duration| time.as_secs_f64() * 1000.0;
        match (self.0.get(self.0.len() / 2), self.0.last()) {
            (Some(median), Some(most)) => {
                format!("{:.1}, {:.1} of {}", ms(median), ms(most), self.0.len())
            }
            _ => "–".to_owned(),
        }
    }
}
