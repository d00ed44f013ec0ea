//! The archive: change records that the log needs no more, compressed, for those who read behind
//! it: feeds, history, other servers.
//!
//! It follows the log as any reader does, so neither recovery nor the members of a cluster wait for
//! it, and it keeps what it has by its own limits of age and size. Start at [`Archive`]; a thread
//! with an [`Archiver`] fills it, [`Changes`](crate::changes::Changes) reads it together with the
//! log.
//!
//! Invariant: what is in it was applied here, and each record follows the one before, or a new run
//! begins: readers are told, and never led across.
//! Invariant: memory does not grow with the records, but by about 200 octets for each file, and the
//! places of the blocks of one.

#[cfg(any(test, feature = "test-support"))]
pub mod arbitrary;
mod archiver;
mod check;
mod file;
mod format;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::Timestamp;
use journal::{Disk, Lock, LockKind};
use store::Lsn;

use self::file::{ArchiveFile, Summary, name, sequence};
use self::format::FileId;
use crate::record::RecordError;

pub use archiver::{ArchiveEnding, Archiver, Room};
pub use check::{ArchiveCheck, check_archive};
pub use reader::ArchiveReader;

/// What an archive keeps, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ArchiveOptions {
    /// Records older than this go, file by file.
    pub keep_age: Duration,
    /// The most octets that all files take together; the newest file always stays.
    pub keep_bytes: u64,
    /// A file is complete when it has so many octets.
    pub file_bytes: u64,
    /// Octets of records that make a block, before they are compressed: what a reader holds.
    pub block_bytes: usize,
    /// How long a record waits at most for others that fill its block.
    pub delay: Duration,
}

impl ArchiveOptions {
    /// Keeps seven days, but no more than so many octets.
    pub const fn new(keep_bytes: u64) -> Self {
        Self {
            keep_age: KEEP_AGE_DEFAULT,
            keep_bytes,
            file_bytes: if keep_bytes / 8 < FILE_BYTES { keep_bytes / 8 } else { FILE_BYTES },
            block_bytes: 256 << 10,
            delay: Duration::from_secs(60),
        }
    }
}

/// The file whose lock keeps a second process from writing.
const LOCK_FILE: &str = "archive.lock";

/// Files are complete with so many octets, or an eighth of what may be kept.
const FILE_BYTES: u64 = 64 << 20;

/// How long records are kept by default.
pub const KEEP_AGE_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// An archive, shared by the thread that writes and all who read.
#[derive(Debug)]
pub struct Archive {
    disk: Arc<dyn Disk>,
    /// The id of the store whose changes it has.
    store: [u8; 16],
    options: ArchiveOptions,
    state: Mutex<State>,
    /// Nobody else writes meanwhile.
    _lock: Lock,
}

#[derive(Debug, Default)]
struct State {
    /// From the oldest to the newest.
    files: Vec<Summary>,
    next_sequence: u64,
    /// The last record that is on the medium for sure.
    durable: Lsn,
    /// What went wrong the last time, until it goes well; and whether the disk was full.
    error: Option<String>,
    is_full: bool,
    /// Records that could not be had from the log any more.
    missing: u64,
}

/// What an archive has.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ArchiveStatus {
    /// The first record of the newest run: from there on all can be read.
    pub first: Lsn,
    /// When that was decided; none where there is none.
    pub first_time: Option<Timestamp>,
    /// The last record; 0 = none.
    pub last: Lsn,
    /// When that was decided.
    pub last_time: Option<Timestamp>,
    /// Files.
    pub files: u64,
    /// Octets of all files.
    pub bytes: u64,
    /// Octets of the records before they were compressed.
    pub raw_bytes: u64,
    /// Records that the log had no more when the archive came to them, since it was opened.
    pub missing: u64,
    /// What went wrong the last time, if it was not made up for.
    pub error: Option<String>,
}

impl Archive {
    /// Opens the archive of the store with the id `store` in a directory, which may be empty. Files
    /// that cannot be read are passed over, and said so; those of another store are left alone.
    ///
    /// # Errors
    /// When the directory cannot be read, or another process has the archive open.
    pub fn open(
        disk: Arc<dyn Disk>,
        store: [u8; 16],
        options: ArchiveOptions,
    ) -> Result<Arc<Self>, ArchiveError> {
        let lock = disk.lock(LOCK_FILE, LockKind::Exclusive);
        let lock = lock.map_err(|error| ArchiveError::io(LOCK_FILE, &error))?;
        let lock = lock.ok_or(ArchiveError::InUse)?;
        let names = disk.list().map_err(|error| ArchiveError::io("listing", &error))?;
        let mut sequences: Vec<u64> = names.iter().filter_map(|name| sequence(name)).collect();
        sequences.sort_unstable();
        let mut state = State { next_sequence: 1, ..State::default() };
        for sequence in sequences {
            state.next_sequence = sequence.saturating_add(1);
            match summary(&*disk, FileId { store, sequence }) {
                Ok(Some(summary)) => state.files.push(summary),
                Ok(None) => remove_blank(&*disk, sequence),
                Err(error) => tracing::warn!(%error, "a file of the archive is passed over"),
            }
        }
        for (before, file) in state.files.iter().zip(state.files.iter().skip(1)) {
            if !file.follows(before) {
                let (last, first) = (before.last.0, file.header.first.0);
                tracing::warn!(
                    "the archive has no changes between {last} and {first}, or those of another \
                     history: what is before {first} is not read"
                );
            }
        }
        Ok(Arc::new(Self { disk, store, options, state: Mutex::new(state), _lock: lock }))
    }

