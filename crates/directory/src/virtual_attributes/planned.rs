//! What plans are made for where attributes may be given: indexes have only what is stored.
//!
//! Invariant: every entry that the filter is true of is a candidate for what it is planned as, and
//! what is asked about a given attribute proves nothing: each candidate is tested.

use schema::{
    Assertion, AttributeDescription, DnKey, ExtensibleAssertion, MatchingRule, ResolvedFilter,
};
use store::at_or_below;

use super::definition::{Area, Definition, Source};
use super::set::VirtualAttributes;

/// What to plan instead of a filter; none where the filter itself does. Recurses as deep as the
/// filter is, which decoding limits.
pub(crate) fn planned(
    all: &VirtualAttributes,
    filter: &ResolvedFilter,
) -> Option<Box<ResolvedFilter>> {
    let mut count = 0;
    filter.visit_descriptions(&mut |one| count += usize::from(all.may_give(one)));
    // Of very many terms each candidate is tested, whatever each of them could be given.
    (count > 0).then(|| Box::new(rewritten(all, filter, count <= TERMS_MAX)))
}

fn rewritten(all: &VirtualAttributes, filter: &ResolvedFilter, is_exact: bool) -> ResolvedFilter {
    let each = |parts: &[ResolvedFilter]| {
        parts.iter().map(|part| rewritten(all, part, is_exact)).collect::<Vec<_>>()
    };
    match filter {
        ResolvedFilter::And(parts) => ResolvedFilter::And(each(parts)),
        ResolvedFilter::Or(parts) => ResolvedFilter::Or(each(parts)),
        ResolvedFilter::Not(part) => ResolvedFilter::Not(Box::new(rewritten(all, part, is_exact))),
        ResolvedFilter::Equality(assertion) => {
            let asked = &assertion.description;
            item(all, filter, asked, &|one| !is_exact || may_be(one, assertion), is_exact)
        }
        ResolvedFilter::GreaterOrEqual(one)
        | ResolvedFilter::LessOrEqual(one)
        | ResolvedFilter::Approx(one) => item(all, filter, &one.description, &|_| true, is_exact),
        ResolvedFilter::Present(asked) => item(all, filter, asked, &|_| true, is_exact),
        ResolvedFilter::Substrings(one) => item(all, filter, &one.description, &|_| true, is_exact),
        ResolvedFilter::Extensible(one) => match &one.description {
            Some(asked) => item(all, filter, asked, &|_| true, is_exact),
            None => filter.clone(),
        },
        ResolvedFilter::Undefined => filter.clone(),
    }
}

/// An assertion about an attribute: what indexes know, and all that may be given a value by a
/// definition that `may_give` one.
fn item(
    all: &VirtualAttributes,
    filter: &ResolvedFilter,
    asked: &AttributeDescription,
    may_give: &dyn Fn(&Definition) -> bool,
    is_exact: bool,
) -> ResolvedFilter {
    if !all.may_give(asked) {
        return filter.clone();
    }
    if !is_exact {
        return ResolvedFilter::Or(vec![filter.clone(), untold()]);
    }
    let attributes = all.attributes().iter().filter(|one| asked.covers(&one.description));
    let givers = attributes.flat_map(|one| &one.definitions).filter(|one| may_give(one));
    let mut stored = vec![filter.clone()];
    // Subentries alone store them, so they need no index of their own.
    if asked.kind.collective {
        stored.extend(all.known().map(|known| known.subentries.clone()));
    }
    stored.push(untold());
    let mut ways = vec![ResolvedFilter::And(stored)];
    for definition in givers.take(WAYS_MAX) {
        let below = |base: &DnKey| all.known().map(|known| at_or_below(&known.entry_dn, base));
        let mut parts = Vec::new();
        match &definition.area {
            Area::Place(place) => {
                parts.extend(place.filter.clone());
                parts.extend(place.below.as_ref().and_then(below));
            }
            Area::Subtree(subtree) => parts.extend(below(subtree.base())),
            Area::Below(base) => parts.extend(below(base)),
        }
        if parts.is_empty() {
            return ResolvedFilter::Or(vec![filter.clone(), untold()]);
        }
        parts.push(untold());
        ways.push(ResolvedFilter::And(parts));
    }
    match ways.len() {
        // One that was left out may be of any entry.
        len if len > WAYS_MAX => ResolvedFilter::Or(vec![filter.clone(), untold()]),
        _ => ResolvedFilter::Or(ways),
    }
}

/// Whether a definition may give the value of an assertion.
fn may_be(definition: &Definition, assertion: &Assertion) -> bool {
    match &definition.source {
        Source::Constant(constant) => constant.may_be(assertion),
        Source::Superior(_)
        | Source::Referenced { .. }
        | Source::Text(_)
        | Source::Template(_)
        | Source::Named { .. } => true,
    }
}

/// What no index tells of any entry, nor of its opposite.
fn untold() -> ResolvedFilter {
    let rule = MatchingRule::find(ANY_RULE);
    rule.map_or(ResolvedFilter::And(Vec::new()), |rule| {
        ResolvedFilter::Extensible(ExtensibleAssertion {
            description: None,
            rule,
            dn_attributes: true,
            key: Vec::new(),
        })
    })
}

/// Which one it is does not matter.
const ANY_RULE: &str = "caseIgnoreMatch";
/// Areas that a plan looks up, at the most.
const WAYS_MAX: usize = 8;
/// Terms about given attributes that are planned one by one, at the most.
const TERMS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use ldap::filter::Filter;
    use schema::Schema;

    use super::*;

    #[test]
    fn what_is_untold_is_there() {
        assert!(matches!(untold(), ResolvedFilter::Extensible(_)));
        let schema = Schema::builtin();
        let nothing = VirtualAttributes::default();
        let filter = Filter::parse("(&(l=x)(cn=y))").unwrap();
        let filter = ResolvedFilter::resolve(&filter, &schema);
        assert_eq!(planned(&nothing, &filter), None);
    }
}
