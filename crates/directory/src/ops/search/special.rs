//! Searches of entries that the server makes itself: the root DSE and the subschema subentry.

use ldap::message::Scope;
use schema::{EntryRead, ResolvedFilter, Schema, Selection, Truth};

use super::{Outcome, Search};
use crate::sink::ResponseSink;

impl Search<'_> {
    /// A search of an entry the server makes itself: it has nothing below it.
    pub(super) fn special(
        &self,
        entry: &dyn EntryRead,
        schema: &Schema,
        filter: &ResolvedFilter,
        selection: &Selection,
        sink: &mut ResponseSink<'_>,
    ) -> Outcome {
        let in_scope = match self.request.scope {
            Scope::Base | Scope::Subtree => true,
            Scope::One | Scope::Subordinate => false,
        };
        if in_scope && filter.matches(schema, &self.access.searchable(entry)) == Truth::True {
            let _ = sink.entry(&self.access.visible(entry, selection));
        }
        Outcome::Done(self.complete())
    }
}
