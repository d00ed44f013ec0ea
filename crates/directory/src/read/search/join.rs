//! Entries that have to do with an entry, told beside it: the join control.
//!
//! Invariant: values of an entry lead to others only where the asker may read them, and of those
//! nothing is told but what a search for them would tell.
//! Invariant: entries that the asker may not see are looked at no further and count for no limit
//! that is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use ldap::control_value::join::{EntryJoin, JoinAssertion, JoinBase, JoinRule};
use ldap::filter::{AvaFilter, Filter, SubstringFilter};
use ldap::message::{DerefAliases, Scope, SearchRequest};
use ldap::result::ResultCode;
use schema::{AttributeDescription, DnKey, ResolvedFilter, Schema, Selection};

use crate::request::controls::join::NAME;
use crate::request::controls::request::RequestControls;
use crate::request::refusal::Refusal;

/// What is to be joined with each entry.
pub(crate) struct Join {
    pub(super) rule: Rule,
    pub(super) base: Base,
    pub(super) scope: Scope,
    pub(super) size_limit: usize,
    pub(super) filter: Option<ResolvedFilter>,
    pub(super) selection: Selection,
    pub(super) types_only: bool,
    pub(super) require_match: bool,
    pub(super) nested: Option<Box<Self>>,
}

/// Which entries are joined.
pub(super) enum Rule {
    And(Vec<Self>),
    Or(Vec<Self>),
    /// Those that values of the attribute name.
    Dn(Source),
    /// Those in which the target has values of the source.
    Values {
        source: Source,
        target: String,
        how: How,
    },
    /// Those in which the attribute names the entry.
    Names(String),
}

/// An attribute whose values lead to others.
pub(super) struct Source {
    pub(super) own: Selection,
}

/// What values of the target have to do with one of the source.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// It is to be in one of them; else one is to be the same.
    pub(super) contains: bool,
    /// All of the source are, not one.
    pub(super) all: bool,
}

/// Where the others are.
pub(super) enum Base {
    Search,
    Source,
    Custom(DnKey),
}

impl Join {
    /// What the control of a request means; none without one.
    pub(super) fn resolve(
        controls: &RequestControls<'_>,
        request: &SearchRequest<'_>,
        schema: &Schema,
    ) -> Option<Result<Box<Self>, Refusal>> {
        let asked = controls.join.as_deref()?;
        let is_counted = controls.vlv.is_some() || controls.entry_count.is_some();
        if is_counted && asked.require_match {
            return Some(Err(refused(
                "requireMatch goes together with neither a virtual list view nor an entry count",
            )));
        }
        Some(Self::of(asked, request, schema).map(Box::new))
    }

    fn of(
        asked: &EntryJoin<'_>,
        request: &SearchRequest<'_>,
        schema: &Schema,
    ) -> Result<Self, Refusal> {
        // What leads elsewhere is not followed: the search may do so, a join does not.
        if asked.deref.is_some_and(|deref| deref != DerefAliases::Never) {
            return Err(refused("aliases are not followed in a join: send neverDerefAliases"));
        }
        let base = match asked.base {
            JoinBase::Search => Base::Search,
            JoinBase::Source => Base::Source,
            JoinBase::Custom(name) => {
                Base::Custom(DnKey::from_text(schema, name).map_err(|error| {
                    let why = format!("{NAME}: its base: {error}");
                    Refusal::new(ResultCode::InvalidDnSyntax, why)
                })?)
            }
        };
        let filter = asked.filter.as_ref().map(|filter| ResolvedFilter::resolve(filter, schema));
        if filter.as_ref().is_some_and(ResolvedFilter::asks_chains) {
            return Err(refused("in-chain terms of a filter are for searches"));
        }
        let asked_limit = asked.size_limit.unwrap_or(request.size_limit_entries);
        let asked_limit = usize::try_from(asked_limit).unwrap_or(usize::MAX);
        let size_limit = if asked_limit == 0 { JOINED_MAX } else { asked_limit.min(JOINED_MAX) };
        let names = asked.attributes.iter().flat_map(|names| names.iter());
        let nested = asked.nested.as_deref().map(|one| Self::of(one, request, schema));
        Ok(Self {
            rule: Rule::of(&asked.rule, schema)?,
            base,
            scope: asked.scope.unwrap_or(request.scope),
            size_limit,
            filter,
            selection: Selection::resolve(names, schema),
            types_only: request.types_only,
            require_match: asked.require_match,
            nested: nested.transpose()?.map(Box::new),
        })
    }
}

