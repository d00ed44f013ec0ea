//! Media that forget: a library that the loader puts before the system's keeps, for each node, what
//! its files were before the writes that are not synced. After the node was killed some of those
//! are undone, as if its machine had lost its power. Syncs can be made to fail, and to be a lie.
//!
//! Invariant: a medium loses something only while no process uses it.

mod loss;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use self::loss::{Loss, Lost};
use super::fault::Part;
use super::tools::{preload, run};
use crate::chance::Chance;

/// The media of all nodes.
#[derive(Debug)]
pub struct Media {
    library: PathBuf,
    nodes: Vec<Medium>,
    /// Syncs do nothing.
    lies: bool,
}

#[derive(Debug)]
struct Medium {
    data: PathBuf,
    /// What was before writes that are not synced.
    undo: PathBuf,
    /// Says which syncs fail, while it is there.
    fails: PathBuf,
}

impl Media {
    /// Has what is written to these data directories from now on be forgotten until it is synced.
    /// The directories must be there, and no process may use them.
    ///
    /// # Errors
    /// When the library cannot be built, or the files cannot be written.
    pub fn set_up(folder: &Path, directories: &[PathBuf], lies: bool) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let (source, library) = (folder.join("medium.c"), folder.join("medium.so"));
        fs::write(&source, SOURCE).map_err(failed)?;
        let (from, to) = (source.display().to_string(), library.display().to_string());
        run("cc", &["-O1", "-shared", "-fPIC", "-pthread", "-o", &to, &from])?;
        let mut nodes = Vec::new();
        for directory in directories {
            let data = directory.canonicalize().map_err(failed)?;
            let (undo, fails) = (data.with_extension("undo"), data.with_extension("fails"));
            fs::create_dir_all(&undo).map_err(failed)?;
            nodes.push(Medium { data, undo, fails });
        }
        Ok(Self { library, nodes, lies })
    }

    /// Has a node that is to be started use its own medium.
    pub fn give(&self, which: usize, command: &mut Command) {
        let Some(Medium { data, undo, fails }) = self.nodes.get(which) else { return };
        preload(command, &self.library);
        command.env("MEDIUM_DATA", data).env("MEDIUM_UNDO", undo).env("MEDIUM_FAILS", fails);
        if self.lies {
            command.env("MEDIUM_LIES", "1");
        }
    }

    /// Has syncs of a part of a node's files fail.
    pub(super) fn fail(&self, which: usize, part: Part) -> Result<(), String> {
        let fails = &self.node(which)?.fails;
        let text = match part {
            Part::Journal => "/journal/",
            Part::Base => "/data.mdb",
        };
        // A process reads all of it or finds none.
        let beside = fails.with_extension("new");
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, fails));
        written.map_err(|error| format!("{}: {error}", fails.display()))
    }

    /// Has them work again.
    pub(super) fn mend(&self, which: usize) -> Result<(), String> {
        let fails = &self.node(which)?.fails;
        fs::remove_file(fails).map_err(|error| format!("{}: {error}", fails.display()))
    }

    /// Has a node that was killed lose some of what it has not synced.
    ///
    /// # Errors
    /// When the files cannot be read or written.
    pub fn lose(&self, which: usize, loss: Loss, chance: &mut Chance) -> Result<Lost, String> {
        let medium = self.node(which)?;
        let failed = |error| format!("node {}: what was not synced: {error}", which + 1);
        let lost = loss::lose(&medium.data, &medium.undo, loss, chance).map_err(failed)?;
        self.settle(which)?;
        Ok(lost)
    }

    /// Has all that is on the medium of a node that does not run stay there.
    pub(super) fn settle(&self, which: usize) -> Result<(), String> {
        let undo = &self.node(which)?.undo;
        fs::remove_dir_all(undo)
            .and_then(|()| fs::create_dir(undo))
            .map_err(|error| format!("{}: {error}", undo.display()))
    }

    fn node(&self, which: usize) -> Result<&Medium, String> {
        self.nodes.get(which).ok_or_else(|| format!("node {} has no such medium", which + 1))
    }
}

