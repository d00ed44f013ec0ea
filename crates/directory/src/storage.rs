//! What a directory keeps its data in: the store, the log of changes, its journal, and who brings
//! changes from one into the other.
//!
//! Invariant: what is not in the database is in the journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use history::archive::Archive;
use history::changes::Changes;
use history::log::CommitLog;
use journal::Journal;
use store::{Flusher, LogPosition, Lsn, Store};

use crate::archiving::Archiving;
use crate::error::DirectoryError;
use crate::write::space::{DiskSpace, SpaceLimits, SpaceWatch};

/// Where the data is.
pub(crate) struct Storage {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<dyn CommitLog>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) journal_hold: Option<JournalHold>,
    /// None where there is no archive, and once the directory is shut down.
    pub(crate) archiving: Mutex<Option<Archiving>>,
    /// Whether the log waits for it.
    pub(crate) waits_for_archive: bool,
    /// None once the directory is shut down.
    pub(crate) flusher: Mutex<Option<Flusher>>,
    pub(crate) space: Arc<dyn DiskSpace>,
    pub(crate) space_limits: SpaceLimits,
}

/// How far somebody has come who must miss no record: what follows stays in the journal.
#[derive(Clone, Debug)]
pub struct JournalHold(Arc<AtomicU64>);

impl JournalHold {
    /// Keeps every record after this one.
    pub fn after(lsn: Lsn) -> Self {
        Self(Arc::new(AtomicU64::new(lsn.0)))
    }

    /// The records up to this one are not needed any more.
    pub fn advance(&self, lsn: Lsn) {
        self.0.store(lsn.0, Ordering::Release);
    }
}

/// Who keeps records in the log that recovery needs no more.
#[derive(Clone)]
pub(crate) struct LogKeepers {
    /// Somebody who must miss none.
    pub(crate) hold: Option<JournalHold>,
    /// The archive, which is waited for as long as that takes little room.
    pub(crate) archive: Option<Arc<Archive>>,
    pub(crate) journal: Arc<Journal>,
}

impl LogKeepers {
    /// How far the log may forget when the database has come to `position`. An index of the log is
    /// never less than the number of the record there, so nothing that is held goes.
    pub(crate) fn limit(&self, position: LogPosition) -> LogPosition {
        let held = self.hold.as_ref().map_or(u64::MAX, |hold| hold.0.load(Ordering::Acquire));
        let wanted = self.archive.as_ref().and_then(|archive| archive.durable());
        let wanted = wanted.map_or(u64::MAX, |durable| {
            durable.0.max(self.journal.before_newest(ARCHIVE_WAIT_BYTES))
        });
        LogPosition { index: position.index.min(held).min(wanted), ..position }
    }
}

/// The journal waits for the archive as long as that takes no more room.
const ARCHIVE_WAIT_BYTES: u64 = 64 << 20;

impl Storage {
    /// Who keeps what recovery does not need.
    fn log_keepers(&self) -> LogKeepers {
        let (hold, journal) = (self.journal_hold.clone(), Arc::clone(&self.journal));
        let archive = self.archive().filter(|_| self.waits_for_archive);
        LogKeepers { hold, archive, journal }
    }

    /// What refuses writes where there is no room.
    pub(crate) fn space_watch(&self) -> SpaceWatch {
        SpaceWatch::new(Arc::clone(&self.space), self.space_limits)
    }

    /// Brings all changes into the database, as far as that is done in time, and closes the log.
    pub(crate) fn shutdown(&self, wait_max: Duration) {
        if let Some(flusher) = self.take_flusher() {
            flusher.stop();
            self.last_flush(wait_max);
        }
        self.end_archiving();
        self.log.close();
    }

    /// Closes the log; changes that are not in the database stay in the journal.
    pub(crate) fn close(&self) {
        if let Some(flusher) = self.take_flusher() {
            flusher.stop();
        }
        self.end_archiving();
        self.log.close();
    }

    /// Flushes on a thread of its own, and waits for it no longer than `wait_max`: what is not in
    /// the database is in the journal.
    fn last_flush(&self, wait_max: Duration) {
        let overlay_bytes = self.store.overlay().bytes;
        let (done, is_done) = bounded(1);
        let (store, log) = (Arc::clone(&self.store), Arc::clone(&self.log));
        let keepers = self.log_keepers();
        let flush = move || {
            let flushed = store.flush().map_err(DirectoryError::from).map(|mark| {
                log.forget(keepers.limit(mark.position));
            });
            // The database is closed, and may be opened again, once this is heard.
            drop((store, log));
            let _ = done.send(flushed);
        };
        let started = thread::Builder::new().name("last-flush".to_owned()).spawn(flush);
        if let Err(error) = started {
            return tracing::warn!(%error, "changes that are not in the database stay in the \
                                           journal");
        }
        let mut waited = Duration::ZERO;
        while waited < wait_max {
            match is_done.recv_timeout(PROGRESS_EVERY) {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    return tracing::warn!(
                        %error,
                        "the last changes could not be written to the database; they are in the \
                         journal"
                    );
                }
                Err(_) => waited += PROGRESS_EVERY,
            }
            tracing::info!(overlay_bytes, ?waited, "writing the last changes to the database");
        }
        tracing::warn!(?waited, "the last changes stay in the journal: the database is slow");
    }

    /// What is kept of what changed.
    pub(crate) fn changes(&self) -> Changes {
        Changes::new(Arc::clone(&self.log), self.archive())
    }

    /// The archive, if there is one.
    pub(crate) fn archive(&self) -> Option<Arc<Archive>> {
        let archiving = self.archiving.lock().unwrap_or_else(PoisonError::into_inner);
        archiving.as_ref().map(|archiving| Arc::clone(&archiving.archive))
    }

    fn end_archiving(&self) {
        let archiving = self.archiving.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its end is waited for, and nobody else is kept meanwhile.
        drop(archiving);
    }

    fn take_flusher(&self) -> Option<Flusher> {
        self.flusher.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// How often the log tells that a shutdown goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
