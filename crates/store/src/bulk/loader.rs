//! The loader: what the threads prepared comes into the store, in the order of the file.
//!
//! Invariant: the base is not written before [`BulkLoader::finish`] puts another in its place, and
//! nobody else writes it meanwhile.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard};

use ldap::dn::Dn;
use rustc_hash::{FxHashMap, FxHashSet};
use schema::{Entry, EntryId};

use super::budget::Budget;
use super::finish::Finish;
use super::gather::Gatherer;
use super::gathering::gather_references;
use super::held::{aliases, read_names};
use super::merge::Fixes;
use super::names::{NameHasher, NameMap, Places, table_bytes};
use super::packing::{Packing, SharedCompression};
use super::prepare::{PreparedEntry, Preparer, Shared};
use super::run::{Runs, RunsOf};
use super::spill::Workplace;
use super::target::{Piece, Target, To};
use super::waiting::Waiting;
use super::{
    Added, BulkError, BulkReport, Held, LoadOptions, Phase, Refusal, RefusalReason, SourceLine,
};
use crate::base::lmdb::Environment;
use crate::base::meta;
use crate::base::meta::Counters;
use crate::error::StoreError;
use crate::index::{BRANCH_LISTS, LEVEL_LISTS};
use crate::rows::key::RowKey;
use crate::rows::record::Record;
use crate::store::Store;
use crate::write::apply::LISTED_MIN_BYTES;
use crate::write::batch::Seat;

/// Fills a store; see [`Store::bulk_load`].
pub struct BulkLoader<'s> {
    pub(super) store: &'s Store,
    /// No batch is made, and nothing flushed, while the load goes on.
    _alone: (MutexGuard<'s, Seat>, MutexGuard<'s, ()>),
    pub(super) options: LoadOptions,
    pub(super) budget: Arc<Budget>,
    /// The base before the load.
    pub(super) before: Arc<Environment>,
    pub(super) place: Arc<Workplace>,
    pub(super) shared: Arc<Shared>,
    /// Of those who load few.
    own: Option<Preparer>,
    /// None when the load only checks.
    pub(super) target: Option<Target>,
    /// Rows of `entries` that come after all others.
    pub(super) records: Piece,
    /// And such that do not.
    pub(super) other_records: Piece,
    /// Rows of settings that are set with the load.
    pub(super) settings: Vec<(String, Vec<u8>)>,
    pub(super) packing: Packing,
    pub(super) names: NameMap,
    /// Whole RDN keys of those that are too long for a row, by entry id.
    pub(super) long: FxHashMap<u64, Box<[u8]>>,
    /// How many entries there are below each.
    pub(super) children: FxHashMap<u64, u64>,
    /// Entries that have no subordinates.
    aliases: FxHashSet<u64>,
    pub(super) tree: Gatherer,
    pub(super) name_runs: Arc<Runs>,
    pub(super) name_rows: Gatherer,
    places: Places,
    pub(super) waiting: Option<Waiting>,
    pub(super) fixes: Fixes,
    /// Entries that may have so many values that they are to be in reference lists.
    large: Vec<u64>,
    /// Where those came from that took the place of what the store held, by their ids.
    pub(super) replaced: FxHashMap<u64, SourceLine>,
    pub(super) counters: Counters,
    first_id: u64,
    /// How many entries the store held and keeps.
    pub(super) held_count: u64,
    pub(super) loaded: u64,
    last_superior: Option<(super::names::NameHash, u64)>,
    row: Vec<u8>,
    is_broken: bool,
}

