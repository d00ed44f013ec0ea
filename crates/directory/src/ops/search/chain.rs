//! In-chain (1.2.840.113556.1.4.1941): `(member:1.2.840.113556.1.4.1941:=DN)` is true of entries
//! that have the DN as a member, or a member that has it, and so on.
//!
//! Before planning, the assertion becomes an OR of equality assertions: of the DN, and of all
//! entries that lead to it. Those are found level by level, all of a level in one look-up.
//!
//! Invariants: each entry is gone through once, so circles end, and at most [`CHAIN_ENTRIES_MAX`]
//! are. Only values that the asker may search for lead anywhere, of entries that they may see: what
//! a search for each level would find.

use std::collections::BTreeSet;

use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    Assertion, Compare, EntryId, EntryRead, ExtensibleAssertion, MatchingRule, ResolvedFilter,
    Truth,
};
use store::{Ask, StoreError, View};

use super::{Bounds, Outcome, Search};
use crate::directory::State;
use crate::guard::Guard;
use crate::refusal::Refusal;

/// The most entries that one assertion goes through.
pub(crate) const CHAIN_ENTRIES_MAX: usize = 10_000;

/// What became of a filter.
pub(crate) enum Expanded {
    /// It asks for no chain.
    Same,
    /// It asks for its entries one by one now.
    Filter(ResolvedFilter),
    /// It cannot be answered here, or by nobody any more.
    End(Outcome),
}

/// Looks up the chains that a filter asks about.
pub(crate) fn expand(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    (guard, filter): (&Guard<'_>, &ResolvedFilter),
) -> Result<Expanded, Refusal> {
    if !asks(filter) {
        return Ok(Expanded::Same);
    }
    // Nobody knows beforehand how long a chain is.
    if search.candidates_max.is_some() {
        return Ok(Expanded::End(Outcome::TooMuch));
    }
    let bounds = search.bounds();
    match (Chains { search, view, state, guard, bounds: &bounds }).rewrite(filter)? {
        Ok(filter) => Ok(Expanded::Filter(filter)),
        Err(end) => Ok(Expanded::End(end)),
    }
}

pub(super) fn asks(filter: &ResolvedFilter) -> bool {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().any(asks),
        ResolvedFilter::Not(part) => asks(part),
        ResolvedFilter::Extensible(assertion) => assertion.rule.compare == Compare::Chain,
        _ => false,
    }
}

/// A filter, or the end of the search.
type Rewritten = Result<Result<ResolvedFilter, Outcome>, Refusal>;

/// What looking up chains depends on.
struct Chains<'a> {
    search: &'a Search<'a>,
    view: &'a View<'a>,
    state: &'a State,
    guard: &'a Guard<'a>,
    bounds: &'a Bounds,
}

impl Chains<'_> {
    /// The filter without chains. Recurses as deep as the filter is, which decoding limits.
    fn rewrite(&self, filter: &ResolvedFilter) -> Rewritten {
        let all = |parts: &[ResolvedFilter]| -> Result<Result<Vec<_>, Outcome>, Refusal> {
            parts.iter().map(|part| self.rewrite(part)).collect()
        };
        Ok(match filter {
            ResolvedFilter::And(parts) => all(parts)?.map(ResolvedFilter::And),
            ResolvedFilter::Or(parts) => all(parts)?.map(ResolvedFilter::Or),
            ResolvedFilter::Not(part) => {
                self.rewrite(part)?.map(|part| ResolvedFilter::Not(Box::new(part)))
            }
            ResolvedFilter::Extensible(asked) if asked.rule.compare == Compare::Chain => {
                self.chain(asked)?
            }
            other => Ok(other.clone()),
        })
    }

    /// The entries that lead to the one asked for, as assertions.
    fn chain(&self, asked: &ExtensibleAssertion) -> Rewritten {
        let Self { search, view, state, guard, bounds } = *self;
        let schema = &state.schema;
        // A chain is one of values of one attribute.
        let (Some(description), Some(rule)) =
            (&asked.description, MatchingRule::find(DISTINGUISHED_NAME_MATCH))
        else {
            return Ok(Ok(ResolvedFilter::Undefined));
        };
        let assert = |key: Vec<u8>| {
            ResolvedFilter::Equality(Assertion { description: description.clone(), rule, key })
        };
        let interrupt = || search.planning_ends(bounds);
        let mut all = vec![assert(asked.key.clone())];
        let mut known: BTreeSet<EntryId> = BTreeSet::new();
        let mut level = ResolvedFilter::Or(all.clone());
        loop {
            let ask =
                Ask { interrupt: &interrupt, ..Ask::new(&level, EntryId::ROOT, Scope::Subtree) };
            let plan = match view.plan(&ask) {
                Err(StoreError::Interrupted) => {
                    return Ok(Err(search.ended(bounds).unwrap_or(Outcome::Abandoned)));
                }
                planned => planned?,
            };
            search.check_indexed(&plan, view, (&ask, guard))?;
            // A level may have thousands of parts: what the plan proved is not tested again.
            let is_certain =
                plan.exact && guard.sees_all() && guard.may_search_everywhere(description);
            let mut next = Vec::new();
            for stored in plan.entries(view, EntryId::ROOT) {
                if let Some(end) = search.ended(bounds) {
                    return Ok(Err(end));
                }
                let stored = stored?;
                let is_match = is_certain || {
                    let rights = guard.on(&stored);
                    let entry = rights.searchable(&stored);
                    search.evaluate(&level, schema, &entry) == Truth::True && rights.may_see()
                };
                if known.contains(&stored.id()) || !is_match {
                    continue;
                }
                known.insert(stored.id());
                if known.len() > CHAIN_ENTRIES_MAX {
                    return Err(Refusal::new(
                        ResultCode::AdminLimitExceeded,
                        format!("more than {CHAIN_ENTRIES_MAX} entries are in the chain"),
                    ));
                }
                let mut key = Vec::new();
                if (rule.prepare)(schema, stored.dn().as_bytes(), &mut key).is_ok() {
                    next.push(assert(key));
                }
            }
            if next.is_empty() {
                return Ok(Ok(ResolvedFilter::Or(all)));
            }
            all.extend(next.iter().cloned());
            level = ResolvedFilter::Or(next);
        }
    }
}

const DISTINGUISHED_NAME_MATCH: &str = "2.5.13.1";
