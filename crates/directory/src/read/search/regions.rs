//! Where a search looks when it follows the aliases in its scope.

use std::cell::Cell;
use std::collections::BTreeSet;

use ldap::message::Scope;
use schema::{EntryId, WellKnown};
use store::{StoredEntry, View};

use crate::access::guard;
use crate::request::refusal::Refusal;

/// Where a search looks when it follows the aliases in its scope.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Single entries.
    entries: BTreeSet<EntryId>,
    /// Superiors whose subordinates of one level are in scope.
    levels: BTreeSet<EntryId>,
    /// Tops of subtrees.
    subtrees: BTreeSet<EntryId>,
    /// The base of a search for its subordinates of all levels.
    below: Option<EntryId>,
    /// An alias that is an entry like others: the base, when it was not to be followed.
    shown: Option<EntryId>,
    /// The superior looked at last, and whether everything below it is in scope: neighbours mostly
    /// have the same.
    parent: Cell<Option<(EntryId, bool)>>,
}

impl Regions {
    pub(super) fn of(base: EntryId, scope: Scope, shown: Option<EntryId>) -> Self {
        let mut regions = Self {
            entries: BTreeSet::new(),
            levels: BTreeSet::new(),
            subtrees: BTreeSet::new(),
            below: None,
            shown,
            parent: Cell::new(None),
        };
        match scope {
            Scope::Base => drop(regions.entries.insert(base)),
            Scope::One => drop(regions.levels.insert(base)),
            Scope::Subtree => drop(regions.subtrees.insert(base)),
            Scope::Subordinate => regions.below = Some(base),
        }
        regions
    }

    /// Adds what an alias in scope leads to: alone where the scope is one level, else with all
    /// that is below it.
    pub(super) fn add(&mut self, id: EntryId, scope: Scope) {
        match scope {
            Scope::Base | Scope::One => self.entries.insert(id),
            Scope::Subtree | Scope::Subordinate => self.subtrees.insert(id),
        };
        self.parent.set(None);
    }

    /// How many entries, levels and subtrees it consists of.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
            + self.levels.len()
            + self.subtrees.len()
            + usize::from(self.below.is_some())
    }

    /// Whether an entry is in scope.
    pub(crate) fn contains(
        &self,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
    ) -> Result<bool, Refusal> {
        let (id, parent) = (entry.id(), entry.parent());
        if self.entries.contains(&id)
            || self.subtrees.contains(&id)
            || self.levels.contains(&parent)
        {
            return Ok(true);
        }
        if let Some((known, answer)) = self.parent.get()
            && known == parent
        {
            return Ok(answer);
        }
        let mut next = parent;
        let answer = loop {
            if self.subtrees.contains(&next) || self.below == Some(next) {
                break true;
            }
            if next == EntryId::ROOT {
                break false;
            }
            next = guard::stored(view, next)?.parent();
        };
        self.parent.set(Some((parent, answer)));
        Ok(answer)
    }

    /// Whether an entry is returned that the filter matches: an alias that was followed is not.
    pub(crate) fn shows(&self, entry: &StoredEntry<'_>, known: &WellKnown) -> bool {
        self.shown == Some(entry.id()) || !known.is_alias(entry)
    }

    /// The lowest entry that all of them are at or below.
    pub(crate) fn top(&self, view: &View<'_>) -> Result<EntryId, Refusal> {
        let sets = [&self.entries, &self.levels, &self.subtrees];
        let mut common: Option<Vec<EntryId>> = None;
        for id in sets.into_iter().flatten().copied().chain(self.below) {
            let mut way = vec![id];
            let mut next = id;
            while next != EntryId::ROOT {
                next = guard::stored(view, next)?.parent();
                way.push(next);
            }
            way.reverse();
            let shared = match &common {
                None => way.len(),
                Some(known) => known.iter().zip(&way).take_while(|(a, b)| a == b).count(),
            };
            way.truncate(shared);
            common = Some(way);
        }
        Ok(common.and_then(|way| way.last().copied()).unwrap_or(EntryId::ROOT))
    }
}