    /// What it has.
    pub fn status(&self) -> ArchiveStatus {
        let state = self.state();
        let first = run_start(&state.files).and_then(|at| state.files.get(at));
        let newest = state.files.last();
        ArchiveStatus {
            first: first.map_or(Lsn(0), |file| file.header.first),
            first_time: first.map(|file| file.header.first_time),
            last: newest.map_or(Lsn(0), |file| file.last),
            last_time: newest.map(|file| file.last_time),
            files: state.files.len() as u64,
            bytes: state.files.iter().map(|file| file.file_bytes).sum(),
            raw_bytes: state.files.iter().map(|file| file.raw_bytes).sum(),
            missing: state.missing,
            error: state.error.clone(),
        }
    }

    /// The first record from which on all can be read, up to the last one; none where there is no
    /// record.
    pub fn first(&self) -> Option<Lsn> {
        let state = self.state();
        let start = run_start(&state.files)?;
        let oldest = state.files.get(start).filter(|file| file.last >= file.header.first);
        oldest.map(|file| file.header.first)
    }

    /// The last record that it has.
    pub fn last(&self) -> Option<Lsn> {
        self.state().files.last().map(|newest| newest.last)
    }

    /// What it keeps, and how.
    #[cfg(test)]
    pub(crate) const fn options(&self) -> &ArchiveOptions {
        &self.options
    }

    /// The last record that is durable here; none while the disk is full, so that nobody keeps for
    /// the archive what would fill it more.
    pub fn durable(&self) -> Option<Lsn> {
        let state = self.state();
        (!state.is_full).then_some(state.durable)
    }

    /// Whether a file is one of it still.
    fn has(&self, sequence: u64) -> bool {
        self.state().files.iter().any(|file| file.header.id.sequence == sequence)
    }

    /// Forgets files that somebody else has removed: their changes are not kept any more.
    ///
    /// # Errors
    /// When the newest was among them: it is not written to any more.
    fn forget_removed(&self) -> Result<(), ArchiveError> {
        let names = self.disk.list().map_err(|error| ArchiveError::io("listing", &error))?;
        let names: HashSet<String> = names.into_iter().collect();
        let mut state = self.state();
        let newest = state.files.last().map(|file| file.header.id.sequence);
        state.files.retain(|file| {
            let (first, last) = (file.header.first.0, file.last.0);
            let file = name(file.header.id.sequence);
            let is_there = names.contains(&file);
            if !is_there {
                tracing::error!(
                    file,
                    "somebody removed a file of the archive: changes {first} to {last} are not in \
                     it any more"
                );
            }
            is_there
        });
        let left = state.files.last().map(|file| (file.header.id.sequence, file.last));
        if left.map(|(sequence, _)| sequence) == newest {
            return Ok(());
        }
        state.durable = left.map_or(Lsn(0), |(_, last)| last);
        Err(ArchiveError::Removed(newest.map(name).unwrap_or_default()))
    }

    fn newest(&self) -> Option<Summary> {
        self.state().files.last().cloned()
    }

    fn replace_newest(&self, summary: Summary) {
        if let Some(newest) = self.state().files.last_mut() {
            *newest = summary;
        }
    }

    fn push(&self, summary: Summary) {
        self.state().files.push(summary);
    }

    fn next_sequence(&self) -> u64 {
        let mut state = self.state();
        state.next_sequence += 1;
        state.next_sequence - 1
    }

    fn synced(&self, last: Lsn) {
        self.state().durable = last;
    }

    /// A round went well.
    fn went_well(&self) {
        let mut state = self.state();
        (state.error, state.is_full) = (None, false);
    }

    fn failed(&self, error: &ArchiveError) -> bool {
        let mut state = self.state();
        state.is_full = error.is_full();
        state.error.replace(error.to_string()).is_none()
    }

    /// A file that cannot be read is of no use to anybody.
    fn remove_newest(&self) {
        let Some(newest) = self.newest() else { return };
        if let Err(error) = self.remove(newest.header.id.sequence) {
            tracing::warn!(%error, "a damaged file of the archive cannot be removed");
        }
    }

    fn missed(&self, records: u64) {
        self.state().missing += records;
    }

