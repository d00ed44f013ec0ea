//! Verifying a data directory while no server runs: `roster check`.
//!
//! Invariant: nothing is changed, not even what the next start would mend. Only the file by which
//! a server locks the archive is made where there is none.

use std::path::Path;
use std::sync::Arc;

use directory::Dangling;
use history::archive::{ArchiveCheck, check_archive};
use history::recovery::{JournalCheck, check_journal};
use history::{ARCHIVE_DIRECTORY, HistoryError, archive_disk, schema_of};
use store::{CheckReport, Store, StoreError, StoreOptions};

use crate::backup::read_only_store;

/// What a check found.
#[derive(Debug)]
pub struct DirectoryCheck {
    /// The journal.
    pub journal: JournalCheck,
    /// The tables of the base.
    pub base: CheckReport,
    /// How many entries there are with the records that are in the journal alone; `None` when
    /// these cannot be applied, which is a finding of the journal.
    pub entries: Option<u64>,
    /// Values that name entries which are not there, of the attributes that follow what they name.
    /// No faults: they may have been loaded before what they name. `None` where the data cannot be
    /// read, which is a finding.
    pub dangling: Option<Dangling>,
    /// The archive of changes; `None` where there is none. The data do not need it.
    pub archive: Option<ArchiveCheck>,
}

impl DirectoryCheck {
    /// How many faults there are.
    pub fn faults(&self) -> u64 {
        let archive = self.archive.as_ref().map_or(0, |archive| archive.findings.len());
        self.data_faults() + archive as u64
    }

    /// How many of them are in the data, and not in the archive of changes alone.
    pub fn data_faults(&self) -> u64 {
        self.base.counts.values().sum::<u64>() + self.journal.findings.len() as u64
    }
}

/// Verifies the journal and the tables of the data directory `data`, and that the records which are
/// in the journal alone can be applied; looks for values that name nothing; and verifies the
/// archive of changes, which is in `archive` or in the data directory. `progress` hears what is
/// being done, how much of it is done and how much there is.
///
/// # Errors
/// When the data directory or the archive cannot be opened or read, for example because a server
/// uses it. What is wrong with the data is no error, but a finding.
pub fn check(
    data: &Path,
    archive: Option<&Path>,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<DirectoryCheck, HistoryError> {
    let mut journal = check_journal(data, progress)?;
    let options = StoreOptions::default();
    let store = Arc::new(Store::open(data, &options, schema_of(data)?)?);
    // First: what stands against it is told before the long work, whose findings would be lost.
    let archive = archived(data, archive, store.id(), progress)?;
    let base = store.check(progress)?;
    let is_whole = journal.findings.is_empty() && base.findings.is_empty();
    if journal.unflushed == 0 || !is_whole {
        let entries = (journal.unflushed == 0).then_some(base.entries);
        let dangling = is_whole.then(|| dangling(&store, progress)).transpose()?;
        return Ok(DirectoryCheck { journal, base, entries, dangling, archive });
    }
    drop(store);
    progress("replaying", 0, journal.unflushed);
    let store = match read_only_store(data, &options) {
        Ok(store) => Some(store),
        Err(error @ (HistoryError::Journal(_) | HistoryError::Mismatch { .. })) => {
            journal.findings.push(error.to_string());
            None
        }
        Err(error) => return Err(error),
    };
    let count =
        |store: &Arc<Store>| -> Result<u64, StoreError> { store.reader().view()?.entry_count() };
    let entries = store.as_ref().map(count).transpose()?;
    let dangling = store.as_ref().map(|store| dangling(store, progress)).transpose()?;
    Ok(DirectoryCheck { journal, base, entries, dangling, archive })
}

/// Verifies the archive, if there is one.
fn archived(
    data: &Path,
    archive: Option<&Path>,
    store: [u8; 16],
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<Option<ArchiveCheck>, HistoryError> {
    let path = archive.map_or_else(|| data.join(ARCHIVE_DIRECTORY), Path::to_owned);
    // Who names one means one that is there.
    if archive.is_none() && !path.is_dir() {
        return Ok(None);
    }
    if let Err(source) = std::fs::read_dir(&path) {
        return Err(HistoryError::Io { path, source });
    }
    let disk = archive_disk(&path)?;
    let told = &mut |done, total| progress("archive", done, total);
    let check = check_archive(&*disk, store, told);
    check.map(Some).map_err(|error| {
        let source = std::io::Error::other(error.to_string());
        HistoryError::Io { path, source }
    })
}

fn dangling(
    store: &Arc<Store>,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<Dangling, StoreError> {
    let mut reader = store.reader();
    Dangling::find(reader.view()?, &mut |done, total| progress("references", done, total))
}
