//! Where some records change an entry, so that what it was before a change is found without going
//! through the changes of all others.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use schema::{AttributeDelta, Change, EntryId};

use crate::read::streams::Told;

/// The place of a change: its record, and the change in it.
type Place = (usize, usize);

/// The places of changes by the entries that they change.
#[derive(Default)]
pub(super) struct Touched {
    /// Those that have deltas, in order.
    changed: FxHashMap<EntryId, Vec<Place>>,
    /// There is one of an entry at the most: numbers are not given again.
    deleted: FxHashMap<EntryId, Place>,
}

impl Touched {
    /// Those of these records.
    pub(super) fn of(all: &[Arc<Told>]) -> Self {
        let mut touched = Self::default();
        for (record, told) in all.iter().enumerate() {
            for (place, change) in told.record.changes.iter().enumerate() {
                if let Some((id, _)) = deltas(change) {
                    touched.changed.entry(id).or_default().push((record, place));
                } else if let Some(delete) = change.as_delete() {
                    touched.deleted.insert(delete.id, (record, place));
                }
            }
        }
        touched
    }

    /// What is done to an entry from a place on, in the records that this was made of.
    pub(super) fn from<'b>(
        &self,
        all: &'b [Arc<Told>],
        id: EntryId,
        first: Place,
    ) -> Vec<&'b [AttributeDelta]> {
        let places = self.changed.get(&id).map(Vec::as_slice).unwrap_or_default();
        let begin = places.partition_point(|place| *place < first);
        let behind = places.get(begin..).unwrap_or_default().iter();
        let change = |&(record, place): &Place| {
            deltas(all.get(record)?.record.changes.get(place)?).map(|(_, deltas)| deltas)
        };
        behind.filter_map(change).collect()
    }

    /// Where an entry is deleted.
    pub(super) fn deletion(&self, id: EntryId) -> Option<Place> {
        self.deleted.get(&id).copied()
    }
}

fn deltas(change: &Change) -> Option<(EntryId, &[AttributeDelta])> {
    match change {
        Change::Modify(modify) => Some((modify.id, &modify.deltas)),
        Change::Rename(rename) => Some((rename.id, &rename.deltas)),
        Change::Add(_)
        | Change::Delete(_)
        | Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => None,
    }
}
