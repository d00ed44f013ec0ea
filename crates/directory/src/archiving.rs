//! The thread that fills the archive of change records.
//!
//! Invariant: it ends before the log is closed, or is waited for no longer than [`END_MAX`]; what
//! it had not archived by then is in the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use environment::Clock;
use history::archive::{Archive, ArchiveEnding, ArchiveError, ArchiveOptions, Archiver};
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

/// How long the end of the thread is waited for: its disk may be gone.
const END_MAX: Duration = Duration::from_secs(10);

/// An archive that is being filled.
#[derive(Debug)]
pub(crate) struct Archiving {
    pub(crate) archive: Arc<Archive>,
    stop: Arc<ArchiveEnding>,
    /// Closes when the thread has ended.
    ended: Receiver<()>,
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
        space: &Arc<dyn DiskSpace>,
        limits: SpaceLimits,
    ) -> Result<Self, DirectoryError> {
        let path = at.path(data);
        let failed =
            |error: String| DirectoryError::Archive(format!("{}: {error}", path.display()));
        let disk = archive_disk(&path).map_err(|error| failed(error.to_string()))?;
        let archive = Archive::open(disk, store, at.options.clone());
        let archive = archive.map_err(|error| match error {
            ArchiveError::InUse => {
                DirectoryError::ArchiveInUse(format!("{}: {error}", path.display()))
            }
            other => failed(other.to_string()),
        })?;
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
        let (working, ended) = bounded(1);
        let work = move || {
            archiver.work();
            drop(working);
        };
        thread.spawn(work).map_err(|error| DirectoryError::Archive(error.to_string()))?;
        Ok(Self { archive, stop, ended })
    }
}

impl Drop for Archiving {
    fn drop(&mut self) {
        self.stop.stop();
        if self.ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last changes are not in the archive: its disk does not answer");
        }
    }
}
