//! Before an entry is deleted, the reference lists that name it let it go: a change of the entry
//! that has the list, in the same record and before the deletion, so that readers of changes learn
//! of it as they do of small groups, and can undo it.
//!
//! Invariant: it leaves the lists as the deletion would: what is not told, because it is too much,
//! goes with the deletion all the same.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::sync::Arc;

use aci::Permitted;
use ldap::dn::Dn;
use rustc_hash::FxHashSet;
use schema::{
    AttributeDelta, AttributeDescription, Change, DeleteChange, EntryId, EntryRead as _,
    ModifyChange, Schema,
};
use store::{StoreError, View};

use crate::write::stamp::{self, Stamp};

/// What goes before these changes, on the state that they find.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn go_before(
    view: &View<'_>,
    schema: &Schema,
    stamp: &Stamp,
    changes: &[Permitted<Change>],
) -> Result<Vec<Permitted<Change>>, StoreError> {
    let doomed: FxHashSet<EntryId> = deletions(changes).map(|one| one.id).collect();
    // What names the entry elsewhere follows in the same record, which is not to become too long.
    let octets = deletions(changes).flat_map(|one| &one.attributes);
    let octets = octets.flat_map(|one| &one.values).map(Vec::len).sum();
    let mut ends = Ends { view, schema, stamp, told: BTreeMap::new(), values: 0, octets };
    for deletion in deletions(changes).take_while(|_| octets < TOLD_MAX_OCTETS) {
        let name = deletion.dn.to_string();
        let most = TOLD_MAX_VALUES.saturating_sub(ends.values);
        for (attribute, holder) in view.listed_sources(deletion.id, most)? {
            // With a holder that goes, too, its lists go.
            if !doomed.contains(&holder) && !ends.put(holder, &attribute, &name)? {
                return Ok(ends.permitted());
            }
        }
    }
    Ok(ends.permitted())
}

fn deletions(changes: &[Permitted<Change>]) -> impl Iterator<Item = &DeleteChange> {
    changes.iter().filter_map(|change| change.get().as_delete())
}

/// What ends in entries that have lists.
struct Ends<'a> {
    view: &'a View<'a>,
    schema: &'a Schema,
    stamp: &'a Stamp,
    told: BTreeMap<EntryId, ModifyChange>,
    values: usize,
    octets: usize,
}

impl Ends<'_> {
    /// Has an entry lose a value; false when no more fits.
    fn put(
        &mut self,
        holder: EntryId,
        attribute: &Arc<AttributeDescription>,
        name: &str,
    ) -> Result<bool, StoreError> {
        let change = match self.told.entry(holder) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let Some(entry) = self.view.entry(holder)? else { return Ok(true) };
                let Ok(dn) = Dn::parse_stored(entry.dn()) else { return Ok(true) };
                let deltas = stamp::of_what_follows(&entry, self.schema, self.stamp);
                let values = deltas.iter().flat_map(|one| one.removed.iter().chain(&one.added));
                let stamps: usize = values.map(Vec::len).sum();
                self.octets += entry.dn().len() + stamps + HOLDER_OCTETS;
                slot.insert(ModifyChange { id: holder, dn, deltas })
            }
        };
        remove(change, attribute, name.as_bytes());
        self.octets += name.len();
        self.values += 1;
        Ok(self.octets < TOLD_MAX_OCTETS && self.values < TOLD_MAX_VALUES)
    }

    fn permitted(self) -> Vec<Permitted<Change>> {
        let all = self.told.into_values();
        all.map(|change| Permitted::internal(Change::Modify(change))).collect()
    }
}

/// Has an entry lose a value.
fn remove(change: &mut ModifyChange, attribute: &Arc<AttributeDescription>, name: &[u8]) {
    match change.deltas.iter_mut().find(|delta| delta.description == *attribute) {
        Some(delta) => delta.removed.push(name.to_vec()),
        None => {
            let (removed, added) = (vec![name.to_vec()], Vec::new());
            let description = Arc::clone(attribute);
            change.deltas.insert(0, AttributeDelta { description, removed, added });
        }
    }
}

/// So many values that go from lists a record tells of; others go untold.
const TOLD_MAX_VALUES: usize = 10_000;
/// So many octets these may take in a record, about, together with what was deleted: with what
/// follows, of which there are 12 MiB at the most, that fits into a record.
const TOLD_MAX_OCTETS: usize = 3 << 20;
/// What a change of an entry takes beside its name and its stamps, about.
const HOLDER_OCTETS: usize = 200;
