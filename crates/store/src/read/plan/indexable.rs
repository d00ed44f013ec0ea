//! What indexes can tell of a filter, whatever they hold.
//!
//! Invariant: it depends on the filter and on which indexes there are, never on entries, so an
//! answer that depends on it tells nothing of entries that are hidden.
//! Invariant: every entry that the indexable part is true of is a candidate of every plan that uses
//! no index of only some entries.

use schema::{Assertion, Compare, ExtensibleAssertion, ResolvedFilter, RuleKind};

use super::lookup::{Lookup, orders};
use crate::index::IndexKind;
use crate::read::interrupt::NEVER;
use crate::read::view::View;

/// The part of a filter that indexes answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Indexable {
    /// The filter, with what no index answers left out: it is true of all that the filter is true
    /// of, and of more.
    pub filter: ResolvedFilter,
    /// Indexes answer all of it.
    pub is_all: bool,
    /// Some part has values that an index looks up, which most entries need not have. Object
    /// classes and presence are no such parts.
    pub narrows: bool,
}

impl Indexable {
    /// Whether a search for it looks at entries without an index that narrows them down.
    #[must_use]
    pub const fn is_unindexed(&self) -> bool {
        !self.is_all && !self.narrows
    }
}

impl View<'_> {
    /// What of a filter indexes answer.
    #[must_use]
    pub fn indexable(&self, filter: &ResolvedFilter) -> Indexable {
        let lookup = Lookup::over(self, NEVER, false);
        let mut is_all = true;
        let filter = lookup.reduced(filter, false, &mut is_all);
        let narrows = lookup.narrows(&filter, false);
        Indexable { filter, is_all, narrows }
    }
}

impl Lookup<'_, '_> {
    /// The filter without what no index answers. Recurses as deep as the filter is, which decoding
    /// limits.
    fn reduced(
        &self,
        filter: &ResolvedFilter,
        is_negated: bool,
        is_all: &mut bool,
    ) -> ResolvedFilter {
        let mut each = |parts: &[ResolvedFilter]| {
            parts.iter().map(|part| self.reduced(part, is_negated, is_all)).collect()
        };
        match filter {
            ResolvedFilter::And(parts) => ResolvedFilter::And(each(parts)),
            ResolvedFilter::Or(parts) => ResolvedFilter::Or(each(parts)),
            ResolvedFilter::Not(part) => {
                ResolvedFilter::Not(Box::new(self.reduced(part, !is_negated, is_all)))
            }
            item if self.answers(item) => item.clone(),
            // True where it would have to be true, and false below a `!` (RFC 4526).
            _ => {
                *is_all = false;
                let none = Vec::new();
                if is_negated { ResolvedFilter::Or(none) } else { ResolvedFilter::And(none) }
            }
        }
    }

    /// Whether an index answers an assertion. It may answer the opposite, too.
    fn answers(&self, item: &ResolvedFilter) -> bool {
        let by_equality = |one: &Assertion| {
            let index = self.index(&one.description, IndexKind::Equality);
            index.is_some_and(|index| index.rule == Some(one.rule))
        };
        match item {
            ResolvedFilter::Present(asked) => {
                let classes = &self.view.schema().well_known().object_class;
                let is_classes = asked.options().is_empty() && asked.kind == classes.kind;
                is_classes || self.index(asked, IndexKind::Presence).is_some()
            }
            ResolvedFilter::Equality(one) => by_equality(one),
            ResolvedFilter::Approx(one) => {
                let index = self.index(&one.description, IndexKind::Approximate);
                index.is_some_and(|index| index.rule == Some(one.rule)) || by_equality(one)
            }
            ResolvedFilter::GreaterOrEqual(one) | ResolvedFilter::LessOrEqual(one) => {
                let index = self.index(&one.description, IndexKind::Ordering);
                index.is_some_and(|index| orders(index, one.rule))
            }
            ResolvedFilter::Substrings(one) => {
                let index = self.index(&one.description, IndexKind::Substring);
                let has_grams = index.is_some_and(|index| index.rule == Some(one.rule));
                has_grams || self.has_prefix(one)
            }
            ResolvedFilter::Extensible(one) => self.answers_rule(one),
            ResolvedFilter::Undefined => true,
            ResolvedFilter::And(_) | ResolvedFilter::Or(_) | ResolvedFilter::Not(_) => false,
        }
    }

    fn answers_rule(&self, one: &ExtensibleAssertion) -> bool {
        let Some(asked) = one.description.as_deref() else { return false };
        !one.dn_attributes
            && one.rule.kind == RuleKind::Equality
            && one.rule.compare != Compare::Chain
            && self.index_by(asked, one.rule).is_some()
    }

    /// Whether a reduced filter has a part that most entries need not match.
    fn narrows(&self, filter: &ResolvedFilter, is_negated: bool) -> bool {
        match filter {
            ResolvedFilter::Not(part) => self.narrows(part, !is_negated),
            ResolvedFilter::And(parts) if !is_negated => {
                parts.iter().any(|part| self.narrows(part, false))
            }
            ResolvedFilter::Or(parts) if is_negated => {
                parts.iter().any(|part| self.narrows(part, true))
            }
            ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => {
                parts.iter().all(|part| self.narrows(part, is_negated))
            }
            ResolvedFilter::Undefined => true,
            ResolvedFilter::Present(_) => false,
            ResolvedFilter::Equality(one) | ResolvedFilter::Approx(one) => {
                let classes = &self.view.schema().well_known().object_class;
                !is_negated && one.description.kind != classes.kind
            }
            ResolvedFilter::GreaterOrEqual(_)
            | ResolvedFilter::LessOrEqual(_)
            | ResolvedFilter::Substrings(_)
            | ResolvedFilter::Extensible(_) => !is_negated,
        }
    }
}
