//! Programs of the system that the rounds call: what they say, and whether they are there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::fault::Fault;

/// Runs a program to its end; what it prints. Failing is an error, with what it said.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let told = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", told()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}: {}", told(), output.status, said.trim()))
}

/// A command that runs, and what it says.
#[derive(Debug)]
pub(super) struct Tool {
    command: Command,
    child: Child,
    folder: PathBuf,
}

/// What a command has said that has ended.
#[derive(Debug)]
pub(super) struct Said {
    status: ExitStatus,
    pub(super) output: String,
    pub(super) errors: String,
}

impl Said {
    pub(super) fn is_success(&self) -> bool {
        self.status.success()
    }

    /// Whether there was nothing left to do: it was killed in the moment before it ended.
    pub(super) fn is_done_before(&self) -> bool {
        DONE_BEFORE.iter().any(|text| self.errors.contains(text))
    }

    /// Why it failed, in one line without numbers.
    pub(super) fn reason(&self) -> String {
        let line = self.errors.lines().find_map(|line| line.strip_prefix("roster: error: "));
        let line = line.or_else(|| self.errors.lines().next()).unwrap_or_default();
        line.replace(|letter: char| letter.is_ascii_digit(), "#")
    }
}

impl Tool {
    /// Starts it; what it says goes to files in a folder.
    pub(super) fn start(mut command: Command, folder: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let [output, errors] = FILES.map(|name| File::create(folder.join(name)));
        command.stdin(Stdio::null());
        command.stdout(output.map_err(failed)?).stderr(errors.map_err(failed)?);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Self { command, child, folder: folder.to_owned() })
    }

    /// What it has said, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<Said>, String> {
        let status = self.child.try_wait();
        let status = status.map_err(|error| format!("{:?}: {error}", self.command))?;
        let Some(status) = status else { return Ok(None) };
        let [output, errors] =
            FILES.map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default());
        Ok(Some(Said { status, output, errors }))
    }

    /// Ends it where it takes too long: where it stands is worth knowing.
    pub(super) fn give_up(&mut self) -> Result<(), String> {
        if matches!(self.child.try_wait(), Ok(None)) {
            let stacks = stacks(self.child.id());
            let _ = fs::write(self.folder.join(STACKS), stacks.unwrap_or_else(|error| error));
        }
        self.kill()
    }

    /// Kills it, and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| format!("{:?}: {error}", self.command))
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // It has ended, but where the run fails meanwhile.
        let _ = self.kill();
    }
}

/// Where the threads of a process stand.
fn stacks(pid: u32) -> Result<String, String> {
    run("gdb", &["--batch", "-p", &pid.to_string(), "-ex", "thread apply all backtrace"])
}

/// What a machine says that has joined, or rejoined, already.
const DONE_BEFORE: [&str; 2] = ["has it joined? Start it", "has rejoined with this token already"];
/// Where a command writes what it prints, and what it says of errors.
const FILES: [&str; 2] = ["said.output", "said.errors"];
/// Where it is said where a command stood that did not end, if there is a debugger.
const STACKS: &str = "said.stacks";

/// Has the loader put a library before the system's, beside those that it is to put there already.
pub(super) fn preload(command: &mut Command, library: &Path) {
    let mut libraries = library.as_os_str().to_owned();
    let before = command.get_envs().find(|(name, _)| *name == PRELOAD);
    if let Some((_, Some(before))) = before {
        libraries.push(":");
        libraries.push(before);
    }
    command.env(PRELOAD, libraries);
}

/// Where the loader looks for libraries that come before the system's.
const PRELOAD: &str = "LD_PRELOAD";

/// What these faults take and this machine or this user has not, in a sentence.
pub fn missing(faults: &[Fault]) -> Option<String> {
    let takes_network = faults.iter().any(|fault| takes_root(*fault));
    if takes_network && !is_root() {
        return Some("partition and disk take root: run this with sudo".to_owned());
    }
    let mut programs = vec!["kill"];
    for fault in faults {
        programs.extend_from_slice(match fault {
            Fault::Partition(_) => &["ip", "nft", "nsenter"],
            Fault::FullDisk(_) | Fault::SlowDisk(_) => {
                &["ip", "nft", "nsenter", "mkfs.ext4", "mount", "umount", "fallocate", "df", "cp"]
            }
            Fault::Clock(_) | Fault::Power(..) | Fault::FailedSync(..) => &["cc"],
            Fault::Flip(_) | Fault::Members(_) => &["cp"],
            Fault::Kill(..) | Fault::Pause(_) | Fault::Upgrade(_) => &[],
        });
    }
    if let Some(program) = programs.into_iter().find(|program| !is_there(program)) {
        return Some(format!(
            "the program {program} is not there (Debian has ip in iproute2, nft in nftables, \
             nsenter, mount and fallocate in util-linux, mkfs.ext4 in e2fsprogs, cc in gcc)"
        ));
    }
    let takes_throttle = faults.iter().any(|fault| matches!(fault, Fault::SlowDisk(_)));
    if takes_throttle && !Path::new(super::disks::CONTROL).is_dir() {
        let control = super::disks::CONTROL;
        return Some(format!("slow disks take the control group version 1 blkio, in {control}"));
    }
    None
}

/// Whether nodes have to be in network namespaces for it.
pub(super) fn takes_root(fault: Fault) -> bool {
    match fault {
        Fault::Partition(_) | Fault::FullDisk(_) | Fault::SlowDisk(_) => true,
        Fault::Kill(..)
        | Fault::Pause(_)
        | Fault::Clock(_)
        | Fault::Flip(_)
        | Fault::Power(..)
        | Fault::FailedSync(..)
        | Fault::Members(_)
        | Fault::Upgrade(_) => false,
    }
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

/// Whether a program is where programs are looked for.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_stand_beside_each_other() {
        let mut command = Command::new("true");
        for library in ["/a", "/b"] {
            preload(&mut command, Path::new(library));
        }
        let all: Vec<_> = command.get_envs().filter_map(|(_, value)| value).collect();
        assert_eq!(all, ["/b:/a"]);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        assert_eq!(run("echo", &["a", "b"]), Ok("a b\n".to_owned()));
        let error = run("ls", &["/there is no such file"]).unwrap_err();
        assert!(error.contains("ls /there is no such file: exit status"), "{error}");
        assert!(run("no-such-program", &[]).unwrap_err().starts_with("no-such-program"));
        assert!(is_there("ls") && !is_there("no-such-program"));
    }
}
