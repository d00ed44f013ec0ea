//! A disk for each node: a small ext4 in a file, mounted at its data directory. It can be filled,
//! and its writes can be slowed down.
//!
//! Invariant: what an earlier run mounted is unmounted first. Images stay where they are: they are
//! the data of a run that failed.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::tools::run;

/// All disks. Dropping it unmounts them.
#[derive(Debug)]
pub(super) struct Disks {
    mounts: Vec<PathBuf>,
}

impl Disks {
    /// Moves these data directories to disks of their own.
    pub(super) fn set_up(directories: &[PathBuf]) -> Result<Self, String> {
        tear_down()?;
        let mut disks = Self { mounts: Vec::new() };
        for directory in directories {
            disks.mounts.push(directory.clone());
            mount(directory)?;
        }
        for which in 0..directories.len() {
            let group = group(which);
            fs::create_dir_all(&group).map_err(|error| format!("{group}: {error}"))?;
        }
        Ok(disks)
    }

    /// Takes all room that is left.
    pub(super) fn fill(&self, which: usize) -> Result<(), String> {
        let mount = self.mount(which)?;
        let filler = text(&mount.join(FILLER));
        let mut length = free_bytes(mount)?;
        let mut taken = 0u64;
        while length >= BLOCK_BYTES {
            let (offset, size) = (taken.to_string(), length.to_string());
            match run("fallocate", &["-o", &offset, "-l", &size, &filler]) {
                Ok(_) => {
                    taken += length;
                    length = free_bytes(mount)? / BLOCK_BYTES * BLOCK_BYTES;
                }
                // The file system wants some of it for itself.
                Err(_) => length = length / 2 / BLOCK_BYTES * BLOCK_BYTES,
            }
        }
        Ok(())
    }

    /// Gives the room back.
    pub(super) fn free(&self, which: usize) -> Result<(), String> {
        let filler = self.mount(which)?.join(FILLER);
        fs::remove_file(&filler).map_err(|error| format!("{}: {error}", filler.display()))
    }

    /// Lets the disk of a node write so many bytes a second; 0: as many as it can.
    pub(super) fn throttle(&self, which: usize, bytes: u64) -> Result<(), String> {
        let mount = self.mount(which)?;
        let device = fs::metadata(mount).map_err(|error| format!("{mount:?}: {error}"))?.dev();
        let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & !0xff));
        let file = format!("{}/{THROTTLE}", group(which));
        fs::write(&file, format!("{major}:{minor} {bytes}"))
            .map_err(|error| format!("{file}: {error}"))
    }

    /// Has what a process writes count as that of a node.
    pub(super) fn confine(&self, which: usize, pid: u32) -> Result<(), String> {
        let file = format!("{}/cgroup.procs", group(which));
        fs::write(&file, pid.to_string()).map_err(|error| format!("{file}: {error}"))
    }

    fn mount(&self, which: usize) -> Result<&Path, String> {
        let mount = self.mounts.get(which).map(PathBuf::as_path);
        mount.ok_or_else(|| format!("node {} has no disk", which + 1))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // What cannot be unmounted is unmounted by the next run, which says so if it cannot.
        let _ = tear_down();
    }
}

fn mount(directory: &Path) -> Result<(), String> {
    let (made, image) = (directory.with_extension("made"), directory.with_extension("img"));
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::rename(directory, &made).map_err(failed)?;
    fs::create_dir(directory).map_err(failed)?;
    File::create(&image).and_then(|file| file.set_len(DISK_BYTES)).map_err(failed)?;
    run("mkfs.ext4", &["-q", "-F", "-m", "0", "-O", "^has_journal", &text(&image)])?;
    run("mount", &["-o", "loop", &text(&image), &text(directory)])?;
    // What a new file system holds is no data.
    let _ = fs::remove_dir(directory.join("lost+found"));
    run("cp", &["-a", "--sparse=always", &text(&made.join(".")), &text(directory)])?;
    fs::remove_dir_all(&made).map_err(failed)
}

/// Unmounts what a run mounted, and removes its control groups. No process of it may run.
pub(super) fn tear_down() -> Result<(), String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| point.contains(&format!("/{FOLDER}/node"))) {
        run("umount", &["-l", point])?;
    }
    let groups = fs::read_dir(CONTROL).into_iter().flatten().flatten();
    for group in groups.filter(|group| group.file_name().to_string_lossy().starts_with(GROUP)) {
        let path = group.path();
        fs::remove_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn free_bytes(mount: &Path) -> Result<u64, String> {
    let said = run("df", &["--output=avail", "-B1", &text(mount)])?;
    let number = said.lines().last().and_then(|line| line.trim().parse().ok());
    number.ok_or_else(|| format!("df says no number: {said}"))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn group(which: usize) -> String {
    format!("{CONTROL}/{GROUP}{}", which + 1)
}

/// The folder of the data directories; what is mounted below a folder of this name is ours.
pub(super) const FOLDER: &str = "roster-cluster-nodes";
/// Where the system has control groups for disks.
pub(super) const CONTROL: &str = "/sys/fs/cgroup/blkio";
/// Names of control groups begin with it.
const GROUP: &str = "roster-node";
/// The file of a control group that limits writing.
const THROTTLE: &str = "blkio.throttle.write_bps_device";
/// What takes the room.
const FILLER: &str = "filler";
/// Size of a disk; only what is written takes room on that of the machine.
const DISK_BYTES: u64 = 2 << 30;
/// What a file system gives at least.
const BLOCK_BYTES: u64 = 4096;
