//! The loader: what the threads prepared comes into the store, in the order of the file.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::MutexGuard;

use heed::{PutFlags, RwTxn};
use ldap::dn::Dn;
use rustc_hash::FxHashMap;
use schema::{Entry, EntryId};
use xxhash_rust::xxh3::xxh3_64;

use super::lists::{ListAppender, Lists};
use super::names::LoadedNames;
use super::prepare::{PreparedEntry, Preparer};
use super::{Added, BulkError, BulkReport, LoadOptions, Phase, Place, Refusal, RefusalReason};
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
    places: Vec<Place>,
    loaded: u64,
    /// How many entries took the place of one that the store held.
    replaced: u64,
    is_check: bool,
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
    place: Option<Place>,
    /// What the store held before the load, or the file's entry that takes its place.
    held: Option<PreparedEntry>,
}

impl<'s> BulkLoader<'s> {
    pub(super) fn begin(store: &'s Store, options: &LoadOptions) -> Result<Self, BulkError> {
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
            loaded: 0,
            replaced: 0,
            is_check: options.is_check,
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

    /// The id of the first entry of the load. The caller numbers the others on from here in the
    /// order of the file; numbers may be left out.
    #[must_use]
    pub const fn first_id(&self) -> u64 {
        self.first_id
    }

    /// What prepares entries, one for each thread. Every entry that it prepares is to be added.
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        self.preparer.clone()
    }

    /// Takes a preparer back when its thread has done its work; all are back before
    /// [`Self::finish`].
    pub fn retire(&mut self, preparer: Preparer) {
        drop(preparer);
    }

    /// Loads an entry that a [`Preparer`] of this loader has prepared. Nothing is checked but its
    /// name. Entries come in the order of their ids.
    ///
    /// # Errors
    /// When the load cannot go on: the loader can only be dropped.
    pub fn add(&mut self, entry: PreparedEntry) -> Result<Added, BulkError> {
        assert!(!self.is_broken, "nothing is loaded after an error");
        self.is_broken = true;
        let added = match self.parent_of(&entry) {
            Err(reason) => Ok(refused(&entry, reason)),
            Ok(None) => self.add_top(entry),
            Ok(Some(parent)) => self.add_below(parent, &entry),
        };
        self.is_broken = added.is_err();
        added
    }

    /// Prepares and loads one entry after all others, `line` being its place, for those who load
    /// few: a refusal is an error.
    ///
    /// # Errors
    /// After one the loader can only be dropped.
    pub fn load(&mut self, entry: &Entry, line: u64) -> Result<(), BulkError> {
        let place = Place { source: 0, line };
        let id = self.counters.next_entry_id;
        let prepared = self.preparer.prepare(entry, place, id)?;
        match self.add(prepared)? {
            Added::Loaded | Added::Replaced | Added::Waiting => Ok(()),
            Added::Refused(refusal) => Err(BulkError::Refused(refusal)),
        }
    }

    /// [`Self::finish`] where nothing may be refused.
    ///
    /// # Errors
    /// When an entry is refused or the store fails; then nothing was loaded.
    pub fn commit(self) -> Result<BulkReport, BulkError> {
        let mut first = None;
        let finished = self.finish(&mut |_, _, _| ControlFlow::Continue(()), &mut |refusal| {
            first = Some(refusal);
            ControlFlow::Break(())
        });
        match (finished, first) {
            (Err(BulkError::Stopped), Some(refusal)) => Err(BulkError::Refused(refusal)),
            (finished, _) => finished,
        }
    }

