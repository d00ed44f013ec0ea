//! Into the store.

use schema::Entry;
use store::{
    Added, BulkError, BulkLoader, Held, LoadOptions, PrepareError, PreparedEntry, Preparer,
    SourceLine, Store,
};

use super::ImportError;

/// A load that was begun.
pub(super) struct Load<'s> {
    pub(super) loader: BulkLoader<'s>,
    /// Entries that were there and stay, unless others take their places. Those of the naming
    /// contexts, as they were made with the directory, do not count.
    pub(super) held: u64,
}

/// Makes entries ready for a load, on one thread.
pub(super) struct Finisher {
    preparer: Preparer,
    first_id: u64,
}

impl Finisher {
    /// Makes the entry of a record ready; `number` counts the records of the import.
    pub(super) fn finish(
        &mut self,
        entry: &Entry,
        place: SourceLine,
        number: u64,
    ) -> Result<PreparedEntry, PrepareError> {
        self.preparer.prepare(entry, place, self.first_id + number)
    }
}

impl<'s> Load<'s> {
    pub(super) fn start(store: &'s Store, options: &LoadOptions) -> Result<Self, ImportError> {
        let there = store.begin()?.view().entry_count()?;
        let is_bare = there <= store.naming_contexts().len() as u64;
        if options.held == Held::Keep && is_bare {
            // What was made with the directory gives way to what the sources bring.
            let giving_way = LoadOptions { held: Held::Refuse, ..options.clone() };
            match store.bulk_load(&giving_way) {
                Ok(loader) => return Ok(Self { loader, held: 0 }),
                Err(BulkError::NotEmpty { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let held = if options.held == Held::Clear { 0 } else { there };
        Ok(Self { loader: store.bulk_load(options)?, held })
    }

    /// What makes entries ready on a thread of its own.
    pub(super) fn finisher(&self) -> Finisher {
        Finisher { preparer: self.loader.preparer(), first_id: self.loader.first_id() }
    }

    /// Takes a finisher back when its thread has done its work.
    pub(super) fn retire(&mut self, finisher: Finisher) {
        self.loader.retire(finisher.preparer);
    }

    pub(super) fn add(&mut self, entry: PreparedEntry) -> Result<Added, ImportError> {
        Ok(self.loader.add(entry)?)
    }
}
