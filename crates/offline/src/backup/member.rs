//! A backup as what a new member of a cluster begins with: it gets from the others only what came
//! after it.
//!
//! Only the base is taken. The records behind it lack what the log says of the members, which the
//! cluster's own log has.
//!
//! Invariant: nothing is written before the whole backup was verified, and nothing of a backup of
//! another store takes a place.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use history::journal_disk;
use journal::{Journal, JournalError, JournalOptions, LockedFile};
use store::{LogPosition, StagedBase, StoreOptions};

use super::error::BackupError;
use super::file::{self, CopyError};
use super::manifest::Manifest;
use super::verify::{self, verify_backup};
use super::{BackupProgress, OnBackupProgress};

/// A backup that was verified, and that nobody changes as long as this is there.
#[derive(Debug)]
pub struct MemberBackup {
    from: PathBuf,
    manifest: Manifest,
    _lock: Option<LockedFile>,
}

/// What a member begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemberBase {
    /// How many entries.
    pub entries: u64,
    /// The last record whose effect is in it.
    pub lsn: u64,
}

impl MemberBackup {
    /// Verifies the backup in `from`.
    ///
    /// # Errors
    /// When there is none, it is damaged, or another process writes it.
    pub fn open(from: &Path, progress: OnBackupProgress<'_>) -> Result<Self, BackupError> {
        let lock = verify::lock(from)?;
        let manifest = verify_backup(from, progress)?.manifest;
        Ok(Self { from: from.to_owned(), manifest, _lock: lock })
    }

    /// Puts the base of the backup in the place of that of `data`, the directory of store `id` that
    /// waits for its data and that no process has open; `None` if it has data of the cluster
    /// already, with which it goes on.
    ///
    /// # Errors
    /// When the backup is that of another store, or of one that was no member, or the disk fails.
    /// Then the directory is as it was.
    pub fn stage(
        &self,
        data: &Path,
        id: [u8; 16],
        progress: OnBackupProgress<'_>,
    ) -> Result<Option<MemberBase>, BackupError> {
        let own: String = id.iter().map(|octet| format!("{octet:02x}")).collect();
        if self.manifest.store != own {
            let reason = format!("the backup in '{}' is not of this cluster", self.from.display());
            return Err(BackupError::asked(reason, HINT));
        }
        let position = store::base_mark(data, &StoreOptions::default())?.position;
        if position != LogPosition::default() {
            return Ok(None);
        }
        let staged = StagedBase::begin(data)?;
        self.copy(&staged.file(), progress)?;
        make_journal(data, id)?;
        let mark = staged.decide().map_err(|error| match error {
            store::StoreError::Invalid { reason, .. } => BackupError::asked(
                format!("the backup in '{}' is of no use here: {reason}", self.from.display()),
                HINT,
            ),
            error => error.into(),
        })?;
        Ok(Some(MemberBase { entries: self.manifest.base.entries, lsn: mark.lsn.0 }))
    }

    fn copy(&self, to: &Path, progress: OnBackupProgress<'_>) -> Result<(), BackupError> {
        let from = self.from.join(&self.manifest.base.part.name);
        let mut source = verify::open(&from)?;
        let failed = |source| BackupError::io(to, source);
        let mut open = OpenOptions::new();
        let open = open.write(true).create(true).truncate(true).mode(0o600);
        let mut file = open.open(to).map_err(failed)?;
        let (mut bytes, total) = (0, self.manifest.base.part.bytes);
        let copied = file::copy(&mut source, &mut file, &mut |read| {
            bytes += read;
            progress(BackupProgress { phase: "copying", bytes, total_bytes: Some(total) });
        });
        match copied {
            Ok(()) => file.sync_all().map_err(failed),
            Err(CopyError::Read(source)) => Err(BackupError::io(&from, source)),
            Err(CopyError::Write(source)) => Err(failed(source)),
        }
    }
}

/// Data of a member without a journal have lost theirs: there is one before there are such data.
fn make_journal(data: &Path, id: [u8; 16]) -> Result<(), BackupError> {
    let (disk, options) = (journal_disk(data)?, JournalOptions::new(id));
    match Journal::open(disk.clone(), options.clone()) {
        Ok((journal, _)) => journal.close(),
        Err(JournalError::Missing) => Journal::create(disk, options, 1)?.close(),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

const HINT: &str = "run the command again with a backup of a member of this cluster, or without \
                    --from-backup: nothing is done twice";
