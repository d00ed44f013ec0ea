//! What one thread knows of the groups of one version of the directory: whoever asks next is likely
//! to ask about the same ones.
//!
//! Invariant: it holds for that version alone, and tells nothing of who may see what.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use schema::{EntryId, Schema};
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
/// Groups above one that it knows, at the most.
const ABOVE_KNOWN_MAX: usize = 64;