/// The library.
const SOURCE: &str = include_str!("medium.c");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::server::scratch;

    /// A node that writes with `dd`: its data directory has one file, `a`, of four octets.
    struct Trial {
        folder: PathBuf,
        media: Media,
    }

    impl Trial {
        fn new(name: &str, lies: bool) -> Self {
            let folder = scratch(name);
            let data = folder.join("node1");
            fs::create_dir_all(data.join("journal")).unwrap();
            fs::write(data.join("journal/a"), "old\n").unwrap();
            let media = Media::set_up(&folder, &[data], lies).unwrap();
            Self { folder, media }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.join("node1/journal").join(name)
        }

        /// Runs a program with this medium; whether it ended well.
        fn run(&self, program: &str, words: &[&str]) -> bool {
            let mut command = Command::new(program);
            self.media.give(0, &mut command);
            let output = command.args(words).current_dir(self.path("")).output().unwrap();
            output.status.success()
        }

        fn write(&self, more: &[&str]) -> bool {
            let input = self.folder.join("input");
            fs::write(&input, "newer\n").unwrap();
            let input = format!("if={}", input.display());
            self.run("dd", &[&[input.as_str(), "of=a"], more].concat())
        }

        fn lose(&self) -> Lost {
            self.media.lose(0, Loss::All, &mut Chance::new(1, 1)).unwrap()
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.path(name)).ok()
        }
    }

    impl Drop for Trial {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn what_is_not_synced_is_lost_and_what_is_synced_stays() {
        let trial = Trial::new("medium-lost", false);
        let ways = [("conv=notrunc", 1), ("conv=fsync,notrunc", 0), ("oflag=dsync", 0)];
        for (way, blocks) in ways {
            assert!(trial.write(&[way]));
            assert_eq!(trial.read("a").unwrap(), "newer\n");
            assert_eq!(trial.lose().blocks, blocks, "{way}");
            let want = if blocks > 0 { "old\n" } else { "newer\n" };
            assert_eq!(trial.read("a").unwrap(), want, "{way}");
        }
        // Cut, and made anew.
        assert!(trial.write(&["oflag=append", "conv=notrunc"]));
        assert_eq!(trial.read("a").unwrap(), "newer\nnewer\n");
        trial.lose();
        assert_eq!(trial.read("a").unwrap(), "newer\n");
        assert!(trial.write(&["bs=1", "count=2"]));
        assert_eq!(trial.read("a").unwrap(), "ne");
        trial.lose();
        assert_eq!(trial.read("a").unwrap(), "newer\n");
    }

    #[test]
    fn names_are_lost_until_their_directory_is_synced() {
        let trial = Trial::new("medium-names", false);
        let all = || ["a", "b", "c"].map(|name| trial.read(name).is_some());
        assert!(trial.run("cp", &["a", "b"]) && all() == [true, true, false]);
        assert_eq!(trial.lose().names, 1);
        assert_eq!(all(), [true, false, false]);
        assert!(trial.run("cp", &["a", "b"]) && trial.run("sync", &["a", "b", "."]));
        assert_eq!(trial.lose(), Lost::default());
        assert!(trial.run("unlink", &["a"]) && all() == [false, true, false]);
        assert_eq!(trial.lose().names, 1);
        assert_eq!(all(), [true, true, false]);
        assert_eq!(trial.read("a").unwrap(), "old\n");
    }

    #[test]
    fn a_sync_that_lies_keeps_nothing() {
        let trial = Trial::new("medium-lies", true);
        for way in ["conv=fsync,notrunc", "conv=fdatasync,notrunc"] {
            assert!(trial.write(&[way]));
            assert_eq!(trial.read("a").unwrap(), "newer\n");
            trial.lose();
            assert_eq!(trial.read("a").unwrap(), "old\n", "{way}");
        }
    }

    #[test]
    fn a_sync_fails_while_it_is_said_to() {
        let trial = Trial::new("medium-fails", false);
        trial.media.fail(0, Part::Journal).unwrap();
        assert!(!trial.write(&["conv=fdatasync,notrunc"]));
        trial.media.fail(0, Part::Base).unwrap();
        assert!(trial.write(&["conv=fdatasync,notrunc"]));
        trial.media.mend(0).unwrap();
        assert!(trial.write(&["conv=fdatasync,notrunc"]));
        assert_eq!(trial.lose(), Lost::default());
    }
}
