//! Values that become rows of their own, where an attribute has very many that name no entries.
//!
//! Invariant: of an attribute all values are in the record, or all of them are rows of their own;
//! the record says how many, and the digest has each. They are in indexes as they were.
//! Invariant: whether they become rows depends on the record, the change and the state before it
//! alone. They stay rows until the last of them goes.

use std::sync::Arc;

use ldap::dn::Dn;
use rustc_hash::FxHashMap;
use schema::{AttributeDelta, MatchingRule};

use super::references::{Gathers, LISTED_MIN_BYTES};
use crate::base::digest::RowHash;
use crate::base::lmdb::{ENTRIES, PlainTable, VALUES};
use crate::base::meta;
use crate::error::StoreError;
use crate::index::Index;
use crate::rows::apart;
use crate::rows::key::display;
use crate::rows::record::{Apart, ApartOf, RECORD_LENGTH_MAX_BYTES, Record};
use crate::write::batch::Batch;

/// So many values of an attribute, of [`LISTED_MIN_BYTES`] together, become rows of their own.
const APART_MIN_COUNT: usize = if cfg!(test) { 8 } else { 128 };

/// So many octets the values of an entry may take that are rows of their own: it can be read whole.
const APART_MAX_BYTES: usize = if cfg!(test) { 64 << 10 } else { RECORD_LENGTH_MAX_BYTES };

/// Members of a cluster may have such rows when its change records are of this level: each must
/// make the same of a change.
const APART_LEVEL: u16 = 6;

/// An entry and what it is called after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called<'n> {
    pub(super) id: u64,
    /// As in [`Record::rdn`].
    pub(super) rdn: &'n str,
}

/// What a change of one entry does to rows of values.
#[derive(Debug, Default)]
pub(super) struct ApartEdit {
    /// The entry.
    id: u64,
    /// The rows that change; an empty one goes.
    rows: FxHashMap<Vec<u8>, Vec<u8>>,
    /// What of the digest goes and comes.
    gone: RowHash,
    come: RowHash,
    /// The attributes that are not to be in the record, nor their changes.
    taken: Vec<u32>,
    /// The attributes that were in the record until now, with the rules by which they are kept.
    new: Vec<(u32, &'static MatchingRule)>,
    /// What the record says of all its attributes that have such rows, in the order of their ids.
    pub(super) apart: Vec<ApartOf>,
    /// How many values were moved.
    pub(super) moved: u64,
}

impl ApartEdit {
    /// Whether the values of an attribute are rows, and the record does not have them.
    pub(super) fn takes(&self, attribute: u32) -> bool {
        self.taken.contains(&attribute)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Refuses values that make an entry larger than may be read. One that is larger all the same
    /// may lose values.
    fn check_size(&self, before: Apart<'_>) -> Result<(), StoreError> {
        let octets = |all: &mut dyn Iterator<Item = ApartOf>| {
            all.fold(0_u64, |sum, of| sum.saturating_add(of.octets))
        };
        let after = octets(&mut self.apart.iter().copied());
        if after <= APART_MAX_BYTES as u64 || after <= octets(&mut before.iter()) {
            return Ok(());
        }
        Err(StoreError::TooLarge {
            what: "an entry",
            bytes: usize::try_from(after).unwrap_or(usize::MAX),
            limit_bytes: APART_MAX_BYTES,
        })
    }
}

/// One attribute of an entry, while its values change.
struct Editor<'e, 's> {
    batch: &'e Batch<'s>,
    edit: &'e mut ApartEdit,
    rule: &'static MatchingRule,
    id: u64,
    of: ApartOf,
    /// The entry was not there before.
    is_new: bool,
}

impl Editor<'_, '_> {
    fn row(&mut self, key: Vec<u8>) -> Result<&mut Vec<u8>, StoreError> {
        use std::collections::hash_map::Entry;
        match self.edit.rows.entry(key) {
            Entry::Occupied(row) => Ok(row.into_mut()),
            Entry::Vacant(place) => {
                let row = match self.is_new {
                    true => None,
                    false => self.batch.get(PlainTable::Values, place.key())?,
                };
                Ok(place.insert(row.unwrap_or_default().to_vec()))
            }
        }
    }

