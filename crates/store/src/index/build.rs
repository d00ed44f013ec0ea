//! Indexes that come, go, and are built anew while the store is in use.
//!
//! A change of indexes is a change like all others: logged, applied to a layer, flushed. What an
//! index holds is this server's own: it is filled on the base, beside the flusher, in steps. Each
//! step reads some entries of the base in the order of their ids, puts their keys into the lists,
//! and moves the row that says how far it is, in one transaction. When the last entry is in it,
//! the index is called valid, and the one that it takes the place of begins to go.
//!
//! Invariants: a step is made only when the change that brought the index is in the base. Then
//! every layer above the base was made by batches that wrote to the index, and since adding an id
//! that is there and removing one that is not change nothing, an entry's keys are right whether
//! it changes before its step or after. Entries that were added after that change came with all
//! their keys; so there is an end that does not move.
//! Invariants: plans see an index as valid only over a base in which it is: both have the number
//! of the last index that became so ([`Version::index_epoch`]). The rows of an index that goes are
//! removed only when no view that may use it can be taken any more, and no layer is left that
//! writes to it.
//! Invariant: however it ends, the rows of the base tell where to go on.

mod change;
mod keys;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use schema::EntryId;

use self::keys::Keys;
pub(crate) use self::run::build_when_due;
use crate::base::lmdb::{ENTRIES, Environment, VALUES};
use crate::base::meta::{self, Counters};
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::index::{Index, IndexKind, IndexState};
use crate::overlay::flush::ListWriter;
use crate::overlay::version::Version;
use crate::rows::dictionary::{Asked, Dictionary};
use crate::rows::record::{Apart, Record};
use crate::rows::{apart, key};
use crate::store::Store;

/// What a step of the work on indexes did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IndexStep {
    /// Nothing: there is nothing to do.
    Idle,
    /// Nothing: what is to be done is not in the base yet, a flush brings it there.
    AfterFlush,
    /// So many entries were put into indexes.
    Filled(u64),
    /// So many indexes became valid.
    Valid(usize),
    /// So many rows of indexes that go were removed.
    Removed(u64),
}

/// How far each index is in the base, by its id.
type States = BTreeMap<u16, IndexState>;

impl Store {
    /// Whether an index is to be built or to be removed.
    pub(crate) fn has_index_work(&self) -> bool {
        self.versions.with(|version| version.dictionary.has_index_work())
    }

    /// Why the last step of the work on indexes failed; none when it did not. It is tried again.
    #[must_use]
    pub fn index_error(&self) -> Option<String> {
        self.pace.index_error()
    }

    /// Does a piece of the work that there is on indexes: about `entries_max` entries are put into
    /// those that are being built, or so many rows removed of those that go. The threads of
    /// [`Self::start_flusher`] call it, step after step.
    ///
    /// # Errors
    /// When LMDB fails; then nothing of the step happened.
    pub fn index_step(&self, entries_max: u64) -> Result<IndexStep, StoreError> {
        if !self.has_index_work() {
            return Ok(IndexStep::Idle);
        }
        let flushing = self.flushing();
        let version = self.versions.load();
        let Some(base) = states(&version)? else { return Ok(IndexStep::AfterFlush) };
        let dictionary = &version.dictionary;
        let is = |index: &Index, state: fn(&IndexState) -> bool| {
            state(&index.state) && base.get(&index.id).is_some_and(state)
        };
        let going = |state: &IndexState| *state == IndexState::Dropping;
        let mut indexes = dictionary.indexes().iter();
        // First what goes: it makes room for what comes.
        let gone =
            indexes.find(|index| is(index, going) && !self.is_written_to(&version, index.id));
        if let Some(index) = gone {
            let removed = remove_rows(&version.environment, index.id, entries_max.max(1))?;
            drop(flushing);
            return match removed {
                0 => self.forget_index(index.id),
                rows => Ok(IndexStep::Removed(rows)),
            };
        }
        let building = |state: &IndexState| matches!(state, IndexState::Building { .. });
        let coming = dictionary.indexes().iter().filter(|index| is(index, building));
        let place = |index: &&Index| base.get(&index.id).copied().and_then(place);
        let Some(first) = coming.clone().filter_map(|index| place(&index)).min() else {
            return Ok(IndexStep::AfterFlush);
        };
        // Those that are equally far are filled together: reading the entries is most of the work.
        let group: Vec<&Index> = coming.filter(|index| place(index) == Some(first)).collect();
        if first.is_at_end() {
            let ids: Vec<u16> = group.iter().map(|index| index.id).collect();
            drop(flushing);
            return self.make_valid(&ids);
        }
        fill(&version, &group, first, entries_max.max(1)).map(IndexStep::Filled)
    }

