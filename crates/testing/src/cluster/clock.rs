//! Clocks that are wrong: a library that the loader puts before the system's, so that a node sees
//! a time of day that is as far off as a file says.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::tools::{preload, run};

/// The clocks of all nodes.
#[derive(Debug)]
pub(super) struct Clocks {
    library: PathBuf,
    offsets: Vec<PathBuf>,
}

impl Clocks {
    /// Makes right clocks for so many nodes, in a folder that is there.
    pub(super) fn set_up(folder: &Path, count: usize) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        fs::write(&source, SOURCE).map_err(failed)?;
        let (from, to) = (source.display().to_string(), library.display().to_string());
        run("cc", &["-O1", "-shared", "-fPIC", "-o", &to, &from])?;
        let offsets: Vec<PathBuf> =
            (1..=count).map(|id| folder.join(format!("clock{id}"))).collect();
        for file in &offsets {
            fs::write(file, 0i64.to_ne_bytes()).map_err(failed)?;
        }
        Ok(Self { library, offsets })
    }

    /// Has a node that is to be started see its own clock.
    pub(super) fn give(&self, which: usize, command: &mut Command) {
        if let Some(offset) = self.offsets.get(which) {
            preload(command, &self.library);
            command.env("CLOCK_OFFSET_FILE", offset);
        }
    }

    /// Sets the clock of a node ahead, or back, from the right time.
    pub(super) fn set(&self, which: usize, by: Duration, is_ahead: bool) -> Result<(), String> {
        let Some(path) = self.offsets.get(which) else {
            return Err(format!("node {} has no clock of its own", which + 1));
        };
        let size = by.as_nanos() as i64;
        let offset = if is_ahead { size } else { -size };
        // Processes have it mapped: it must not get shorter, not for a moment.
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.write_all_at(&offset.to_ne_bytes(), 0))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The library.
const SOURCE: &str = include_str!("clock.c");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::server::scratch;

    #[test]
    fn a_process_sees_its_own_clock() {
        let folder = scratch("clock");
        fs::create_dir_all(&folder).unwrap();
        let clocks = Clocks::set_up(&folder, 2).unwrap();
        let seconds = |which: usize| {
            let mut command = Command::new("date");
            clocks.give(which, &mut command);
            let output = command.arg("+%s").output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<i64>().unwrap()
        };
        let hour = Duration::from_secs(3600);
        clocks.set(1, hour, true).unwrap();
        // An hour is far more than this takes.
        assert!(seconds(1) - seconds(0) > 3000);
        clocks.set(1, hour, false).unwrap();
        assert!(seconds(0) - seconds(1) > 3000);
        fs::remove_dir_all(&folder).unwrap();
    }
}
