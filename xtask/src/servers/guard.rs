//! Ends what was started when this process ends in any way: interrupted, killed, or with a panic.
//!
//! Invariant: a process is ended only while whoever started it has not reaped it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for a word, which says that all went well. Without it the end of the pipe says that we are
/// gone: then the process is killed and the folder removed.
const SCRIPT: &str = "trap '' INT TERM HUP
read -r word && exit
[ -z \"$1\" ] || kill -KILL \"$1\"
[ -z \"$2\" ] || { sleep 2; rm -rf \"$2\"; }";

/// As long as it lives, what it watches is left alone.
#[derive(Debug)]
pub(crate) struct Guard(Option<Child>);

impl Guard {
    /// Watches over a process.
    pub(crate) fn process(id: u32) -> Self {
        Self::start(&id.to_string(), "")
    }

    /// Watches over a folder.
    pub(crate) fn folder(path: &Path) -> Self {
        Self::start("", &path.display().to_string())
    }

    /// Without a shell nothing is watched over.
    fn start(process: &str, folder: &str) -> Self {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "guard", process, folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(shell.ok())
    }

    /// Nothing is left to be watched over.
    pub(crate) fn dismiss(&mut self) {
        if let Some(mut shell) = self.0.take() {
            if let Some(mut stdin) = shell.stdin.take() {
                let _ = stdin.write_all(b"well\n");
            }
            let _ = shell.wait();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dismiss();
    }
}

#[cfg(test)]
mod tests {
    use testing::crash::server::{pause, scratch};

    use super::*;
    use crate::servers::SAMPLE_PAUSE;

    #[test]
    fn what_is_watched_over_ends_when_nobody_says_that_all_is_well() {
        let folder = scratch("guard");
        std::fs::create_dir_all(&folder).unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let (mut process, mut place) = (Guard::process(child.id()), Guard::folder(&folder));
        // As when this process ends: the pipes close.
        for guard in [&mut process, &mut place] {
            drop(guard.0.as_mut().unwrap().stdin.take());
        }
        assert!(!child.wait().unwrap().success());
        while folder.exists() {
            pause(SAMPLE_PAUSE);
        }
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        drop(Guard::process(child.id()));
        assert!(child.try_wait().unwrap().is_none(), "it was let go");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
