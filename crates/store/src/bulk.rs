//! Bulk load: fills a store at the speed of the machine.
//!
//! Entries come in the order of the file; what of them needs no place in the tree is prepared on
//! other threads by [`Preparer`]s. See `docs/adr/0021-bulk-load-by-runs.md`.
//!
//! Invariants: nothing of a load is there before [`BulkLoader::finish`] has ended well, and a
//! loader that is dropped leaves nothing. What a load makes is what the same entries added one by
//! one make.

mod budget;
mod error;
mod finish;
mod gather;
mod gathering;
mod held;
mod lists;
mod loader;
mod merge;
mod names;
mod packing;
mod prepare;
mod rows;
mod run;
mod sort;
mod spill;
mod steps;
mod target;
mod waiting;

pub use self::error::{BulkError, PrepareError, Refusal, RefusalReason, SourceLine};
pub(crate) use self::lists::{Lists, PostingKeys};
pub use self::loader::BulkLoader;
pub use self::prepare::{PreparedEntry, Preparer};
pub(crate) use self::spill::remove_remains;
use crate::store::Store;

/// How a load goes.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The memory that it may take, in bytes, all threads together. Where that is not enough, it
    /// writes what it has gathered beside the data.
    pub memory_bytes: u64,
    /// As much of it is not shared out, in bytes: what the program takes by itself, and what its
    /// allocator keeps back while much is sorted.
    pub own_bytes: u64,
    /// Threads that write the indexes at the end; 0 means one for each core.
    pub threads: usize,
    /// What becomes of the entries that the store holds.
    pub held: Held,
    /// Nothing is written: the load tells only which entries it would refuse.
    pub is_check: bool,
    /// Records are compressed, with a dictionary that is trained from the first of them unless the
    /// store has one. Where it has one, they are in any case.
    pub compress: bool,
    /// By chance, so that nobody can make a file of names that look like one another.
    pub seed: u64,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            own_bytes: 0,
            threads: 0,
            held: Held::Refuse,
            is_check: false,
            compress: false,
            seed: 0,
        }
    }
}

/// What becomes of the entries that the store holds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Held {
    /// There must be none but those of the naming contexts. These stay, unless the load brings
    /// them.
    Refuse,
    /// They stay. One that the load brings, too, is refused; but where there are none beside those
    /// of the naming contexts, these give way.
    #[default]
    Keep,
    /// They stay. One that the load brings, too, takes the place of the other.
    Replace,
    /// They go.
    Clear,
}

/// What became of an entry.
#[derive(Debug)]
pub enum Added {
    /// It is loaded.
    Loaded,
    /// It took the place of one that the store held.
    Replaced,
    /// Its superior is not there yet; [`BulkLoader::finish`] looks again.
    Waiting,
    /// It is not loaded.
    Refused(Refusal),
}

/// What a load is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Phase {
    /// Entries that waited for their superiors are stored.
    Load,
    /// Names are written.
    Names,
    /// Indexes are written.
    Indexes,
    /// The disk takes what was written.
    Sync,
    /// What was written is looked through.
    Verify,
    /// Values that name entries become reference lists, where there are very many.
    References,
}

impl Phase {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Names => "names",
            Self::Indexes => "indexes",
            Self::Sync => "sync",
            Self::Verify => "verify",
            Self::References => "references",
        }
    }
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BulkReport {
    /// Entries of the load; those the store held before are not counted.
    pub entries: u64,
    /// How many of them took the place of one that the store held.
    pub replaced: u64,
    /// The pages that the records take, in bytes.
    pub record_bytes: u64,
    /// How many posting lists were written.
    pub lists: u64,
    /// What was written beside the data meanwhile, in bytes.
    pub spilled_bytes: u64,
}

impl Store {
    /// Begins to fill the store; waits until there is no batch.
    ///
    /// # Errors
    /// [`BulkError::NotEmpty`] when there are entries below the naming contexts' own, and
    /// [`Held::Refuse`] is asked for.
    pub fn bulk_load(&self, options: &LoadOptions) -> Result<BulkLoader<'_>, BulkError> {
        BulkLoader::begin(self, options)
    }
}

#[cfg(test)]
pub(crate) mod tests;
