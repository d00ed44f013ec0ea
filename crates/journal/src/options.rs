//! The small types of the interface: options, places, entries, what opening found.

use std::sync::Arc;
use std::time::Duration;

use crate::Damage;

/// Size of a segment file unless an append needs a larger one, in bytes.
pub const SEGMENT_BYTES_DEFAULT: u64 = 16 * 1024 * 1024;
/// Purged segments kept for backups and feeds, in bytes.
pub const KEEP_BYTES_DEFAULT: u64 = 1024 * 1024 * 1024;
/// Largest payload of one entry, in bytes.
pub const RECORD_MAX_BYTES_DEFAULT: u32 = 16 * 1024 * 1024;
/// Largest saved vote, in bytes.
pub const VOTE_MAX_BYTES: usize = 1024;

/// After so long what was only written is synced.
pub const LAZY_SYNC_DEFAULT: Duration = Duration::from_millis(1000);

/// How a journal is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JournalOptions {
    /// Size of a segment file, in bytes.
    pub segment_bytes: u64,
    /// How many bytes of purged segments stay readable, for backups and feeds.
    pub keep_bytes: u64,
    /// Largest payload of one entry, in bytes.
    pub record_max_bytes: u32,
    /// After so long what was only written is synced; and after as long again without work it is
    /// noted that all is synced.
    pub lazy_sync: Duration,
    /// Whose journal it is; a segment of another store is refused.
    pub id: [u8; 16],
}

impl JournalOptions {
    /// The defaults, for the store named `id`.
    pub fn new(id: [u8; 16]) -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            keep_bytes: KEEP_BYTES_DEFAULT,
            record_max_bytes: RECORD_MAX_BYTES_DEFAULT,
            lazy_sync: LAZY_SYNC_DEFAULT,
            id,
        }
    }
}

/// Where an entry stands in the log.
///
/// Ordered by term, then by index: of two logs the one whose last place is greater is newer.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct JournalPosition {
    /// The leadership that made the entry; never decreases along the log.
    pub term: u64,
    /// The number of the entry; the log has no gaps.
    pub index: u64,
}

/// An entry to append.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Appended {
    /// Its place: the index follows the one before.
    pub place: JournalPosition,
    /// Its content, octets to the journal.
    pub payload: Arc<[u8]>,
}

/// An entry as read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogEntry {
    /// Its place.
    pub place: JournalPosition,
    /// Its content.
    pub payload: Vec<u8>,
}

/// When an append counts as done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durability {
    /// On the medium: survives a power cut.
    Synced,
    /// In the system's memory: survives the end of this process, not a power cut.
    ///
    /// It is synced with the next append that asks for it, or after
    /// [`JournalOptions::lazy_sync`].
    Written,
}

/// What opening found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OpenReport {
    /// What a power cut left half written, and what is now gone.
    pub torn: Option<TornTail>,
    /// Entries that are not purged, from which recovery starts.
    pub entries: u64,
    /// Bytes of segments that were read and checked.
    pub checked_bytes: u64,
    /// Damage in purged segments: recovery does without them, feeds and backups begin behind it.
    pub damaged_history: Option<Damage>,
}

/// The end of a log that was written and never reported as synced.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TornTail {
    /// The segment file.
    pub segment: String,
    /// Where in it the log now ends, in bytes.
    pub offset: u64,
    /// Bytes that looked written behind that place and are no longer part of the log.
    pub bytes: u64,
    /// The last entry before the cut.
    pub last: Option<JournalPosition>,
}
