//! Values that name entries, where an attribute has very many: they go into reference lists, by
//! number.
//!
//! Invariants: both lists of a reference change together, and the digest with them. A record says
//! that an attribute has a list as long as that is not empty. Whether a value goes into a list
//! depends on the record, the change and the state before it alone.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use schema::{AttributeDelta, DnKey, EntryId, GatherChange};

use crate::base::digest::RowHash;
use crate::base::lmdb::PlainTable;
use crate::base::meta;
use crate::error::StoreError;
use crate::index::{IndexKind, SOURCE_LISTS, TARGET_LISTS};
use crate::overlay::deltas::PostingChange;
use crate::read::interrupt::NEVER;
use crate::read::view::{ReferenceList, Resolved, View, source_key, target_key};
use crate::rows::record::{Listed, Record};
use crate::write::batch::Batch;

/// Values of an attribute that take so many octets in a record, or twice as many, four times as
/// many and so on, are looked through for names of entries, which then go into a list: some
/// hundred members of a group.
pub const LISTED_MIN_BYTES: usize = if cfg!(test) { 128 } else { 16 << 10 };

/// Members of a cluster may have lists when its change records are of this level: each must make
/// the same of a change.
const LISTED_LEVEL: u16 = 4;

/// One entry comes to or goes from the list of an attribute.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReferenceChange {
    pub(super) attribute: u32,
    pub(super) target: u64,
    pub(super) is_added: bool,
}

/// What of a change of one entry concerns the values in its record, and what the lists.
pub(super) struct Split<'d> {
    pub(super) deltas: Cow<'d, [AttributeDelta]>,
    pub(super) references: Vec<ReferenceChange>,
    /// The attributes that have lists then, in ascending order.
    pub(super) listed: Vec<u32>,
}

/// When the values that a record has are looked through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Gathers {
    /// When a change makes them grow past a step of [`LISTED_MIN_BYTES`].
    WhenItGrows,
    /// In any case.
    Always,
    /// In any case, up to so many.
    UpTo(u64),
}

/// Values of an attribute of a new entry.
pub(super) struct Parted<'v> {
    pub(super) kept: Vec<&'v [u8]>,
    pub(super) targets: Vec<u64>,
}

