//! What indexes can tell of a filter, whatever they hold.
//!
//! Invariant: it depends on the filter and on which indexes there are, never on entries, so an
//! answer that depends on it tells nothing of entries that are hidden.
//! Invariant: every entry that the indexable part is true of is a candidate of every plan.

use ldap::filter::Filter;
use schema::{
    Assertion, AttributeDescription, Compare, ExtensibleAssertion, ResolvedFilter, RuleKind,
};

use super::lookup::{Lookup, orders, would_help};
use super::node::{Node, Shape};
use super::{Whole, explain};
use crate::error::StoreError;
use crate::index::IndexKind;
use crate::index::ids::IdSet;
use crate::read::computed::base_of;
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
    /// What of a filter indexes answer; `whole` as in [`Ask::whole`](super::Ask::whole).
    #[must_use]
    pub fn indexable(&self, filter: &ResolvedFilter, whole: Whole<'_>) -> Indexable {
        let mut lookup = Lookup::over(self, whole, NEVER, false);
        let mut is_all = true;
        let filter = lookup.reduced(filter, false, &mut is_all);
        let narrows = lookup.narrows(&filter, false);
        Indexable { filter, is_all, narrows }
    }

    /// Whether some part of a filter is answered by an index of all entries, and is one that most
    /// of them need not match: then [`Self::indexable`] narrows. It takes less to find that out.
    #[must_use]
    pub fn is_narrowed(&self, filter: &ResolvedFilter) -> bool {
        Lookup::over(self, &|_| true, NEVER, false).is_narrowed(filter)
    }

    /// The first part of a filter that no index answers, as it was asked where that is known, and
    /// the index that would help; parts that an index could answer come before others.
    #[must_use]
    pub fn unanswered(
        &self,
        filter: &ResolvedFilter,
        asked: Option<&Filter<'_>>,
    ) -> Option<(String, Option<String>)> {
        let lookup = Lookup::over(self, &|_| true, NEVER, false);
        let mut found = None;
        lookup.first_unanswered(filter, asked, &mut found);
        found
    }
}

