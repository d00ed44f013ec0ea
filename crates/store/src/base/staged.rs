//! A base that takes the place of that of a data directory which no process has open: what a member
//! of a cluster begins with when it does not get all data from another.
//!
//! Invariant: what is left when this ends at any moment is as before, or the note says that the
//! base takes the place (`copy_files.rs`): whoever opens the data directory finishes it then.

use std::fs;
use std::path::{Path, PathBuf};

use crate::base::copy_files::{Note, copy_directory, make_directory, name_of, remove_others};
use crate::base::format::{DATA_FILE, DATA_LOCK_FILE, by_chance, remove_file, sync_directory};
use crate::base::lmdb::{Environment, StoreOptions};
use crate::base::meta::{self, Counters, Mark};
use crate::error::StoreError;

/// A base in the making, beside the one of a data directory.
#[derive(Debug)]
pub struct StagedBase {
    data: PathBuf,
    directory: PathBuf,
    id: [u8; 16],
}

impl StagedBase {
    /// Begins anew in the data directory `data`, which no process has open; what an earlier try has
    /// left goes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn begin(data: &Path) -> Result<Self, StoreError> {
        let above = copy_directory(data)?;
        Note::remove(data)?;
        remove_others(&above, None)?;
        let id = by_chance(&above)?;
        let directory = above.join(name_of(&id));
        make_directory(&directory)?;
        Ok(Self { data: data.to_owned(), directory, id })
    }

    /// The file that the base is to be written to, and synced.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.join(DATA_FILE)
    }

    /// The base is written: it takes the place of the one that is there. Returns the last change
    /// that is in it.
    ///
    /// # Errors
    /// When it is no base, or not that of a member of a cluster: then it has no position in a log.
    /// When the disk fails. Everything is as it was.
    pub fn decide(self) -> Result<Mark, StoreError> {
        let environment = Environment::open_read_only(&self.file(), &StoreOptions::default())?;
        let snapshot = environment.snapshot()?;
        let mark = Counters::read(environment.tables.meta, snapshot.txn())?.mark();
        let membership = meta::membership(environment.tables.meta, snapshot.txn())?;
        drop(snapshot);
        environment.close();
        if membership.is_empty() || mark.position.index == 0 {
            return Err(StoreError::Invalid {
                what: "base",
                text: "of a member".to_owned(),
                reason: "it was taken of a server that was not a member of a cluster yet"
                    .to_owned(),
            });
        }
        remove_file(&self.directory.join(DATA_LOCK_FILE))?;
        fs::File::open(self.file())
            .and_then(|file| file.sync_all())
            .map_err(|source| StoreError::io(&self.file(), source))?;
        sync_directory(&self.directory)?;
        Note { id: self.id, position: mark.position }.write(&self.data)?;
        Ok(mark)
    }
}
