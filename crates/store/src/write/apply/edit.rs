//! Changing values of one entry, and what follows for the indexes.

use std::collections::{BTreeSet, HashSet};

use schema::AttributeDelta;

use crate::base::digest::RowHash;
use crate::base::lmdb::{ENTRIES, PlainTable};
use crate::error::StoreError;
use crate::index::{Index, IndexKind};
use crate::overlay::deltas::PostingChange;
use crate::rows::record::{ApartOf, Outside, Record, RecordWriter};
use crate::write::apply::apart::{ApartEdit, Called};
use crate::write::apply::references::{Gathers, Split};
use crate::write::batch::Batch;

impl Batch<'_> {
    /// Rewrites a record: another parent and name if given, and other values.
    pub(super) fn edit(
        &mut self,
        id: u64,
        name: Option<(u64, &str)>,
        deltas: &[AttributeDelta],
    ) -> Result<(), StoreError> {
        self.edit_and_gather(id, name, deltas, Gathers::WhenItGrows).map(|_| ())
    }

    /// As [`Self::edit`]; returns how many references came to lists or went, and how many values
    /// became rows of their own.
    pub(super) fn edit_and_gather(
        &mut self,
        id: u64,
        name: Option<(u64, &str)>,
        deltas: &[AttributeDelta],
        gathers: Gathers,
    ) -> Result<u64, StoreError> {
        let ids = self.attribute_ids(deltas.iter().map(|delta| &delta.description))?;
        let mut row = std::mem::take(&mut self.row);
        let mut buffer = Vec::new();
        let record = self.record_of(id, &mut buffer)?;
        let before = self.hash_of(id, &record);
        let split = self.split(id, &record, deltas, &ids, gathers)?;
        let Split { deltas, references, listed } = split;
        let (parent, rdn) = name.unwrap_or((record.parent, record.rdn));
        let edit = self.edit_apart(Called { id, rdn }, &record, &deltas, &ids, gathers)?;
        let outside = Outside { listed: &listed, apart: &edit.apart };
        let mut writer = RecordWriter::begin_outside(parent, rdn, outside, &mut row);
        let mut met = Vec::with_capacity(deltas.len());
        for (attribute, values) in record.attributes() {
            if edit.takes(attribute) {
                continue;
            }
            let delta = ids.iter().position(|&id| id == attribute).and_then(|at| deltas.get(at));
            let Some(delta) = delta else {
                writer.copy(attribute, values);
                continue;
            };
            met.push(attribute);
            let mut gone = Gone::new(&delta.removed);
            let kept = values.iter().filter(|value| !gone.take(value));
            writer.attribute(attribute, kept.chain(delta.added.iter().map(Vec::as_slice)));
            if !gone.is_complete() {
                return Err(StoreError::corrupt(ENTRIES, id, missing_value(delta)));
            }
        }
        for (delta, &attribute) in deltas.iter().zip(&ids) {
            if !met.contains(&attribute) && !edit.takes(attribute) {
                if !delta.removed.is_empty() {
                    return Err(StoreError::corrupt(ENTRIES, id, missing_value(delta)));
                }
                writer.attribute(attribute, delta.added.iter().map(Vec::as_slice));
            }
        }
        writer.finish()?;
        let mut changes = self.index_changes(&row, &deltas, &ids, &edit)?;
        self.entry_changes(&record, &row, &deltas, &mut changes)?;
        let has_apart = !edit.is_empty() || !edit.apart.is_empty();
        if !references.is_empty() || !record.listed.is_empty() || has_apart {
            let new = Record::parse(&row, self.dictionary.len());
            let new = new.map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
            self.settle_presence(&ids, &new, &mut changes);
        }
        for (index, value, is_added) in changes {
            self.memory.push(index, &value, PostingChange::new(id, is_added));
        }
        self.put(PlainTable::Entries, &id.to_be_bytes(), Some(&row));
        let after = self.hash_of_row(id, &row)?;
        self.digest(before, after);
        self.row = row;
        let count = references.len() as u64 + edit.moved;
        for change in references {
            self.refer(id, change);
        }
        self.put_apart(edit);
        Ok(count)
    }

    /// An attribute of an entry has no list any more.
    pub(super) fn unlist(&mut self, id: u64, attribute: u32) -> Result<(), StoreError> {
        let mut row = std::mem::take(&mut self.row);
        let mut buffer = Vec::new();
        let record = self.record_of(id, &mut buffer)?;
        let left: Vec<u32> = record.listed.iter().filter(|one| *one != attribute).collect();
        let apart: Vec<ApartOf> = record.apart.iter().collect();
        let outside = Outside { listed: &left, apart: &apart };
        let mut writer = RecordWriter::begin_outside(record.parent, record.rdn, outside, &mut row);
        record.attributes().for_each(|(attribute, values)| writer.copy(attribute, values));
        writer.finish()?;
        let new = Record::parse(&row, self.dictionary.len());
        let new = new.map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
        let mut changes = Vec::new();
        self.settle_presence(&[attribute], &new, &mut changes);
        for (index, value, is_added) in changes {
            self.memory.push(index, &value, PostingChange::new(id, is_added));
        }
        self.put(PlainTable::Entries, &id.to_be_bytes(), Some(&row));
        self.row = row;
        Ok(())
    }

    /// The keys that a record loses and gains by these deltas.
    fn index_changes(
        &self,
        row: &[u8],
        deltas: &[AttributeDelta],
        ids: &[u32],
        edit: &ApartEdit,
    ) -> Result<Vec<(u16, Vec<u8>, bool)>, StoreError> {
        let new = Record::parse(row, self.dictionary.len());
        let new = new.map_err(|reason| StoreError::corrupt(ENTRIES, "of a change", reason))?;
        let mut scratch = Vec::new();
        let mut changes = Vec::new();
        let schema = self.dictionary.schema();
        for (delta, &attribute) in deltas.iter().zip(ids) {
            for index in self.dictionary.indexes_of(attribute) {
                let mut gone: HashSet<Vec<u8>> = HashSet::new();
                for value in &delta.removed {
                    index.keys(schema, value, &mut scratch, |key| {
                        gone.insert(key.to_vec());
                    });
                }
                if !gone.is_empty() {
                    self.keep_others(index, &new, attribute, delta, &mut gone);
                    self.keep_apart(index, attribute, edit, &delta.removed, &mut gone)?;
                    changes.extend(gone.into_iter().map(|key| (index.id, key, false)));
                }
                for value in first_or_all(index, &delta.added) {
                    index.keys(schema, value, &mut scratch, |key| {
                        changes.push((index.id, key.to_vec(), true));
                    });
                }
            }
        }
        Ok(changes)
    }

    /// The keys that a record loses and gains in indexes that are made of whole entries.
    fn entry_changes(
        &self,
        before: &Record<'_>,
        after: &[u8],
        deltas: &[AttributeDelta],
        changes: &mut Vec<(u16, Vec<u8>, bool)>,
    ) -> Result<(), StoreError> {
        let dictionary = &self.dictionary;
        let mut scratch = Vec::new();
        for index in dictionary.indexes_of_entries() {
            if !deltas.iter().any(|delta| index.depends_on(&delta.description)) {
                continue;
            }
            let after = Record::parse(after, dictionary.len());
            let after = after.map_err(|reason| StoreError::corrupt(ENTRIES, "of a change", reason));
            let mut keys = |record: &Record<'_>| {
                let mut keys = BTreeSet::new();
                index.entry_keys(dictionary, record, &mut scratch, |key| {
                    keys.insert(key.to_vec());
                });
                keys
            };
            let (gone, come) = (keys(before), keys(&after?));
            changes.extend(gone.difference(&come).map(|key| (index.id, key.clone(), false)));
            changes.extend(come.difference(&gone).map(|key| (index.id, key.clone(), true)));
        }
        Ok(())
    }

    /// Takes the keys out of `gone` that other values of the new record have.
    fn keep_others(
        &self,
        index: &Index,
        new: &Record<'_>,
        changed: u32,
        delta: &AttributeDelta,
        gone: &mut HashSet<Vec<u8>>,
    ) {
        let schema = self.dictionary.schema();
        let mut scratch = Vec::new();
        // Values of one attribute have different keys by its own rule: large groups are not walked.
        let is_distinct =
            index.kind == IndexKind::Equality && delta.description.kind.equality == index.rule;
        for value in delta.added.iter().filter(|_| is_distinct) {
            index.keys(schema, value, &mut scratch, |key| {
                gone.remove(key);
            });
        }
        for (attribute, values) in new.attributes() {
            if (attribute == changed && is_distinct)
                || !self.dictionary.indexes_of(attribute).any(|other| other.id == index.id)
            {
                continue;
            }
            for value in values {
                index.keys(schema, value, &mut scratch, |key| {
                    gone.remove(key);
                });
                if gone.is_empty() {
                    return;
                }
            }
        }
    }

    /// Takes an entry out of every index, and out of the digest.
    pub(super) fn unindex(&mut self, id: u64) -> Result<(), StoreError> {
        let dictionary = std::sync::Arc::clone(&self.dictionary);
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        row.extend_from_slice(
            self.get(PlainTable::Entries, &id.to_be_bytes())?.unwrap_or_default(),
        );
        let mut buffer = Vec::new();
        let record = Record::read(&row, &dictionary, &mut buffer)
            .map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
        let gone = self.hash_of(id, &record);
        self.digest(gone, RowHash::default());
        self.forget_source(id, record.listed)?;
        self.forget_apart(id, record.apart)?;
        let change = PostingChange::new(id, false);
        for (attribute, values) in record.attributes() {
            for index in dictionary.indexes_of(attribute) {
                for value in values {
                    index.keys(dictionary.schema(), value, &mut self.scratch, |key| {
                        self.memory.push(index.id, key, change);
                    });
                }
            }
        }
        self.index_entry(&row, id, false)?;
        self.row = row;
        Ok(())
    }

    /// Puts a record into the indexes that are made of whole entries, or takes it out.
    pub(super) fn index_entry(
        &mut self,
        row: &[u8],
        id: u64,
        is_added: bool,
    ) -> Result<(), StoreError> {
        let dictionary = std::sync::Arc::clone(&self.dictionary);
        if dictionary.indexes_of_entries().next().is_none() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        let record = Record::read(row, &dictionary, &mut buffer)
            .map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
        for index in dictionary.indexes_of_entries() {
            let change = PostingChange::new(id, is_added);
            index.entry_keys(&dictionary, &record, &mut self.scratch, |key| {
                self.memory.push(index.id, key, change);
            });
        }
        Ok(())
    }

    /// Puts values of one attribute into its indexes.
    pub(super) fn index_values<'v>(
        &mut self,
        attribute: u32,
        values: impl Iterator<Item = &'v [u8]> + Clone,
        id: u64,
        is_added: bool,
    ) {
        let dictionary = std::sync::Arc::clone(&self.dictionary);
        let change = PostingChange::new(id, is_added);
        for index in dictionary.indexes_of(attribute) {
            let count = if index.kind == IndexKind::Presence { 1 } else { usize::MAX };
            for value in values.clone().take(count) {
                index.keys(dictionary.schema(), value, &mut self.scratch, |key| {
                    self.memory.push(index.id, key, change);
                });
            }
        }
    }
}

