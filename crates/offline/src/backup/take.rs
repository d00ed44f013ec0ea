//! Taking a backup, whole or the records since the last run.
//!
//! Invariant: the manifest is replaced last, when all it names is durable; until then the backup is
//! the one of the run before.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use environment::Clock;
use history::HistoryError;
use history::recovery::loss;
use journal::{JournalError, LockedFile};
use store::{BaseReader, Lsn, StoreOptions};

use super::chain::{Break, Chain};
use super::error::BackupError;
use super::file::{self, CopyError, NewPart};
use super::manifest::{self, BackupPart, BasePart, FilePart, JournalPart, Manifest, Point};
use super::moment::Moment;
use super::part::PartWriter;
use super::source::Source;
use super::{BackupProgress, OnBackupProgress};

/// What is backed up, and where to.
#[derive(Clone, Debug)]
pub struct BackupOptions<'a> {
    /// The data directory; a server may serve it.
    pub data: &'a Path,
    /// The directory of the backup; it is made if it is missing.
    pub to: &'a Path,
    /// Whether the base is copied although the records since the last run would do.
    pub full: bool,
    /// How the store is opened.
    pub store: StoreOptions,
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct BackupReport {
    /// Why the base was copied; `None` when only records were.
    pub full: Option<WhyFull>,
    /// Records that were copied.
    pub records: u64,
    /// Octets that were written, without the manifest.
    pub bytes: u64,
    /// The backup as it is now.
    pub manifest: Manifest,
}

/// Why a run copied the base.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhyFull {
    /// There was no backup yet.
    First,
    /// It was asked for.
    Asked,
    /// The journal does not hold the records after the last one in the backup.
    Purged,
    /// The history of the directory is not the one in the backup.
    Forked,
}

/// Takes a backup. The first run into a directory copies the base and the records after it, later
/// runs add the records since, as long as the journal holds them. Of a member of a cluster it has
/// what that member knows to be committed.
///
/// # Errors
/// When data or journal cannot be read, the backup cannot be written, or it belongs to another
/// store. What was in the backup before is still there.
pub fn backup(
    options: &BackupOptions<'_>,
    clock: &dyn Clock,
    progress: OnBackupProgress<'_>,
) -> Result<BackupReport, BackupError> {
    let id = store::identity(options.data)?;
    let store: String = id.iter().map(|octet| format!("{octet:02x}")).collect();
    refuse_place(options)?;
    let target = Target::open(options.to)?;
    let (old, is_damaged) = match Manifest::read(options.to) {
        Err(BackupError::Damaged { .. }) if options.full => (None, true),
        read => (read?, false),
    };
    refuse_other_store(options, old.as_ref(), &store)?;
    // Of a backup whose manifest is damaged nothing is taken away before there is a new one.
    if !is_damaged {
        target.tidy(old.as_ref())?;
    }
    let source = Source::new(options.data, id);
    let mut run = Run {
        options,
        source: &source,
        clock,
        progress,
        number: target.next_run()?,
        bytes: 0,
        records: 0,
    };
    let taken = run.take(old.as_ref(), &store);
    let (records, bytes) = (run.records, run.bytes);
    match taken {
        Ok((manifest, full)) => {
            target.tidy(Some(&manifest))?;
            Ok(BackupReport { full, records, bytes, manifest })
        }
        Err(error) => {
            // It may have been for want of space. The error matters more than what is left.
            if !is_damaged && let Ok(manifest) = Manifest::read(options.to) {
                let _ = target.tidy(manifest.as_ref());
            }
            Err(error)
        }
    }
}

fn behind(reached: u64, last: u64) -> BackupError {
    let reason = format!(
        "this member has come to record {reached}, and the backup to {last}: it is behind the \
         others"
    );
    let hint = "back up another member, or this one when it has caught up";
    BackupError::asked(reason, hint)
}

