//! Limits that groups and roles give their members: those of the class `roster-limits-of-members`
//! that somebody is in, where the own entry says nothing.
//!
//! Invariant: of several groups the widest limit holds, whatever their order.
//! Invariant: privileges are never given so: who may write members would give them.
//! Where no group has the class, this costs one look into an index.

use aci::{Access, Grants};
use ldap::message::Scope;
use schema::{Assertion, EntryId, ResolvedFilter, Truth};
use store::{Ask, StoreError, View};

use crate::directory::State;
use crate::groups::known::KnownGroups;
use crate::groups::lookup::{GROUPS_MAX, Groups};
use crate::groups::roles::RoleKind;

/// What an access may do with the limits of the groups that its entry is in; none where they give
/// it nothing.
pub(crate) fn with_groups(
    state: &State,
    view: &View<'_>,
    known: &KnownGroups,
    access: &Access,
) -> Result<Option<Grants>, StoreError> {
    let (Some(id), Some(key)) = (access.entry(), access.key()) else { return Ok(None) };
    if known.has_none(view, &state.schema, CLASS) {
        return Ok(None);
    }
    let object_class = state.schema.well_known().object_class.clone();
    let of_class = Assertion::equality(&state.schema, object_class, CLASS.as_bytes());
    let Ok(of_class) = of_class.map(ResolvedFilter::Equality) else { return Ok(None) };
    let giving = giving(view, &of_class)?;
    if giving.is_empty() {
        known.put_absent(CLASS);
        return Ok(None);
    }
    let Some(entry) = view.entry(id)? else { return Ok(None) };
    let groups = Groups::new(view, &state.schema).knowing(known);
    // Where some were left out, those that were found give what they have.
    let is_in = groups.of(&entry)?;
    let mut given = Grants::default();
    for id in giving {
        let Some(one) = view.entry(id)? else { continue };
        if of_class.matches(&state.schema, &one) != Truth::True {
            continue;
        }
        let is_given = is_in.found().iter().any(|group| group.id == id)
            || match RoleKind::of(&one, &state.schema) {
                Some(kind) => groups.has_role(&one, kind, &groups.key(&one), key)? == Truth::True,
                None => false,
            };
        if is_given {
            given = given.or_wider_limits(state.grants.read(&one));
        }
    }
    Ok(Some(access.grants().or_limits(given)))
}

/// Everything that may give limits: so many at the most as a question goes through.
fn giving(view: &View<'_>, of_class: &ResolvedFilter) -> Result<Vec<EntryId>, StoreError> {
    let plan = view.plan(&Ask::new(of_class, EntryId::ROOT, Scope::Subtree))?;
    if !plan.indexed {
        return Ok(Vec::new());
    }
    plan.candidates(view, EntryId::ROOT).take(GROUPS_MAX).collect()
}

/// The class of groups that give limits.
const CLASS: &str = "roster-limits-of-members";
