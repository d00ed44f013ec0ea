//! The journal: an append-only log in segment files, made durable by group sync.
//!
//! What always holds:
//!
//! * An append is all there or not at all, and in the order of the calls.
//! * What was reported as done with [`Durability::Synced`] is there after a power cut.
//! * Only what a power cut can leave behind is ever cut; other damage is reported with its place.
//! * Memory does not grow with the number of records: a sparse index per segment, no more.
//!
//! The journal knows octets, indexes and terms; it is told nothing of what they mean. The bytes
//! are described in `docs/journal-format.md`. Start at [`Journal`].

#![cfg_attr(test, allow(missing_docs, reason = "tests explain themselves by name"))]

pub mod copy;
mod disk;
mod error;
mod files;
mod format;
mod journal;
mod log;
mod options;
mod read;
mod recover;
mod salvage;
mod scan;
mod segment;
mod shared;
#[cfg(any(test, feature = "test-support"))]
pub mod simulated;
mod verify;
mod writer;

pub use self::journal::{Done, Journal, JournalStatus};
pub use disk::{Disk, DiskFile, FileDisk, Lock, LockKind, LockedFile};
pub use error::{Damage, JournalError};
pub use options::{
    Appended, Durability, JournalOptions, JournalPosition, KEEP_BYTES_DEFAULT, LAZY_SYNC_DEFAULT,
    LogEntry, OpenReport, RECORD_MAX_BYTES_DEFAULT, SEGMENT_BYTES_DEFAULT, TornTail,
    VOTE_MAX_BYTES,
};
pub use read::Entries;
pub use salvage::{Salvaged, salvage};
pub use verify::{VerifyReport, verify};