/// Refuses what a member has that has other data than the rest of its cluster.
fn refuse_quarantined(data: &Path) -> Result<(), BackupError> {
    if !data.join(history::QUARANTINE_FILE).exists() {
        return Ok(());
    }
    let reason =
        format!("'{}' is in quarantine: its data are not those of the cluster", data.display());
    Err(BackupError::asked(reason, "take the backup of another member, and make this one anew"))
}

/// Refuses to mix the histories of two stores.
fn refuse_other_store(
    options: &BackupOptions<'_>,
    old: Option<&Manifest>,
    store: &str,
) -> Result<(), BackupError> {
    if options.full || old.is_none_or(|old| old.store == store) {
        return Ok(());
    }
    let to = options.to.display();
    let reason =
        format!("the backup in '{to}' is of another store, or of this one before it was restored");
    let hint = "choose another directory, or replace the backup with --full";
    Err(BackupError::asked(reason, hint))
}

/// The directory of a backup, locked.
struct Target<'a> {
    path: &'a Path,
    _lock: LockedFile,
}

impl<'a> Target<'a> {
    fn open(path: &'a Path) -> Result<Self, BackupError> {
        let io = |source| BackupError::io(path, source);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        for entry in fs::read_dir(path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            if !name.to_str().is_some_and(|name| manifest::is_own_name(name) || name == LOST) {
                let (name, path) = (name.display(), path.display());
                let reason = format!("'{path}' contains '{name}', which is not part of a backup");
                return Err(BackupError::asked(reason, "choose an empty directory, or a new one"));
            }
        }
        let file = path.join(manifest::LOCK_FILE);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .map_err(|source| BackupError::io(&file, source))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: LockedFile(lock) }),
            Err(TryLockError::WouldBlock) => Err(BackupError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(BackupError::io(&file, source)),
        }
    }

    /// A number that no file of the backup has.
    fn next_run(&self) -> Result<u64, BackupError> {
        let io = |source| BackupError::io(self.path, source);
        let mut last = 0;
        for entry in fs::read_dir(self.path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let number = name.to_str().and_then(|name| name.split('-').nth(1)?.parse().ok());
            last = last.max(number.unwrap_or(0));
        }
        Ok(last + 1)
    }

    /// Removes the files that `manifest` does not name.
    fn tidy(&self, manifest: Option<&Manifest>) -> Result<(), BackupError> {
        manifest::remove_remains(self.path, manifest)
            .map_err(|source| BackupError::io(self.path, source))
    }
}

/// A run in progress.
struct Run<'a> {
    options: &'a BackupOptions<'a>,
    source: &'a Source,
    clock: &'a dyn Clock,
    progress: OnBackupProgress<'a>,
    number: u64,
    bytes: u64,
    records: u64,
}

/// What came of copying records.
enum Copied {
    /// The records, unless there was none.
    Records(Option<JournalPart>),
    /// The first of them is not there any more.
    Gone,
    /// They do not follow.
    Fork,
}

