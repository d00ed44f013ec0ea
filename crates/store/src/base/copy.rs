//! Copying the base while a server writes it: what a backup starts from.
//!
//! Invariants: the lock of the data directory is not taken, and nothing in the directory changes;
//! a copy is one commit of the base, whole, and what it holds is read from the copy itself.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use schema::Schema;

use crate::base::format::{self, DATA_FILE, DataDirectory};
use crate::base::lmdb::{self, Environment, StoreOptions, Tables};
use crate::base::meta::{Counters, Mark};
use crate::error::StoreError;
use crate::store::Store;

/// A copy of the base in the making: its octets, in order.
#[derive(Debug)]
pub struct BaseReader {
    pipe: PipeReader,
    copying: JoinHandle<Result<(), StoreError>>,
    bytes: u64,
}

impl BaseReader {
    /// Begins to copy the base of the data directory `directory`, which a server may be writing.
    ///
    /// # Errors
    /// When it is no data directory of this release, or cannot be read.
    pub fn open(directory: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        format::identity(directory)?;
        let (directory, options) = (directory.to_owned(), options.clone());
        let io = |source| StoreError::io(&directory, source);
        let bytes = fs::metadata(directory.join(DATA_FILE)).map_err(io)?.len();
        let (pipe, end) = io::pipe().map_err(io)?;
        let copying = std::thread::Builder::new()
            .name("base-copy".to_owned())
            .spawn(move || {
                lmdb::copy_data_file(&directory, &options, &mut File::from(OwnedFd::from(end)))
            })
            .map_err(|source| StoreError::io(Path::new("base-copy"), source))?;
        Ok(Self { pipe, copying, bytes })
    }

    /// About how many octets there will be.
    #[must_use]
    pub const fn bytes_estimate(&self) -> u64 {
        self.bytes
    }

    /// Whether the copy came to its end: to be called when there are no more octets.
    ///
    /// # Errors
    /// When the base could not be read to its end.
    pub fn finish(self) -> Result<(), StoreError> {
        drop(self.pipe);
        self.copying.join().unwrap_or_else(|_| Err(StoreError::Lmdb("the copy ended".to_owned())))
    }
}

impl Read for BaseReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(buffer)
    }
}

/// What a copy of the base holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BaseSummary {
    /// The last record whose effect is in it.
    pub mark: Mark,
    /// How many entries.
    pub entries: u64,
}

/// Reads what the copy of a base, a file that nobody writes, holds.
///
/// # Errors
/// When the file is not a whole base.
pub fn base_summary(file: &Path) -> Result<BaseSummary, StoreError> {
    let environment = Environment::open_read_only(file, &StoreOptions::default())?;
    let snapshot = environment.snapshot()?;
    let counters = Counters::read(environment.tables.meta, snapshot.txn())?;
    let entries = Tables::stat(environment.tables.entries, snapshot.txn())?.entries as u64;
    Ok(BaseSummary { mark: counters.mark(), entries })
}

/// The last record whose effect is in the base of the data directory `directory`, which a server
/// may be writing.
///
/// # Errors
/// When it is no data directory of this release, or cannot be read.
pub fn base_mark(directory: &Path, options: &StoreOptions) -> Result<Mark, StoreError> {
    format::identity(directory)?;
    let environment = Environment::open_read_only(directory, options)?;
    let snapshot = environment.snapshot()?;
    Ok(Counters::read(environment.tables.meta, snapshot.txn())?.mark())
}

/// A data directory that is being made of a copy of a base: a store of its own, with a new id.
///
/// It does not open by itself before [`Store::adopted`] was called: what is left of an interrupted
/// restore is no data directory.
#[derive(Debug)]
pub struct Adoption(DataDirectory);

impl Adoption {
    /// Begins in an empty or missing directory, or on what is left of an earlier try.
    ///
    /// # Errors
    /// When other files are there.
    pub fn begin(directory: &Path) -> Result<Self, StoreError> {
        DataDirectory::create_alone(directory).map(Self)
    }

    /// The id of the new store.
    #[must_use]
    pub const fn id(&self) -> [u8; 16] {
        self.0.id()
    }

    /// The file the copy is to be written to.
    #[must_use]
    pub fn base_file(&self) -> PathBuf {
        self.0.path().join(DATA_FILE)
    }

    /// Opens the new store, when the copy is written.
    ///
    /// # Errors
    /// When it is not a whole base.
    pub fn open(self, options: &StoreOptions, schema: Arc<Schema>) -> Result<Store, StoreError> {
        Store::open_locked(self.0, options, schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::create;

    #[test]
    fn a_copy_is_the_last_commit_whole() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        drop(create(&data));
        let mut reader = BaseReader::open(&data, &StoreOptions::default()).unwrap();
        let mut octets = Vec::new();
        reader.read_to_end(&mut octets).unwrap();
        assert_eq!(reader.bytes_estimate(), octets.len() as u64);
        reader.finish().unwrap();
        let file = dir.path().join("base");
        fs::write(&file, &octets).unwrap();
        let summary = base_summary(&file).unwrap();
        assert_eq!((summary.mark, summary.entries), (Mark::default(), 0));
        assert_eq!(base_mark(&data, &StoreOptions::default()).unwrap(), Mark::default());
        // Nothing was left beside it.
        assert!(!dir.path().join("base-lock").exists());
    }

    #[test]
    fn an_adopted_copy_is_another_store() {
        let dir = tempfile::tempdir().unwrap();
        let (data, new) = (dir.path().join("data"), dir.path().join("new"));
        let id = create(&data).id();
        for _ in 0..2 {
            // Twice: what an interrupted adoption left is no obstacle.
            let adoption = Adoption::begin(&new).unwrap();
            fs::copy(data.join(DATA_FILE), adoption.base_file()).unwrap();
        }
        assert!(format::identity(&new).is_err());
        let options = StoreOptions::default();
        let adoption = Adoption::begin(&new).unwrap();
        fs::copy(data.join(DATA_FILE), adoption.base_file()).unwrap();
        let store = adoption.open(&options, Schema::builtin()).unwrap();
        store.adopted().unwrap();
        assert_eq!(store.naming_contexts().len(), 2);
        drop(store);
        assert_ne!(format::identity(&new).unwrap(), id);
        assert!(matches!(Adoption::begin(&new), Err(StoreError::NotEmpty { .. })));
        let other = dir.path().join("other");
        fs::create_dir_all(other.join("schema")).unwrap();
        assert!(matches!(Adoption::begin(&other), Err(StoreError::NotEmpty { .. })));
    }

    #[test]
    fn a_copy_given_up_and_a_torn_one_are_failures() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        drop(create(&data));
        let mut reader = BaseReader::open(&data, &StoreOptions::default()).unwrap();
        let mut octets = [0; 512];
        reader.read_exact(&mut octets).unwrap();
        drop(reader);
        let file = dir.path().join("base");
        fs::write(&file, octets).unwrap();
        assert!(base_summary(&file).is_err());
        assert!(BaseReader::open(dir.path(), &StoreOptions::default()).is_err());
    }
}
