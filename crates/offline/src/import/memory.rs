//! How much memory there is to use: what the machine has left, or the container within it.
//!
//! Invariant: what cannot be read counts as no limit; an answer is always at least the least an
//! import can work with.

use std::fs;
use std::path::{Path, PathBuf};

/// Half of what is left of the memory of the machine whose files lie below `root`.
pub(super) fn budget_bytes(root: &Path) -> u64 {
    let machine = available_bytes(root);
    let group = group_left_bytes(root);
    let left = [machine, group].into_iter().flatten().min();
    (left.unwrap_or(UNKNOWN_BYTES) / 2).max(BUDGET_MIN_BYTES)
}

/// What the kernel says can be had without swapping.
fn available_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// What the control groups of this process leave: the least of its own and those above.
fn group_left_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut least = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let files = if controllers.is_empty() {
            // Version 2: one tree for all controllers.
            Files { top: "sys/fs/cgroup", limit: "memory.max", used: "memory.current" }
        } else if controllers.split(',').any(|controller| controller == "memory") {
            Files {
                top: "sys/fs/cgroup/memory",
                limit: "memory.limit_in_bytes",
                used: "memory.usage_in_bytes",
            }
        } else {
            continue;
        };
        least = [least, files.left_bytes(root, path)].into_iter().flatten().min();
    }
    least
}

/// Where the numbers of a group are.
struct Files {
    top: &'static str,
    limit: &'static str,
    used: &'static str,
}

impl Files {
    fn left_bytes(&self, root: &Path, path: &str) -> Option<u64> {
        let top = root.join(self.top);
        let relative = PathBuf::from(path.trim_start_matches('/'));
        // In a container the path may be that of the host, and the group's files lie at the top.
        let above = relative.ancestors().map(|group| top.join(group));
        above.filter_map(|group| self.left_of(&group)).min()
    }

    fn left_of(&self, group: &Path) -> Option<u64> {
        let number = |name| -> Option<u64> {
            fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
        };
        // `max` is no number and no limit; so is what version 1 says instead.
        let limit = number(self.limit).filter(|limit| *limit < NO_LIMIT_BYTES)?;
        let used = number(self.used).unwrap_or(0);
        // The page cache is part of what is used, and goes when something else needs the memory.
        let cached = cached_bytes(group);
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    }
}

/// The octets of files that a group has in memory and that nobody is using now.
fn cached_bytes(group: &Path) -> u64 {
    let text = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let number = |name: &str| -> Option<u64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse().ok()
    };
    number("total_inactive_file").or_else(|| number("inactive_file")).unwrap_or(0)
}

/// Taken where nothing can be found out.
const UNKNOWN_BYTES: u64 = 2 << 30;
/// An import works with this little.
const BUDGET_MIN_BYTES: u64 = 256 << 20;
/// Version 1 writes a number near the largest for no limit.
const NO_LIMIT_BYTES: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: u64) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(budget_bytes(root.path()), expected, "{files:?}");
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 5 kB\nMemAvailable:    8388608 kB\n");

    #[test]
    fn half_of_what_the_machine_has_left() {
        check(&[MACHINE], 4 * GIB);
        check(&[], GIB);
        check(&[("proc/meminfo", "nonsense\n")], GIB);
        check(&[("proc/meminfo", "MemAvailable: 10 kB\n")], 256 << 20);
    }

    #[test]
    fn a_group_of_version_2_limits_it() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let limit = ("sys/fs/cgroup/a/b/memory.max", "2147483648\n");
        check(&[MACHINE, group, limit], GIB);
        let used = ("sys/fs/cgroup/a/b/memory.current", "1073741824\n");
        check(&[MACHINE, group, limit, used], GIB / 2);
        let stat = ("sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file 536870912\n");
        check(&[MACHINE, group, limit, used, stat], GIB * 3 / 4);
        check(&[MACHINE, group, ("sys/fs/cgroup/a/b/memory.max", "max\n")], 4 * GIB);
    }

    #[test]
    fn the_groups_above_limit_it_too() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let own = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        let above = ("sys/fs/cgroup/a/memory.max", "1073741824\n");
        check(&[MACHINE, group, own, above], GIB / 2);
        // The path of the host, and the files of the container.
        let top = ("sys/fs/cgroup/memory.max", "536870912\n");
        check(&[MACHINE, ("proc/self/cgroup", "0::/../..\n"), top], GIB / 4);
        check(&[MACHINE, ("proc/self/cgroup", "0::/\n"), top], GIB / 4);
    }

    #[test]
    fn a_group_of_version_1_limits_it() {
        let group = ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/y\n");
        let limit = ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "1073741824\n");
        let used = ("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "536870912\n");
        check(&[MACHINE, group, limit, used], GIB / 4);
        let none = ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "9223372036854771712\n");
        check(&[MACHINE, group, none], 4 * GIB);
    }
}
