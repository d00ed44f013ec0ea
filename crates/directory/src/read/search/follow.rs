//! Following the aliases in the scope of a search (RFC 4511 §4.5.1.3).

use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::EntryId;
use store::{Ask, View};

use super::aliases;
use super::outcome::SearchOutcome;
use super::regions::Regions;
use super::request::{Resolved, Search};
use crate::directory::State;
use crate::request::refusal::Refusal;
use crate::request::snapshot::alias_filter;

/// How many aliases a search goes through, wherever they are.
pub(crate) const ALIASES_MAX: usize = 10_000;

impl Search<'_> {
    /// Puts what the aliases in scope lead to into the scope; the end of the search when it has to
    /// end meanwhile.
    pub(super) fn follow(
        &self,
        view: &View<'_>,
        state: &State,
        resolved: &mut Resolved<'_>,
    ) -> Result<Option<SearchOutcome>, Refusal> {
        let regions = regions(self, view, state, resolved)?;
        let regions = match regions {
            Ok(regions) => regions,
            Err(end) => return Ok(Some(end)),
        };
        if let Some(regions) = &regions {
            resolved.base = regions.top(view)?;
            resolved.scope = Scope::Subtree;
        }
        resolved.regions = regions;
        Ok(None)
    }
}

/// What the scope becomes by the aliases in it; none when there are none. Many aliases are not gone
/// through on the thread that reads requests, nor when nobody waits any more.
fn regions(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    resolved: &Resolved<'_>,
) -> Result<Result<Option<Regions>, SearchOutcome>, Refusal> {
    let &Resolved { base, scope, guard, .. } = resolved;
    let (deref, bounds) = (search.request.deref, search.bounds());
    let schema = &state.schema;
    let known = schema.well_known();
    let shown = (!aliases::finds_base(deref)).then_some(base);
    let mut regions = Regions::of(base, scope, shown);
    // Each alias, and whether it was followed.
    let mut found = Vec::new();
    let plan = view.plan(&Ask::new(&alias_filter(schema), EntryId::ROOT, Scope::Subtree))?;
    if search.candidates_max.is_some_and(|max| plan.estimate > max) {
        return Ok(Err(SearchOutcome::TooMuch));
    }
    for stored in plan.entries(view, EntryId::ROOT) {
        let stored = stored?;
        if let Some(end) = search.ended(&bounds) {
            return Ok(Err(end));
        }
        // What the asker may not know of leads nowhere, and does not count.
        if !known.is_alias(&stored) || !guard.on(&stored).is_disclosed() {
            continue;
        }
        if found.len() == ALIASES_MAX {
            return Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                format!("there are more than {ALIASES_MAX} aliases; ask without following them"),
            ));
        }
        found.push(stored);
    }
    let mut is_touched = false;
    loop {
        let before = found.len();
        let mut waiting = Vec::new();
        for alias in found {
            if let Some(end) = search.ended(&bounds) {
                return Ok(Err(end));
            }
            // Only subordinates of the base are followed (RFC 4511 §4.5.1.3).
            if alias.id() == base {
                continue;
            }
            if !regions.contains(view, &alias)? {
                waiting.push(alias);
                continue;
            }
            is_touched = true;
            if let Some(id) = aliases::target_of(view, state, guard, &alias)? {
                regions.add(id, scope);
            }
        }
        found = waiting;
        if found.len() == before || found.is_empty() {
            break;
        }
    }
    Ok(Ok(is_touched.then_some(regions)))
}
