//! What one thread knows of the groups of one version of the directory: whoever asks next is likely
//! to ask about the same ones.
//!
//! Invariant: it holds for that version alone, and tells nothing of who may see what.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use schema::{DnKey, EntryId, RdnKey, Schema};
use store::{Mark, View};

use super::lookup::Group;

/// What is known.
#[derive(Default)]
pub(crate) struct KnownGroups {
    of: Cell<Option<(u64, u64, u64)>>,
    /// Of entries that have members: the group, if it is one.
    entries: RefCell<FxHashMap<EntryId, Option<Arc<Group>>>>,
    /// Of groups: those that name them.
    above: RefCell<FxHashMap<EntryId, Arc<[Arc<Group>]>>>,
    /// Of classes of groups: there is none.
    absent: RefCell<Vec<&'static str>>,
    /// The names of superiors of entries.
    superiors: RefCell<FxHashMap<EntryId, DnKey>>,
    /// Whether entries may have each of the attributes that name members.
    may_name: Cell<[Option<bool>; 2]>,
}

impl KnownGroups {
    /// From here on it is about this view.
    pub(crate) fn turn_to(&self, view: &View<'_>, schema: &Schema) {
        let Mark { lsn, hash, .. } = view.mark();
        // A schema is in force a moment after it is visible.
        let of = Some((lsn.0, hash, schema.generation()));
        if self.of.replace(of) != of {
            self.entries.borrow_mut().clear();
            self.above.borrow_mut().clear();
            self.absent.borrow_mut().clear();
            self.superiors.borrow_mut().clear();
            self.may_name.set([None; 2]);
        }
    }

    pub(super) fn entry(&self, id: EntryId) -> Option<Option<Arc<Group>>> {
        self.entries.borrow().get(&id).cloned()
    }

    pub(super) fn put_entry(&self, id: EntryId, group: &Option<Arc<Group>>) {
        let mut entries = self.entries.borrow_mut();
        if entries.len() < GROUPS_KNOWN_MAX {
            entries.insert(id, group.clone());
        }
    }

    pub(super) fn above(&self, group: EntryId) -> Option<Arc<[Arc<Group>]>> {
        self.above.borrow().get(&group).cloned()
    }

    pub(super) fn put_above(&self, group: EntryId, above: &[Arc<Group>]) {
        let mut all = self.above.borrow_mut();
        if all.len() < GROUPS_KNOWN_MAX && above.len() <= ABOVE_KNOWN_MAX {
            all.insert(group, above.into());
        }
    }

    /// The name of an entry: that of its superior, likely to be that of others, and its own
    /// part.
    pub(super) fn name(
        &self,
        superior: EntryId,
        rdn: &RdnKey,
        find: impl FnOnce() -> Option<DnKey>,
    ) -> Option<DnKey> {
        let mut superiors = self.superiors.borrow_mut();
        if superiors.len() >= SUPERIORS_KNOWN_MAX {
            superiors.clear();
        }
        let above = match superiors.entry(superior) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(free) => free.insert(find()?),
        };
        let mut key = above.clone();
        key.push(rdn);
        Some(key)
    }

    /// Whether entries may have the attribute with this number.
    pub(super) fn may_name(&self, number: usize, find: impl FnOnce() -> bool) -> bool {
        let mut all = self.may_name.get();
        let Some(known) = all.get_mut(number) else { return true };
        let found = *known.get_or_insert_with(find);
        self.may_name.set(all);
        found
    }

    /// Whether a view is known to have no groups of a class.
    pub(crate) fn has_none(&self, view: &View<'_>, schema: &Schema, class: &str) -> bool {
        self.turn_to(view, schema);
        self.is_absent(class)
    }

    pub(super) fn is_absent(&self, class: &str) -> bool {
        self.absent.borrow().contains(&class)
    }

    /// There are no groups of a class in the view that it was turned to.
    pub(crate) fn put_absent(&self, class: &'static str) {
        let mut absent = self.absent.borrow_mut();
        if !absent.contains(&class) {
            absent.push(class);
        }
    }
}

/// Groups that a thread knows, at the most: some hundred octets each.
const GROUPS_KNOWN_MAX: usize = 16_384;
/// Names of superiors that it knows, at the most.
const SUPERIORS_KNOWN_MAX: usize = 256;
/// Groups above one that it knows, at the most.
const ABOVE_KNOWN_MAX: usize = 64;