/// Presence is the same for each value.
fn first_or_all<'v>(index: &Index, values: &'v [Vec<u8>]) -> &'v [Vec<u8>] {
    match (index.kind, values) {
        (IndexKind::Presence, [first, ..]) => std::slice::from_ref(first),
        (_, all) => all,
    }
}

fn missing_value(delta: &AttributeDelta) -> String {
    format!("lacks a value of {} that a change removes", delta.description)
}

/// Values that are to go, each once.
struct Gone<'d> {
    few: Vec<&'d [u8]>,
    many: HashSet<&'d [u8]>,
}

/// Up to this many values are looked for one by one.
const GONE_FEW_MAX: usize = 8;

impl<'d> Gone<'d> {
    fn new(removed: &'d [Vec<u8>]) -> Self {
        let values = removed.iter().map(Vec::as_slice);
        if removed.len() <= GONE_FEW_MAX {
            Self { few: values.collect(), many: HashSet::new() }
        } else {
            Self { few: Vec::new(), many: values.collect() }
        }
    }

    fn take(&mut self, value: &[u8]) -> bool {
        if let Some(at) = self.few.iter().position(|gone| *gone == value) {
            self.few.swap_remove(at);
            return true;
        }
        self.many.remove(value)
    }

    fn is_complete(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }
}
