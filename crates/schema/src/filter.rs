//! Filters resolved against the schema, and what they say of an entry (RFC 4511 §4.5.1.7).
//!
//! Invariants: every assertion value is prepared, once; what the schema cannot answer is
//! [`ResolvedFilter::Undefined`] from the start. A stored value that its rule cannot prepare
//! matches nothing.
//! Evaluating recurses as deep as the filter is, which decoding limits.

mod assertion;
mod meter;
mod truth;

pub use assertion::{Assertion, AssertionError, ExtensibleAssertion, SubstringAssertion};
pub use meter::{Meter, steps_of_name};
pub use truth::Truth;

use std::sync::Arc;

use self::assertion::Scratch;
use ldap::filter::{AvaFilter, ExtensibleFilter, Filter, SubstringFilter};

use crate::description::AttributeDescription;
use crate::entry::EntryRead;
use crate::matching_rule::APPROXIMATE_RULE;
use crate::rules::{Compare, MatchingRule, RuleKind};
use crate::schema::Schema;

/// A search filter, ready to be evaluated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResolvedFilter {
    /// True when all are; true when empty (RFC 4526 §2).
    And(Vec<Self>),
    /// True when one is; false when empty (RFC 4526 §2).
    Or(Vec<Self>),
    /// The other way round.
    Not(Box<Self>),
    /// The attribute has a value.
    Present(Arc<AttributeDescription>),
    /// A value matches by an equality rule.
    Equality(Assertion),
    /// A value is equal or later by an ordering rule.
    GreaterOrEqual(Assertion),
    /// A value is equal or earlier by an ordering rule.
    LessOrEqual(Assertion),
    /// A value sounds alike, or matches where the attribute is no text.
    Approx(Assertion),
    /// A value holds the pieces.
    Substrings(SubstringAssertion),
    /// A value matches by a rule that was named.
    Extensible(ExtensibleAssertion),
    /// There is no answer.
    Undefined,
}

impl ResolvedFilter {
    /// Resolves a filter; it cannot fail, only be Undefined in parts.
    pub fn resolve(filter: &Filter<'_>, schema: &Schema) -> Self {
        let all = |filters: &[Filter<'_>]| {
            filters.iter().map(|filter| Self::resolve(filter, schema)).collect()
        };
        match filter {
            Filter::And(filters) => Self::And(all(filters)),
            Filter::Or(filters) => Self::Or(all(filters)),
            Filter::Not(filter) => Self::Not(Box::new(Self::resolve(filter, schema))),
            Filter::Present(description) => {
                schema.describe(description).map_or(Self::Undefined, Self::Present)
            }
            Filter::Equality(ava) => resolve_ava(ava, schema, |kind| kind.equality, Self::Equality),
            Filter::GreaterOrEqual(ava) => {
                resolve_ava(ava, schema, |kind| kind.ordering, Self::GreaterOrEqual)
            }
            Filter::LessOrEqual(ava) => {
                resolve_ava(ava, schema, |kind| kind.ordering, Self::LessOrEqual)
            }
            // How a text sounds is found out letter by letter.
            Filter::Approx(ava) if ava.value.len() > APPROX_MAX_BYTES => Self::Undefined,
            Filter::Approx(ava) => resolve_ava(ava, schema, approximate_or_equality, Self::Approx),
            Filter::Substrings(substrings) => {
                resolve_substrings(substrings, schema).unwrap_or(Self::Undefined)
            }
            Filter::Extensible(extensible) => {
                resolve_extensible(extensible, schema).unwrap_or(Self::Undefined)
            }
        }
    }

    /// What the filter says of an entry.
    pub fn matches(&self, schema: &Schema, entry: &dyn EntryRead) -> Truth {
        self.matches_within(schema, entry, &mut Meter::unlimited())
    }

    /// What the filter says of an entry, and what it costs to find out. When the meter has no more
    /// steps the evaluation ends, and the answer means nothing.
    pub fn matches_within(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        meter: &mut Meter<'_>,
    ) -> Truth {
        assertion::with_scratch(meter, |scratch| self.evaluate(schema, entry, scratch))
    }

    fn evaluate(
        &self,
        schema: &Schema,
        entry: &dyn EntryRead,
        scratch: &mut Scratch<'_, '_>,
    ) -> Truth {
        if !scratch.meter.spend(meter::TERM_STEPS) {
            return Truth::Undefined;
        }
        match self {
            Self::And(filters) => {
                let mut truth = Truth::True;
                for filter in filters {
                    truth = truth.and(filter.evaluate(schema, entry, scratch));
                    if truth == Truth::False || scratch.meter.is_over() {
                        break;
                    }
                }
                truth
            }
            Self::Or(filters) => {
                let mut truth = Truth::False;
                for filter in filters {
                    truth = truth.or(filter.evaluate(schema, entry, scratch));
                    if truth == Truth::True || scratch.meter.is_over() {
                        break;
                    }
                }
                truth
            }
            Self::Not(filter) => !filter.evaluate(schema, entry, scratch),
            Self::Present(description) => {
                let mut is_present = false;
                let may_ask = entry.visit_values(description, &mut |_, _| {
                    is_present = true;
                    false
                });
                Truth::of(may_ask, is_present)
            }
            Self::Equality(assertion) | Self::Approx(assertion) => {
                assertion.evaluate_equal(schema, entry, scratch)
            }
            Self::GreaterOrEqual(assertion) => {
                assertion.evaluate(schema, entry, scratch, |key| key >= assertion.key.as_slice())
            }
            Self::LessOrEqual(assertion) => {
                assertion.evaluate(schema, entry, scratch, |key| key <= assertion.key.as_slice())
            }
            Self::Substrings(assertion) => assertion.evaluate(schema, entry, scratch),
            Self::Extensible(assertion) => assertion.evaluate(schema, entry, scratch),
            Self::Undefined => Truth::Undefined,
        }
    }