    fn key(&self, value: &[u8]) -> Vec<u8> {
        let schema = self.batch.dictionary.schema();
        apart::key(schema, self.rule, &apart::prefix(self.of.attribute, self.id), value)
    }

    fn hash(&self, value: &[u8]) -> RowHash {
        let key = self.batch.digest_key.as_ref();
        key.map_or(RowHash::default(), |key| key.value(self.id, self.of.attribute, value))
    }

    fn add(&mut self, value: &[u8]) -> Result<(), StoreError> {
        let key = self.key(value);
        let row = self.row(key.clone())?;
        if apart::values(row).is_some_and(|there| there.contains(&value)) {
            return Err(StoreError::corrupt(VALUES, display(&key), "is there before it is added"));
        }
        apart::push(row, value);
        self.edit.come = self.edit.come.and(self.hash(value));
        self.of.count += 1;
        self.of.octets += apart::octets(value);
        Ok(())
    }

    /// Whether the value was there.
    fn remove(&mut self, value: &[u8]) -> Result<bool, StoreError> {
        let key = self.key(value);
        let row = self.row(key.clone())?;
        let mut rest = Vec::new();
        let there = apart::values(row).unwrap_or_default();
        let count = there.len();
        let left = there.into_iter().filter(|one| *one != value);
        left.clone().for_each(|one| apart::push(&mut rest, one));
        let is_there = left.count() + 1 == count;
        if !is_there {
            return Ok(false);
        }
        *row = rest;
        self.edit.gone = self.edit.gone.and(self.hash(value));
        self.of.count = self.of.count.saturating_sub(1);
        self.of.octets = self.of.octets.saturating_sub(apart::octets(value));
        Ok(true)
    }

    /// All changes are made.
    fn finish(self) {
        let Self { edit, of, .. } = self;
        edit.apart.retain(|one| one.attribute != of.attribute);
        if of.count > 0 {
            edit.apart.push(of);
            edit.apart.sort_unstable_by_key(|one| one.attribute);
        }
        edit.taken.push(of.attribute);
    }
}

impl Batch<'_> {
    /// What a change of an entry does to rows of values.
    pub(super) fn edit_apart(
        &self,
        entry: Called<'_>,
        record: &Record<'_>,
        deltas: &[AttributeDelta],
        ids: &[u32],
        when: Gathers,
    ) -> Result<ApartEdit, StoreError> {
        let Called { id, rdn } = entry;
        let apart = record.apart.iter().collect();
        let mut edit = ApartEdit { id, apart, ..ApartEdit::default() };
        let mut adds = false;
        for (delta, &attribute) in deltas.iter().zip(ids) {
            let there = record.apart.of(attribute);
            if there.is_none() {
                let added = delta.added.iter().map(Vec::as_slice);
                let octets = octets_of(added.clone());
                // Most records are too small for that, whatever the attribute has of them.
                if record.attribute_octets().len() + octets < LISTED_MIN_BYTES {
                    continue;
                }
                let values = record.values(attribute);
                let octets = values.as_ber().len() + octets;
                let is_asked = when != Gathers::WhenItGrows || !delta.added.is_empty();
                let is_large = is_asked && octets >= LISTED_MIN_BYTES;
                if !is_large || !self.goes_apart(attribute, values.iter().chain(added), rdn)? {
                    continue;
                }
            }
            let Some(rule) = self.rule_apart(attribute) else { continue };
            let of = there.unwrap_or(ApartOf { attribute, count: 0, octets: 0 });
            let batch = self;
            let mut editor = Editor { batch, edit: &mut edit, rule, id, of, is_new: false };
            if there.is_none() {
                for value in record.values(attribute) {
                    editor.add(value)?;
                }
                editor.edit.moved += editor.of.count;
                editor.edit.new.push((attribute, rule));
            }
            for value in &delta.removed {
                if !editor.remove(value)? {
                    let reason =
                        format!("lacks a value of {} that a change removes", delta.description);
                    return Err(StoreError::corrupt(ENTRIES, id, reason));
                }
            }
            for value in &delta.added {
                editor.add(value)?;
            }
            adds |= !delta.added.is_empty();
            editor.finish();
        }
        if adds {
            edit.check_size(record.apart)?;
        }
        Ok(edit)
    }

