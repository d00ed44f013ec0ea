//! Backups: a copy of the base and the records after it, taken while a server serves.
//!
//! A backup is a directory: `manifest.json`, which names all other files with their checksums, a
//! copy of the base (`base-1`), parts with records (`journal-1`, `journal-2` and so on), and the
//! small files of the data directory (`file-1-0` and so on). The number is that of the run that
//! wrote the file. The first run copies the base and the records after it; each later one only the
//! records since.
//!
//! The server is not asked: its files are read beside it. The hold of the journal keeps it from
//! giving up records meanwhile; LMDB keeps the pages that are being copied.
//!
//! Invariants: what was acknowledged before a run began is in the backup it makes. A run that does
//! not come to its end leaves the backup as it was. Nothing is restored from a part whose checksum
//! is wrong, nor across a gap in the history. A restored directory is another store, with an id of
//! its own: its history goes its own way from there.

mod chain;
mod error;
mod file;
mod manifest;
mod member;
mod moment;
mod part;
mod restore;
mod source;
mod take;
#[cfg(test)]
mod tests;
mod verify;

pub use error::BackupError;
pub use file::Sha256Hex;
pub use manifest::{BackupPart, BasePart, FilePart, JournalPart, MANIFEST_FILE, Manifest, Point};
pub use member::{MemberBackup, MemberBase};
pub use moment::Moment;
pub use part::{PartEntry, PartReader};
pub use restore::{RestoreOptions, RestoreReport, Until, restore};
pub(crate) use source::read_only_store;
pub use take::{BackupOptions, BackupReport, WhyFull, backup};
pub use verify::{BackupVerified, verify_backup};

/// How far a backup command is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BackupProgress {
    /// What is being done.
    pub phase: &'static str,
    /// How many octets of it are done.
    pub bytes: u64,
    /// How many there are, when that is known.
    pub total_bytes: Option<u64>,
}

/// Hears how far a command is.
pub type OnBackupProgress<'a> = &'a mut dyn FnMut(BackupProgress);
