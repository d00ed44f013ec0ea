//! What a process spent, from `/proc`: CPU time, memory, context switches, octets of disks.
//!
//! CPU time comes from `/proc/PID/task/*/schedstat`, in ns: `/proc/PID/stat` counts in 10 ms. But
//! only that has the time of threads that began and ended between two looks; where it tells of
//! clearly more, it is believed. How the time divides into user and system is always taken from
//! `stat`, since only that tells.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::cost::Reading;
use crate::failure::Failure;

/// A process whose spending is read.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    folder: PathBuf,
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Memory {
    /// All that is resident, mapped files included.
    pub(crate) resident_bytes: u64,
    /// What is not backed by files.
    pub(crate) anonymous_bytes: u64,
}

impl Process {
    pub(crate) fn with_id(id: u32) -> Self {
        Self { folder: PathBuf::from(format!("/proc/{id}")) }
    }

    /// User and system time of all its threads so far, in µs; exact to 10 ms.
    fn cpu_parts_us(&self) -> Result<(u64, u64), Failure> {
        let text = self.read("stat")?;
        parse_cpu_us(&text).ok_or_else(|| self.unreadable("stat"))
    }

    pub(crate) fn memory(&self) -> Result<Memory, Failure> {
        let text = self.read("status")?;
        parse_memory(&text).ok_or_else(|| self.unreadable("status"))
    }

    /// What was read from and written to disks; none when that is not for us to know.
    fn disk_bytes(&self) -> Option<(u64, u64)> {
        let text = std::fs::read_to_string(self.folder.join("io")).ok()?;
        Some((number(&text, "read_bytes:")?, number(&text, "write_bytes:")?))
    }

    /// What each of its threads has spent so far. One that ends meanwhile is left out.
    fn threads(&self) -> BTreeMap<u32, Thread> {
        let Ok(folder) = std::fs::read_dir(self.folder.join("task")) else {
            return BTreeMap::new();
        };
        let threads = folder.flatten().filter_map(|thread| {
            let id = thread.file_name().to_str()?.parse().ok()?;
            Some((id, Thread::read(&thread.path())?))
        });
        threads.collect()
    }

    fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            Failure::path("read", &path, &error).hint("is --server-pid the id of a running server?")
        })
    }

    fn unreadable(&self, name: &str) -> Failure {
        Failure::local(format!("{} has an unknown form", self.folder.join(name).display()))
    }
}

/// Looks at a process again and again, and adds up what its threads spent meanwhile: those that
/// have ended keep what they had at the last look.
#[derive(Debug)]
pub(crate) struct Watched {
    process: Process,
    last: BTreeMap<u32, Thread>,
    sum: Thread,
    /// User and system time at the first look, by `stat`.
    began_us: (u64, u64),
}

impl Watched {
    pub(crate) fn begin(process: Process) -> Result<Self, Failure> {
        let began_us = process.cpu_parts_us()?;
        let last = process.threads();
        Ok(Self { process, last, sum: Thread::default(), began_us })
    }

    /// What was spent since the first look, and the memory now.
    pub(crate) fn look(&mut self) -> Result<Reading, Failure> {
        self.add(self.process.threads());
        let (user, system) = self.process.cpu_parts_us()?;
        let ticks = (user.saturating_sub(self.began_us.0), system.saturating_sub(self.began_us.1));
        let memory = self.process.memory()?;
        let disk = self.process.disk_bytes();
        Ok(Reading {
            cpu_us: cpu_us(self.sum.cpu_ns, ticks.0 + ticks.1),
            user_us: ticks.0,
            system_us: ticks.1,
            voluntary_switches: Some(self.sum.voluntary_switches),
            involuntary_switches: Some(self.sum.involuntary_switches),
            read_bytes: disk.map(|(read, _)| read),
            written_bytes: disk.map(|(_, written)| written),
            resident_bytes: Some(memory.resident_bytes),
            anonymous_bytes: Some(memory.anonymous_bytes),
        })
    }

    fn add(&mut self, threads: BTreeMap<u32, Thread>) {
        for (id, now) in &threads {
            // A smaller time is that of another thread with the id of one that has ended.
            let before = self.last.get(id).filter(|before| before.cpu_ns <= now.cpu_ns);
            let before = before.copied().unwrap_or_default();
            let sum = &mut self.sum;
            sum.cpu_ns += now.cpu_ns - before.cpu_ns;
            let more = |now: u64, before: u64| now.saturating_sub(before);
            sum.voluntary_switches += more(now.voluntary_switches, before.voluntary_switches);
            sum.involuntary_switches += more(now.involuntary_switches, before.involuntary_switches);
        }
        self.last = threads;
    }
}

/// What a thread has spent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Thread {
    cpu_ns: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

