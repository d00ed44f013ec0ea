//! Copying the base while a server writes it: what a backup starts from.
//!
//! Invariants: the lock of the data directory is not taken, and nothing in the directory changes;
//! a copy is one commit of the base, whole, and what it holds is read from the copy itself.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

use crate::error::StoreError;
use crate::format::{self, DATA_FILE};
use crate::lmdb::{self, Environment, StoreOptions, Tables};
use crate::meta::{Counters, Lsn};

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
        format::read_format(directory)?;
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
    /// The last change in it.
    pub lsn: Lsn,
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
    Ok(BaseSummary { lsn: Lsn(counters.lsn), entries })
}

/// The name of the base in a data directory.
pub const BASE_FILE: &str = DATA_FILE;

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
        assert_eq!((summary.lsn, summary.entries), (Lsn(0), 0));
        // Nothing was left beside it.
        assert!(!dir.path().join("base-lock").exists());
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
