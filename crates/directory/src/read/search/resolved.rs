//! What the request of a search means under one version of the schema.
//!
//! Invariant: it depends on the request and the schema alone: not on who asks, on the rules in
//! force, or on what is stored. So it holds as long as the schema is the same one, however often
//! the search parks. What depends on the asker is found out each time: the sort keys, and what of
//! the filter may be used.

use std::sync::Arc;

use ldap::message::{Scope, SearchRequest};
use ldap::result::ResultCode;
use schema::{DnKey, ResolvedFilter, Schema, Selection};

use super::budget::{Budget, Held};
use super::dereference::Dereference;
use super::join::Join;
use super::work::terms;
use crate::request::controls::matched_values;
use crate::request::controls::request::RequestControls;
use crate::request::name_memo::NameMemo;
use crate::request::refusal::Refusal;

/// A search request, resolved.
pub(crate) struct ResolvedRequest {
    /// The generation of the schema.
    generation: u64,
    /// The base.
    pub(super) key: DnKey,
    pub(super) filter: ResolvedFilter,
    /// The filter has in-chain terms.
    pub(super) has_chains: bool,
    pub(super) selection: Selection,
    /// Which values are wanted, if not all.
    pub(super) matched_values: Option<Vec<ResolvedFilter>>,
    /// Which of them are followed, if any.
    pub(super) dereference: Option<Box<Dereference>>,
    /// What is joined with the entries, if anything, or why nothing can be.
    pub(super) join: Option<Result<Box<Join>, Refusal>>,
    /// The room that it takes while its job waits, from the first time on.
    held: Option<Held>,
}

/// What a term of a filter takes, resolved: lists of them may be half empty.
const BYTES_OF_TERM: usize = 2 * size_of::<ResolvedFilter>();
/// What an octet of a message takes beside that, about: short names of attributes that are asked
/// for become descriptions.
const BYTES_OF_OCTET: usize = 32;

/// The key of the base of a search; refuses with `invalidDNSyntax` what is no name.
pub(super) fn base(
    request: &SearchRequest<'_>,
    schema: &Arc<Schema>,
    names: &mut NameMemo,
) -> Result<DnKey, Refusal> {
    // Names of single entries seldom come again.
    let key = match request.scope {
        Scope::Base => names.key(schema, request.base),
        Scope::One | Scope::Subtree | Scope::Subordinate => names.base(schema, request.base),
    };
    key.map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))
}

impl ResolvedRequest {
    /// Resolves a request whose base has the key `base`. It is large, and stays where it is made.
    #[inline]
    pub(super) fn of(
        request: &SearchRequest<'_>,
        base: DnKey,
        controls: &RequestControls<'_>,
        schema: &Schema,
    ) -> Self {
        #[cfg(test)]
        crate::request::job::tests::note_resolved();
        let filter = ResolvedFilter::resolve(&request.filter, schema);
        Self {
            generation: schema.generation(),
            key: base,
            has_chains: filter.asks_chains(),
            filter,
            selection: Selection::resolve(request.attributes.iter(), schema),
            matched_values: matched_values::resolve(controls, request.types_only, schema),
            dereference: Dereference::resolve(controls, request.types_only, schema),
            join: Join::resolve(controls, request, schema),
            held: None,
        }
    }

    /// Whether it means the same under a schema.
    pub(super) fn holds_under(&self, schema: &Schema) -> bool {
        self.generation == schema.generation()
    }

    /// The same for a job that waits, where the budget has room for it; `octets` are those of its
    /// message, and `max` is what all may take.
    pub(crate) fn kept(
        mut self: Box<Self>,
        octets: usize,
        budget: &Budget,
        max: usize,
    ) -> Option<Box<Self>> {
        if self.held.is_none() {
            let terms = usize::try_from(self.terms()).unwrap_or(usize::MAX);
            let of_message = octets.saturating_mul(BYTES_OF_OCTET);
            let bytes = terms.saturating_mul(BYTES_OF_TERM).saturating_add(of_message);
            self.held = budget.hold(bytes, max);
        }
        self.held.is_some().then_some(self)
    }

    /// How many terms its filters have.
    pub(crate) fn terms(&self) -> u64 {
        let items = self.matched_values.iter().flatten();
        terms(&self.filter) + items.map(terms).sum::<u64>()
    }
}
