//! What a process spent, from `/proc`: CPU time and memory.

use std::path::PathBuf;

use crate::failure::Failure;

/// A process whose spending is read; by its id, or this one.
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

    pub(crate) fn own() -> Self {
        Self { folder: PathBuf::from("/proc/self") }
    }

    /// User and system time of all its threads so far, in µs; exact to 10 ms.
    pub(crate) fn cpu_us(&self) -> Result<u64, Failure> {
        let text = self.read("stat")?;
        parse_cpu_us(&text).ok_or_else(|| self.unreadable("stat"))
    }

    pub(crate) fn memory(&self) -> Result<Memory, Failure> {
        let text = self.read("status")?;
        parse_memory(&text).ok_or_else(|| self.unreadable("status"))
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

/// Fields 14 and 15 of proc_pid_stat(5); the name in field 2 may hold anything.
fn parse_cpu_us(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * TICK_US)
}

fn parse_memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    };
    Some(Memory { resident_bytes: bytes("VmRSS:")?, anonymous_bytes: bytes("RssAnon:")? })
}

/// Linux counts in 1/100 s here whatever its own tick is (`USER_HZ`).
const TICK_US: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "7 (a ) b (c) R 1 7 7 0 -1 4194304 93 0 0 0 12 30 1 2 20 0 1 0 5 6 7";
        assert_eq!(parse_cpu_us(stat), Some(420_000));
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
        assert!(Process::own().cpu_us().is_ok());
        assert!(Process::own().memory().unwrap().resident_bytes > 0);
        assert!(Process::with_id(u32::MAX).cpu_us().is_err());
    }
}