impl Run<'_> {
    /// Writes everything, the manifest last.
    fn take(
        &mut self,
        old: Option<&Manifest>,
        store: &str,
    ) -> Result<(Manifest, Option<WhyFull>), BackupError> {
        // The server keeps all records until the hold is given back, at the end.
        let _hold = self.source.hold()?;
        // A backup that lacks what was acknowledged must not take the place of one that has it.
        loss::refuse_beside(self.options.data, &self.options.store)?;
        refuse_quarantined(self.options.data)?;
        let (mut manifest, full) = self.base_and_records(old, store)?;
        self.refuse_behind(old, &manifest)?;
        // Records that came while it read are there, too, and none before them is missing.
        manifest.complete_until = manifest.complete_until.max(manifest.last().time);
        manifest.files = self.files(old)?;
        manifest.run = self.number;
        let to = self.options.to;
        file::sync_names(to).map_err(|source| BackupError::io(to, source))?;
        manifest.write(to)?;
        Ok((manifest, full))
    }

    /// Adds the records since the last run, or copies the base and the records after it.
    fn base_and_records(
        &mut self,
        old: Option<&Manifest>,
        store: &str,
    ) -> Result<(Manifest, Option<WhyFull>), BackupError> {
        let why = match old.filter(|_| !self.options.full) {
            None if self.options.full => WhyFull::Asked,
            None => WhyFull::First,
            Some(old) => match self.since(old)? {
                Ok(manifest) => return Ok((manifest, None)),
                Err(why) => why,
            },
        };
        let base = self.base()?;
        let (complete_until, records) = self.complete(base.mark)?;
        let journal = match records {
            Copied::Records(part) => part.into_iter().collect(),
            Copied::Gone | Copied::Fork => {
                let next = base.mark.lsn + 1;
                let reason =
                    format!("the journal does not follow the data: it lacks record {next}");
                return Err(BackupError::asked(reason, "'roster check' says what is wrong"));
            }
        };
        let manifest = Manifest {
            format: manifest::FORMAT,
            store: store.to_owned(),
            run: self.number,
            complete_until,
            base,
            journal,
            files: Vec::new(),
        };
        Ok((manifest, Some(why)))
    }

    /// The backup with the records since its last, or why that cannot be.
    fn since(&mut self, old: &Manifest) -> Result<Result<Manifest, WhyFull>, BackupError> {
        let last = old.last();
        let base = store::base_mark(self.options.data, &self.options.store)?;
        let (complete_until, records) = self.complete(last)?;
        let part = match records {
            Copied::Fork => return Ok(Err(WhyFull::Forked)),
            Copied::Gone => return Ok(Err(WhyFull::Purged)),
            Copied::Records(None) if base.lsn.0 > last.lsn => return Ok(Err(WhyFull::Purged)),
            Copied::Records(None) if !self.has(last, base)? => {
                self.refuse_member_behind(last, base)?;
                return Ok(Err(WhyFull::Forked));
            }
            Copied::Records(part) => part,
        };
        let complete_until = complete_until.max(old.complete_until);
        let mut manifest = Manifest { complete_until, ..old.clone() };
        manifest.journal.extend(part);
        Ok(Ok(manifest))
    }

    /// Refuses a member that has not come to where the backup is, before anything is copied.
    fn refuse_member_behind(&self, last: Point, base: store::Mark) -> Result<(), BackupError> {
        if !self.source.is_of_cluster()? {
            return Ok(());
        }
        let mut reached = base.lsn.0;
        for entry in self.source.records_after(base.lsn, &self.options.store)?.into_iter().flatten()
        {
            let head = history::record::RecordHead::read(&entry?.payload);
            reached = head.map_or(reached, |head| head.lsn.0);
        }
        if reached < last.lsn { Err(behind(reached, last.lsn)) } else { Ok(()) }
    }

    /// Refuses to put what has less in the place of a backup of the same cluster.
    fn refuse_behind(&self, old: Option<&Manifest>, new: &Manifest) -> Result<(), BackupError> {
        let (Some(old), true) = (old, self.source.is_of_cluster()?) else { return Ok(()) };
        let (reached, last) = (new.last().lsn, old.last().lsn);
        if old.store == new.store && reached < last { Err(behind(reached, last)) } else { Ok(()) }
    }

    /// Whether the directory, of which `base` is in the base, has come to `last`, and in the same
    /// history.
    fn has(&self, last: Point, base: store::Mark) -> Result<bool, BackupError> {
        if base.lsn.0 == last.lsn {
            return Ok(base.hash == last.hash);
        }
        let before = Lsn(last.lsn.saturating_sub(1));
        let mut entries = match self.source.records_after(before, &self.options.store) {
            Ok(Some(entries)) => entries,
            Ok(None) | Err(HistoryError::Journal(JournalError::Gone { .. })) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let entry = match entries.next() {
            None | Some(Err(JournalError::Gone { .. })) => return Ok(false),
            Some(entry) => entry?,
        };
        let head = history::record::RecordHead::read(&entry.payload);
        Ok(head.is_ok_and(|head| head.hash == last.hash))
    }

    /// Copies the base.
    fn base(&mut self) -> Result<BasePart, BackupError> {
        let mut reader = BaseReader::open(self.options.data, &self.options.store)?;
        let total = reader.bytes_estimate();
        let mut part = self.create(format!("{}{}", manifest::BASE_PREFIX, self.number))?;
        let mut bytes = 0;
        let copied = file::copy(&mut reader, &mut part, &mut |read| {
            bytes += read;
            let total_bytes = Some(total.max(bytes));
            (self.progress)(BackupProgress { phase: "base", bytes, total_bytes });
        });
        match copied {
            Ok(()) => reader.finish()?,
            Err(CopyError::Write(source)) => return Err(BackupError::io(self.options.to, source)),
            Err(CopyError::Read(source)) => return Err(BackupError::io(self.options.data, source)),
        }
        let part = self.finish(part)?;
        // From the copy: what is in the data directory may have gone on.
        let summary = store::base_summary(&self.options.to.join(&part.name))?;
        let store::Mark { lsn, hash, time_us, .. } = summary.mark;
        let mark = Point { lsn: lsn.0, hash, time: Moment::from_micros(time_us) };
        Ok(BasePart { part, mark, entries: summary.entries })
    }

    /// Copies the records after `last`, and up to when nothing is missing before them. Of a cluster
    /// others may have acknowledged more: its last record says when.
    fn complete(&mut self, last: Point) -> Result<(Moment, Copied), BackupError> {
        let now = self.now();
        let records = self.records(last)?;
        let until = if self.source.is_of_cluster()? { last.time } else { now };
        Ok((until, records))
    }

    /// Copies the records after `last`.
    fn records(&mut self, last: Point) -> Result<Copied, BackupError> {
        let entries = match self.source.records_after(Lsn(last.lsn), &self.options.store) {
            Ok(entries) => entries.into_iter().flatten(),
            Err(HistoryError::Journal(JournalError::Gone { .. })) => return Ok(Copied::Gone),
            Err(error) => return Err(error.into()),
        };
        let mut entries = entries.peekable();
        match entries.peek() {
            None => return Ok(Copied::Records(None)),
            Some(Err(JournalError::Gone { .. })) => return Ok(Copied::Gone),
            Some(_) => {}
        }
        let failed = |source| BackupError::io(self.options.to, source);
        let name = format!("{}{}", manifest::JOURNAL_PREFIX, self.number);
        let part = BufWriter::with_capacity(file::BUFFER_BYTES, self.create(name.clone())?);
        let mut writer = PartWriter::new(part).map_err(failed)?;
        let mut chain = Chain::after(last);
        let mut first_time = None;
        let mut bytes = 0;
        for entry in entries {
            let entry = entry?;
            match chain.follow(&entry.payload) {
                Ok(point) => first_time = first_time.or(Some(point.time)),
                Err(Break::Fork) => {
                    drop(writer);
                    let path = self.options.to.join(name);
                    fs::remove_file(&path).map_err(|source| BackupError::io(&path, source))?;
                    return Ok(Copied::Fork);
                }
                Err(broken) => {
                    let (part, at) = (self.source.directory().to_owned(), chain.last());
                    return Err(BackupError::Damaged { part, reason: broken.reason(at) });
                }
            }
            writer.entry(entry.place.term, entry.place.index, &entry.payload).map_err(failed)?;
            bytes += entry.payload.len() as u64;
            (self.progress)(BackupProgress { phase: "journal", bytes, total_bytes: None });
        }
        let part = writer.into_inner().into_inner().map_err(|error| failed(error.into_error()))?;
        let part = self.finish(part)?;
        let last_time = chain.last().time;
        self.records += chain.last().lsn - last.lsn;
        Ok(Copied::Records(Some(JournalPart {
            part,
            first_lsn: last.lsn + 1,
            first_time: first_time.unwrap_or(last_time),
            last: chain.last(),
        })))
    }

    /// Copies the small files, those that changed since the last run.
    fn files(&mut self, old: Option<&Manifest>) -> Result<Vec<FilePart>, BackupError> {
        let mut files = Vec::new();
        for (number, path) in small_files(self.options.data)?.into_iter().enumerate() {
            let from = self.options.data.join(&path);
            let failed = |source| BackupError::io(&from, source);
            let octets = match file::read_small(&from, SMALL_FILE_MAX_BYTES) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(failed)?,
            };
            let mode = fs::metadata(&from).map_err(failed)?.permissions().mode() & 0o777;
            let is_same = |part: &&FilePart| {
                part.path == path && part.mode == mode && part.part.is_of(&octets)
            };
            let known = old.and_then(|old| old.files.iter().find(is_same));
            if let Some(known) = known {
                files.push(known.clone());
                continue;
            }
            let name = format!("{}{}-{number}", manifest::FILE_PREFIX, self.number);
            let mut part = self.create(name)?;
            part.write_all(&octets).map_err(|source| BackupError::io(self.options.to, source))?;
            files.push(FilePart { part: self.finish(part)?, path, mode });
        }
        Ok(files)
    }

    fn create(&self, name: String) -> Result<NewPart, BackupError> {
        let to = self.options.to;
        NewPart::create(to, name).map_err(|source| BackupError::io(to, source))
    }

    fn finish(&mut self, part: NewPart) -> Result<BackupPart, BackupError> {
        let part = part.finish().map_err(|source| BackupError::io(self.options.to, source))?;
        self.bytes += part.bytes;
        Ok(part)
    }

    fn now(&self) -> Moment {
        Moment::from_micros(self.clock.now().0)
    }
}