    /// Calls indexes valid that are filled to the end; those of the same definitions that were so
    /// begin to go.
    fn make_valid(&self, ids: &[u16]) -> Result<IndexStep, StoreError> {
        // A batch has the dictionary it began with, so there must be none.
        let _both = self.seat_and_flushing();
        let footing = self.versions.footing();
        let version = &footing.version;
        let Some(base) = states(version)? else { return Ok(IndexStep::AfterFlush) };
        let is_building = |dictionary: &Dictionary, id: u16| {
            let index = dictionary.index_with_id(id);
            index.is_some_and(|index| matches!(index.state, IndexState::Building { .. }))
        };
        let is_filled = |id: u16| {
            let place = base.get(&id).copied().and_then(place);
            place.is_some_and(|place| place.is_at_end())
        };
        // What is to go by a change that is not in the base yet is left as it is until then.
        let ids: Vec<u16> = ids
            .iter()
            .copied()
            .filter(|&id| {
                is_filled(id)
                    && is_building(&version.dictionary, id)
                    && is_building(&footing.dictionary, id)
            })
            .collect();
        if ids.is_empty() {
            return Ok(IndexStep::AfterFlush);
        }
        let change = |dictionary: &Dictionary| dictionary.with_valid(&ids);
        // What can fail fails before the base says so.
        let after = change(&version.dictionary)?;
        change(&footing.dictionary)?;
        let environment = &version.environment;
        let table = environment.tables.meta;
        let mut txn = environment.write()?;
        for index in after.indexes() {
            let before = version.dictionary.index_with_id(index.id);
            if before.is_none_or(|before| before.state != index.state) {
                meta::write_state(table, &mut txn, index.id, index.state)?;
            }
        }
        let epoch = version.index_epoch + 1;
        meta::write_index_epoch(table, &mut txn, epoch)?;
        commit(environment, txn)?;
        self.versions.translate(Some(epoch), change)?;
        let last = Lsn(footing.counters.lsn);
        let mut replaced = self.replaced();
        for index in after.indexes().iter().filter(|one| one.state == IndexState::Dropping) {
            replaced.entry(index.id).or_insert(last);
        }
        Ok(IndexStep::Valid(ids.len()))
    }

    /// Forgets an index whose rows are gone; its id is free then.
    fn forget_index(&self, id: u16) -> Result<IndexStep, StoreError> {
        let _both = self.seat_and_flushing();
        let footing = self.versions.footing();
        let change = |dictionary: &Dictionary| dictionary.without_index(id);
        change(&footing.version.dictionary)?;
        change(&footing.dictionary)?;
        let environment = &footing.version.environment;
        let mut txn = environment.write()?;
        meta::remove_index(environment.tables.meta, &mut txn, id)?;
        commit(environment, txn)?;
        self.versions.translate(None, change)?;
        self.replaced().remove(&id);
        Ok(IndexStep::Removed(0))
    }

    /// Whether a layer that is not in the base may write to an index that goes: one that was made
    /// before another index took its place.
    fn is_written_to(&self, version: &Version, id: u16) -> bool {
        let last = self.replaced().get(&id).copied();
        last.is_some_and(|last| version.base.lsn < last)
            && !self.versions.footing().layers.is_empty()
    }
}

/// How far an index is that is being built.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Place {
    upto: u64,
    end: u64,
}

impl Place {
    const fn is_at_end(self) -> bool {
        self.upto.saturating_add(1) >= self.end
    }
}

const fn place(state: IndexState) -> Option<Place> {
    match state {
        IndexState::Building { upto, end } => Some(Place { upto: upto.0, end: end.0 }),
        IndexState::Valid | IndexState::Dropping => None,
    }
}

/// The states of the indexes in the base; none when the base has not come to rest: a flush that
/// was said to have failed is there, and will be made again.
fn states(version: &Version) -> Result<Option<States>, StoreError> {
    let table = version.environment.tables.meta;
    let txn = version.environment.read()?;
    if Counters::read(table, &txn)?.lsn != version.base.lsn.0 {
        return Ok(None);
    }
    let indexes = meta::indexes(table, &txn)?;
    Ok(Some(indexes.into_iter().map(|(row, _)| (row.id, row.state)).collect()))
}