    /// Calls `visit` with each attribute that the filter asks about.
    pub fn visit_descriptions(&self, visit: &mut dyn FnMut(&Arc<AttributeDescription>)) {
        match self {
            Self::And(filters) | Self::Or(filters) => {
                for filter in filters {
                    filter.visit_descriptions(visit);
                }
            }
            Self::Not(filter) => filter.visit_descriptions(visit),
            Self::Present(description) => visit(description),
            Self::Equality(assertion)
            | Self::GreaterOrEqual(assertion)
            | Self::LessOrEqual(assertion)
            | Self::Approx(assertion) => visit(&assertion.description),
            Self::Substrings(assertion) => visit(&assertion.description),
            Self::Extensible(assertion) => {
                if let Some(description) = &assertion.description {
                    visit(description);
                }
            }
            Self::Undefined => {}
        }
    }

    /// Whether a part of the filter asks about chains of entries (1.2.840.113556.1.4.1941).
    pub fn asks_chains(&self) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::asks_chains),
            Self::Not(part) => part.asks_chains(),
            Self::Extensible(assertion) => assertion.rule.compare == Compare::Chain,
            Self::Present(_)
            | Self::Equality(_)
            | Self::GreaterOrEqual(_)
            | Self::LessOrEqual(_)
            | Self::Approx(_)
            | Self::Substrings(_)
            | Self::Undefined => false,
        }
    }
}

/// Octets of an assertion that asks what sounds alike; a longer one is Undefined.
const APPROX_MAX_BYTES: usize = 16 << 10;

fn resolve_ava(
    ava: &AvaFilter<'_>,
    schema: &Schema,
    rule: impl Fn(&crate::attribute_type::AttributeType) -> Option<&'static MatchingRule>,
    make: impl Fn(Assertion) -> ResolvedFilter,
) -> ResolvedFilter {
    let resolve = || {
        let description = schema.describe(ava.description).ok()?;
        let rule = rule(&description.kind)?;
        Assertion::new(schema, description, rule, &ava.value).ok()
    };
    resolve().map_or(ResolvedFilter::Undefined, make)
}

fn approximate_or_equality(
    kind: &crate::attribute_type::AttributeType,
) -> Option<&'static MatchingRule> {
    let approximate = MatchingRule::find(APPROXIMATE_RULE);
    approximate.filter(|rule| rule.applies_to(kind.syntax.oid)).or(kind.equality)
}

fn resolve_substrings(filter: &SubstringFilter<'_>, schema: &Schema) -> Option<ResolvedFilter> {
    let description = schema.describe(filter.description).ok()?;
    let rule = description.kind.substring?;
    let any = filter.any.iter().map(AsRef::as_ref);
    SubstringAssertion::new(
        description,
        rule,
        filter.initial.as_deref(),
        any,
        filter.final_.as_deref(),
    )
    .ok()
    .map(ResolvedFilter::Substrings)
}

fn resolve_extensible(filter: &ExtensibleFilter<'_>, schema: &Schema) -> Option<ResolvedFilter> {
    let description = match filter.description {
        Some(description) => Some(schema.describe(description).ok()?),
        None => None,
    };
    let rule = match (filter.rule, &description) {
        (Some(rule), Some(description)) => {
            schema.matching_rule(rule).filter(|rule| is_usable(rule, description))?
        }
        (Some(rule), None) => schema.matching_rule(rule)?,
        (None, Some(description)) => description.kind.equality?,
        (None, None) => return None,
    };
    match (rule.kind, description) {
        // As an ordinary assertion it can be looked up in an index.
        (RuleKind::Equality, Some(description))
            if !filter.dn_attributes && description.kind.equality == Some(rule) =>
        {
            let assertion = Assertion::new(schema, description, rule, &filter.value).ok()?;
            Some(ResolvedFilter::Equality(assertion))
        }
        (RuleKind::Equality | RuleKind::Ordering, description) => {
            let mut key = Vec::new();
            rule.prepare_assertion(schema, &filter.value, &mut key).ok()?;
            let dn_attributes = filter.dn_attributes;
            let assertion = ExtensibleAssertion { description, rule, dn_attributes, key };
            Some(ResolvedFilter::Extensible(assertion))
        }
        (RuleKind::Substring, Some(description)) if !filter.dn_attributes => {
            SubstringAssertion::from_text(description, rule, &filter.value)
                .map(ResolvedFilter::Substrings)
        }
        (RuleKind::Substring, _) => None,
    }
}

fn is_usable(rule: &MatchingRule, description: &AttributeDescription) -> bool {
    let kind = &description.kind;
    let is_own = |own: Option<&MatchingRule>| own == Some(rule);
    rule.applies_to(kind.syntax.oid)
        || is_own(kind.equality)
        || is_own(kind.ordering)
        || is_own(kind.substring)
}

#[cfg(test)]
mod tests;
