//! Aliases (RFC 4511 §4.5.1.3): other names for entries, followed while the base is looked for,
//! while the scope is searched, or both.
//!
//! Invariants: an alias is followed only by whoever may search for what it names. Each is followed
//! once, so circles end. Nothing here is called when there is no alias at all.

use std::collections::BTreeSet;

use ldap::message::{DerefAliases, Scope};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead, RdnKey, Schema, WellKnown};
use store::{Resolved, StoredEntry, View};

use crate::access::guard::{self, Guard};
use crate::directory::State;
use crate::read::lookup::Lookup;
use crate::read::target;
use crate::request::refusal::Refusal;

/// How many aliases are followed on the way to one entry.
pub(crate) const ALIAS_DEPTH_MAX: usize = 15;

/// Whether aliases are followed to find the base.
pub(crate) const fn finds_base(deref: DerefAliases) -> bool {
    matches!(deref, DerefAliases::FindingBase | DerefAliases::Always)
}

/// Whether aliases in scope are followed: those of subordinates only.
pub(crate) const fn searches(deref: DerefAliases, scope: Scope) -> bool {
    matches!(deref, DerefAliases::InSearching | DerefAliases::Always)
        && !matches!(scope, Scope::Base)
}

/// Refuses an alias as the superior of an entry: it has no subordinates (X.501 §8.6), and whoever
/// follows it would never see them.
pub(crate) fn refuse_below(superior: &StoredEntry<'_>, known: &WellKnown) -> Result<(), Refusal> {
    if !known.is_alias(superior) {
        return Ok(());
    }
    Err(Refusal {
        matched: superior.dn().to_owned(),
        ..Refusal::new(ResultCode::AliasProblem, "the superior is an alias: nothing is below one")
    })
}

/// What an alias names; none when the asker may not know, or it is no name.
fn aliased(entry: &StoredEntry<'_>, schema: &Schema, guard: &Guard<'_>) -> Option<DnKey> {
    let mut named = None;
    let asked = &schema.well_known().aliased_object_name;
    let rights = guard.on(entry);
    if !rights.is_disclosed() {
        return None;
    }
    rights.searchable(entry).visit_values(asked, &mut |_, value| {
        named = std::str::from_utf8(value).ok().map(str::to_owned);
        false
    });
    DnKey::from_text(schema, &named?).ok()
}

/// Finds the base of a search, following aliases at it and above it.
///
/// Refuses as [`target::find`] does; with `aliasProblem` when an alias names no entry, or aliases
/// lead in a circle or are too many; with `aliasDereferencingProblem` when one may not be followed.
pub(crate) fn find_base(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    lookup: &Lookup<'_>,
) -> Result<EntryId, Refusal> {
    let schema = &state.schema;
    let mut name: Option<DnKey> = None;
    let mut followed = BTreeSet::new();
    loop {
        let key = name.as_ref().unwrap_or(lookup.key);
        let nearest = match view.resolve(key)? {
            Resolved::Found(id) => Some(id),
            Resolved::Missing { nearest } => nearest,
            Resolved::NoContext => None,
        };
        let alias = match nearest {
            Some(id) => Some(guard::stored(view, id)?),
            None => None,
        };
        let alias = alias.filter(|entry| schema.well_known().is_alias(entry));
        let Some(alias) = alias else {
            let Some(name) = &name else { return target::find(view, state, guard, lookup) };
            return found_base(view, state, guard, lookup, name);
        };
        // Whoever may not know of the alias finds nothing behind it.
        if !guard.is_bypassed() && !guard.on(&alias).is_disclosed() {
            return Err(guard.hidden(view, alias.id())?);
        }
        let problem = |code, diagnostic: &'static str| Refusal {
            matched: alias.dn().to_owned(),
            ..Refusal::new(code, diagnostic)
        };
        let (useless, closed) = (ResultCode::AliasProblem, ResultCode::AliasDereferencingProblem);
        if !followed.insert(alias.id()) {
            return Err(problem(useless, "aliases lead in a circle"));
        }
        if followed.len() > ALIAS_DEPTH_MAX {
            return Err(problem(useless, "more aliases lead to each other than are followed"));
        }
        let mut next = aliased(&alias, schema, guard)
            .ok_or_else(|| problem(closed, "the alias names nothing that may be followed"))?;
        let is_there =
            is_known(view, guard, &next)? || nearest_is_alias(view, schema, guard, &next)?;
        if !is_there {
            return Err(problem(useless, "the alias names no entry of this server"));
        }
        // What was asked for lies as far below the entry as below its alias.
        let depth = DnKey::from_text(schema, alias.dn()).map_or(0, |alias| alias.depth());
        for rdn in key.rdns().skip(depth) {
            next.push(&RdnKey::from_bytes(rdn.to_vec()));
        }
        name = Some(next);
    }
}

/// Whether there is an entry of this name that the asker may know of: whoever may read where an
/// alias leads is not told by it whether anything is there.
fn is_known(view: &View<'_>, guard: &Guard<'_>, key: &DnKey) -> Result<bool, Refusal> {
    let Resolved::Found(id) = view.resolve(key)? else { return Ok(false) };
    let stored = guard::stored(view, id)?;
    Ok(guard.is_bypassed() || guard.on(&stored).is_disclosed())
}

/// Whether the way to a name goes through an alias that the asker may know of.
fn nearest_is_alias(
    view: &View<'_>,
    schema: &Schema,
    guard: &Guard<'_>,
    key: &DnKey,
) -> Result<bool, Refusal> {
    let Resolved::Missing { nearest: Some(id) } = view.resolve(key)? else { return Ok(false) };
    let stored = guard::stored(view, id)?;
    let is_known = guard.is_bypassed() || guard.on(&stored).is_disclosed();
    Ok(is_known && schema.well_known().is_alias(&stored))
}

/// The end of the way: the entry called `name`, which aliases have led to.
fn found_base(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    lookup: &Lookup<'_>,
    name: &DnKey,
) -> Result<EntryId, Refusal> {
    let text = match view.resolve(name)? {
        Resolved::Found(id) => view.dn(id)?,
        // There is no text of what is missing, and nobody needs one.
        Resolved::Missing { .. } | Resolved::NoContext => lookup.name.to_owned(),
    };
    target::find(view, state, guard, &Lookup { name: &text, key: name, ..*lookup })
}

/// The entry that an alias leads to, over others if need be; none when it leads nowhere.
pub(super) fn target_of(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    alias: &StoredEntry<'_>,
) -> Result<Option<EntryId>, Refusal> {
    let Some(key) = aliased(alias, &state.schema, guard) else { return Ok(None) };
    let lookup = Lookup { name: "", key: &key, referrals: false, scope: None };
    match find_base(view, state, guard, &lookup) {
        Ok(id) => Ok(Some(id)),
        Err(refusal) => match refusal.code {
            ResultCode::NoSuchObject
            | ResultCode::AliasProblem
            | ResultCode::AliasDereferencingProblem => Ok(None),
            _ => Err(refusal),
        },
    }
}
