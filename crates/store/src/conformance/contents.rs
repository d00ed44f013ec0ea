//! What a directory holds, in the simplest form: the reference that views are compared with.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use ldap::dn::Dn;
use schema::{Change, DnKey, Entry, EntryId, RdnKey, ResolvedFilter, Schema, Truth};

use super::filters;

/// Entries by id, with their superiors.
#[derive(Debug, Default)]
pub struct Contents {
    entries: BTreeMap<EntryId, Item>,
    /// With their whole names, once asked for.
    whole: OnceLock<Vec<(EntryId, Entry)>>,
    /// Which entries match each of the suite's filters, once asked for.
    matches: OnceLock<Vec<Vec<EntryId>>>,
}

#[derive(Clone, Debug)]
struct Item {
    parent: EntryId,
    /// The key of its name below its superior.
    key: RdnKey,
    entry: Entry,
}

impl Clone for Contents {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), ..Self::default() }
    }
}

impl Contents {
    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The ids of all entries, in order.
    #[must_use]
    pub fn ids(&self) -> Vec<EntryId> {
        self.entries.keys().copied().collect()
    }

    /// The name of an entry.
    #[must_use]
    pub fn dn(&self, id: EntryId) -> Dn {
        match self.entries.get(&id) {
            None => Dn::root(),
            Some(item) if item.parent == EntryId::ROOT => item.entry.name().clone(),
            Some(item) => {
                let leaf = item.entry.name().rdns().first().cloned();
                self.dn(item.parent).child(leaf.expect("an entry has a name"))
            }
        }
    }

    /// The key of an entry's name.
    #[must_use]
    pub fn key(&self, id: EntryId) -> DnKey {
        match self.entries.get(&id) {
            Some(item) if item.parent != EntryId::ROOT => {
                let mut key = self.key(item.parent);
                key.push(&item.key);
                key
            }
            Some(_) | None => {
                DnKey::from_dn(&Schema::builtin(), &self.dn(id)).expect("names are valid")
            }
        }
    }

    /// The entry with this name.
    #[must_use]
    pub fn find(&self, name: &DnKey) -> Option<EntryId> {
        let top = self.children(EntryId::ROOT).into_iter().find(|id| self.key(*id) == *name);
        top.or_else(|| {
            let parent = self.find(&name.parent()?)?;
            let leaf = name.leaf()?;
            let is_it = |id: &EntryId| self.entries.get(id).is_some_and(|item| item.key == leaf);
            self.children(parent).into_iter().find(is_it)
        })
    }

    /// All entries with their whole names.
    pub fn whole(&self) -> &[(EntryId, Entry)] {
        self.whole.get_or_init(|| {
            let named = |id: EntryId, item: &Item| {
                let mut entry = item.entry.clone();
                entry.rename(self.dn(id));
                (id, entry)
            };
            self.entries.iter().map(|(id, item)| named(*id, item)).collect()
        })
    }

    /// The superior of an entry.
    #[must_use]
    pub fn parent(&self, id: EntryId) -> Option<EntryId> {
        self.entries.get(&id).map(|item| item.parent)
    }

    /// The superior of an entry, and the entry with its whole name.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<(EntryId, Entry)> {
        let parent = self.parent(id)?;
        let whole = self.whole();
        let at = whole.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        whole.get(at).map(|(_, entry)| (parent, entry.clone()))
    }

    /// The subordinates one level below an entry or the root, in the order of their ids.
    #[must_use]
    pub fn children(&self, parent: EntryId) -> Vec<EntryId> {
        let children = self.entries.iter().filter(|(_, item)| item.parent == parent);
        children.map(|(id, _)| *id).collect()
    }

    /// Whether an entry is another one or below it.
    #[must_use]
    pub fn is_within(&self, id: EntryId, base: EntryId) -> bool {
        id == base || self.entries.get(&id).is_some_and(|item| self.is_within(item.parent, base))
    }

    /// Whether there is an entry of this name below `parent`.
    #[must_use]
    pub fn is_taken(&self, parent: EntryId, key: &RdnKey) -> bool {
        self.entries.values().any(|item| item.parent == parent && item.key == *key)
    }

    /// Which entries match each of [`filters`], in the order of their ids.
    pub fn matches(&self) -> &[Vec<EntryId>] {
        self.matches.get_or_init(|| filters().iter().map(|(_, one)| self.matching(one)).collect())
    }

    /// The entries that match a filter, in the order of their ids.
    #[must_use]
    pub fn matching(&self, filter: &ResolvedFilter) -> Vec<EntryId> {
        let schema = Schema::builtin();
        let all = self.whole().iter();
        let matching = all.filter(|(_, entry)| filter.matches(&schema, entry) == Truth::True);
        matching.map(|(id, _)| *id).collect()
    }

    /// Makes a change, which fits.
    ///
    /// # Panics
    /// When it does not.
    pub fn apply(&mut self, change: &Change) {
        let schema = Schema::builtin();
        self.whole = OnceLock::new();
        self.matches = OnceLock::new();
        match change {
            Change::Add(add) => {
                let (key, entry) = (add.key.clone(), add.entry.clone());
                let item = Item { parent: add.parent, key, entry };
                assert!(self.entries.insert(add.id, item).is_none(), "an added entry is new");
            }
            Change::Modify(modify) => {
                let entry = &mut self.item(modify.id).entry;
                for delta in &modify.deltas {
                    if !delta.removed.is_empty() {
                        let removed = &delta.removed;
                        entry.remove_values(&schema, &delta.description, removed).expect(FITS);
                    }
                    let added = delta.added.iter().cloned();
                    entry.add_values(&schema, &delta.description, added).expect(FITS);
                }
            }
            Change::Rename(rename) => {
                let item = self.item(rename.id);
                item.parent = rename.new_parent;
                item.key = rename.key.clone();
                item.entry.rename(rename.new_dn.clone());
            }
            Change::Delete(delete) => {
                assert!(self.entries.remove(&delete.id).is_some(), "a deleted entry is there");
            }
            Change::Schema(_)
            | Change::Index(_)
            | Change::Setting(_)
            | Change::Gather(_)
            | Change::Level(_) => {}
        }
    }

    fn item(&mut self, id: EntryId) -> &mut Item {
        self.entries.get_mut(&id).expect(FITS)
    }
}

const FITS: &str = "changes of a history fit";
