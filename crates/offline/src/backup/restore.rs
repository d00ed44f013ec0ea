//! Restoring a backup into a new data directory, up to its end or to a point before.
//!
//! Invariants: nothing is written before the whole backup was verified. The new directory opens
//! only when everything in it is durable; it is a store with an id of its own, so that its history
//! is never taken for that of the store it came from.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use history::log::Reign;
use history::record::RecordHead;
use history::{CLUSTER_SETTINGS, JOURNAL_DIRECTORY, journal_disk, recovery, schema_of};
use journal::{Journal, JournalError, JournalOptions, JournalPosition, LogEntry};
use store::{Adoption, Lsn, StoreOptions};

use super::error::BackupError;
use super::file::{self, CopyError};
use super::manifest::{Manifest, Point};
use super::moment::Moment;
use super::part::PartReader;
use super::verify::{self, verify_backup};
use super::{BackupProgress, OnBackupProgress};

/// What is restored, and where to.
#[derive(Clone, Debug)]
pub struct RestoreOptions<'a> {
    /// The directory of the backup.
    pub from: &'a Path,
    /// The data directory to make: missing or empty.
    pub data: &'a Path,
    /// How far.
    pub until: Until,
    /// How the store is opened.
    pub store: StoreOptions,
}

/// The point in the history up to which a backup is restored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Until {
    /// All of it.
    #[default]
    End,
    /// Up to and with this record.
    Lsn(u64),
    /// All records before the first one that was decided later than this.
    Time(Moment),
}

/// What was restored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RestoreReport {
    /// How many entries the new directory has.
    pub entries: u64,
    /// Its last record.
    pub last: Point,
    /// Records that were applied to the base.
    pub records: u64,
    /// The last record in the backup.
    pub last_of_backup: Point,
    /// Whether the backup is that of a member of a cluster.
    pub was_member: bool,
}

/// Makes a data directory of a backup.
///
/// # Errors
/// When the backup is damaged or does not reach to the point that is asked for, or the data
/// directory is not empty or cannot be written. What was written until then does not open.
pub fn restore(
    options: &RestoreOptions<'_>,
    progress: OnBackupProgress<'_>,
) -> Result<RestoreReport, BackupError> {
    let _lock = verify::lock(options.from)?;
    // Before the long reading: a wrong question is answered at once.
    options.until.check(&verify::read_manifest(options.from)?)?;
    let manifest = verify_backup(options.from, progress)?.manifest;
    let adoption = Adoption::begin(options.data)?;
    let total_bytes = manifest.bytes();
    let mut copy = Copy { options, progress, bytes: 0, total_bytes, parts: Vec::new() };
    copy.file(&manifest.base.part.name, &adoption.base_file(), 0o600)?;
    for part in &manifest.files {
        let to = options.data.join(&part.path);
        if let Some(folder) = to.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|source| BackupError::io(folder, source))?;
        }
        copy.file(&part.part.name, &to, part.mode)?;
        to.parent().map_or(Ok(()), |folder| {
            file::sync_names(folder).map_err(|source| BackupError::io(folder, source))
        })?;
    }
    copy.parts = manifest.journal.iter().map(|part| part.part.name.clone()).collect();
    copy.parts.reverse();
    let restored = copy.replay(adoption, manifest.base.mark)?;
    Ok(RestoreReport {
        records: restored.last.lsn - manifest.base.mark.lsn,
        last_of_backup: manifest.last(),
        ..restored
    })
}

impl Until {
    /// Whether the backup reaches to this point.
    fn check(self, manifest: &Manifest) -> Result<(), BackupError> {
        let (base, last) = (manifest.base.mark, manifest.last());
        let range = match self {
            Self::End => return Ok(()),
            Self::Lsn(lsn) if (base.lsn..=last.lsn).contains(&lsn) => return Ok(()),
            Self::Time(time) if (base.time..=manifest.complete_until).contains(&time) => {
                return Ok(());
            }
            Self::Lsn(_) => format!("from {} to {}", base.lsn, last.lsn),
            // A base that no record led to has no time: any will do.
            Self::Time(_) if base.time.micros() == 0 => {
                format!("up to {}", manifest.complete_until)
            }
            Self::Time(_) => format!("from {} to {}", base.time, manifest.complete_until),
        };
        let hint = "choose a point in this range, or a backup that was taken later or earlier";
        Err(BackupError::asked(format!("the backup can be restored to any point {range}"), hint))
    }

    /// Whether this record is after the point.
    const fn ends_before(self, head: &RecordHead) -> bool {
        match self {
            Self::End => false,
            Self::Lsn(lsn) => head.lsn.0 > lsn,
            Self::Time(time) => head.csn.time.0 > time.micros(),
        }
    }
}

