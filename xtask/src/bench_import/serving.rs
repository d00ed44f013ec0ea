//! A server on what was loaded: how it starts, warm and cold, and how it works then.

use std::fmt;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testing::client::{Client, Search};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, now, pause};

use crate::bench_writes::note;

/// How long a server may take to start, to stop, or to read its file.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// Searches that are timed one by one.
const SEARCHES: u64 = 1000;
/// Connections of the loads.
const CONNECTIONS: &str = "50";
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

/// A server. Dropping it kills it.
struct Serving {
    child: Child,
    address: SocketAddr,
    start_ms: f64,
    log: PathBuf,
}

impl Serving {
    fn start(program: &Path, folder: &Path, more: &[&str]) -> Result<Self, String> {
        let (ready, log) = (folder.join("ready"), folder.join("log"));
        let _ = fs::remove_file(&ready);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let begin = now();
        let child = Command::new(program)
            .args(["serve", "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"))
            .arg("--ready-file")
            .arg(&ready)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).map_err(failed)?)
            .spawn()
            .map_err(failed)?;
        let mut serving =
            Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)), start_ms: 0.0, log };
        loop {
            let text = fs::read_to_string(&ready).unwrap_or_default();
            let address = text.lines().find_map(|line| line.strip_prefix("ldap "));
            if let Some(address) = address.and_then(|address| address.parse().ok()) {
                serving.address = address;
                serving.start_ms = begin.elapsed().as_secs_f64() * 1000.0;
                return Ok(serving);
            }
            let has_ended = serving.child.try_wait().map_err(failed)?.is_some();
            if has_ended || begin.elapsed() > PATIENCE {
                return Err(format!("the server does not serve:\n{}", serving.told()));
            }
            pause(LOOK_PAUSE);
        }
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for a line of its log that holds these words.
    fn wait_for(&self, words: &str) -> Result<String, String> {
        let begin = now();
        while begin.elapsed() < PATIENCE {
            if let Some(line) = self.told().lines().find(|line| line.contains(words)) {
                return Ok(line.to_owned());
            }
            pause(LOOK_PAUSE);
        }
        Err(format!("the log does not say '{words}'"))
    }

    fn stop(mut self) -> Result<(), String> {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        asked.map_err(|error| error.to_string())?;
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts servers on the data directory in `folder`, one after the other, and measures.
pub(super) fn serve_and_measure(
    program: &Path,
    folder: &Path,
    entries: u64,
    seconds: u64,
) -> Result<Load, String> {
    note("serving");
    let data = folder.join("data/data.mdb");
    let serving = Serving::start(program, folder, &[])?;
    let start_ms = serving.start_ms;
    serving.stop()?;
    drop_cache(&data)?;
    let serving = Serving::start(program, folder, &[])?;
    let cold_start_ms = serving.start_ms;
    let mut client = connect(&serving)?;
    let cold = search(&mut client, entries, 1)?;
    let second = search(&mut client, entries, 2)?;
    note(&format!("  start {start_ms:.0} ms, cold {cold_start_ms:.0} ms; searches {cold}"));
    drop(client);
    serving.stop()?;
    drop_cache(&data)?;
    let begin = now();
    let serving = Serving::start(program, folder, &["--preload"])?;
    let done = serving.wait_for("preload: done")?;
    let preload_seconds = begin.elapsed().as_secs_f64();
    let preload_bytes = done.split("bytes=").nth(1).and_then(number_at).unwrap_or_default();
    let mut client = connect(&serving)?;
    let preloaded = search(&mut client, entries, 3)?;
    drop(client);
    note(&format!("  preload {preload_seconds:.1} s; searches {preloaded}"));
    let bench = |operation: &str, more: &[&str]| {
        let value = bench(program, &serving, operation, seconds, more)?;
        let number = |pointer: &str| {
            let found = value.pointer(pointer).and_then(Value::as_f64);
            found.ok_or_else(|| format!("roster bench gives no {pointer}: {value}"))
        };
        let per_s = number("/streams/0/operations_per_s")?;
        Ok::<_, String>((per_s, number("/cost/server/cpu_us_per_operation")?))
    };
    let filter = format!("(uid=user.[1-{entries}])");
    let searches = bench("search", &["-b", SUFFIX, "-f", &filter, "--expect", "1"])?;
    let everybody = format!("uid=user.[1-{entries}],ou=people,{SUFFIX}");
    let modify = bench("modify", &["--dn", &everybody])?;
    let add = bench("add", &["--first", FIRST_ADDED])?;
    serving.stop()?;
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

fn connect(serving: &Serving) -> Result<Client, String> {
    let mut client = Client::connect(serving.address).map_err(|error| format!("{error:?}"))?;
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

fn bench(
    program: &Path,
    serving: &Serving,
    operation: &str,
    seconds: u64,
    more: &[&str],
) -> Result<Value, String> {
    note(operation);
    let output = Command::new(program)
        .args(["bench", operation, "--json", "-H", &format!("ldap://{}", serving.address)])
        .args(["--server-pid", &serving.child.id().to_string(), "-c", CONNECTIONS])
        .args(["-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-t", &seconds.to_string()])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        return Err(format!("{operation}: {}{}", text(&output.stdout), text(&output.stderr)));
    }
    serde_json::from_str(&text(&output.stdout)).map_err(|error| format!("{operation}: {error}"))
}