impl Batch<'_> {
    /// Parts a change of an entry.
    pub(super) fn split<'d>(
        &self,
        id: u64,
        record: &Record<'_>,
        deltas: &'d [AttributeDelta],
        ids: &[u32],
        when: Gathers,
    ) -> Result<Split<'d>, StoreError> {
        let listed: Vec<u32> = record.listed.iter().collect();
        let mut split = Split { deltas: Cow::Borrowed(deltas), references: Vec::new(), listed };
        for (at, (delta, &attribute)) in deltas.iter().zip(ids).enumerate() {
            let is_listed = record.listed.contains(attribute);
            let gathers = when != Gathers::WhenItGrows || self.gathers(record, delta, attribute)?;
            let gathers = gathers.then_some(when);
            if !is_listed && gathers.is_none() {
                continue;
            }
            let before = split.references.len();
            let kept = self.split_one(id, record, attribute, delta, gathers, &mut split)?;
            if let Some(place) = split.deltas.to_mut().get_mut(at) {
                *place = kept;
            }
            let changes = split.references.get(before..).unwrap_or_default();
            let stays = self.stays_listed(id, attribute, changes)?;
            if is_listed != stays {
                split.listed.retain(|one| *one != attribute);
                split.listed.extend(stays.then_some(attribute));
                split.listed.sort_unstable();
            }
        }
        Ok(split)
    }

    /// Has the values of an entry outside of its record that are to be there; returns how many.
    /// Does nothing where there is no such entry.
    pub(crate) fn gather(&mut self, id: u64) -> Result<u64, StoreError> {
        let is_there = self.get(PlainTable::Entries, &id.to_be_bytes())?.is_some();
        if !is_there || !self.is_known_to_all(LISTED_LEVEL)? {
            return Ok(0);
        }
        let mut buffer = Vec::new();
        let record = self.record_of(id, &mut buffer)?;
        let is_large = |(attribute, values): (u32, ldap::message::Values<'_>)| {
            let is_one = values.as_ber().len() >= LISTED_MIN_BYTES
                && (self.dictionary.may_be_listed(attribute)
                    || self.dictionary.may_be_apart(attribute));
            let description = self.dictionary.description(attribute).filter(|_| is_one)?;
            let (removed, added) = (Vec::new(), Vec::new());
            Some(AttributeDelta { description: description.clone(), removed, added })
        };
        let deltas: Vec<AttributeDelta> = record.attributes().filter_map(is_large).collect();
        match deltas.is_empty() {
            true => Ok(0),
            false => self.edit_and_gather(id, None, &deltas, Gathers::Always),
        }
    }

    /// Has some values of an entry in lists, however few they are.
    pub(super) fn gather_some(&mut self, change: &GatherChange) -> Result<(), StoreError> {
        let ids = self.attribute_ids(change.attributes.iter())?;
        let of_names = change.attributes.iter().zip(ids);
        let listed = of_names.filter(|(_, id)| self.dictionary.may_be_listed(*id));
        let deltas: Vec<AttributeDelta> = listed
            .map(|(description, _)| {
                let (removed, added) = (Vec::new(), Vec::new());
                AttributeDelta { description: Arc::clone(description), removed, added }
            })
            .collect();
        let gathers = Gathers::UpTo(change.values_max);
        self.edit_and_gather(change.id.0, None, &deltas, gathers).map(|_| ())
    }

    /// Whether a change makes so many values that those are looked through that are there.
    fn gathers(
        &self,
        record: &Record<'_>,
        delta: &AttributeDelta,
        attribute: u32,
    ) -> Result<bool, StoreError> {
        if delta.added.is_empty() || !self.dictionary.may_be_listed(attribute) {
            return Ok(false);
        }
        let before = record.values(attribute).as_ber().len();
        let after = before + octets(delta.added.iter().map(Vec::as_slice));
        Ok(passes_step(before, after) && self.is_known_to_all(LISTED_LEVEL)?)
    }

    fn split_one(
        &self,
        id: u64,
        record: &Record<'_>,
        attribute: u32,
        delta: &AttributeDelta,
        gathers: Option<Gathers>,
        split: &mut Split<'_>,
    ) -> Result<AttributeDelta, StoreError> {
        let view = self.view();
        let list = ReferenceList::new(&view, id, attribute);
        let mut references = |target, is_added| {
            split.references.push(ReferenceChange { attribute, target, is_added });
        };
        let mut kept = AttributeDelta {
            description: delta.description.clone(),
            removed: Vec::new(),
            added: Vec::new(),
        };
        let (mut gone, mut seen) = (HashSet::new(), HashSet::new());
        let of_record: HashSet<&[u8]> = match delta.removed.is_empty() {
            true => HashSet::new(),
            false => record.values(attribute).iter().collect(),
        };
        for value in &delta.removed {
            // A name that was text before an entry got it is in both.
            let is_text = of_record.contains(value.as_slice());
            let target = self.target(&view, attribute, value)?;
            let is_listed = target.map_or(Ok(false), |target| list.contains(EntryId(target)))?;
            if let Some(target) = target.filter(|target| is_listed && gone.insert(*target)) {
                references(target, false);
            }
            if (is_text || !is_listed) && seen.insert(value.as_slice()) {
                kept.removed.push(value.clone());
            }
        }
        if let Some(when) = gathers {
            let removed: HashSet<&[u8]> = kept.removed.iter().map(Vec::as_slice).collect();
            let mut moved = Vec::new();
            let (looked_at, moved_max) = match when {
                Gathers::WhenItGrows => (LOOKED_AT_MAX, u64::MAX),
                Gathers::Always => (usize::MAX, u64::MAX),
                Gathers::UpTo(most) => (usize::MAX, most),
            };
            let there = record.values(attribute).iter().take(looked_at);
            for value in there.filter(|one| !removed.contains(one)) {
                if moved.len() as u64 >= moved_max {
                    break;
                }
                match self.target(&view, attribute, value)? {
                    Some(target) if !list.contains(EntryId(target))? => {
                        references(target, true);
                        moved.push(value.to_vec());
                    }
                    Some(_) | None => {}
                }
            }
            kept.removed.append(&mut moved);
        }
        for value in &delta.added {
            match self.target(&view, attribute, value)? {
                Some(target) if gone.contains(&target) || !list.contains(EntryId(target))? => {
                    references(target, true);
                }
                Some(_) | None => kept.added.push(value.clone()),
            }
        }
        Ok(kept)
    }

    /// Whether a list has ids after these changes of it.
    fn stays_listed(
        &self,
        id: u64,
        attribute: u32,
        changes: &[ReferenceChange],
    ) -> Result<bool, StoreError> {
        if changes.last().is_some_and(|last| last.is_added) {
            return Ok(true);
        }
        let view = self.view();
        let list = ReferenceList::new(&view, id, attribute);
        let (mut last, mut found) = (EntryId::ROOT, 0);
        while found <= changes.len() {
            let some = list.after(last, changes.len() + 1)?;
            let Some(end) = some.last() else { return Ok(false) };
            (last, found) = (*end, found + some.len());
        }
        Ok(true)
    }

    /// Parts the values of an attribute of a new entry; none where all stay in the record.
    pub(super) fn part<'v>(
        &self,
        attribute: u32,
        values: &'v [Vec<u8>],
    ) -> Result<Option<Parted<'v>>, StoreError> {
        let all = values.iter().map(Vec::as_slice);
        if !self.dictionary.may_be_listed(attribute)
            || !passes_step(0, octets(all.clone()))
            || !self.is_known_to_all(LISTED_LEVEL)?
        {
            return Ok(None);
        }
        let view = self.view();
        let mut parted = Parted { kept: Vec::new(), targets: Vec::new() };
        for value in all {
            match self.target(&view, attribute, value)? {
                Some(target) => parted.targets.push(target),
                None => parted.kept.push(value),
            }
        }
        Ok(Some(parted).filter(|parted| !parted.targets.is_empty()))
    }

    /// The entry that a value names; none where there is none, or the value says more than a name.
    fn target(
        &self,
        view: &View<'_>,
        attribute: u32,
        value: &[u8],
    ) -> Result<Option<u64>, StoreError> {
        let description = self.dictionary.description(attribute);
        let rule = description.and_then(|description| description.kind.equality);
        let mut key = Vec::new();
        let prepare = |rule: &schema::MatchingRule| {
            (rule.prepare)(self.dictionary.schema(), value, &mut key).is_ok()
        };
        if !rule.is_some_and(prepare) {
            return Ok(None);
        }
        Ok(match view.resolve(&DnKey::from_bytes(key))? {
            Resolved::Found(id) => Some(id.0),
            Resolved::Missing { .. } | Resolved::NoContext => None,
        })
    }

    /// Whether all servers that have these data read records of a level.
    pub(super) fn is_known_to_all(&self, wanted: u16) -> Result<bool, StoreError> {
        if self.counters.digest.is_none() {
            return Ok(true);
        }
        let key = meta::setting_key(meta::LEVEL)?;
        let Some(row) = self.get(PlainTable::Meta, key.as_bytes())? else { return Ok(false) };
        let level = meta::record_level(&meta::setting_values(&key, row)?)?;
        Ok(level.is_some_and(|level| level >= wanted))
    }

    /// One entry comes to or goes from the list of an attribute of `source`.
    pub(super) fn refer(&mut self, source: u64, change: ReferenceChange) {
        let ReferenceChange { attribute, target, is_added } = change;
        if is_added && !self.dictionary.listed().contains(&attribute) {
            let dictionary = Arc::make_mut(&mut self.dictionary);
            dictionary.push_listed(attribute);
            let row = meta::listed_row(dictionary.listed());
            self.put(PlainTable::Meta, meta::LISTED.as_bytes(), Some(&row));
        }
        let (to, of) = (target_key(source, attribute), source_key(attribute, target));
        self.memory.push(TARGET_LISTS, &to, PostingChange::new(target, is_added));
        self.memory.push(SOURCE_LISTS, &of, PostingChange::new(source, is_added));
        let hash = self.digest_key.as_ref().map(|key| key.reference(source, attribute, target));
        match (hash, is_added) {
            (Some(hash), true) => self.digest(RowHash::default(), hash),
            (Some(hash), false) => self.digest(hash, RowHash::default()),
            (None, _) => {}
        }
    }

    /// Nobody names an entry in a list any more: it is going.
    pub(super) fn forget_target(&mut self, target: u64) -> Result<(), StoreError> {
        for attribute in self.dictionary.listed().to_vec() {
            let sources: Vec<u64> = {
                let view = self.view();
                match view.sources(attribute, EntryId(target))? {
                    Some(list) => view.load(&list, NEVER)?.iter_after(0).collect(),
                    None => continue,
                }
            };
            for source in sources {
                let change = ReferenceChange { attribute, target, is_added: false };
                let stays = self.stays_listed(source, attribute, &[change])?;
                self.refer(source, change);
                if !stays {
                    self.unlist(source, attribute)?;
                }
            }
        }
        Ok(())
    }

    /// The lists of an entry that is going.
    pub(super) fn forget_source(
        &mut self,
        source: u64,
        listed: Listed<'_>,
    ) -> Result<(), StoreError> {
        for attribute in listed.iter() {
            let mut last = EntryId::ROOT;
            loop {
                let targets = {
                    let view = self.view();
                    ReferenceList::new(&view, source, attribute).after(last, TARGETS_AT_ONCE)?
                };
                for target in &targets {
                    let target = target.0;
                    self.refer(source, ReferenceChange { attribute, target, is_added: false });
                }
                match targets.last() {
                    Some(target) => last = *target,
                    None => break,
                }
            }
            self.index_presence(attribute, source, false);
        }
        Ok(())
    }

    /// An attribute that has values in a list comes into the indexes of presence, or goes.
    pub(super) fn index_presence(&mut self, attribute: u32, id: u64, is_added: bool) {
        let change = PostingChange::new(id, is_added);
        let dictionary = Arc::clone(&self.dictionary);
        let of_presence = |index: &&crate::index::Index| index.kind == IndexKind::Presence;
        for index in dictionary.indexes_of(attribute).filter(of_presence) {
            self.memory.push(index.id, &[], change);
        }
    }

    /// The indexes of presence that values in lists have to do with, by what the new record says.
    pub(super) fn settle_presence(
        &self,
        attributes: &[u32],
        new: &Record<'_>,
        changes: &mut Vec<(u16, Vec<u8>, bool)>,
    ) {
        for attribute in attributes {
            for index in self.dictionary.indexes_of(*attribute) {
                if index.kind != IndexKind::Presence {
                    continue;
                }
                let feeds =
                    |one: u32| self.dictionary.indexes_of(one).any(|other| other.id == index.id);
                let apart = new.apart.iter().map(|of| of.attribute);
                let inside = new.attributes().map(|(one, _)| one);
                let mut there = inside.chain(new.listed.iter()).chain(apart);
                changes.retain(|(changed, ..)| *changed != index.id);
                changes.push((index.id, Vec::new(), there.any(feeds)));
            }
        }
    }
}

/// The octets of values as a record has them, about.
fn octets<'v>(values: impl Iterator<Item = &'v [u8]>) -> usize {
    values.map(|value| value.len() + 2).sum()
}

/// Whether octets grow past one of the steps of [`LISTED_MIN_BYTES`].
const fn passes_step(before: usize, after: usize) -> bool {
    let (before, after) = (before / LISTED_MIN_BYTES, after / LISTED_MIN_BYTES);
    after > before && before.leading_zeros() != after.leading_zeros()
}

/// So many values of a record are looked through for one change: it is made while others wait.
const LOOKED_AT_MAX: usize = 100_000;
/// So many ids are held to take a list apart.
const TARGETS_AT_ONCE: usize = 4096;

#[cfg(test)]
mod tests;
