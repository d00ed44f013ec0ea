//! Bulk load: fills a new store at the speed of the disk, in one transaction.
//!
//! Records are appended as they come, because entry ids ascend; names and posting lists are
//! gathered in memory and appended in the order of their keys at the end. See
//! `docs/adr/0012-bulk-load.md`.
//!
//! Invariants: nothing of a load is there before [`BulkLoader::finish`] has committed, and a loader
//! that is dropped leaves nothing. What a load makes is what the same entries added one by one
//! make.

mod lists;
mod names;
mod prepare;

use std::fmt;
use std::sync::MutexGuard;

use heed::{PutFlags, RwTxn};
use ldap::dn::Dn;
use rustc_hash::FxHashMap;
use schema::{Entry, EntryId, InvalidDn};
use xxhash_rust::xxh3::xxh3_64;

use self::lists::ListAppender;
pub(crate) use self::lists::{Lists, PostingKeys};
use self::names::LoadedNames;
pub use self::prepare::{PreparedEntry, Preparer};
use crate::batch::Seat;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::lmdb::Tables;
use crate::meta::Counters;
use crate::names::NameCache;
use crate::record::Record;
use crate::store::Store;

/// Fills a store that holds nothing but entries of its naming contexts.
pub struct BulkLoader<'s> {
    store: &'s Store,
    txn: RwTxn<'s>,
    /// No batch is made, and nothing flushed, while the load goes on.
    _alone: (MutexGuard<'s, Seat>, MutexGuard<'s, ()>),
    tables: Tables,
    preparer: Preparer,
    /// The naming contexts, by the octets of their DN keys.
    tops: FxHashMap<Box<[u8]>, Top>,
    names: LoadedNames,
    lists: Lists,
    counters: Counters,
    first_id: u64,
    /// Where each entry was in the file, from `first_id` on.
    places: Vec<u64>,
    /// How many entries took the place of one that the store held.
    replaced: u64,
    /// The superior of the last entry: its key and its id. Most entries share it.
    last_parent: (Vec<u8>, u64),
    row: Vec<u8>,
    is_broken: bool,
}