impl<'a> Lookup<'a, '_> {
    /// The filter without what no index answers. Recurses as deep as the filter is, which decoding
    /// limits.
    fn reduced(
        &mut self,
        filter: &'a ResolvedFilter,
        is_negated: bool,
        is_all: &mut bool,
    ) -> ResolvedFilter {
        match filter {
            ResolvedFilter::And(parts) => {
                let given = self.given.len();
                if !is_negated {
                    self.give(parts);
                }
                let reduced = self.reduced_parts(parts, is_negated, is_all);
                self.given.truncate(given);
                ResolvedFilter::And(reduced)
            }
            ResolvedFilter::Or(parts) => {
                let each = parts.iter().map(|part| self.reduced(part, is_negated, is_all));
                ResolvedFilter::Or(each.collect())
            }
            ResolvedFilter::Not(part) => {
                ResolvedFilter::Not(Box::new(self.reduced(part, !is_negated, is_all)))
            }
            item if is_negated => {
                let given = std::mem::take(&mut self.given);
                let reduced = self.reduced_item(item, true, is_all);
                self.given = given;
                reduced
            }
            item => self.reduced_item(item, false, is_all),
        }
    }

    /// The parts of a conjunction. A pair that an index of both attributes answers is answered,
    /// whatever indexes there are of each.
    fn reduced_parts(
        &mut self,
        parts: &'a [ResolvedFilter],
        is_negated: bool,
        is_all: &mut bool,
    ) -> Vec<ResolvedFilter> {
        let pairs = if is_negated { Vec::new() } else { self.pairs_in(parts) };
        let is_paired = |at| pairs.iter().any(|pair| pair.first.0 == at || pair.second.0 == at);
        let mut reduced = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            reduced.push(match is_paired(at) {
                true => part.clone(),
                false => self.reduced(part, is_negated, is_all),
            });
        }
        reduced.extend(pairs.iter().filter_map(|pair| pair.index.filter.clone()));
        reduced
    }

    fn reduced_item(
        &self,
        item: &ResolvedFilter,
        is_negated: bool,
        is_all: &mut bool,
    ) -> ResolvedFilter {
        if !self.answers(item) || (is_negated && !self.is_whole(item)) {
            *is_all = false;
            // True where it would have to be true, and false below a `!` (RFC 4526).
            let none = Vec::new();
            return if is_negated { ResolvedFilter::Or(none) } else { ResolvedFilter::And(none) };
        }
        // An index of only some entries leaves out those that its own filter is not true of.
        let conditions = asked_of(item).into_iter().flat_map(|asked| self.filtered(asked));
        let mut parts: Vec<_> = conditions.filter_map(|index| index.filter.clone()).collect();
        if parts.is_empty() {
            return item.clone();
        }
        parts.push(item.clone());
        ResolvedFilter::And(parts)
    }

    fn is_narrowed(&self, filter: &ResolvedFilter) -> bool {
        match filter {
            ResolvedFilter::And(parts) => parts.iter().any(|part| self.is_narrowed(part)),
            ResolvedFilter::Or(parts) => parts.iter().all(|part| self.is_narrowed(part)),
            // Only by what is below it, turned round.
            ResolvedFilter::Not(_) => false,
            item => self.narrows(item, false) && self.answers(item),
        }
    }

    fn first_unanswered(
        &self,
        filter: &ResolvedFilter,
        asked: Option<&Filter<'_>>,
        found: &mut Option<(String, Option<String>)>,
    ) {
        if matches!(found, Some((_, Some(_)))) {
            return;
        }
        let part = |at| explain::part(filter, asked, at);
        match filter {
            ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => {
                let each = parts.iter().enumerate();
                each.for_each(|(at, one)| self.first_unanswered(one, part(at), found));
            }
            ResolvedFilter::Not(inner) => self.first_unanswered(inner, part(0), found),
            item if self.answers(item) => {}
            item => {
                let would_help = would_help(item);
                if found.is_none() || would_help.is_some() {
                    *found = Some((explain::text(item, asked), would_help));
                }
            }
        }
    }

    /// Whether an entry that an index does not have for an assertion is one that it is not true of.
    pub(super) fn is_whole(&self, item: &ResolvedFilter) -> bool {
        asked_of(item).is_none_or(|asked| (self.whole)(asked))
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
            ResolvedFilter::Equality(one) => by_equality(one) || self.is_of_groups(one),
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

    /// Whether an assertion is about the groups that entries are in: they are computed by the
    /// indexes of their members.
    fn is_of_groups(&self, one: &Assertion) -> bool {
        let known = self.view.schema().well_known();
        let of_groups = [&known.is_member_of, &known.member_of, &known.is_direct_member_of];
        one.description.is_operational()
            && of_groups.contains(&&one.description)
            && [&known.member, &known.unique_member]
                .into_iter()
                .all(|one| self.index(one, IndexKind::Equality).is_some())
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

impl<'v> Lookup<'_, 'v> {
    /// What is known of an attribute that is computed, or of the entries below one.
    pub(super) fn computed(&mut self, assertion: &Assertion) -> Result<Node<'v>, StoreError> {
        if let Some(base) = base_of(assertion, &self.view.schema().well_known().entry_dn) {
            return self.below(&base);
        }
        let Some(computed) = self.computed.filter(|_| self.worth > 0) else {
            return Ok(Node::unknown());
        };
        let Some(found) = computed.candidates(assertion, self.worth)? else {
            return Ok(Node::unknown());
        };
        let ids = IdSet::from_unsorted(found.ids.into_iter().map(|id| id.0).collect());
        let count = ids.len();
        self.work.ids += count;
        Ok(Node::new(Shape::Ids(ids), found.exact || count == 0, count))
    }
}

/// The attribute that an assertion is about.
fn asked_of(item: &ResolvedFilter) -> Option<&AttributeDescription> {
    match item {
        ResolvedFilter::Present(asked) => Some(asked),
        ResolvedFilter::Equality(one)
        | ResolvedFilter::Approx(one)
        | ResolvedFilter::GreaterOrEqual(one)
        | ResolvedFilter::LessOrEqual(one) => Some(&one.description),
        ResolvedFilter::Substrings(one) => Some(&one.description),
        ResolvedFilter::Extensible(one) => one.description.as_deref(),
        ResolvedFilter::Undefined
        | ResolvedFilter::And(_)
        | ResolvedFilter::Or(_)
        | ResolvedFilter::Not(_) => None,
    }
}
