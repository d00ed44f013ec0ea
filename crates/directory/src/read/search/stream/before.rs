//! An entry as it was before changes that were made to it.
//!
//! Invariant: what is told of an entry as it was is told only if its reader would find it so by the
//! rules of now: in scope, by the filter, with the right to see it and its `entryUUID`.

use std::collections::BTreeMap;

use ldap::message::Values;
use schema::{
    AttributeDelta, AttributeDescription, DnKey, EntryRead, ResolvedFilter, Truth, ValueKey,
};

use super::happened::uuid_for;
use crate::read::search::run::Run;
use crate::read::streams::is_in_scope;
use crate::read::subentry::Visibility;
use crate::request::referral;

/// An entry without the effects of changes.
pub(super) struct Undone<'e> {
    entry: &'e dyn EntryRead,
    name: String,
    /// Of each value that was added or removed, whether it was there before.
    values: BTreeMap<(&'e str, &'e [u8]), (&'e AttributeDescription, bool)>,
}

impl<'e> Undone<'e> {
    /// `entry`, which was called `name`, before these changes; the oldest comes first.
    pub(super) fn new(
        entry: &'e dyn EntryRead,
        name: String,
        deltas: &[&'e [AttributeDelta]],
    ) -> Self {
        let mut values = BTreeMap::new();
        for delta in deltas.iter().rev().flat_map(|deltas| deltas.iter().rev()) {
            let description = &*delta.description;
            for (which, was_there) in [(&delta.added, false), (&delta.removed, true)] {
                for value in which {
                    // What an older change says of it counts: that is the way back.
                    values.insert((description.text(), &value[..]), (description, was_there));
                }
            }
        }
        Self { entry, name, values }
    }
}

impl EntryRead for Undone<'_> {
    fn dn(&self) -> &str {
        &self.name
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        let mut goes_on = true;
        let may_ask = self.entry.visit_matching(asked, only, &mut |description, value| {
            // Those that were there come below, changed or not.
            let is_changed = self.values.contains_key(&(description.text(), value));
            goes_on = is_changed || visit(description, value);
            goes_on
        });
        for ((_, value), (description, was_there)) in &self.values {
            if goes_on && *was_there && asked.covers(description) {
                goes_on = visit(description, value);
            }
        }
        may_ask
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, visit);
    }
}

impl Run<'_> {
    /// Whether an entry with this key is in the scope that was asked for.
    pub(super) fn is_in_scope(&self, key: &DnKey, base: &DnKey) -> bool {
        is_in_scope(self.search.request.scope, key, base)
    }

    /// The `entryUUID` of an entry in scope that its reader would find as it is given here.
    pub(super) fn found_so(&self, entry: &dyn EntryRead) -> Option<[u8; 16]> {
        self.is_found_so(entry).then(|| self.uuid_of(entry))?
    }

    /// The same, whatever the filter says.
    pub(super) fn seen_at_all(&self, entry: &dyn EntryRead) -> Option<[u8; 16]> {
        let all = ResolvedFilter::And(Vec::new());
        self.matches_so(entry, &all).then(|| self.uuid_of(entry))?
    }

    fn uuid_of(&self, entry: &dyn EntryRead) -> Option<[u8; 16]> {
        let rights = self.resolved.guard.on(entry);
        uuid_for(&rights, entry, self.state.schema.well_known())
    }

    /// Whether an entry in scope would be found as it is given here.
    pub(super) fn is_found_so(&self, entry: &dyn EntryRead) -> bool {
        self.matches_so(entry, self.resolved.filter)
    }

    fn matches_so(&self, entry: &dyn EntryRead, filter: &ResolvedFilter) -> bool {
        let schema = &self.state.schema;
        let known = schema.well_known();
        let is_shown = match self.resolved.shown {
            Visibility::All => true,
            Visibility::Ordinary => !self.state.subentries.hold(schema, entry),
            Visibility::Subentries => self.state.subentries.hold(schema, entry),
        };
        if !is_shown || (self.resolved.referrals && referral::is_referral(entry, known)) {
            return false;
        }
        let rights = self.resolved.guard.on(entry);
        rights.may_see()
            && self.search.evaluate(filter, schema, &rights.searchable(entry)) == Truth::True
    }
}