/// What tasks read and write is there, unless the settings name another place; no other part of the
/// program has anything below it.
const TASK_FILES: &str = "task-files";

/// Refuses to put a backup where the data are.
fn refuse_place(options: &BackupOptions<'_>) -> Result<(), BackupError> {
    let data =
        fs::canonicalize(options.data).map_err(|source| BackupError::io(options.data, source))?;
    // The directory may not be there yet: the next one above it that is there decides.
    let to =
        std::path::absolute(options.to).map_err(|source| BackupError::io(options.to, source))?;
    let above = to.ancestors().find_map(|path| fs::canonicalize(path).ok()).unwrap_or_default();
    // What is not there yet is not resolved, and may lead back.
    let leads_back = to.components().any(|part| part == std::path::Component::ParentDir);
    let is_of_tasks = above.starts_with(data.join(TASK_FILES)) && !leads_back;
    if above.starts_with(&data) && !is_of_tasks {
        let reason = format!("'{}' lies within the data directory", options.to.display());
        return Err(BackupError::asked(
            reason,
            "choose a directory elsewhere, better on another \
            disk",
        ));
    }
    Ok(())
}

/// The paths of the files of a data directory that are neither base nor journal: what an operator
/// put there, the administrator's password, the certificate.
fn small_files(data: &Path) -> Result<Vec<String>, BackupError> {
    let mut paths = Vec::new();
    let mut list = |folder: &str, is_wanted: fn(&str) -> bool| {
        let directory = data.join(folder);
        let io = |source| BackupError::io(&directory, source);
        let listing = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            listing => listing.map_err(io)?,
        };
        for entry in listing {
            let entry = entry.map_err(io)?;
            let is_file = entry.file_type().map_err(io)?.is_file();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_file && is_wanted(name)) else {
                continue;
            };
            let path = PathBuf::from(folder).join(name);
            paths.extend(path.to_str().map(str::to_owned));
        }
        Ok::<_, BackupError>(())
    };
    list("", |name| ["admin-password", "admin-name"].contains(&name) || name.ends_with(".toml"))?;
    list("schema", |_| true)?;
    list("tls", |_| true)?;
    paths.sort();
    Ok(paths)
}

/// What a file system may put into a directory.
const LOST: &str = "lost+found";
/// A file of the data directory other than base and journal is so long at most.
const SMALL_FILE_MAX_BYTES: u64 = 64 << 20;