    /// The rows of values of a new entry.
    pub(super) fn add_apart<'v>(
        &self,
        entry: Called<'_>,
        attributes: impl Iterator<Item = (u32, &'v [Vec<u8>])>,
    ) -> Result<ApartEdit, StoreError> {
        let Called { id, rdn } = entry;
        let mut edit = ApartEdit { id, ..ApartEdit::default() };
        for (attribute, values) in attributes {
            let all = values.iter().map(Vec::as_slice);
            if octets_of(all.clone()) < LISTED_MIN_BYTES || !self.goes_apart(attribute, all, rdn)? {
                continue;
            }
            let Some(rule) = self.rule_apart(attribute) else { continue };
            let of = ApartOf { attribute, count: 0, octets: 0 };
            let batch = self;
            let mut editor = Editor { batch, edit: &mut edit, rule, id, of, is_new: true };
            for value in values {
                editor.add(value)?;
            }
            editor.edit.new.push((attribute, rule));
            editor.finish();
        }
        edit.check_size(Apart::default())?;
        Ok(edit)
    }

    /// The attributes of an entry whose values become rows of their own, with the rules by which
    /// they are kept.
    pub(crate) fn moves_apart(
        &self,
        id: u64,
    ) -> Result<Vec<(u32, &'static MatchingRule)>, StoreError> {
        let mut moves = Vec::new();
        let Some(row) = self.get(PlainTable::Entries, &id.to_be_bytes())? else {
            return Ok(moves);
        };
        let mut buffer = Vec::new();
        let record = Record::read(row, &self.dictionary, &mut buffer)
            .map_err(|reason| StoreError::corrupt(ENTRIES, id, reason))?;
        for (attribute, values) in record.attributes() {
            if values.as_ber().len() >= LISTED_MIN_BYTES
                && self.goes_apart(attribute, values.iter(), record.rdn)?
            {
                moves.extend(self.rule_apart(attribute).map(|rule| (attribute, rule)));
            }
        }
        Ok(moves)
    }

    /// Writes rows of values.
    pub(super) fn put_apart(&mut self, edit: ApartEdit) {
        if edit.is_empty() {
            return;
        }
        let ApartEdit { rows, gone, come, new, .. } = edit;
        for (attribute, rule) in new {
            if Arc::make_mut(&mut self.dictionary).push_apart(attribute, rule) {
                let all = self.dictionary.apart().iter().map(|(one, rule)| (*one, rule.oid));
                let row = meta::apart_row(all);
                self.put(PlainTable::Meta, meta::APART.as_bytes(), Some(&row));
            }
        }
        for (key, row) in rows {
            let row = Some(row.as_slice()).filter(|row| !row.is_empty());
            self.put(PlainTable::Values, &key, row);
        }
        self.digest(gone, come);
    }

