//! Swapping the base: another data file takes the place of the one in use, while it is read.
//!
//! For a member of a cluster that is too far behind: it gets the whole base of another. Views that
//! were taken before go on reading the file they were taken of, which the system keeps until the
//! last of them is gone.
//!
//! Invariant: a view, a batch and a flush have one base from their beginning to their end.

use std::path::Path;
use std::sync::Arc;

use schema::Schema;

use crate::base::copy_files::move_files;
use crate::base::lmdb::{Environment, StoreOptions};
use crate::base::meta::{self, Counters, Mark};
use crate::error::StoreError;
use crate::rows::dictionary::Dictionary;
use crate::store::{Store, read_settings};

impl Store {
    /// Puts the data file in the directory `from` in the place of the base, under readers, and
    /// moves it into the data directory, which is on the same file system; returns the place of its
    /// last change. Everything that was over the old base goes, published or not. `schema` is as
    /// in [`Store::open`]. Waits until there is no batch and no flush.
    ///
    /// `from` has a name that no base of this process had before. Afterwards it holds nothing.
    ///
    /// # Errors
    /// When the file cannot be read, or was made with other naming contexts; then nothing changed.
    /// When the files cannot be moved, the next one to open the directory may find either base.
    pub fn swap_base(
        &self,
        from: &Path,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<Mark, StoreError> {
        let other = self.open_other(from, options, schema)?;
        let mut seat = self.seat();
        let _flushing = self.flushing();
        seat.release();
        let mark = other.counters.mark();
        self.swap_alone(other, from)?;
        Ok(mark)
    }

    /// Opens a data file that is to take the place of the base.
    ///
    /// # Errors
    /// When it cannot be read, or was made with other naming contexts.
    pub(crate) fn open_other(
        &self,
        from: &Path,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<OtherBase, StoreError> {
        let environment = Environment::open(from, options)?;
        let (dictionary, counters) = read_settings(&environment, schema)?;
        let snapshot = environment.snapshot()?;
        let index_epoch = meta::index_epoch(environment.tables.meta, snapshot.txn())?;
        drop(snapshot);
        // Those that it was made with stay what they are. One that waits for a copy has none.
        let own = self.dictionary();
        let (own, others) = (own.first_contexts(), dictionary.first_contexts());
        if !own.is_empty() && !others.names().eq(own.names()) {
            return Err(StoreError::Invalid {
                what: "naming contexts",
                text: format!("{} of them", others.len()),
                reason: "the other base was not made with the same".to_owned(),
            });
        }
        Ok(OtherBase { environment, dictionary, counters, index_epoch })
    }

    /// Puts it there; whoever calls this keeps batches and flushes away.
    ///
    /// # Errors
    /// When the files in `from` cannot be moved: then the next one to open the directory may find
    /// either base.
    pub(crate) fn swap_alone(&self, other: OtherBase, from: &Path) -> Result<(), StoreError> {
        let to = self.data_directory().path();
        move_files(from, to)?;
        let OtherBase { environment, dictionary, counters, index_epoch } = other;
        let base = Some((Arc::new(environment.moved_to(to)), index_epoch));
        self.versions.restart(base, counters, Arc::new(dictionary));
        self.pace.note(&self.versions);
        Ok(())
    }
}

/// A data file that is to take the place of the base.
pub(crate) struct OtherBase {
    pub(crate) environment: Environment,
    pub(crate) dictionary: Dictionary,
    pub(crate) counters: Counters,
    pub(crate) index_epoch: u64,
}
