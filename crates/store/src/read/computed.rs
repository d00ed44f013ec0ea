//! Attributes that are computed: who computes them knows the entries that have them.

use std::sync::Arc;

use schema::{Assertion, AttributeDescription, DnKey, EntryId, MatchingRule, ResolvedFilter};

use crate::error::StoreError;

/// Entries that have a value of an attribute that is computed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ComputedCandidates {
    /// In any order; all that have it are among them.
    pub ids: Vec<EntryId>,
    /// No others are.
    pub exact: bool,
}

/// Knows which entries have values of attributes that are computed: no index has them.
pub trait Computed {
    /// Whether it knows an attribute. Looking for those that have a value of it may take long.
    fn computes(&self, asked: &AttributeDescription) -> bool;

    /// The entries that an assertion is true of. None where nobody knows, or they are more than
    /// `at_most`.
    ///
    /// # Errors
    /// As those of a plan.
    fn candidates(
        &self,
        assertion: &Assertion,
        at_most: u64,
    ) -> Result<Option<ComputedCandidates>, StoreError>;
}

/// What a plan takes for the entries at and below one, for terms that no index knows of and that
/// are true of such entries alone. `name` is the attribute with the names of entries. It is for
/// plans only: no entry matches it, and no request can ask it.
#[must_use]
pub fn at_or_below(name: &Arc<AttributeDescription>, base: &DnKey) -> ResolvedFilter {
    match MatchingRule::find(OTHER_RULE) {
        Some(rule) => ResolvedFilter::Equality(Assertion {
            description: Arc::clone(name),
            rule,
            key: base.as_bytes().to_vec(),
        }),
        // It is among them, and says nothing.
        None => ResolvedFilter::And(Vec::new()),
    }
}

/// The entry that [`at_or_below`] is about.
pub(crate) fn base_of(assertion: &Assertion, name: &AttributeDescription) -> Option<DnKey> {
    let is_one = assertion.description.kind == name.kind
        && MatchingRule::find(OTHER_RULE).is_some_and(|rule| rule == assertion.rule);
    is_one.then(|| DnKey::from_bytes(assertion.key.clone()))
}

/// Names are compared by another one in all that is asked.
const OTHER_RULE: &str = "caseIgnoreMatch";
