//! Verifying an archive that nobody writes meanwhile: `roster check`.
//!
//! Invariant: nothing is changed, and one block is held at a time.

use std::io;

use journal::{Disk, Lock, LockKind};
use store::Lsn;

use super::file::{ArchiveFile, Summary, name, sequence};
use super::format::FileId;
use super::{ArchiveError, LOCK_FILE};
use crate::record::RecordHead;

/// What a check of an archive found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ArchiveCheck {
    /// Its files, those that cannot be read included.
    pub files: u64,
    /// Records that can be read.
    pub records: u64,
    /// What is damaged: the changes behind it, or of its file, cannot be read.
    pub findings: Vec<String>,
    /// What is no damage: files of another directory, one that was about to be begun when the
    /// server stopped, and where a run ends that no other follows, so that what is before is not
    /// read: the archive was switched off for a while, or the data were restored or loaded anew.
    pub notes: Vec<String>,
}

/// Verifies every block and every record of the archive of the store with the id `store`.
/// `progress` hears how many octets are verified, and how many there are.
///
/// # Errors
/// When the directory or a file cannot be read, or a server has the archive open.
pub fn check_archive(
    disk: &dyn Disk,
    store: [u8; 16],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ArchiveCheck, ArchiveError> {
    let _lock = lock(disk)?;
    let names = disk.list().map_err(|error| ArchiveError::io("listing", &error))?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence(name)).collect();
    sequences.sort_unstable();
    let newest = sequences.last().copied();
    let mut check = ArchiveCheck { files: sequences.len() as u64, ..ArchiveCheck::default() };
    let mut opened = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let file = open(disk, FileId { store, sequence })?;
        match file.summary() {
            Ok(summary) => opened.push(summary),
            Err(error @ ArchiveError::Io { .. }) => return Err(error),
            Err(error @ ArchiveError::Foreign(_)) => check.notes.push(error.to_string()),
            Err(_) if file.is_blank() => check.notes.push(format!(
                "nothing was written to {}: the server ended as it began it, and removes it when \
                 it starts",
                name(sequence)
            )),
            Err(error) => check.findings.push(error.to_string()),
        }
    }
    let total: u64 = opened.iter().map(|summary| summary.end).sum();
    let mut done = 0;
    for summary in &opened {
        progress(done, total);
        // Again: there may be more files than one may have open.
        check.verify(summary, &open(disk, summary.header.id)?, newest)?;
        done += summary.end;
    }
    progress(total, total);
    for (before, after) in opened.iter().zip(opened.iter().skip(1)) {
        if !after.follows(before) {
            check.notes.push(gap(before, after));
        }
    }
    Ok(check)
}

fn open(disk: &dyn Disk, id: FileId) -> Result<ArchiveFile, ArchiveError> {
    ArchiveFile::at(disk, id).map_err(|error| ArchiveError::io(&name(id.sequence), &error))
}

/// Sees to it that no server writes. Where nobody can, there is no lock either.
fn lock(disk: &dyn Disk) -> Result<Option<Lock>, ArchiveError> {
    match disk.lock(LOCK_FILE, LockKind::Exclusive) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(ArchiveError::InUse),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(None),
        Err(error) => Err(ArchiveError::io(LOCK_FILE, &error)),
    }
}

fn gap(before: &Summary, after: &Summary) -> String {
    let (last, first) = (before.last.0, after.header.first.0);
    format!(
        "{}: changes {last} and {first} do not follow each other: what is before {first} is not \
         read",
        name(after.header.id.sequence)
    )
}

impl ArchiveCheck {
    /// Verifies the blocks of a file.
    fn verify(
        &mut self,
        summary: &Summary,
        file: &ArchiveFile,
        newest: Option<u64>,
    ) -> Result<(), ArchiveError> {
        let sequence = summary.header.id.sequence;
        let places = match &summary.places {
            // What a crash left at the end of the newest file is cut off by the next start.
            Some(places) if summary.end < summary.file_bytes && newest != Some(sequence) => {
                self.findings.push(format!("{} ends in what is no block", name(sequence)));
                Ok(places.clone())
            }
            Some(places) => Ok(places.clone()),
            None => file.places(),
        };
        let places = match places {
            Ok(places) => places,
            Err(error @ ArchiveError::Io { .. }) => return Err(error),
            Err(error) => {
                self.findings.push(error.to_string());
                return Ok(());
            }
        };
        let mut next = (summary.header.first, summary.header.hash_before);
        for place in places {
            let records = match file.records(place.offset) {
                Ok((records, _)) => records,
                Err(error @ ArchiveError::Io { .. }) => return Err(error),
                Err(error) => {
                    self.findings.push(error.to_string());
                    continue;
                }
            };
            let first = records.first().and_then(|first| RecordHead::read(&first.bytes).ok());
            if first.map(|head| (head.lsn, head.prev_hash)) != Some(next) {
                let (name, at) = (name(sequence), place.offset);
                let what = "does not follow the one before";
                self.findings.push(format!("{name}: the block at octet {at} {what}"));
            }
            self.records += records.len() as u64;
            if let Some(last) = records.last() {
                next = (Lsn(last.lsn.0 + 1), last.hash);
            }
        }
        if next != (Lsn(summary.last.0 + 1), summary.hash_after) {
            self.findings.push(format!("{} does not end with what it says", name(sequence)));
        }
        Ok(())
    }
}