impl Rule {
    fn of(asked: &JoinRule<'_>, schema: &Schema) -> Result<Self, Refusal> {
        let all = |parts: &[JoinRule<'_>]| {
            parts.iter().map(|part| Self::of(part, schema)).collect::<Result<_, _>>()
        };
        let values = |one: &JoinAssertion<'_>, contains| {
            described(one.target, schema)?;
            let how = How { contains, all: one.match_all };
            let source = Source::of(one.source, schema)?;
            Ok(Self::Values { source, target: one.target.to_owned(), how })
        };
        match asked {
            JoinRule::And(parts) => all(parts).map(Self::And),
            JoinRule::Or(parts) => all(parts).map(Self::Or),
            JoinRule::Dn(name) => {
                names_entries(name, schema)?;
                Source::of(name, schema).map(Self::Dn)
            }
            JoinRule::Equality(one) => values(one, false),
            JoinRule::Contains(one) => values(one, true),
            JoinRule::ReverseDn(name) => {
                names_entries(name, schema)?;
                Ok(Self::Names((*name).to_owned()))
            }
        }
    }
}

impl Source {
    fn of(name: &str, schema: &Schema) -> Result<Self, Refusal> {
        described(name, schema)?;
        Ok(Self { own: Selection::resolve([name].into_iter(), schema) })
    }
}

fn described(name: &str, schema: &Schema) -> Result<Arc<AttributeDescription>, Refusal> {
    schema.describe(name).map_err(|error| {
        Refusal::new(ResultCode::UndefinedAttributeType, format!("{NAME}: {error}"))
    })
}

fn names_entries(name: &str, schema: &Schema) -> Result<(), Refusal> {
    match described(name, schema)?.kind.names_entries() {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::InappropriateMatching,
            format!("{NAME}: values of '{name}' name no entries"),
        )),
    }
}

fn refused(why: &str) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, format!("{NAME}: {why}"))
}

/// What a rule means for one entry.
pub(super) enum Bound {
    All(Vec<Self>),
    Any(Vec<Self>),
    /// The entries of these numbers.
    Ids(BTreeSet<u64>),
    Filter(ResolvedFilter),
}

impl Bound {
    /// Those whose target has some of these values, or all.
    pub(super) fn of_values(values: &[Vec<u8>], target: &str, how: How, schema: &Schema) -> Self {
        let assertion = |value: &Vec<u8>| {
            let value = value.as_slice();
            let filter = match how.contains {
                false => Filter::Equality(AvaFilter { description: target, value: value.into() }),
                true => Filter::Substrings(SubstringFilter {
                    description: target,
                    initial: None,
                    any: vec![value.into()],
                    final_: None,
                }),
            };
            ResolvedFilter::resolve(&filter, schema)
        };
        // Nothing is a part of everything, and no value.
        let all = values.iter().filter(|value| !value.is_empty()).map(assertion);
        let all: Vec<ResolvedFilter> = all.collect();
        // All of no values would be in every entry.
        Self::Filter(match how.all && !all.is_empty() {
            true => ResolvedFilter::And(all),
            false => ResolvedFilter::Or(all),
        })
    }

    /// Those whose target names an entry.
    pub(super) fn naming(name: &str, target: &str, schema: &Schema) -> Self {
        let value = name.as_bytes().into();
        let filter = Filter::Equality(AvaFilter { description: target, value });
        Self::Filter(ResolvedFilter::resolve(&filter, schema))
    }
}

/// The most entries that are joined with one.
pub(super) const JOINED_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_values_nothing_is_joined() {
        let schema = Schema::builtin();
        for values in [&[][..], &[Vec::new()][..]] {
            for (contains, all) in [(false, false), (false, true), (true, false), (true, true)] {
                let bound = Bound::of_values(values, "title", How { contains, all }, &schema);
                let Bound::Filter(ResolvedFilter::Or(ways)) = bound else { panic!("{values:?}") };
                assert!(ways.is_empty());
            }
        }
    }
}
