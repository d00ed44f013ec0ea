//! What of a filter the asker may use.
//!
//! Invariant: an assertion on an attribute that the asker may search in no entry is Undefined
//! before anything is looked up: no plan, no limit and no time depends on values of it.

use schema::{AttributeDescription, ResolvedFilter};

use crate::access::guard::Guard;

/// What of a filter the asker may use.
pub(crate) struct Usable {
    /// Whether that is all of it, in every entry.
    pub(super) searchable: bool,
    /// The filter without what may be used nowhere; none when that is nothing.
    pub(crate) filter: Option<ResolvedFilter>,
}

impl Usable {
    /// Asks about each attribute of the filter.
    pub(crate) fn of(filter: &ResolvedFilter, guard: &Guard<'_>) -> Self {
        let (mut searchable, mut any_useless) = (true, false);
        if !guard.is_bypassed() {
            filter.visit_descriptions(&mut |one| match guard.may_search(one) {
                Some(true) => searchable = searchable && guard.may_search_all_of(one),
                Some(false) => (searchable, any_useless) = (false, true),
                None => searchable = false,
            });
        }
        Self { searchable, filter: any_useless.then(|| rewrite(filter, guard)) }
    }
}

/// Whether the asker finds every entry that the filter is true of, wherever it is: only then the
/// number of candidates, and what a plan makes of numbers, tells of no entry that is hidden. Those
/// out of scope are counted with the others, and other rules may hold there.
pub(super) fn finds_all(filter: &ResolvedFilter, guard: &Guard<'_>) -> bool {
    let here = |guard: &Guard<'_>| guard.sees_all() && Usable::of(filter, guard).searchable;
    here(guard) && (guard.is_bypassed() || guard.anywhere(here))
}

/// Recurses as deep as the filter is, which decoding limits.
fn rewrite(filter: &ResolvedFilter, guard: &Guard<'_>) -> ResolvedFilter {
    let all = |parts: &[ResolvedFilter]| parts.iter().map(|part| rewrite(part, guard)).collect();
    let about = |one: &AttributeDescription| match guard.may_search(one) {
        Some(false) => ResolvedFilter::Undefined,
        Some(true) | None => filter.clone(),
    };
    match filter {
        ResolvedFilter::And(parts) => ResolvedFilter::And(all(parts)),
        ResolvedFilter::Or(parts) => ResolvedFilter::Or(all(parts)),
        ResolvedFilter::Not(part) => ResolvedFilter::Not(Box::new(rewrite(part, guard))),
        ResolvedFilter::Present(description) => about(description),
        ResolvedFilter::Equality(assertion)
        | ResolvedFilter::GreaterOrEqual(assertion)
        | ResolvedFilter::LessOrEqual(assertion)
        | ResolvedFilter::Approx(assertion) => about(&assertion.description),
        ResolvedFilter::Substrings(assertion) => about(&assertion.description),
        ResolvedFilter::Extensible(assertion) => match &assertion.description {
            Some(description) => about(description),
            // It is about attributes of all types that have the rule.
            None => filter.clone(),
        },
        ResolvedFilter::Undefined => ResolvedFilter::Undefined,
    }
}
