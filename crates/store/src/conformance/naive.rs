//! The naive engine: copies of everything. It says what the suite means, and that it can be passed.

use std::sync::Arc;

use schema::{Change, DnKey, Entry, EntryId, ResolvedFilter, Schema};

use super::{Contents, Engine, Rows, contexts};
use crate::base::position::Lsn;
use crate::read::view::Resolved;

/// All states there were.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    /// From the one after the last flush on.
    states: Vec<Arc<State>>,
    published: Lsn,
    durable: Arc<State>,
}

#[derive(Clone, Debug)]
struct State {
    lsn: Lsn,
    next: EntryId,
    contents: Contents,
}

impl Default for State {
    fn default() -> Self {
        Self { lsn: Lsn(0), next: EntryId(1), contents: Contents::default() }
    }
}

impl Naive {
    fn last(&self) -> &Arc<State> {
        self.states.last().unwrap_or(&self.durable)
    }

    fn published(&self) -> &Arc<State> {
        let state = self.states.iter().rfind(|state| state.lsn <= self.published);
        state.unwrap_or(&self.durable)
    }
}

impl Engine for Naive {
    fn next_entry_id(&self) -> EntryId {
        self.last().next
    }

    fn write(&mut self, changes: &[Change]) {
        for change in changes {
            let mut state = State::clone(self.last());
            state.contents.apply(change);
            state.lsn.0 += 1;
            if let Change::Add(add) = change {
                state.next = state.next.max(EntryId(add.id.0 + 1));
            }
            self.states.push(Arc::new(state));
        }
    }

    fn write_and_drop(&mut self, changes: &[Change]) {
        self.clone().write(changes);
    }

    fn publish(&mut self, upto: Lsn) {
        self.published = upto;
    }

    fn drop_tentative(&mut self) {
        self.states.retain(|state| state.lsn <= self.published);
    }

    fn flush(&mut self) {
        self.durable = Arc::clone(self.published());
        self.states.retain(|state| state.lsn > self.published);
    }

    fn tidy(&mut self) {}

    fn reopen(&mut self) -> Lsn {
        self.states.clear();
        self.published = self.durable.lsn;
        self.published
    }

    fn view(&self) -> Box<dyn Rows> {
        Box::new(Arc::clone(self.published()))
    }

    fn with_tentative(&self, look: &mut dyn FnMut(&dyn Rows)) {
        look(self.last());
    }
}

impl Rows for Arc<State> {
    fn lsn(&self) -> Lsn {
        self.lsn
    }

    fn entry_count(&self) -> u64 {
        self.contents.len() as u64
    }

    fn entry(&self, id: EntryId) -> Option<(EntryId, Entry)> {
        self.contents.entry(id)
    }

    fn resolve(&self, name: &DnKey) -> Resolved {
        let schema = Schema::builtin();
        let is_context = |dn| DnKey::from_dn(&schema, dn).is_ok_and(|key| name.is_within(&key));
        if !contexts().iter().any(is_context) {
            return Resolved::NoContext;
        }
        if let Some(id) = self.contents.find(name) {
            return Resolved::Found(id);
        }
        let mut above = name.parent();
        while let Some(name) = above {
            if let Some(id) = self.contents.find(&name) {
                return Resolved::Missing { nearest: Some(id) };
            }
            above = name.parent();
        }
        Resolved::Missing { nearest: None }
    }

    fn children(&self, parent: EntryId) -> Vec<EntryId> {
        self.contents.children(parent)
    }

    fn child_count(&self, parent: EntryId) -> u64 {
        self.contents.children(parent).len() as u64
    }

    fn scan(&self, after: EntryId) -> Vec<EntryId> {
        self.contents.ids().into_iter().filter(|id| *id > after).collect()
    }

    fn candidates(&self, filter: &ResolvedFilter) -> (Vec<EntryId>, bool) {
        (self.contents.matching(filter), true)
    }
}
