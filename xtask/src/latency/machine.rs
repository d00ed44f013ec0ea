//! What the machine does while a load runs: how late it wakes a thread that only sleeps, what was
//! stolen from it, how long threads waited for a core; and what a log says of the same time.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use testing::crash::server::{now, pause};

use crate::threads::keep_on;

/// How long a thread asks to sleep.
const INTERVAL: Duration = Duration::from_millis(1);
/// Ticks of the system's clock a second, and so many ms each.
const TICK_MS: f64 = 10.0;

/// A thread that sleeps on a core.
#[derive(Debug)]
pub(super) struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Probe {
    pub(super) fn start(core: &'static str) -> Result<Self, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().spawn(move || {
            let id = fs::read_link("/proc/thread-self").unwrap_or_default();
            if let Some(id) = id.file_name().and_then(|id| id.to_str()?.parse().ok()) {
                let _ = keep_on(id, core, false);
                // Without the right to it the thread waits behind those that run.
                let _ = Command::new("chrt").args(["-f", "-p", "50", &id.to_string()]).output();
            }
            let mut late_us = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let begin = now();
                pause(INTERVAL);
                let mut late = begin.elapsed().saturating_sub(INTERVAL);
                // A stall counts for each millisecond of it: that is when requests meet it.
                late_us.push(late.as_micros() as u64);
                while let Some(rest) = late.checked_sub(INTERVAL) {
                    late_us.push(rest.as_micros() as u64);
                    late = rest;
                }
            }
            late_us
        });
        Ok(Self { is_over, thread: thread.map_err(|error| error.to_string())? })
    }

    /// How late it was each time, in µs.
    pub(super) fn end(self) -> Vec<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// How long threads that could run waited until they did.
#[derive(Debug)]
pub(super) struct Waits {
    server: u32,
    before_ns: u64,
    server_ns: u64,
    load_ns: u64,
}

impl Waits {
    pub(super) fn begin(server: u32) -> Self {
        let before_ns = waited_ns(server);
        Self { server, before_ns, server_ns: before_ns, load_ns: 0 }
    }

    /// The load's is known only while it runs.
    pub(super) fn look(&mut self, load: u32) {
        self.server_ns = waited_ns(self.server);
        self.load_ns = self.load_ns.max(waited_ns(load));
    }

    /// Of the server and of the load.
    pub(super) fn ms(&self) -> (f64, f64) {
        let server_ns = self.server_ns.saturating_sub(self.before_ns);
        (server_ns as f64 / 1e6, self.load_ns as f64 / 1e6)
    }
}

/// Of the thread that waited longest.
fn waited_ns(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    waited.max().unwrap_or_default()
}

/// What other machines on the same hardware have taken from both cores since the start.
pub(super) fn stolen_ms() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    all.and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default() * TICK_MS
}

/// How long the operations took that an access log tells of from this octet on.
pub(super) fn elapsed_us(log: &Path, from: u64) -> Result<Vec<u64>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let mut file = File::open(log).map_err(failed)?;
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut list = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(failed)?;
        let number = line.rsplit_once("\"elapsed_us\":");
        list.extend(
            number.and_then(|(_, number)| number.trim_end_matches('}').parse::<u64>().ok()),
        );
    }
    Ok(list)
}

/// What these shares of the numbers do not exceed.
pub(super) fn percentiles(numbers: &[u64], shares: &[f64]) -> Vec<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let last = numbers.len().saturating_sub(1) as f64;
    let at = |share: &f64| numbers.get((share * last).ceil() as usize).copied();
    shares.iter().map(|share| at(share).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_not_exceeded() {
        let numbers: Vec<u64> = (0..=1000).rev().collect();
        assert_eq!(percentiles(&numbers, &[0.5, 0.999, 1.0]), [500, 999, 1000]);
        assert_eq!(percentiles(&[], &[0.5]), [0]);
    }

    #[test]
    fn a_log_tells_how_long_operations_took() {
        let file = testing::crash::server::scratch("elapsed");
        fs::write(&file, "old\n{\"kind\":\"connect\"}\n{\"a\":1,\"elapsed_us\":37}\n").unwrap();
        let elapsed = elapsed_us(&file, 4);
        fs::remove_file(&file).unwrap();
        assert_eq!(elapsed, Ok(vec![37]));
    }

    #[test]
    fn a_thread_that_sleeps_is_woken() {
        // On a busy machine it may take a while until it has run at all.
        let is_woken = |milliseconds| {
            let probe = Probe::start("0").unwrap();
            pause(Duration::from_millis(milliseconds));
            !probe.end().is_empty()
        };
        assert!([20, 200, 2_000, 20_000].into_iter().any(is_woken));
    }
}