impl<'s> BulkLoader<'s> {
    pub(super) fn begin(store: &'s Store, options: &LoadOptions) -> Result<Self, BulkError> {
        let mut seat = store.seat();
        store.flush()?;
        seat.release();
        let flushing = store.flushing();
        let before = store.base_environment();
        let snapshot = before.snapshot()?;
        let counters = Counters::read(before.tables.meta, snapshot.txn())?;
        let entries = before.tables.entries.len(snapshot.txn())?;
        drop(snapshot);
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let place = Arc::new(Workplace::create(store.data_directory().path())?);
        let budget = Arc::new(Budget::new(options.memory_bytes, options.own_bytes, threads));
        let runs = Arc::new(Runs::new(&place, &budget, RunsOf::Indexes));
        let name_runs = Arc::new(Runs::new(&place, &budget, RunsOf::Names));
        let contexts = store.naming_contexts().keys().cloned().collect();
        let dictionary = store.dictionary();
        let compression = Arc::new(SharedCompression::new());
        let packing = Packing::new(&compression, dictionary.compression(), options.compress);
        let hasher = NameHasher::new(options.seed);
        let runs_of_all = Arc::clone(&runs);
        let shared = Shared::new(dictionary, hasher, contexts, runs_of_all, options.is_check);
        let shared = Arc::new(shared.compressing(compression));
        let target = match options.is_check {
            true => None,
            false => Some(Target::create(place.path(), &before.options(), budget.commit_bytes())?),
        };
        let mut loader = Self {
            store,
            _alone: (seat, flushing),
            options: options.clone(),
            before,
            tree: Gatherer::of_tree(&runs),
            name_rows: Gatherer::of_names(&name_runs),
            budget,
            place,
            shared,
            own: None,
            target,
            records: Piece::appended(To::Entries),
            other_records: Piece::anywhere(To::Entries),
            settings: Vec::new(),
            packing,
            names: NameMap::default(),
            long: FxHashMap::default(),
            children: FxHashMap::default(),
            aliases: FxHashSet::default(),
            name_runs,
            places: Places::default(),
            waiting: None,
            fixes: Fixes::default(),
            large: Vec::new(),
            replaced: FxHashMap::default(),
            first_id: counters.next_entry_id,
            counters,
            held_count: 0,
            loaded: 0,
            last_superior: None,
            row: Vec::new(),
            is_broken: false,
        };
        if options.held != Held::Clear && entries > 0 {
            loader.keep_held(entries)?;
        }
        Ok(loader)
    }

    /// Takes what the store holds over.
    fn keep_held(&mut self, entries: u64) -> Result<(), BulkError> {
        let hasher = NameHasher::new(self.options.seed);
        let held = read_names(&self.before, &self.budget, hasher, &mut self.names)?;
        let tops = held.children.get(&EntryId::ROOT.0).copied().unwrap_or_default();
        match self.options.held {
            Held::Refuse if tops != entries => return Err(BulkError::NotEmpty { entries }),
            // They were made with the directory, and give way.
            Held::Keep if tops == entries => self.options.held = Held::Refuse,
            Held::Refuse | Held::Keep | Held::Replace | Held::Clear => {}
        }
        (self.children, self.long) = (held.children, held.long);
        self.held_count = entries;
        self.aliases = aliases(self.store)?;
        let Some(target) = &self.target else { return Ok(()) };
        let snapshot = self.before.snapshot()?;
        for row in self.before.tables.entries.iter(snapshot.txn())? {
            let (id, row) = row?;
            self.records.push(id, row);
            if self.records.is_full() {
                target.send(self.records.take())?;
            }
        }
        Ok(())
    }

    /// The id of the first entry of the load. The caller numbers the others on from here in the
    /// order of the file; numbers may be left out.
    #[must_use]
    pub const fn first_id(&self) -> u64 {
        self.first_id
    }