    /// The file in which the record is, if it is in the newest run.
    fn file_of(&self, lsn: Lsn) -> Option<Summary> {
        let state = self.state();
        let run = state.files.get(run_start(&state.files)?..)?;
        let at = run.partition_point(|file| file.last < lsn);
        run.get(at).filter(|file| file.header.first <= lsn).cloned()
    }

    /// The file of the newest run in which the first record is that was not decided before `time`.
    fn file_since(&self, time: Timestamp) -> Option<Summary> {
        let state = self.state();
        let run = state.files.get(run_start(&state.files)?..)?;
        run.get(run.partition_point(|file| file.last_time < time)).cloned()
    }

    /// The oldest file if it is to go: too old, or beyond what may be kept.
    fn oldest_to_go(&self, now: Timestamp) -> Option<u64> {
        let state = self.state();
        let oldest = state.files.first().filter(|_| state.files.len() > 1)?;
        let bytes: u64 = state.files.iter().map(|file| file.file_bytes).sum();
        let age_us = now.0.saturating_sub(oldest.last_time.0);
        let is_to_go = bytes > self.options.keep_bytes
            || u128::from(age_us) > self.options.keep_age.as_micros();
        is_to_go.then_some(oldest.header.id.sequence)
    }

    fn oldest_of_several(&self) -> Option<u64> {
        let state = self.state();
        state.files.first().filter(|_| state.files.len() > 1).map(|file| file.header.id.sequence)
    }

    /// Removes a file; who reads it reads on.
    fn remove(&self, sequence: u64) -> Result<(), ArchiveError> {
        self.state().files.retain(|file| file.header.id.sequence != sequence);
        let name = name(sequence);
        self.disk
            .remove(&name)
            .and_then(|()| self.disk.sync_names())
            .map_err(|error| ArchiveError::io(&name, &error))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file holds; none if nothing was ever written to it: the server ended as it began it.
fn summary(disk: &dyn Disk, id: FileId) -> Result<Option<Summary>, ArchiveError> {
    let file =
        ArchiveFile::at(disk, id).map_err(|error| ArchiveError::io(&name(id.sequence), &error))?;
    match file.summary() {
        Err(_) if file.is_blank() => Ok(None),
        told => told.map(Some),
    }
}

fn remove_blank(disk: &dyn Disk, sequence: u64) {
    let name = name(sequence);
    if let Err(error) = disk.remove(&name) {
        tracing::warn!(name, %error, "an empty file of the archive cannot be removed");
    }
}

/// Where the newest run begins: the files that follow each other without a gap, up to the newest.
fn run_start(files: &[Summary]) -> Option<usize> {
    let mut start = files.len().checked_sub(1)?;
    while let Some(before) = start.checked_sub(1)
        && let (Some(file), Some(previous)) = (files.get(start), files.get(before))
        && file.follows(previous)
    {
        start = before;
    }
    Some(start)
}

/// Why an archive cannot be read or written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ArchiveError {
    /// A file cannot be read or written.
    Io {
        /// Which one.
        file: String,
        /// What the operating system said.
        error: String,
        /// Whether the disk is full.
        is_full: bool,
    },
    /// A file is not as it was written.
    Damaged {
        /// Which one.
        file: String,
        /// Where, in octets from its beginning.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A file is of another store.
    Foreign(String),
    /// A record cannot be read.
    Record {
        /// Its number.
        lsn: Lsn,
        /// Why.
        error: RecordError,
    },
    /// A file is not open for writing.
    Closed(String),
    /// Somebody else removed the file that was written.
    Removed(String),
    /// Another process has the archive open.
    InUse,
}

impl ArchiveError {
    fn io(file: &str, error: &io::Error) -> Self {
        let is_full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        Self::Io { file: file.to_owned(), error: error.to_string(), is_full }
    }

    /// Whether room on the disk would help.
    const fn is_full(&self) -> bool {
        matches!(self, Self::Io { is_full: true, .. })
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { file, error, .. } => write!(f, "{file}: {error}"),
            Self::Damaged { file, offset, reason } => {
                write!(f, "{file} is damaged at octet {offset}: {reason}")
            }
            Self::Foreign(file) => {
                write!(
                    f,
                    "{file} is of another directory, and is not read: remove it, or put it \
                           back where it belongs"
                )
            }
            Self::Record { lsn, error } => {
                write!(f, "change record {} cannot be read: {error}", lsn.0)
            }
            Self::Closed(file) => write!(f, "{file} is not open for writing"),
            Self::Removed(file) => write!(
                f,
                "{file} was removed by somebody else: its changes are read from the journal \
                 again, as far as that has them"
            ),
            Self::InUse => f.write_str(
                "another server has the archive open: give each a directory of its own \
                 (archive.directory)",
            ),
        }
    }
}

impl std::error::Error for ArchiveError {}
