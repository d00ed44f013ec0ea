//! Reading a journal that another process writes, or a copy of its files: for backup and export.
//!
//! Reads only, and shares no memory with the one who writes: whole groups are told from
//! half-written ones by their checksums, so what is read always ends at a whole append.

use std::sync::Arc;

use crate::log::Log;
use crate::recover::{Reach, load};
use crate::segment::{Segment, first_readable};
use crate::{Disk, Entries, JournalError, JournalPosition, Lock, LockKind};

/// The file whose shared lock keeps segments from being reused or removed.
pub const HOLD_FILE: &str = "hold";

/// Keeps all segments where they are until it is dropped.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "held for its drop")] Lock);

/// Takes the hold; fails with `InUse` in the short moment in which segments are being removed.
pub fn hold(disk: &dyn Disk) -> Result<Hold, JournalError> {
    let locked = disk.lock(HOLD_FILE, LockKind::Shared);
    let lock = locked.map_err(|error| JournalError::io(HOLD_FILE, &error))?;
    lock.map(Hold).ok_or(JournalError::InUse)
}

/// A journal as it was when it was opened for reading.
#[derive(Debug)]
pub struct JournalSnapshot {
    log: Log,
    segments: Vec<Arc<Segment>>,
}

/// Opens the journal of the store `id` for reading, up to its last whole group now.
///
/// Take the [`hold`] first when another process writes it. Entries half-written at the moment
/// are the end, no error; damage that no power cut explains is one. Purged segments are opened,
/// but checked only when they are read.
pub fn open(disk: &dyn Disk, id: [u8; 16]) -> Result<JournalSnapshot, JournalError> {
    let loaded = load(disk, id, Reach::Needed, &mut |_, _| ())?;
    Ok(JournalSnapshot { log: loaded.log, segments: loaded.segments })
}

impl JournalSnapshot {
    /// The first index that can be read (or will be, if there is none yet).
    pub fn first(&self) -> u64 {
        first_readable(&self.log, &self.segments)
    }

    /// The last whole entry when the journal was opened.
    pub fn last(&self) -> Option<JournalPosition> {
        self.log.last
    }

    /// Entries up to here were not needed for recovery any more.
    pub fn purged(&self) -> Option<JournalPosition> {
        self.log.purged
    }

    /// How far the log is committed, as it was last saved.
    pub fn committed(&self) -> Option<JournalPosition> {
        self.log.committed
    }

    /// Whether a vote was ever saved.
    pub fn has_vote(&self) -> bool {
        self.log.vote.is_some()
    }

    /// Reads from index `from` up to the last whole entry.
    pub fn read(&self, from: u64) -> Result<Entries, JournalError> {
        Entries::new(&self.log, &self.segments, from)
    }
}
