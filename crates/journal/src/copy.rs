//! Copying a journal while it is written, for backups, and reading such copies.
//!
//! The one who copies shares no memory with the one who writes: whole groups are told from
//! half-written ones by their checksums, so a copy always ends at a whole append.

use std::io::Write;

use crate::{Disk, Entries, JournalError, JournalOptions, Lock, LockKind};

/// The file whose shared lock keeps segments from being reused or removed.
pub const HOLD_FILE: &str = "hold";

/// Keeps all segments where they are until it is dropped.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "held for its drop")] Lock);

/// A segment as it is now: to be copied up to `end`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The file.
    pub name: String,
    /// Its number; it grows along the log.
    pub sequence: u64,
    /// The index of its first entry, or of the next entry if it has none.
    pub first: u64,
    /// The index of its last entry, if it has one.
    pub last: Option<u64>,
    /// Bytes up to the end of its last whole group.
    pub end: u64,
    /// Whether nothing will be appended to it any more.
    pub is_sealed: bool,
    /// CRC-32C of the bytes up to `end`.
    pub checksum: u32,
}

/// Takes the hold; fails with `InUse` in the short moment in which segments are being removed.
pub fn hold(disk: &dyn Disk) -> Result<Hold, JournalError> {
    let locked = disk.lock(HOLD_FILE, LockKind::Shared);
    let lock = locked.map_err(|error| JournalError::io(HOLD_FILE, &error))?;
    lock.map(Hold).ok_or(JournalError::InUse)
}

/// Lists the segments with their ranges and checksums, oldest first.
pub fn list(disk: &dyn Disk, options: &JournalOptions) -> Result<Vec<Segment>, JournalError> {
    let _ = (disk, options);
    Err(JournalError::Closed)
}

/// Copies one segment as it was listed, and checks that the bytes are those.
pub fn copy(disk: &dyn Disk, segment: &Segment, to: &mut dyn Write) -> Result<(), JournalError> {
    let _ = (disk, segment, to);
    Err(JournalError::Closed)
}

/// Reads the entries from index `from` of a journal that another process writes, or of a copy.
pub fn entries(
    disk: &dyn Disk,
    options: &JournalOptions,
    from: u64,
) -> Result<Entries, JournalError> {
    let _ = (disk, options, from);
    Err(JournalError::Closed)
}
