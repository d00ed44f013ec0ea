//! Whether a sink is about a change: where its entry is, and what it is like.
//!
//! Invariant: an entry that comes to match, or matches no more, is told by the change that made it
//! so. What it was like in between is not kept, so each change of an attribute that the filter asks
//! about is told, and each deletion, whatever the entry was like.

use schema::{AttributeDelta, Change, DnKey, EntryId, Schema};
use store::{StoreError, View};

use crate::constraint::changed::Changed;
use crate::lines::place::Place;

/// Whether a sink about such entries is about this change.
pub(super) fn is_meant(
    place: &Place,
    change: &Change,
    view: &View<'_>,
    schema: &Schema,
) -> Result<bool, StoreError> {
    let names = match change {
        Change::Add(add) => vec![add.entry.name()],
        Change::Modify(modify) => vec![&modify.dn],
        Change::Rename(rename) => vec![&rename.old_dn, &rename.new_dn],
        Change::Delete(delete) => vec![&delete.dn],
        // Of the whole server, not of an entry.
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => return Ok(false),
    };
    let is_there = names.into_iter().any(|name| {
        place.below.is_none() || DnKey::from_dn(schema, name).is_ok_and(|key| place.holds_at(&key))
    });
    if !is_there || place.filter.is_none() {
        return Ok(is_there);
    }
    match change {
        Change::Add(add) => {
            Ok(place.holds_for(schema, &add.entry) || holds_now(place, add.id, &[], view, schema)?)
        }
        Change::Modify(modify) => holds_now(place, modify.id, &modify.deltas, view, schema),
        Change::Rename(rename) => holds_now(place, rename.id, &rename.deltas, view, schema),
        // It may have matched before changes that were not looked at while it was there.
        Change::Delete(_) => Ok(true),
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => Ok(false),
    }
}

/// Whether the change is of what the filter asks about, or the filter is true of the stored entry
/// as it is, without the change, or with it alone.
/// One that is gone was deleted by a later change, which tells it.
fn holds_now(
    place: &Place,
    id: EntryId,
    deltas: &[AttributeDelta],
    view: &View<'_>,
    schema: &Schema,
) -> Result<bool, StoreError> {
    if touches(place, deltas) {
        return Ok(true);
    }
    let Some(stored) = view.entry(id)? else { return Ok(false) };
    if place.holds_for(schema, &stored) {
        return Ok(true);
    }
    let undone: Vec<AttributeDelta> = deltas.iter().map(inverse).collect();
    let before = Changed { before: &stored, deltas: &undone };
    let behind = Changed { before: &stored, deltas };
    Ok(place.holds_for(schema, &before) || place.holds_for(schema, &behind))
}

/// Whether an attribute changed that the filter asks about.
fn touches(place: &Place, deltas: &[AttributeDelta]) -> bool {
    let mut touches = false;
    if let Some(filter) = &place.filter {
        filter.visit_descriptions(&mut |asked| {
            touches |= deltas.iter().any(|delta| asked.covers(&delta.description));
        });
    }
    touches
}

fn inverse(delta: &AttributeDelta) -> AttributeDelta {
    AttributeDelta {
        description: delta.description.clone(),
        removed: delta.added.clone(),
        added: delta.removed.clone(),
    }
}