/// Puts the next entries into the lists of `group`, which are all at `place`; returns how many.
fn fill(
    version: &Version,
    group: &[&Index],
    place: Place,
    entries_max: u64,
) -> Result<u64, StoreError> {
    let environment = &version.environment;
    let tables = environment.tables;
    let mut txn = environment.write()?;
    let mut keys = Keys::default();
    let (upto, entries) = gather(version, &txn, group, place, entries_max, &mut keys)?;
    let mut writer = ListWriter::new(tables.postings);
    keys.each_list(|head, changes| writer.change(&mut txn, head, changes))?;
    let state = IndexState::Building { upto: EntryId(upto), end: EntryId(place.end) };
    for index in group {
        meta::write_state(tables.meta, &mut txn, index.id, state)?;
    }
    commit(environment, txn)?;
    Ok(entries)
}

/// Gathers the keys of the next entries; returns the last id that is among them, and how many
/// entries there were.
fn gather(
    version: &Version,
    txn: &heed::RwTxn<'_>,
    group: &[&Index],
    place: Place,
    entries_max: u64,
    keys: &mut Keys,
) -> Result<(u64, u64), StoreError> {
    let (from, to) = ((place.upto + 1).to_be_bytes(), place.end.to_be_bytes());
    let range = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
    let dictionary: &Arc<Dictionary> = &version.dictionary;
    let (mut scratch, mut buffer) = (Vec::new(), Vec::new());
    let mut entries = 0;
    for row in version.environment.tables.entries.range(txn, &range)? {
        let (row_key, row) = row?;
        let damaged =
            |reason: &'static str| StoreError::corrupt(ENTRIES, key::display(row_key), reason);
        let id = key::id(row_key).ok_or_else(|| damaged("is no entry id"))?;
        let record = Record::read(row, dictionary, &mut buffer).map_err(damaged)?;
        for index in group {
            index.entry_keys(dictionary, &record, &mut scratch, |key| keys.push(index.id, key, id));
            if index.kind == IndexKind::Equality && !record.apart.is_empty() {
                gather_apart(version, txn, (index, id), record.apart, keys)?;
            }
        }
        entries += 1;
        if entries >= entries_max || keys.bytes() >= STEP_KEYS_MAX_BYTES {
            return Ok((id, entries));
        }
    }
    Ok((place.end - 1, entries))
}

/// Gathers the keys that an entry has by values which are rows of their own.
fn gather_apart(
    version: &Version,
    txn: &heed::RwTxn<'_>,
    (index, id): (&Index, u64),
    apart: Apart<'_>,
    keys: &mut Keys,
) -> Result<(), StoreError> {
    let (dictionary, mut scratch) = (&version.dictionary, Vec::new());
    let asked = Asked::new(&index.attribute);
    let Some(table) = version.environment.tables.values else { return Ok(()) };
    for of in apart.iter().filter(|of| dictionary.is_covered(of.attribute, &asked)) {
        for row in table.prefix_iter(txn, &apart::prefix(of.attribute, id))? {
            let (row_key, row) = row?;
            let damaged = || StoreError::corrupt(VALUES, key::display(row_key), "has no values");
            for value in apart::values(row).ok_or_else(damaged)? {
                let put = |key: &[u8]| keys.push(index.id, key, id);
                index.keys(dictionary.schema(), value, &mut scratch, put);
            }
        }
    }
    Ok(())
}

/// Removes up to so many rows of an index's lists; returns how many.
fn remove_rows(environment: &Environment, id: u16, rows_max: u64) -> Result<u64, StoreError> {
    let postings = environment.tables.postings;
    let mut txn = environment.write()?;
    let mut keys = Vec::new();
    for row in postings.prefix_iter(&txn, &id.to_be_bytes())? {
        keys.push(row?.0.to_vec());
        if keys.len() as u64 >= rows_max {
            break;
        }
    }
    if keys.is_empty() {
        return Ok(0);
    }
    for key in &keys {
        postings.delete(&mut txn, key)?;
    }
    commit(environment, txn)?;
    Ok(keys.len() as u64)
}

fn commit(environment: &Environment, txn: heed::RwTxn<'_>) -> Result<(), StoreError> {
    #[cfg(test)]
    crate::overlay::flush::fail_if_asked(environment)?;
    txn.commit().map_err(|error| environment.commit_failed(error))
}

/// The keys of one step take at most about so much memory, in bytes.
const STEP_KEYS_MAX_BYTES: usize = 16 << 20;