    /// Takes the rows of values of an entry away, which is going, and their keys out of indexes.
    pub(super) fn forget_apart(&mut self, id: u64, apart: Apart<'_>) -> Result<(), StoreError> {
        let dictionary = Arc::clone(&self.dictionary);
        for of in apart.iter() {
            let attribute = of.attribute;
            let prefix = apart::prefix(attribute, id);
            let mut from = prefix.to_vec();
            loop {
                let mut some: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
                let (mut octets, mut is_last) = (0, true);
                {
                    let view = self.view();
                    for row in view.rows(PlainTable::Values, &from, &prefix)? {
                        let (key, row) = row?;
                        octets += key.len() + row.len();
                        some.push((key.to_vec(), row.to_vec()));
                        if some.len() >= ROWS_AT_ONCE || octets >= ROWS_AT_ONCE_BYTES {
                            is_last = false;
                            break;
                        }
                    }
                }
                for (key, row) in &some {
                    let values = apart::values(row).ok_or_else(|| {
                        StoreError::corrupt(VALUES, display(key), "has no values")
                    })?;
                    for value in &values {
                        let hash = self.digest_key.as_ref();
                        let hash = hash.map(|key| key.value(id, attribute, value));
                        self.digest(hash.unwrap_or_default(), RowHash::default());
                    }
                    self.index_values(attribute, values.into_iter(), id, false);
                    self.put(PlainTable::Values, key, None);
                }
                match some.pop() {
                    Some((last, _)) if !is_last => {
                        from = last;
                        from.push(0);
                    }
                    Some(_) | None => break,
                }
            }
        }
        debug_assert!(dictionary.attribute_count() == self.dictionary.attribute_count());
        Ok(())
    }

    /// Takes those keys of an index out of `gone` that values have which are rows of their own, of
    /// an attribute that is none of the changed one.
    pub(super) fn keep_apart(
        &self,
        index: &Index,
        changed: u32,
        edit: &ApartEdit,
        removed: &[Vec<u8>],
        gone: &mut std::collections::HashSet<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let schema = self.dictionary.schema();
        let mut scratch = Vec::new();
        for of in edit.apart.iter().filter(|of| of.attribute != changed) {
            let Some(rule) = self.rule_apart(of.attribute) else { continue };
            if !self.dictionary.indexes_of(of.attribute).any(|other| other.id == index.id) {
                continue;
            }
            for value in removed {
                let key = apart::key(schema, rule, &apart::prefix(of.attribute, edit.id), value);
                let row = match edit.rows.get(&key) {
                    Some(row) => Some(row.as_slice()),
                    None => self.get(PlainTable::Values, &key)?,
                };
                let row = row.filter(|row| !row.is_empty());
                if row.is_some_and(|row| apart::find(schema, rule, row, value).is_some()) {
                    index.keys(schema, value, &mut scratch, |key| {
                        gone.remove(key);
                    });
                }
            }
        }
        Ok(())
    }

    /// The rule by which values of an attribute are kept, or are to be.
    fn rule_apart(&self, attribute: u32) -> Option<&'static MatchingRule> {
        let equality = || self.dictionary.description(attribute)?.kind.equality;
        self.dictionary.apart_rule(attribute).or_else(equality)
    }

    /// Whether values that are large enough become rows: there are many, they do not name the entry
    /// that is called `rdn`, and all servers that have these data know such rows.
    fn goes_apart<'v>(
        &self,
        attribute: u32,
        values: impl Iterator<Item = &'v [u8]>,
        rdn: &str,
    ) -> Result<bool, StoreError> {
        let Some(description) = self.dictionary.description(attribute) else { return Ok(false) };
        if !self.dictionary.may_be_apart(attribute)
            || values.take(APART_MIN_COUNT).count() < APART_MIN_COUNT
        {
            return Ok(false);
        }
        // A naming context has its whole name there.
        let Ok(name) = Dn::parse_stored(rdn) else { return Ok(false) };
        let mut avas = name.rdns().first().into_iter().flat_map(|rdn| rdn.avas());
        let schema = self.dictionary.schema();
        let is_naming = avas
            .any(|ava| schema.describe(&ava.attribute).is_ok_and(|named| named == *description));
        Ok(!is_naming && self.is_known_to_all(APART_LEVEL)?)
    }
}

/// The octets of values as a record has them, about.
fn octets_of<'v>(values: impl Iterator<Item = &'v [u8]>) -> usize {
    values.map(|value| value.len() + 2).sum()
}

/// So many rows are held to take values apart.
const ROWS_AT_ONCE: usize = if cfg!(test) { 16 } else { 65_536 };
/// So many octets of them, or a row more.
const ROWS_AT_ONCE_BYTES: usize = if cfg!(test) { 600 } else { 8 << 20 };

#[cfg(test)]
mod tests;
