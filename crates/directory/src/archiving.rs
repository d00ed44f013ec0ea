//! The thread that fills the archive of change records.
//!
//! Invariant: it ends before the log is closed; what it had not archived by then is in the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use environment::Clock;
use history::archive::{Archive, ArchiveOptions, Archiver, Stop};
use history::log::CommitLog;
use history::{ARCHIVE_DIRECTORY, archive_disk};

use crate::error::DirectoryError;
use crate::write::space::{DiskSpace, FileSystemSpace, SpaceLimits};

/// Where change records go that the log gives up, and for how long.
#[derive(Clone, Debug)]
pub struct ArchiveAt {
    /// The directory; none stands for `archive/` in the data directory.
    pub directory: Option<PathBuf>,
    /// What is kept.
    pub options: ArchiveOptions,
}

impl ArchiveAt {
    /// Where the archive of a data directory is.
    pub fn path(&self, data: &Path) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| data.join(ARCHIVE_DIRECTORY))
    }
}

/// An archive that is being filled.
#[derive(Debug)]
pub(crate) struct Archiving {
    pub(crate) archive: Arc<Archive>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Archiving {
    /// Opens the archive of `store` and starts the thread.
    ///
    /// # Errors
    /// When its directory cannot be made or read, or another server has it open.
    pub(crate) fn start(
        at: &ArchiveAt,
        data: &Path,
        store: [u8; 16],
        log: &Arc<dyn CommitLog>,
        clock: &Arc<dyn Clock>,
        (space, limits): (&Arc<dyn DiskSpace>, SpaceLimits),
    ) -> Result<Self, DirectoryError> {
        let disk = archive_disk(&at.path(data))?;
        let archive = Archive::open(disk, store, at.options.clone());
        let archive = archive.map_err(|error| DirectoryError::Archive(error.to_string()))?;
        let space = match &at.directory {
            Some(other) => Arc::new(FileSystemSpace::of(other)),
            None => Arc::clone(space),
        };
        // It gives way before writes are refused.
        let lacks_room =
            move || space.free_bytes().is_ok_and(|free_bytes| free_bytes < limits.low_bytes);
        let archiver = Archiver::new(&archive, log, clock, Box::new(lacks_room));
        let stop = archiver.stopper();
        let thread = thread::Builder::new().name("archive".to_owned());
        let thread = thread.spawn(move || archiver.work());
        let thread = thread.map_err(|error| DirectoryError::Archive(error.to_string()))?;
        Ok(Self { archive, stop, thread: Some(thread) })
    }
}

impl Drop for Archiving {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }
}
