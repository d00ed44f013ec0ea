//! The parts of a change: what became of the values of an entry, and the key of its name.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use schema::{AttributeDelta, AttributeDescription, DnKey, Entry, EntryId, ModifyChange, RdnKey};

/// What the entry `key` is called below `parent`: its RDN, or its whole name at the top of a
/// naming context.
pub(crate) fn name_key(key: &DnKey, parent: EntryId) -> RdnKey {
    let whole = || RdnKey::of_naming_context(key);
    if parent == EntryId::ROOT { whole() } else { key.leaf().unwrap_or_else(whole) }
}

/// The change of one entry from `before` to `after`.
pub(crate) fn modify_change(id: EntryId, before: &Entry, after: &Entry) -> ModifyChange {
    ModifyChange { id, dn: before.name().clone(), deltas: deltas(before, after) }
}

/// What changes `before` into `after`: values removed and added, attribute by attribute.
pub(crate) fn deltas(before: &Entry, after: &Entry) -> Vec<AttributeDelta> {
    // One is a changed copy of the other: most attributes are where they were.
    let at = |entry: &Entry, place: usize, description: &Arc<AttributeDescription>| {
        let here = entry.attributes().get(place);
        here.is_some_and(|here| Arc::ptr_eq(&here.description, description))
    };
    let mut deltas = Vec::new();
    for (place, old) in before.attributes().iter().enumerate() {
        let new: &[Vec<u8>] = match after.attributes().get(place) {
            Some(new) if Arc::ptr_eq(&new.description, &old.description) => &new.values,
            Some(_) | None => after.values(&old.description),
        };
        push_delta(&mut deltas, &old.description, &old.values, new);
    }
    for (place, new) in after.attributes().iter().enumerate() {
        if !at(before, place, &new.description) && before.get(&new.description).is_none() {
            push_delta(&mut deltas, &new.description, &[], &new.values);
        }
    }
    deltas
}

fn push_delta(
    deltas: &mut Vec<AttributeDelta>,
    description: &Arc<AttributeDescription>,
    old: &[Vec<u8>],
    new: &[Vec<u8>],
) {
    // Values are mostly added behind those that stay.
    let common = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (Some(old), Some(new)) = (old.get(common..), new.get(common..)) else { return };
    let without = |all: &[Vec<u8>], others: &[Vec<u8>]| {
        let others = others.iter().collect::<FxHashSet<_>>();
        all.iter().filter(|value| !others.contains(value)).cloned().collect::<Vec<_>>()
    };
    let removed = without(old, new);
    let added = without(new, old);
    if !removed.is_empty() || !added.is_empty() {
        deltas.push(AttributeDelta { description: Arc::clone(description), removed, added });
    }
}
