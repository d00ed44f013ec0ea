//! What the process has spent, as the operating system counts it: CPU, memory, context switches,
//! disk, files.
//!
//! Invariant: what the system does not say is left out; nothing here fails.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// This process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Kept open: once the process forbids core dumps, it could not open it any more.
    io: Option<File>,
}

/// What it has spent since it was started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) cpu_us: u64,
    /// To 10 ms.
    pub(crate) user_us: Option<u64>,
    pub(crate) system_us: Option<u64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) anonymous_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) voluntary_switches: Option<u64>,
    pub(crate) involuntary_switches: Option<u64>,
    pub(crate) major_faults: Option<u64>,
    pub(crate) read_bytes: Option<u64>,
    pub(crate) written_bytes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) files_max: Option<u64>,
}

impl Process {
    /// To be called before core dumps are forbidden.
    pub(crate) fn own() -> Self {
        Self { io: File::open("/proc/self/io").ok() }
    }

    pub(crate) fn spent(&self) -> Spent {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_us = u64::try_from(cpu.tv_sec).unwrap_or(0) * 1_000_000
            + u64::try_from(cpu.tv_nsec).unwrap_or(0) / 1_000;
        let stat = read("stat").unwrap_or_default();
        let (user_us, system_us) = cpu_of(&stat).unzip();
        let status = read("status").unwrap_or_default();
        let kibibytes = |name| field(&status, name).map(|number| number * 1024);
        let io = self.io.as_ref().and_then(read_again).unwrap_or_default();
        let (voluntary_switches, involuntary_switches) = switches().unzip();
        Spent {
            cpu_us,
            user_us,
            system_us,
            resident_bytes: kibibytes("VmRSS:"),
            anonymous_bytes: kibibytes("RssAnon:"),
            virtual_bytes: kibibytes("VmSize:"),
            threads: field(&status, "Threads:"),
            voluntary_switches,
            involuntary_switches,
            major_faults: stat_field(&stat, MAJOR_FAULTS),
            read_bytes: field(&io, "read_bytes:"),
            written_bytes: field(&io, "write_bytes:"),
            open_files: fs::read_dir("/proc/self/fd").ok().map(|list| list.count() as u64),
            files_max: getrlimit(Resource::Nofile).current,
        }
    }
}

fn read(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/self/{name}")).ok()
}

/// What an open file of `/proc` says now.
fn read_again(file: &File) -> Option<String> {
    let mut octets = [0; 1024];
    let length = file.read_at(&mut octets, 0).ok()?;
    String::from_utf8(octets.get(..length)?.to_vec()).ok()
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// A field of proc_pid_stat(5), counted from 1; the name in field 2 may hold anything.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(number - 3)?.parse().ok()
}

/// User and system time in µs.
fn cpu_of(stat: &str) -> Option<(u64, u64)> {
    let us = |number| stat_field(stat, number).map(|ticks| ticks * TICK_US);
    Some((us(USER_TIME)?, us(SYSTEM_TIME)?))
}

/// Voluntary and involuntary context switches of all threads there are.
fn switches() -> Option<(u64, u64)> {
    let mut sum = (0, 0);
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread may have ended meanwhile.
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        sum.0 += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        sum.1 += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
    }
    Some(sum)
}

/// Linux counts in 1/100 s here whatever its own tick is (`USER_HZ`).
const TICK_US: u64 = 10_000;

/// Fields of `stat`.
const MAJOR_FAULTS: usize = 12;
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_tells_what_it_spends() {
        let process = Process::own();
        let spent = process.spent();
        let resident = spent.resident_bytes.unwrap();
        assert!(resident >= spent.anonymous_bytes.unwrap() && resident > 1 << 20);
        assert!(spent.voluntary_switches.is_some() && spent.threads.unwrap() > 0);
        assert!(spent.open_files.unwrap() > 0 && spent.files_max.unwrap() > 0);
        let again = process.spent();
        assert!(again.cpu_us > spent.cpu_us, "reading it costs some");
        assert!(again.user_us.unwrap() + again.system_us.unwrap() <= again.cpu_us + 2 * TICK_US);
        assert_eq!(again.read_bytes.is_some(), process.io.is_some());
    }

    #[test]
    fn fields_are_read_behind_their_names() {
        let stat = "7 (a ) b (c) R 1 7 7 0 -1 4194304 93 0 4 0 12 30 1 2 20 0 1 0 5 6 7";
        assert_eq!(cpu_of(stat), Some((120_000, 300_000)));
        assert_eq!(stat_field(stat, MAJOR_FAULTS), Some(4));
        assert_eq!(cpu_of("7 (a) R 1"), None);
        let io = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        assert_eq!(field(io, "read_bytes:"), Some(4096));
        assert_eq!(field(io, "nothing:"), None);
    }
}
