//! Subentries (RFC 3672, and `ldapSubentry`): entries that are there for the server rather than for
//! people, and that a search shows only when it is asked to.

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{EntryId, EntryRead, ResolvedFilter, Schema, Truth};
use store::{Ask, View};

use crate::request::refusal::Refusal;

/// What a subentry is in one version of the schema.
pub(crate) struct Subentries {
    filter: ResolvedFilter,
}

/// Which entries a search shows of those it finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Visibility {
    /// All of them.
    All,
    /// Those that are no subentries.
    Ordinary,
    /// Subentries.
    Subentries,
}

impl Subentries {
    pub(crate) fn new(schema: &Schema) -> Self {
        // Every stored entry names the superclasses of its classes as well.
        let filter = Filter::parse("(|(objectClass=subentry)(objectClass=ldapSubentry))")
            .map_or(ResolvedFilter::Undefined, |filter| ResolvedFilter::resolve(&filter, schema));
        Self { filter }
    }

    /// The filter that finds all of them.
    pub(crate) fn filter(&self) -> &ResolvedFilter {
        &self.filter
    }

    /// Whether an entry is one.
    pub(crate) fn hold(&self, schema: &Schema, entry: &dyn EntryRead) -> bool {
        self.filter.matches(schema, entry) == Truth::True
    }

    /// Whether the directory holds any: two look-ups. Nobody looks out for them when there is none.
    pub(crate) fn any(&self, view: &View<'_>) -> Result<bool, Refusal> {
        let plan = view.plan(&Ask::new(&self.filter, EntryId::ROOT, Scope::Subtree))?;
        Ok(plan.estimate > 0)
    }
}