    /// What prepares entries on one thread. Every entry that it prepares is to be added, and it is
    /// to be retired, or dropped, before [`Self::finish`].
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        Preparer::new(Arc::clone(&self.shared))
    }

    /// Sets a setting of the directory: it becomes visible with what is loaded.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when the name is none of a setting.
    pub fn set(&mut self, name: &str, values: &[String]) -> Result<(), StoreError> {
        self.settings.push((meta::setting_key(name)?, meta::setting_row(values)));
        Ok(())
    }

    /// Takes what a preparer has gathered, when its thread has done its work.
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
        assert!(self.counters.next_entry_id <= entry.id, "entries come in the order of their ids");
        self.is_broken = true;
        self.counters.next_entry_id = entry.id + 1;
        if self.places.put(entry.id - self.first_id, entry.place) {
            self.count_names()?;
        }
        let added = match self.superior_of(&entry) {
            Some(superior) => self.add_below(superior, &entry, true),
            None => self.wait(&entry),
        };
        self.is_broken = added.is_err();
        added.map_err(|error| self.reason(error))
    }

    /// They are of no more use, and large.
    pub(super) fn give_up_names(&mut self) {
        self.names = NameMap::default();
        self.budget.leave_names(self.places.bytes());
    }

    /// What is kept of each entry is not there for gathering and sorting.
    fn count_names(&self) -> Result<(), BulkError> {
        let tables = table_bytes(self.children.capacity(), CHILDREN_PLACE_BYTES)
            + table_bytes(self.long.capacity(), LONG_PLACE_BYTES)
            + table_bytes(self.aliases.capacity(), ALIAS_PLACE_BYTES)
            + table_bytes(self.replaced.capacity(), REPLACED_PLACE_BYTES);
        let bytes = self.names.bytes() + self.places.bytes() + tables;
        if self.budget.put_names(bytes, self.held_count + self.loaded)? {
            self.shared.runs.fit()?;
            self.name_runs.fit()?;
        }
        Ok(())
    }

    fn wait(&mut self, entry: &PreparedEntry) -> Result<Added, BulkError> {
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => self.waiting.insert(Waiting::new(&self.place)?),
        };
        waiting.push(entry)?;
        Ok(Added::Waiting)
    }

    /// When the writer has ended, it tells itself why.
    fn reason(&mut self, error: BulkError) -> BulkError {
        match (error, self.target.take()) {
            (BulkError::Store(error), Some(target)) => {
                BulkError::Store(target.finish().err().unwrap_or(error))
            }
            (error, _) => error,
        }
    }

    /// Prepares and loads one entry after all others, `line` being its place, for those who load
    /// few: a refusal is an error.
    ///
    /// # Errors
    /// After one the loader can only be dropped.
    pub fn load(&mut self, entry: &Entry, line: u64) -> Result<(), BulkError> {
        let mut own = match self.own.take() {
            Some(own) => own,
            None => self.preparer(),
        };
        let place = SourceLine { source: 0, line };
        let prepared = own.prepare(entry, place, self.counters.next_entry_id);
        self.own = Some(own);
        match self.add(prepared?)? {
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
        refused: &mut dyn FnMut(Refusal) -> ControlFlow<()>,
    ) -> Result<BulkReport, BulkError> {
        assert!(!self.is_broken, "a load that failed is not finished");
        drop(self.own.take());
        self.shared.all_written()?;
        self.packing.finish(&mut self.records);
        if let Err(error) = self.add_waiting(progress, refused) {
            return Err(self.reason(error));
        }
        let report = Finish { loader: &mut self, progress }.run()?;
        let (store, large) = (self.store, std::mem::take(&mut self.large));
        // Nobody else writes as long as it is there.
        drop(self);
        gather_references(store, &large, progress)?;
        Ok(report)
    }

    /// The id of the superior, 0 of a naming context; none when it is not there.
    #[inline]
    fn superior_of(&mut self, entry: &PreparedEntry) -> Option<u64> {
        let Some(above) = entry.above else { return Some(EntryId::ROOT.0) };
        match self.last_superior {
            Some((name, id)) if name == above.superior => Some(id),
            _ => {
                let id = self.names.find(above.superior)?;
                self.last_superior = Some((above.superior, id));
                Some(id)
            }
        }
    }

    fn add_below(
        &mut self,
        superior: u64,
        entry: &PreparedEntry,
        is_last: bool,
    ) -> Result<Added, BulkError> {
        if self.aliases.contains(&superior) {
            let reason = RefusalReason::BelowAlias { parent: superior_name(&entry.dn()) };
            return Ok(Added::Refused(self.refuse(entry, reason)));
        }
        if let Err(there) = self.names.insert(entry.name, entry.id) {
            return self.add_again(superior, entry, there);
        }
        self.loaded += 1;
        if entry.is_alias {
            self.aliases.insert(entry.id);
        }
        if let Some(above) = entry.above {
            let children = self.children.entry(superior).or_default();
            *children += 1;
            if *children == 1 {
                // With the first subordinate it becomes a branch.
                let above_it = above
                    .above_it
                    .map_or(Some(EntryId::ROOT.0), |above_it| self.names.find(above_it));
                let above_it = above_it.expect("what is above a superior is there");
                self.tree.push(BRANCH_LISTS, &above_it.to_be_bytes(), superior);
            }
        } else {
            *self.children.entry(superior).or_default() += 1;
        }
        let Some(target) = &self.target else { return Ok(Added::Loaded) };
        self.tree.push(LEVEL_LISTS, &superior.to_be_bytes(), entry.id);
        self.tree.make_room(entry.id)?;
        let (row_key, is_shortened) = RowKey::name(superior, entry.rdn_key());
        self.name_rows.push(0, row_key.as_bytes(), entry.id);
        self.name_rows.make_room(entry.id)?;
        if is_shortened {
            self.long.insert(entry.id, entry.rdn_key().into());
        }
        let copied = Record::copy_below(entry.row(), superior, &mut self.row);
        copied.expect("a preparer writes whole records");
        if self.row.len() >= LISTED_MIN_BYTES {
            self.large.push(entry.id);
        }
        if is_last {
            self.packing.push(entry.id, &self.row, &mut self.records);
            if self.records.is_full() {
                target.send(self.records.take())?;
            }
        } else {
            self.packing.push_anywhere(entry.id, &self.row, &mut self.other_records);
            self.send_others_when_full()?;
        }
        Ok(Added::Loaded)
    }

    /// Sends records that are not the last ones, behind those that were appended before them: what
    /// is appended must come after all that the table has.
    fn send_others_when_full(&mut self) -> Result<(), StoreError> {
        if let Some(target) = &self.target
            && self.other_records.is_full()
        {
            target.send(self.records.take())?;
            target.send(self.other_records.take())?;
        }
        Ok(())
    }

    /// Of an entry whose name another one has.
    fn add_again(
        &mut self,
        superior: u64,
        entry: &PreparedEntry,
        there: u64,
    ) -> Result<Added, BulkError> {
        let first = match there.checked_sub(self.first_id) {
            Some(number) => self.places.find(number),
            None => self.replaced.get(&there).copied(),
        };
        let is_kept = self.options.held == Held::Keep;
        if first.is_some() || is_kept {
            let reason = RefusalReason::Duplicate { first };
            return Ok(Added::Refused(self.refuse(entry, reason)));
        }
        self.replaced.insert(there, entry.place);
        self.fixes.replace(entry.id, there);
        match entry.is_alias {
            true => self.aliases.insert(there),
            false => self.aliases.remove(&there),
        };
        if self.target.is_none() {
            return Ok(Added::Replaced);
        }
        let copied = Record::copy_below(entry.row(), superior, &mut self.row);
        copied.expect("a preparer writes whole records");
        if self.row.len() >= LISTED_MIN_BYTES {
            self.large.push(there);
        }
        self.packing.push_anywhere(there, &self.row, &mut self.other_records);
        self.send_others_when_full()?;
        Ok(Added::Replaced)
    }

    /// What is refused when its keys were gathered already is left out of them later.
    fn refuse(&mut self, entry: &PreparedEntry, reason: RefusalReason) -> Refusal {
        self.fixes.refuse(entry.id);
        Refusal { place: entry.place, dn: entry.dn(), reason }
    }

    /// How many entries took the place of one that the store held.
    pub(super) fn replaced_count(&self) -> u64 {
        self.replaced.len() as u64
    }

    /// Looks again for the superiors of what waits, until none is found any more.
    pub(super) fn add_waiting(
        &mut self,
        progress: &mut dyn FnMut(Phase, u64, u64) -> ControlFlow<()>,
        refused: &mut dyn FnMut(Refusal) -> ControlFlow<()>,
    ) -> Result<(), BulkError> {
        while let Some(waiting) = self.waiting.take() {
            let (before, mut done) = (waiting.count(), 0);
            let mut left = Waiting::new(&self.place)?;
            waiting.each(|entry| {
                if u64::is_multiple_of(done, PROGRESS_ENTRIES) {
                    stop_if(progress(Phase::Load, done, before))?;
                    self.count_names()?;
                }
                done += 1;
                match self.superior_of(&entry) {
                    None => Ok(left.push(&entry)?),
                    Some(superior) => match self.add_below(superior, &entry, false)? {
                        Added::Refused(refusal) => stop_if(refused(refusal)),
                        Added::Loaded | Added::Replaced | Added::Waiting => Ok(()),
                    },
                }
            })?;
            match left.count() {
                0 => break,
                count if count < before => self.waiting = Some(left),
                _ => left.each(|entry| {
                    let reason = RefusalReason::Orphan { parent: superior_name(&entry.dn()) };
                    stop_if(refused(self.refuse(&entry, reason)))
                })?,
            }
        }
        Ok(())
    }
}

fn stop_if(flow: ControlFlow<()>) -> Result<(), BulkError> {
    if flow.is_break() { Err(BulkError::Stopped) } else { Ok(()) }
}

fn superior_name(dn: &str) -> String {
    let superior = Dn::parse(dn).ok().and_then(|dn| dn.parent());
    superior.map(|dn| dn.to_string()).unwrap_or_default()
}

/// Places of hash tables: key, value, and an octet.
const CHILDREN_PLACE_BYTES: u64 = 17;
const ALIAS_PLACE_BYTES: u64 = 9;
/// A name of the length that is usual for one that is long.
const LONG_PLACE_BYTES: u64 = 25 + 600;
/// With what is noted of it in [`Fixes`].
const REPLACED_PLACE_BYTES: u64 = 25 + 17;

/// Progress is told every so many entries.
const PROGRESS_ENTRIES: u64 = 10_000;

impl Drop for BulkLoader<'_> {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl fmt::Debug for BulkLoader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkLoader").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}