struct Copy<'a> {
    options: &'a RestoreOptions<'a>,
    progress: OnBackupProgress<'a>,
    bytes: u64,
    total_bytes: u64,
    /// The parts with records that are still to be read, the next one last.
    parts: Vec<String>,
}

impl Copy<'_> {
    /// Copies a part; the file is durable, its name is not yet.
    fn file(&mut self, name: &str, to: &Path, mode: u32) -> Result<(), BackupError> {
        let from = self.options.from.join(name);
        let mut source = verify::open(&from)?;
        let failed = |source| BackupError::io(to, source);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(to)
            .map_err(failed)?;
        let copied = file::copy(&mut source, &mut file, &mut |read| self.advance(read));
        match copied {
            Ok(()) => file.sync_all().map_err(failed),
            Err(CopyError::Read(source)) => Err(BackupError::io(&from, source)),
            Err(CopyError::Write(source)) => Err(failed(source)),
        }
    }

    /// Opens the new store as it is in the base, and makes the records up to the point that is
    /// asked for part of it.
    fn replay(&mut self, adoption: Adoption, base: Point) -> Result<RestoreReport, BackupError> {
        let data = self.options.data;
        let store = adoption.open(&self.options.store, schema_of(data)?)?;
        let mut records = Records { copy: self, part: None, last: base, failed: None };
        let replayed = recovery::replay(&store, &mut records, &mut |store| {
            if store.overlay_bytes() > OVERLAY_MAX_BYTES {
                store.flush()?;
            }
            Ok(())
        });
        let Records { last, failed, .. } = records;
        if let Some(failed) = failed {
            return Err(failed);
        }
        replayed?;
        let mark = store.flush()?;
        if (mark.lsn, mark.hash) != (Lsn(last.lsn), last.hash) {
            let (found, wanted) = (mark.lsn.0, last.lsn);
            let reason = format!("the restored directory is at record {found} instead of {wanted}");
            return Err(BackupError::asked(reason, "take a new backup with --full"));
        }
        let was_member = !store.membership()?.is_empty();
        if was_member {
            store.leave_cluster(Reign::ETERNAL.0, &CLUSTER_SETTINGS)?;
        }
        let entries = store.statistics()?.entries;
        // What an earlier try has left.
        let directory = data.join(JOURNAL_DIRECTORY);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(BackupError::io(&directory, error));
            }
            Ok(()) | Err(_) => {}
        }
        let journal = JournalOptions::new(store.id());
        Journal::create(journal_disk(data)?, journal, mark.lsn.0 + 1)?.close();
        store.note_journal()?;
        store.adopted()?;
        Ok(RestoreReport { entries, last, records: 0, last_of_backup: last, was_member })
    }

    fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
        let (bytes, total_bytes) = (self.bytes, Some(self.total_bytes));
        (self.progress)(BackupProgress { phase: "restoring", bytes, total_bytes });
    }
}

/// The records of a backup, up to the point that is asked for.
struct Records<'c, 'a> {
    copy: &'c mut Copy<'a>,
    part: Option<(PathBuf, PartReader<BufReader<File>>)>,
    last: Point,
    /// Why there are no more.
    failed: Option<BackupError>,
}

impl Records<'_, '_> {
    fn next_record(&mut self) -> Result<Option<LogEntry>, BackupError> {
        loop {
            let Some((path, reader)) = &mut self.part else {
                let Some(name) = self.copy.parts.pop() else { return Ok(None) };
                let path = self.copy.options.from.join(name);
                let source = BufReader::with_capacity(file::BUFFER_BYTES, verify::open(&path)?);
                let reader = PartReader::new(source)
                    .map_err(|reason| BackupError::Damaged { part: path.clone(), reason })?;
                self.part = Some((path, reader));
                continue;
            };
            let damaged = |reason| BackupError::Damaged { part: path.clone(), reason };
            let Some(entry) = reader.next_entry().map_err(damaged)? else {
                self.part = None;
                continue;
            };
            let head = RecordHead::read(&entry.payload)
                .map_err(|error| damaged(format!("has a damaged record: {error}")))?;
            if self.copy.options.until.ends_before(&head) {
                self.copy.parts.clear();
                return Ok(None);
            }
            let time = Moment::from_micros(head.csn.time.0);
            self.last = Point { lsn: head.lsn.0, hash: head.hash, time };
            let place = JournalPosition { term: entry.term, index: entry.index };
            let entry = LogEntry { place, payload: entry.payload.clone() };
            self.copy.advance(entry.payload.len() as u64);
            return Ok(Some(entry));
        }
    }
}

impl Iterator for Records<'_, '_> {
    type Item = Result<LogEntry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_record() {
            Ok(entry) => entry.map(Ok),
            Err(failed) => {
                self.failed = Some(failed);
                None
            }
        }
    }
}

/// Memory for records that are not in the base yet, in bytes; then they are written to it.
const OVERLAY_MAX_BYTES: usize = 128 << 20;
