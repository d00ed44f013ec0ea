//! What searches should find, by a look at every entry: each is read once, whatever is asked.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ldap::message::Scope;
use schema::{Entry, EntryId, ResolvedFilter, Schema, Truth};
use store::{Ask, View};

use super::resolve;

type InScope = (EntryId, Scope, Rc<BTreeSet<u64>>);

/// The entries of a view.
pub(crate) struct Scan {
    entries: BTreeMap<u64, (u64, Entry)>,
    items: RefCell<Vec<(ResolvedFilter, Rc<Vec<Truth>>)>>,
    /// By the text of the filter.
    matching: RefCell<BTreeMap<String, Rc<BTreeSet<u64>>>>,
    scopes: RefCell<Vec<InScope>>,
}

impl Scan {
    pub(crate) fn of(view: &View<'_>) -> Self {
        let everything = ResolvedFilter::And(Vec::new());
        let all = view.plan(&Ask::new(&everything, EntryId::ROOT, Scope::Subtree)).unwrap();
        let entries = all.entries(view, EntryId::ROOT).map(|entry| {
            let entry = entry.unwrap();
            (entry.id().0, (entry.parent().0, entry.to_entry().unwrap()))
        });
        let entries = entries.collect();
        let (items, matching, scopes) = Default::default();
        Self { entries, items, matching, scopes }
    }

    /// The entries that match a filter, wherever they are.
    pub(crate) fn matching(&self, text: &str) -> Rc<BTreeSet<u64>> {
        if let Some(known) = self.matching.borrow().get(text) {
            return Rc::clone(known);
        }
        let found = Rc::new(self.true_of(&resolve(text)));
        self.matching.borrow_mut().insert(text.to_owned(), Rc::clone(&found));
        found
    }

    /// The entries that a filter is true of, wherever they are.
    pub(crate) fn true_of(&self, filter: &ResolvedFilter) -> BTreeSet<u64> {
        let said = self.said(filter);
        let found = self.entries.keys().zip(&*said).filter(|(_, said)| **said == Truth::True);
        found.map(|(id, _)| *id).collect()
    }

    /// What a filter says of each entry. Each assertion is asked once.
    fn said(&self, filter: &ResolvedFilter) -> Rc<Vec<Truth>> {
        let together = |parts: &[ResolvedFilter], of_none, both: fn(Truth, Truth) -> Truth| {
            let mut all = vec![of_none; self.entries.len()];
            for part in parts {
                let said = self.said(part);
                all.iter_mut().zip(&*said).for_each(|(all, said)| *all = both(*all, *said));
            }
            Rc::new(all)
        };
        match filter {
            ResolvedFilter::And(parts) => together(parts, Truth::True, Truth::and),
            ResolvedFilter::Or(parts) => together(parts, Truth::False, Truth::or),
            ResolvedFilter::Not(part) => {
                Rc::new(self.said(part).iter().map(|said| !*said).collect())
            }
            item => {
                let known = self.items.borrow().iter().find(|(known, _)| known == item).cloned();
                if let Some((_, said)) = known {
                    return said;
                }
                let schema = Schema::builtin();
                let said = self.entries.values().map(|(_, entry)| item.matches(&schema, entry));
                let said: Rc<Vec<Truth>> = Rc::new(said.collect());
                self.items.borrow_mut().push((item.clone(), Rc::clone(&said)));
                said
            }
        }
    }

    fn is_within(&self, id: u64, base: u64) -> bool {
        id == base || (id != 0 && self.is_within(self.entries[&id].0, base))
    }

    pub(crate) fn in_scope(&self, base: EntryId, scope: Scope) -> Rc<BTreeSet<u64>> {
        let known = |known: &&InScope| (known.0, known.1) == (base, scope);
        if let Some((.., found)) = self.scopes.borrow().iter().find(known) {
            return Rc::clone(found);
        }
        let ids = self.entries.iter().filter(|&(&id, (parent, _))| match scope {
            Scope::Base => id == base.0,
            Scope::One => *parent == base.0,
            Scope::Subtree => self.is_within(id, base.0),
            Scope::Subordinate => id != base.0 && self.is_within(id, base.0),
        });
        let found: Rc<BTreeSet<u64>> = Rc::new(ids.map(|(id, _)| *id).collect());
        self.scopes.borrow_mut().push((base, scope, Rc::clone(&found)));
        found
    }

    /// What a search should find.
    pub(crate) fn search(&self, text: &str, base: EntryId, scope: Scope) -> BTreeSet<u64> {
        &*self.matching(text) & &*self.in_scope(base, scope)
    }
}