    /// Stores what waited, writes the indexes and makes everything durable and visible. `progress`
    /// hears what is being done, how much of it is done, and how much there is, and says whether
    /// the load goes on; `refused` hears of each entry that waited in vain, and says whether the
    /// load goes on without it.
    ///
    /// # Errors
    /// When the store fails or the caller wants no more; then nothing was loaded.
    pub fn finish(
        mut self,
        progress: &mut dyn FnMut(Phase, u64, u64) -> ControlFlow<()>,
        _refused: &mut dyn FnMut(Refusal) -> ControlFlow<()>,
    ) -> Result<BulkReport, BulkError> {
        assert!(!self.is_broken, "a load that failed is not finished");
        let entries = self.replaced + self.loaded;
        let replaced = self.replaced;
        if self.is_check {
            return Ok(BulkReport { entries, replaced, ..BulkReport::default() });
        }
        let mut tell = |phase, done, of| match progress(phase, done, of) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BulkError::Stopped),
        };
        self.write_held()?;
        let dictionary = self.preparer.dictionary();
        self.write_dictionary(&dictionary)?;
        let names = self.names.len();
        tell(Phase::Names, 0, names)?;
        self.names.write(&mut self.txn, self.tables.names, self.tables.children)?;
        tell(Phase::Names, names, names)?;
        self.lists.make_branches();
        let (lists, mut done) = (self.lists.len(), 0);
        let mut appender = ListAppender::new(self.tables.postings);
        self.lists.drain(|index, key, list| {
            if u64::is_multiple_of(done, PROGRESS_LISTS) {
                tell(Phase::Indexes, done, lists)?;
            }
            done += 1;
            appender.append(&mut self.txn, (index, key), list).map_err(BulkError::from)
        })?;
        tell(Phase::Indexes, lists, lists)?;
        self.counters.lsn += entries;
        self.counters.position.index = self.counters.lsn;
        self.counters.hash = bulk_hash(&self.counters);
        self.counters.entry_count = self.tables.entries.len(&self.txn)?;
        self.counters.names_moved += 1;
        self.counters.write(self.tables.meta, &mut self.txn)?;
        let stat = Tables::stat(self.tables.entries, &self.txn)?;
        let pages = (stat.leaf_pages + stat.overflow_pages) as u64;
        let record_bytes = pages * u64::from(stat.page_size);
        tell(Phase::Sync, 0, 1)?;
        let environment = &self.store.environment;
        self.txn.commit().map_err(|error| environment.commit_failed(error))?;
        self.store.reload(dictionary)?;
        tell(Phase::Sync, 1, 1)?;
        Ok(BulkReport { entries, replaced, record_bytes, lists, spilled_bytes: 0 })
    }

    /// The id of the superior; a naming context has none.
    fn parent_of(&mut self, entry: &PreparedEntry) -> Result<Option<u64>, RefusalReason> {
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
        let parent = parent.ok_or(RefusalReason::OutsideContexts)?;
        self.last_parent = (parent_key.to_vec(), parent);
        Ok(Some(parent))
    }

    fn add_below(&mut self, parent: u64, entry: &PreparedEntry) -> Result<Added, BulkError> {
        let key = entry.key.as_bytes();
        let rdn_key = without_end(key.get(superior(key).len()..).unwrap_or_default());
        if let Some(id) = self.names.find(parent, rdn_key) {
            let at = id.checked_sub(self.first_id).and_then(|at| usize::try_from(at).ok());
            let first = at.and_then(|at| self.places.get(at)).copied();
            return Ok(refused(entry, RefusalReason::Duplicate { first }));
        }
        self.append(parent, rdn_key, entry)?;
        Ok(Added::Loaded)
    }

    /// An entry of a naming context takes the place of the one that the store held, if it held one,
    /// and gets its id.
    fn add_top(&mut self, entry: PreparedEntry) -> Result<Added, BulkError> {
        let key = entry.key.as_bytes().to_vec();
        let held = self.tops.get_mut(&*key);
        if let Some(top) = held {
            if top.place.is_some() {
                return Ok(refused(&entry, RefusalReason::Duplicate { first: top.place }));
            }
            top.place = Some(entry.place);
            if top.held.is_some() {
                top.held = Some(entry);
                self.replaced += 1;
                return Ok(Added::Replaced);
            }
        }
        let id = self.append(EntryId::ROOT.0, without_end(&key), &entry)?;
        if let Some(top) = self.tops.get_mut(&*key) {
            top.id = Some(id);
        }
        Ok(Added::Loaded)
    }

    fn append(
        &mut self,
        parent: u64,
        rdn_key: &[u8],
        entry: &PreparedEntry,
    ) -> Result<u64, BulkError> {
        let id = entry.id;
        assert!(self.counters.next_entry_id <= id, "entries come in the order of their ids");
        self.counters.next_entry_id = id + 1;
        self.places.resize((id - self.first_id) as usize, Place::default());
        self.places.push(entry.place);
        self.loaded += 1;
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
        f.debug_struct("BulkLoader").field("entries", &self.loaded).finish_non_exhaustive()
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
            top = Top {
                id: Some(id),
                place: None,
                held: Some(preparer.prepare(&entry, Place::default(), id)?),
            };
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

fn orphan(entry: &PreparedEntry) -> RefusalReason {
    let parent = Dn::parse(&entry.dn).ok().and_then(|dn| dn.parent());
    RefusalReason::Orphan { parent: parent.map(|dn| dn.to_string()).unwrap_or_default() }
}

fn refused(entry: &PreparedEntry, reason: RefusalReason) -> Added {
    Added::Refused(Refusal { place: entry.place, dn: entry.dn.clone(), reason })
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