/// The entry at the top of a naming context.
#[derive(Debug, Default)]
struct Top {
    id: Option<u64>,
    /// Where the file has it.
    place: Option<u64>,
    /// What the store held before the load, or the file's entry that takes its place.
    held: Option<PreparedEntry>,
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BulkReport {
    /// Entries of the load; those the store held before are not counted.
    pub entries: u64,
    /// The pages that the records take, in bytes.
    pub record_bytes: u64,
    /// How many posting lists were written.
    pub lists: u64,
}

/// Why a load cannot go on. Places are lines of the file.
#[derive(Debug)]
pub enum BulkError {
    /// The store holds more than the entries of its naming contexts.
    NotEmpty {
        /// How many entries it holds.
        entries: u64,
    },
    /// The name is there already.
    Duplicate {
        /// The name.
        dn: String,
        /// Where it came again.
        place: u64,
        /// Where it was first.
        first: u64,
    },
    /// The superior is not there, or comes later in the file.
    Orphan {
        /// The name.
        dn: String,
        /// Where it is.
        place: u64,
        /// The name of the superior.
        parent: String,
    },
    /// The name is in no naming context.
    OutsideContexts {
        /// The name.
        dn: String,
        /// Where it is.
        place: u64,
    },
    /// The name breaks the rule of one of its attributes.
    Name {
        /// The name.
        dn: String,
        /// Where it is.
        place: u64,
        /// What is wrong with it.
        reason: InvalidDn,
    },
    /// The store failed.
    Store(StoreError),
}

impl BulkError {
    /// Where in the file the entry is that was refused.
    #[must_use]
    pub const fn place(&self) -> Option<u64> {
        match self {
            Self::Duplicate { place, .. }
            | Self::Orphan { place, .. }
            | Self::OutsideContexts { place, .. }
            | Self::Name { place, .. } => Some(*place),
            Self::NotEmpty { .. } | Self::Store(_) => None,
        }
    }
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmpty { entries } => {
                write!(f, "the directory is not empty: it holds {entries} entries")
            }
            Self::Duplicate { dn, first, .. } => {
                write!(f, "entry '{dn}' is there already, from line {first}")
            }
            Self::Orphan { dn, parent, .. } => {
                write!(f, "entry '{dn}' comes before its superior '{parent}'")
            }
            Self::OutsideContexts { dn, .. } => write!(f, "entry '{dn}' is in no naming context"),
            Self::Name { dn, reason, .. } => write!(f, "entry '{dn}': {reason}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BulkError {}

impl From<StoreError> for BulkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<heed::Error> for BulkError {
    fn from(error: heed::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Store {
    /// Begins to fill the store; waits until there is no batch.
    ///
    /// # Errors
    /// [`BulkError::NotEmpty`] when there are entries below the naming contexts' own.
    pub fn bulk_load(&self) -> Result<BulkLoader<'_>, BulkError> {
        BulkLoader::begin(self)
    }
}

impl<'s> BulkLoader<'s> {
    fn begin(store: &'s Store) -> Result<Self, BulkError> {
        if store.is_swapped() {
            let (what, text) = ("bulk load", "into a base that took the place of another".into());
            let reason = "the store must be opened anew".to_owned();
            return Err(StoreError::Invalid { what, text, reason }.into());
        }
        let mut seat = store.seat();
        store.flush()?;
        seat.release();
        let flushing = store.flushing();
        let mut txn = store.environment.write()?;
        let tables = store.environment.tables;
        let counters = Counters::read(tables.meta, &txn)?;
        let dictionary = store.dictionary();
        let lists = Lists::new(&dictionary);
        let contexts = store.contexts().iter().map(|context| context.key.clone()).collect();
        let preparer = Preparer::new(dictionary, contexts);
        let tops = read_tops(store, &mut preparer.clone())?;
        for table in [tables.entries, tables.names, tables.children, tables.postings] {
            table.clear(&mut txn)?;
        }
        Ok(Self {
            store,
            txn,
            _alone: (seat, flushing),
            tables,
            preparer,
            tops,
            names: LoadedNames::default(),
            lists,
            first_id: counters.next_entry_id,
            counters,
            places: Vec::new(),
            replaced: 0,
            last_parent: (Vec::new(), 0),
            row: Vec::new(),
            is_broken: false,
        }
        .with_top_names())
    }

    fn with_top_names(mut self) -> Self {
        for (key, top) in &self.tops {
            if let Some(id) = top.id {
                self.names.push(0, without_end(key), id);
            }
        }
        self
    }

    /// What prepares entries on other threads.
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        self.preparer.clone()
    }

    /// Loads one entry, which has all it needs: nothing is checked but its name. `place` is its
    /// line in the file. Superiors come first.
    ///
    /// # Errors
    /// After one the loader can only be dropped.
    pub fn add(&mut self, entry: &Entry, place: u64) -> Result<(), BulkError> {
        let prepared = self.preparer.prepare(entry, place)?;
        self.add_prepared(prepared)
    }

    /// Loads an entry that a [`Preparer`] of this loader has prepared; see [`Self::add`].
    ///
    /// # Errors
    /// After one the loader can only be dropped.
    pub fn add_prepared(&mut self, entry: PreparedEntry) -> Result<(), BulkError> {
        assert!(!self.is_broken, "nothing is loaded after an error");
        self.is_broken = true;
        match self.parent_of(&entry)? {
            None => self.add_top(entry)?,
            Some(parent) => self.add_below(parent, &entry)?,
        }
        self.is_broken = false;
        Ok(())
    }

    /// Writes what is gathered and makes everything durable. `progress` hears what is being
    /// written, how much of it is done, and how much there is.
    ///
    /// # Errors
    /// When the store fails; then nothing was loaded.
    pub fn finish(
        mut self,
        progress: &mut dyn FnMut(&'static str, u64, u64),
    ) -> Result<BulkReport, BulkError> {
        assert!(!self.is_broken, "a load that failed is not finished");
        self.write_held()?;
        let dictionary = self.preparer.dictionary();
        self.write_dictionary(&dictionary)?;
        let names = self.names.len();
        progress("names", 0, names);
        self.names.write(&mut self.txn, self.tables.names, self.tables.children)?;
        progress("names", names, names);
        self.lists.make_branches();
        let (lists, mut done) = (self.lists.len(), 0);
        let mut appender = ListAppender::new(self.tables.postings);
        self.lists.drain(|index, key, list| {
            if u64::is_multiple_of(done, PROGRESS_LISTS) {
                progress("indexes", done, lists);
            }
            done += 1;
            appender.append(&mut self.txn, (index, key), list)
        })?;
        progress("indexes", lists, lists);
        let entries = self.replaced + self.places.len() as u64;
        self.counters.lsn += entries;
        self.counters.position.index = self.counters.lsn;
        self.counters.hash = bulk_hash(&self.counters);
        self.counters.entry_count = self.tables.entries.len(&self.txn)?;
        self.counters.names_moved += 1;
        self.counters.write(self.tables.meta, &mut self.txn)?;
        let stat = Tables::stat(self.tables.entries, &self.txn)?;
        let pages = (stat.leaf_pages + stat.overflow_pages) as u64;
        let record_bytes = pages * u64::from(stat.page_size);
        progress("disk", 0, 1);
        let environment = &self.store.environment;
        self.txn.commit().map_err(|error| environment.commit_failed(error))?;
        self.store.reload(dictionary)?;
        progress("disk", 1, 1);
        Ok(BulkReport { entries, record_bytes, lists })
    }

    /// The id of the superior; a naming context has none.
    fn parent_of(&mut self, entry: &PreparedEntry) -> Result<Option<u64>, BulkError> {
        let key = entry.key.as_bytes();
        let parent_key = superior(key);
        if parent_key == self.last_parent.0 && !parent_key.is_empty() {
            return Ok(Some(self.last_parent.1));
        }
        if self.tops.contains_key(key) {
            return Ok(None);
        }
        // No naming context lies within another: the first that is met is the only one.
        let ends = key.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at + 1);
        let mut parent = None;
        let mut start = 0;
        for end in ends.take_while(|end| *end <= parent_key.len()) {
            parent = match parent {
                None => match self.tops.get(key.get(..end).unwrap_or_default()) {
                    Some(top) => Some(top.id.ok_or_else(|| orphan(entry))?),
                    None => None,
                },
                Some(parent) => {
                    let rdn_key = key.get(start..end - 1).unwrap_or_default();
                    Some(self.names.find(parent, rdn_key).ok_or_else(|| orphan(entry))?)
                }
            };
            start = end;
        }
        let parent = parent.ok_or_else(|| BulkError::OutsideContexts {
            dn: entry.dn.clone(),
            place: entry.place,
        })?;
        self.last_parent = (parent_key.to_vec(), parent);
        Ok(Some(parent))
    }

    fn add_below(&mut self, parent: u64, entry: &PreparedEntry) -> Result<(), BulkError> {
        let key = entry.key.as_bytes();
        let rdn_key = without_end(key.get(superior(key).len()..).unwrap_or_default());
        if let Some(id) = self.names.find(parent, rdn_key) {
            let at = usize::try_from(id - self.first_id).ok();
            let first = at.and_then(|at| self.places.get(at)).copied().unwrap_or_default();
            return Err(BulkError::Duplicate { dn: entry.dn.clone(), place: entry.place, first });
        }
        self.append(parent, rdn_key, entry)?;
        Ok(())
    }

    /// An entry of a naming context takes the place of the one that the store held, if it held one,
    /// and gets its id.
    fn add_top(&mut self, entry: PreparedEntry) -> Result<(), BulkError> {
        let key = entry.key.as_bytes().to_vec();
        let held = self.tops.get_mut(&*key);
        if let Some(top) = held {
            if let Some(first) = top.place {
                let place = entry.place;
                return Err(BulkError::Duplicate { dn: entry.dn, place, first });
            }
            top.place = Some(entry.place);
            if top.held.is_some() {
                top.held = Some(entry);
                self.replaced += 1;
                return Ok(());
            }
        }
        let id = self.append(EntryId::ROOT.0, without_end(&key), &entry)?;
        if let Some(top) = self.tops.get_mut(&*key) {
            top.id = Some(id);
        }
        Ok(())
    }

    fn append(
        &mut self,
        parent: u64,
        rdn_key: &[u8],
        entry: &PreparedEntry,
    ) -> Result<u64, BulkError> {
        let id = self.counters.next_entry_id;
        self.counters.next_entry_id += 1;
        self.places.push(entry.place);
        self.names.push(parent, rdn_key, id);
        self.lists.push(&entry.keys, parent, id);
        let copied = Record::copy_below(&entry.row, parent, &mut self.row);
        copied.expect("a preparer writes whole records");
        let entries = self.tables.entries;
        entries.put_with_flags(&mut self.txn, PutFlags::APPEND, &id.to_be_bytes(), &self.row)?;
        Ok(id)
    }

    /// Writes the entries that the store held before, or those that took their places. Their ids
    /// are lower than all others.
    fn write_held(&mut self) -> Result<(), BulkError> {
        let held = self.tops.values_mut().filter_map(|top| top.id.zip(top.held.take()));
        let mut held: Vec<(u64, PreparedEntry)> = held.collect();
        held.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        for (id, entry) in held {
            self.tables.entries.put(&mut self.txn, &id.to_be_bytes(), &entry.row)?;
            self.lists.push_first(&entry.keys, EntryId::ROOT.0, id);
        }
        Ok(())
    }

    /// Gives each description that is new a row.
    fn write_dictionary(&mut self, dictionary: &Dictionary) -> Result<(), BulkError> {
        let attributes = self.tables.attributes;
        let known = attributes.len(&self.txn)? as u32;
        for id in known..dictionary.len() as u32 {
            let text = dictionary.description(id).expect("ids count without gaps").text();
            attributes.put(&mut self.txn, &id.to_be_bytes(), text.as_bytes())?;
        }
        Ok(())
    }
}

impl fmt::Debug for BulkLoader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkLoader").field("entries", &self.places.len()).finish_non_exhaustive()
    }
}

/// The entries that the store holds: those of its naming contexts, else it is refused.
fn read_tops(
    store: &Store,
    preparer: &mut Preparer,
) -> Result<FxHashMap<Box<[u8]>, Top>, BulkError> {
    let view = store.snapshot(NameCache::default())?;
    let mut tops = FxHashMap::default();
    let mut held = 0;
    for context in store.contexts() {
        let key = context.key.as_bytes();
        let mut top = Top::default();
        if let Some(id) = view.child(EntryId::ROOT.0, without_end(key))? {
            let entry = view.expect_entry(id)?.to_entry()?;
            top = Top { id: Some(id), place: None, held: Some(preparer.prepare(&entry, 0)?) };
            held += 1;
        }
        tops.insert(key.into(), top);
    }
    let entries = view.entry_count()?;
    if entries != held {
        return Err(BulkError::NotEmpty { entries });
    }
    Ok(tops)
}

/// The running hash after a load. What was loaded is no record of the history, so whoever has the
/// history before cannot go on to the one after: the hashes must differ.
fn bulk_hash(counters: &Counters) -> u64 {
    let numbers = [counters.hash, counters.lsn, counters.next_entry_id].map(u64::to_le_bytes);
    xxh3_64(numbers.as_flattened())
}

fn orphan(entry: &PreparedEntry) -> BulkError {
    let parent = Dn::parse(&entry.dn).ok().and_then(|dn| dn.parent());
    let parent = parent.map(|dn| dn.to_string()).unwrap_or_default();
    BulkError::Orphan { dn: entry.dn.clone(), place: entry.place, parent }
}

/// The key of the superior.
fn superior(dn_key: &[u8]) -> &[u8] {
    let end = without_end(dn_key).iter().rposition(|&byte| byte == 0).map_or(0, |end| end + 1);
    dn_key.get(..end).unwrap_or_default()
}

/// The key without the octet that ends its last RDN.
fn without_end(dn_key: &[u8]) -> &[u8] {
    dn_key.split_last().map_or(&[], |(_, rest)| rest)
}

/// Progress is told every so many lists.
const PROGRESS_LISTS: u64 = 100_000;

#[cfg(test)]
mod tests;