impl Thread {
    fn read(folder: &Path) -> Option<Self> {
        let read = |name| std::fs::read_to_string(folder.join(name)).ok();
        let status = read("status")?;
        // A kernel without these figures leaves the time to `stat`.
        let schedule = read("schedstat").unwrap_or_default();
        let cpu_ns = schedule.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
        Some(Self {
            cpu_ns: cpu_ns.unwrap_or(0),
            voluntary_switches: number(&status, "voluntary_ctxt_switches:").unwrap_or(0),
            involuntary_switches: number(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0),
        })
    }
}

/// The time of the threads, unless `stat` knows of clearly more than its own inexactness.
const fn cpu_us(threads_ns: u64, ticks_us: u64) -> u64 {
    let threads_us = threads_ns / 1000;
    if ticks_us > threads_us + threads_us / 50 + 4 * TICK_US { ticks_us } else { threads_us }
}

/// The number behind `name`, which a line begins with.
pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Fields 14 and 15 of proc_pid_stat(5); the name in field 2 may hold anything.
fn parse_cpu_us(stat: &str) -> Option<(u64, u64)> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user.saturating_mul(TICK_US), system.saturating_mul(TICK_US)))
}

fn parse_memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| number(status, name).map(|kilobytes| kilobytes.saturating_mul(1024));
    Some(Memory { resident_bytes: bytes("VmRSS:")?, anonymous_bytes: bytes("RssAnon:")? })
}

/// Linux counts in 1/100 s here whatever its own tick is (`USER_HZ`).
const TICK_US: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Process {
        Process::with_id(std::process::id())
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "7 (a ) b (c) R 1 7 7 0 -1 4194304 93 0 0 0 12 30 1 2 20 0 1 0 5 6 7";
        assert_eq!(parse_cpu_us(stat), Some((120_000, 300_000)));
        assert_eq!(parse_cpu_us("7 (a) R 1"), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t     512 kB\nRssFile:\t 1 kB\n";
        let want = Memory { resident_bytes: 2_097_152, anonymous_bytes: 524_288 };
        assert_eq!(parse_memory(status), Some(want));
        assert_eq!(parse_memory("Name: x\n"), None);
    }

    #[test]
    fn this_process_can_be_read() {
        assert!(own().cpu_parts_us().is_ok());
        assert!(own().memory().unwrap().resident_bytes > 0);
        assert!(Process::with_id(u32::MAX).cpu_parts_us().is_err());
        assert!(own().disk_bytes().is_some());
    }

    #[test]
    fn threads_that_end_keep_what_they_had() {
        let mut watched = Watched::begin(own()).unwrap();
        let thread = |cpu_ns, voluntary_switches| Thread {
            cpu_ns,
            voluntary_switches,
            involuntary_switches: 1,
        };
        watched.last = BTreeMap::from([(1, thread(100, 5)), (2, thread(1_000, 50))]);
        watched.add(BTreeMap::from([(1, thread(300, 6)), (3, thread(7, 1))]));
        assert_eq!((watched.sum.cpu_ns, watched.sum.voluntary_switches), (207, 2));
        // Thread 3 ended, and another one got its id.
        watched.add(BTreeMap::from([(1, thread(300, 6)), (3, thread(5, 1))]));
        assert_eq!((watched.sum.cpu_ns, watched.sum.voluntary_switches), (212, 3));
    }

    #[test]
    fn time_of_threads_nobody_saw_is_taken_from_the_process() {
        assert_eq!(cpu_us(1_000_000_500, 1_000_000), 1_000_000);
        assert_eq!(cpu_us(1_000_000_000, 1_040_000), 1_000_000, "inexact, but not clearly more");
        assert_eq!(cpu_us(1_000_000_000, 1_500_000), 1_500_000);
        assert_eq!(cpu_us(0, 1_500_000), 1_500_000, "a kernel without figures of threads");
    }

    #[test]
    fn the_work_of_a_thread_is_seen_to_less_than_a_tick() {
        let (start, started) = std::sync::mpsc::channel::<()>();
        let (done, finished) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            started.recv().unwrap();
            let mut sum = 0_u64;
            for number in 0..20_000_000_u64 {
                sum = std::hint::black_box(sum ^ number);
            }
            done.send(sum).unwrap();
            // Waits, so that its figures are there to be read.
            let _ = ended.recv();
        });
        let mut watched = Watched::begin(own()).unwrap();
        start.send(()).unwrap();
        finished.recv().unwrap();
        let reading = watched.look().unwrap();
        assert!(reading.cpu_us > 1_000, "{reading:?}");
        assert!(reading.voluntary_switches > Some(0), "{reading:?}");
        drop(end);
        worker.join().unwrap();
    }
}
