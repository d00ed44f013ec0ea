//! A server on what was loaded: how it starts, warm and cold, and how it works then.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testing::client::{Client, Search};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, SUFFIX, now, pause};

use crate::ground::{Ground, note};
use crate::load::{self, people};
use crate::servers::{self, Server};

/// How long a server may take to read its file.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Searches that are timed one by one.
const SEARCHES: u64 = 1000;
/// The first person that is added: far behind those that were loaded.
const FIRST_ADDED: &str = "1000000000";

/// What was measured.
#[derive(Debug)]
pub(super) struct Load {
    start_ms: f64,
    cold_start_ms: f64,
    cold: Thousand,
    second: Thousand,
    preload_seconds: f64,
    preload_bytes: u64,
    preloaded: Thousand,
    search: (f64, f64),
    modify_per_s: f64,
    add_per_s: f64,
}

/// Searches one after the other.
#[derive(Debug)]
struct Thousand {
    seconds: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl fmt::Display for Thousand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} · {:.2} · {:.2}", self.seconds, self.p50_ms, self.p99_ms)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.preload_bytes as f64 / 1e6 / self.preload_seconds.max(0.001);
        write!(
            f,
            "{:.0} | {:.0} | {} | {} | {:.1} · {rate:.0} | {} | {:.0} · {:.1} | {:.0} | {:.0}",
            self.start_ms,
            self.cold_start_ms,
            self.cold,
            self.second,
            self.preload_seconds,
            self.preloaded,
            self.search.0,
            self.search.1,
            self.modify_per_s,
            self.add_per_s
        )
    }
}

/// Starts servers on what was loaded in `place`, one after the other, and measures.
pub(super) fn serve_and_measure(ground: &Ground<'_>, place: &Place) -> Result<Load, String> {
    note("serving");
    let (entries, seconds) = (ground.setup.entries, ground.setup.seconds);
    let data = place.data().join("data.mdb");
    let start = |options: &[&str]| servers::started(place.clone(), options);
    let ms = |server: &Server| server.start().as_secs_f64() * 1000.0;
    let server = start(&[])?;
    let start_ms = ms(&server);
    server.stop()?;
    drop_cache(&data)?;
    let server = start(&[])?;
    let cold_start_ms = ms(&server);
    let mut client = connect(&server)?;
    let cold = search(&mut client, entries, 1)?;
    let second = search(&mut client, entries, 2)?;
    note(&format!("  start {start_ms:.0} ms, cold {cold_start_ms:.0} ms; searches {cold}"));
    drop(client);
    server.stop()?;
    drop_cache(&data)?;
    let begin = now();
    let server = start(&["--preload"])?;
    let done = wait_for(&server, "preload: done")?;
    let preload_seconds = begin.elapsed().as_secs_f64();
    let preload_bytes = done.split("bytes=").nth(1).and_then(number_at).unwrap_or_default();
    let mut client = connect(&server)?;
    let preloaded = search(&mut client, entries, 3)?;
    drop(client);
    note(&format!("  preload {preload_seconds:.1} s; searches {preloaded}"));
    let bench = |words: &[&str]| {
        note(words.first().unwrap_or(&""));
        let figures = ground.run(load::Load::new(&server, seconds, words))?;
        Ok::<_, String>((figures.per_s(), figures.cpu_us()?))
    };
    let filter = format!("(uid=user.[1-{entries}])");
    let searches = bench(&["search", "-b", SUFFIX, "-f", &filter, "--expect", "1"])?;
    let modify = bench(&["modify", "--dn", &people(&format!("1-{entries}"))])?;
    let add = bench(&["add", "--first", FIRST_ADDED])?;
    server.stop()?;
    Ok(Load {
        start_ms,
        cold_start_ms,
        cold,
        second,
        preload_seconds,
        preload_bytes,
        preloaded,
        search: searches,
        modify_per_s: modify.0,
        add_per_s: add.0,
    })
}

/// Waits for a line of its log that holds these words.
fn wait_for(server: &Server, words: &str) -> Result<String, String> {
    let begin = now();
    while begin.elapsed() < PATIENCE {
        if let Some(line) = server.log().lines().find(|line| line.contains(words)) {
            return Ok(line.to_owned());
        }
        pause(LOOK_PAUSE);
    }
    Err(format!("the log does not say '{words}'"))
}

fn number_at(text: &str) -> Option<u64> {
    let digits = text.split(|one: char| !one.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Takes a file that no process has mapped out of the page cache.
fn drop_cache(file: &Path) -> Result<(), String> {
    let status = Command::new("dd")
        .arg(format!("of={}", file.display()))
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"])
        .stdin(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("dd: {other:?}")),
    }
}

fn connect(server: &Server) -> Result<Client, String> {
    let mut client = Client::connect(server.address).map_err(|error| format!("{error:?}"))?;
    client.bind(ADMIN_DN, ADMIN_PASSWORD).map_err(|error| format!("{error:?}"))?;
    Ok(client)
}

/// Searches for people all over the directory; another `round` asks for others.
fn search(client: &mut Client, entries: u64, round: u64) -> Result<Thousand, String> {
    let mut times_ms = Vec::with_capacity(SEARCHES as usize);
    let begin = now();
    for count in 0..SEARCHES {
        let mixed = (round * SEARCHES + count).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let filter = format!("(uid=user.{})", mixed % entries + 1);
        let (base, scope, attributes) = (SUFFIX.to_owned(), 2, Vec::new());
        let begin = now();
        let found = client.search(&Search { base, scope, filter, attributes });
        let found = found.map_err(|error| format!("{error:?}"))?;
        times_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
        if (found.code, found.entries.len()) != (0, 1) {
            return Err(format!(
                "a search found {} entries, code {}",
                found.entries.len(),
                found.code
            ));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    times_ms.sort_by(f64::total_cmp);
    let at = |percent: usize| times_ms.get(times_ms.len() * percent / 100).copied();
    let (p50_ms, p99_ms) = (at(50).unwrap_or_default(), at(99).unwrap_or_default());
    Ok(Thousand { seconds, p50_ms, p99_ms })
}
