//! Verifying a backup: every octet of every part, and the history from the base to the last record.
//!
//! Invariant: a backup that was verified can be restored, as far as its files do not change.

use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read};
use std::path::Path;

use journal::LockedFile;

use super::chain::Chain;
use super::error::BackupError;
use super::file::{self, CopyError, Hashing};
use super::manifest::{self, BackupPart, JournalPart, Manifest, Point};
use super::moment::Moment;
use super::part::PartReader;
use super::{BackupProgress, OnBackupProgress};

/// What a verified backup holds.
#[derive(Clone, Debug)]
pub struct BackupVerified {
    /// The backup.
    pub manifest: Manifest,
    /// Records after the base.
    pub records: u64,
}

/// Verifies the backup in `directory`: all checksums, and that the records follow each other.
///
/// # Errors
/// When there is no backup, or a part of it is missing or damaged: the first one that is found.
pub fn verify_backup(
    directory: &Path,
    progress: OnBackupProgress<'_>,
) -> Result<BackupVerified, BackupError> {
    let _lock = lock(directory)?;
    let manifest = read_manifest(directory)?;
    let mut check = Check { directory, progress, bytes: 0, total_bytes: manifest.bytes() };
    let mut chain = Chain::after(manifest.base.mark);
    for part in &manifest.journal {
        check.journal(part, &mut chain)?;
    }
    for part in &manifest.files {
        check.octets(&part.part)?;
    }
    check.octets(&manifest.base.part)?;
    let path = directory.join(&manifest.base.part.name);
    let damaged = |reason: String| BackupError::Damaged { part: path.clone(), reason };
    let summary = store::base_summary(&path)
        .map_err(|error| damaged(format!("is not a readable base: {error}")))?;
    let found = Point {
        lsn: summary.mark.lsn.0,
        hash: summary.mark.hash,
        time: Moment::from_micros(summary.mark.time_us),
    };
    if found != manifest.base.mark {
        return Err(damaged(
            "is not at the position in the history that the manifest says".to_owned(),
        ));
    }
    Ok(BackupVerified { records: chain.last().lsn - manifest.base.mark.lsn, manifest })
}

/// Keeps others from writing the backup while it is read; where nothing can be locked, on a medium
/// that cannot be written, nobody writes.
pub(super) fn lock(directory: &Path) -> Result<Option<LockedFile>, BackupError> {
    let Ok(lock) = File::open(directory.join(manifest::LOCK_FILE)) else { return Ok(None) };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(BackupError::InUse { path: directory.to_owned() }),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(LockedFile(lock))),
    }
}

/// The manifest of the backup in `directory`.
pub(super) fn read_manifest(directory: &Path) -> Result<Manifest, BackupError> {
    Manifest::read(directory)?.ok_or_else(|| BackupError::NoBackup { path: directory.to_owned() })
}

struct Check<'a> {
    directory: &'a Path,
    progress: OnBackupProgress<'a>,
    bytes: u64,
    total_bytes: u64,
}

impl Check<'_> {
    /// Reads a part for its checksum only.
    fn octets(&mut self, part: &BackupPart) -> Result<(), BackupError> {
        let path = self.directory.join(&part.name);
        let mut source = Hashing::new(open(&path)?);
        let copied = file::copy(&mut source, &mut io::sink(), &mut |read| self.advance(read));
        match copied {
            Ok(()) => self.compare(part, &source),
            Err(CopyError::Read(source) | CopyError::Write(source)) => {
                Err(BackupError::io(&path, source))
            }
        }
    }

    /// Reads the records of a part, which must follow those before.
    fn journal(&mut self, part: &JournalPart, chain: &mut Chain) -> Result<(), BackupError> {
        let path = self.directory.join(&part.part.name);
        let damaged = |reason| BackupError::Damaged { part: path.clone(), reason };
        let source = Hashing::new(BufReader::with_capacity(file::BUFFER_BYTES, open(&path)?));
        let mut reader = PartReader::new(source).map_err(damaged)?;
        while let Some(entry) = reader.next_entry().map_err(damaged)? {
            let before = chain.last();
            chain.follow(&entry.payload).map_err(|broken| damaged(broken.reason(before)))?;
            let read = entry.payload.len() as u64;
            self.advance(read);
        }
        let mut rest = reader.into_inner();
        io::copy(&mut rest, &mut io::sink()).map_err(|source| BackupError::io(&path, source))?;
        self.compare(&part.part, &rest)?;
        if chain.last() != part.last {
            return Err(damaged("does not end with the record that the manifest says".to_owned()));
        }
        Ok(())
    }

    fn compare<R: Read>(&self, part: &BackupPart, read: &Hashing<R>) -> Result<(), BackupError> {
        let reason = if read.bytes != part.bytes {
            format!("has {} bytes instead of {}", read.bytes, part.bytes)
        } else if read.checksum() != part.sha256 {
            "does not match its checksum".to_owned()
        } else {
            return Ok(());
        };
        Err(BackupError::Damaged { part: self.directory.join(&part.name), reason })
    }

    fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
        let (bytes, total_bytes) = (self.bytes, Some(self.total_bytes));
        (self.progress)(BackupProgress { phase: "verifying", bytes, total_bytes });
    }
}

/// Opens a part, which must be there.
pub(super) fn open(path: &Path) -> Result<File, BackupError> {
    File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            BackupError::Damaged { part: path.to_owned(), reason: "is missing".to_owned() }
        }
        _ => BackupError::io(path, source),
    })
}
