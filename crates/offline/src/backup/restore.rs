//! Restoring a backup into a new data directory, up to its end or to a point before.
//!
//! Invariants: nothing is written before the whole backup was verified. The new directory opens
//! only when everything in it is durable; it is a store with an id of its own, so that its history
//! is never taken for that of the store it came from.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufReader};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use history::record::RecordHead;
use history::{JOURNAL_DIRECTORY, recovery, schema_of};
use journal::{Appended, Durability, FileDisk, Journal, JournalOptions, JournalPosition};
use store::{Adoption, Lsn, Store, StoreOptions};

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
    let id = adoption.id();
    let mut copy = Copy { options, progress, bytes: 0, total_bytes: manifest.bytes() };
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
    let last = copy.records(&manifest, id)?;
    let entries = recover(options, adoption, last, copy.progress)?;
    Ok(RestoreReport {
        entries,
        last,
        records: last.lsn - manifest.base.mark.lsn,
        last_of_backup: manifest.last(),
    })
}

/// Opens the new store as a server would, and makes the records part of its base; returns how many
/// entries there are.
fn recover(
    options: &RestoreOptions<'_>,
    adoption: Adoption,
    last: Point,
    progress: OnBackupProgress<'_>,
) -> Result<u64, BackupError> {
    progress(BackupProgress { phase: "replaying", bytes: 0, total_bytes: None });
    let journal = JournalOptions::new(adoption.id());
    let disk = FileDisk::new(options.data.join(JOURNAL_DIRECTORY));
    let store = adoption.open(&options.store, schema_of(options.data)?)?;
    let flush = &mut |store: &Store| {
        if store.overlay_bytes() > OVERLAY_MAX_BYTES {
            store.flush()?;
        }
        Ok(())
    };
    let (journal, _) = recovery::open(&store, Arc::new(disk), journal, flush)?;
    let mark = store.flush()?;
    journal.close();
    if (mark.lsn, mark.hash) != (Lsn(last.lsn), last.hash) {
        let (found, wanted) = (mark.lsn.0, last.lsn);
        let reason = format!("the restored directory is at record {found} instead of {wanted}");
        return Err(BackupError::asked(reason, "take a new backup with --full"));
    }
    let entries = store.statistics()?.entries;
    store.adopted()?;
    Ok(entries)
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

    /// Makes a journal of the records up to the point that is asked for; returns its last.
    fn records(&mut self, manifest: &Manifest, id: [u8; 16]) -> Result<Point, BackupError> {
        let directory = self.options.data.join(JOURNAL_DIRECTORY);
        let io = |source| BackupError::io(&directory, source);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Ok(()) | Err(_) => {}
        }
        DirBuilder::new().mode(0o700).create(&directory).map_err(io)?;
        let disk = Arc::new(FileDisk::new(&directory));
        let mut last = manifest.base.mark;
        let journal = Journal::create(disk, JournalOptions::new(id), last.lsn + 1)?;
        let mut batch = Batch::default();
        'parts: for part in &manifest.journal {
            let path = self.options.from.join(&part.part.name);
            let damaged = |reason| BackupError::Damaged { part: path.clone(), reason };
            let source = BufReader::with_capacity(file::BUFFER_BYTES, verify::open(&path)?);
            let mut reader = PartReader::new(source).map_err(damaged)?;
            while let Some(entry) = reader.next_entry().map_err(damaged)? {
                let head = RecordHead::read(&entry.payload)
                    .map_err(|error| damaged(format!("has a damaged record: {error}")))?;
                if self.options.until.ends_before(&head) {
                    break 'parts;
                }
                let time = Moment::from_micros(head.csn.time.0);
                last = Point { lsn: head.lsn.0, hash: head.hash, time };
                let place = JournalPosition { term: entry.term, index: entry.index };
                let bytes = entry.payload.len();
                let payload = entry.payload.as_slice().into();
                batch.bytes += bytes;
                batch.entries.push(Appended { place, payload });
                if batch.bytes >= BATCH_BYTES {
                    batch.append(&journal)?;
                }
                self.advance(bytes as u64);
            }
        }
        batch.append(&journal)?;
        journal.close();
        Ok(last)
    }

    fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
        let (bytes, total_bytes) = (self.bytes, Some(self.total_bytes));
        (self.progress)(BackupProgress { phase: "restoring", bytes, total_bytes });
    }
}

/// Entries that are appended together.
#[derive(Default)]
struct Batch {
    entries: Vec<Appended>,
    bytes: usize,
}

impl Batch {
    fn append(&mut self, journal: &Journal) -> Result<(), BackupError> {
        if !self.entries.is_empty() {
            // Closing the journal syncs it.
            journal.append_wait(std::mem::take(&mut self.entries), Durability::Written)?;
        }
        self.bytes = 0;
        Ok(())
    }
}

/// Memory for records that are not in the base yet, in bytes; then they are written to it.
const OVERLAY_MAX_BYTES: usize = 128 << 20;
/// Octets that are appended to the new journal at a time.
const BATCH_BYTES: usize = 1 << 20;
