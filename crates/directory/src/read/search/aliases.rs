//! Aliases (RFC 4511 §4.5.1.3): other names for entries, followed while the base is looked for,
//! while the scope is searched, or both.
//!
//! Invariants: an alias is followed only by whoever may search for what it names. Each is followed
//! once, so circles end. Nothing here is called when there is no alias at all.

use std::cell::Cell;
use std::collections::BTreeSet;

use ldap::message::{DerefAliases, Scope};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead, RdnKey, Schema, WellKnown};
use store::{Ask, Resolved, StoredEntry, View};

use super::{Outcome, Resolved as Asked, Search};
use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::target::{self, Lookup};
use crate::request::refusal::Refusal;
use crate::request::snapshot::alias_filter;

/// How many aliases are followed on the way to one entry.
pub(crate) const ALIAS_DEPTH_MAX: usize = 15;
/// How many aliases a search goes through, wherever they are.
pub(crate) const ALIASES_MAX: usize = 10_000;

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
            Some(id) => Some(target::stored(view, id)?),
            None => None,
        };
        let alias = alias.filter(|entry| schema.well_known().is_alias(entry));
        let Some(alias) = alias else {
            let Some(name) = &name else { return target::find(view, state, guard, lookup) };
            return found_base(view, state, guard, (lookup, name));
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
            is_known(view, guard, &next)? || nearest_is_alias(view, (schema, guard), &next)?;
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
    let stored = target::stored(view, id)?;
    Ok(guard.is_bypassed() || guard.on(&stored).is_disclosed())
}

/// Whether the way to a name goes through an alias that the asker may know of.
fn nearest_is_alias(
    view: &View<'_>,
    (schema, guard): (&Schema, &Guard<'_>),
    key: &DnKey,
) -> Result<bool, Refusal> {
    let Resolved::Missing { nearest: Some(id) } = view.resolve(key)? else { return Ok(false) };
    let stored = target::stored(view, id)?;
    let is_known = guard.is_bypassed() || guard.on(&stored).is_disclosed();
    Ok(is_known && schema.well_known().is_alias(&stored))
}

/// The end of the way: the entry called `name`, which aliases have led to.
fn found_base(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    (lookup, name): (&Lookup<'_>, &DnKey),
) -> Result<EntryId, Refusal> {
    let text = match view.resolve(name)? {
        Resolved::Found(id) => view.dn(id)?,
        // There is no text of what is missing, and nobody needs one.
        Resolved::Missing { .. } | Resolved::NoContext => lookup.name.to_owned(),
    };
    target::find(view, state, guard, &Lookup { name: &text, key: name, ..*lookup })
}

/// Where a search looks when it follows the aliases in its scope.
#[derive(Debug)]
pub(crate) struct Regions {
    /// Single entries.
    entries: BTreeSet<EntryId>,
    /// Superiors whose subordinates of one level are in scope.
    levels: BTreeSet<EntryId>,
    /// Tops of subtrees.
    subtrees: BTreeSet<EntryId>,
    /// The base of a search for its subordinates of all levels.
    below: Option<EntryId>,
    /// An alias that is an entry like others: the base, when it was not to be followed.
    shown: Option<EntryId>,
    /// The superior looked at last, and whether everything below it is in scope: neighbours mostly
    /// have the same.
    parent: Cell<Option<(EntryId, bool)>>,
}

/// What the scope becomes by the aliases in it; none when there are none. Many aliases are not gone
/// through on the thread that reads requests, nor when nobody waits any more.
pub(crate) fn regions(
    search: &Search<'_>,
    view: &View<'_>,
    state: &State,
    asked: &Asked<'_>,
) -> Result<Result<Option<Regions>, Outcome>, Refusal> {
    let &Asked { base, scope, guard, .. } = asked;
    let (deref, bounds) = (search.request.deref, search.bounds());
    let schema = &state.schema;
    let known = schema.well_known();
    let shown = (!finds_base(deref)).then_some(base);
    let mut regions = Regions::of(base, scope, shown);
    // Each alias, and whether it was followed.
    let mut aliases = Vec::new();
    let plan = view.plan(&Ask::new(&alias_filter(schema), EntryId::ROOT, Scope::Subtree))?;
    if search.candidates_max.is_some_and(|max| plan.estimate > max) {
        return Ok(Err(Outcome::TooMuch));
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
        if aliases.len() == ALIASES_MAX {
            return Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                format!("there are more than {ALIASES_MAX} aliases; ask without following them"),
            ));
        }
        aliases.push(stored);
    }
    let mut is_touched = false;
    loop {
        let before = aliases.len();
        let mut waiting = Vec::new();
        for alias in aliases {
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
            if let Some(id) = target_of(view, state, guard, &alias)? {
                regions.add(id, scope);
            }
        }
        aliases = waiting;
        if aliases.len() == before || aliases.is_empty() {
            break;
        }
    }
    Ok(Ok(is_touched.then_some(regions)))
}

/// The entry that an alias leads to, over others if need be; none when it leads nowhere.
fn target_of(
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

impl Regions {
    fn of(base: EntryId, scope: Scope, shown: Option<EntryId>) -> Self {
        let mut regions = Self {
            entries: BTreeSet::new(),
            levels: BTreeSet::new(),
            subtrees: BTreeSet::new(),
            below: None,
            shown,
            parent: Cell::new(None),
        };
        match scope {
            Scope::Base => drop(regions.entries.insert(base)),
            Scope::One => drop(regions.levels.insert(base)),
            Scope::Subtree => drop(regions.subtrees.insert(base)),
            Scope::Subordinate => regions.below = Some(base),
        }
        regions
    }

    /// Adds what an alias in scope leads to: alone where the scope is one level, else with all
    /// that is below it.
    fn add(&mut self, id: EntryId, scope: Scope) {
        match scope {
            Scope::Base | Scope::One => self.entries.insert(id),
            Scope::Subtree | Scope::Subordinate => self.subtrees.insert(id),
        };
        self.parent.set(None);
    }

    /// How many entries, levels and subtrees it consists of.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
            + self.levels.len()
            + self.subtrees.len()
            + usize::from(self.below.is_some())
    }

    /// Whether an entry is in scope.
    pub(crate) fn contains(
        &self,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
    ) -> Result<bool, Refusal> {
        let (id, parent) = (entry.id(), entry.parent());
        if self.entries.contains(&id)
            || self.subtrees.contains(&id)
            || self.levels.contains(&parent)
        {
            return Ok(true);
        }
        if let Some((known, answer)) = self.parent.get()
            && known == parent
        {
            return Ok(answer);
        }
        let mut next = parent;
        let answer = loop {
            if self.subtrees.contains(&next) || self.below == Some(next) {
                break true;
            }
            if next == EntryId::ROOT {
                break false;
            }
            next = target::stored(view, next)?.parent();
        };
        self.parent.set(Some((parent, answer)));
        Ok(answer)
    }

    /// Whether an entry is returned that the filter matches: an alias that was followed is not.
    pub(crate) fn shows(&self, entry: &StoredEntry<'_>, known: &WellKnown) -> bool {
        self.shown == Some(entry.id()) || !known.is_alias(entry)
    }

    /// The lowest entry that all of them are at or below.
    pub(crate) fn top(&self, view: &View<'_>) -> Result<EntryId, Refusal> {
        let sets = [&self.entries, &self.levels, &self.subtrees];
        let mut common: Option<Vec<EntryId>> = None;
        for id in sets.into_iter().flatten().copied().chain(self.below) {
            let mut way = vec![id];
            let mut next = id;
            while next != EntryId::ROOT {
                next = target::stored(view, next)?.parent();
                way.push(next);
            }
            way.reverse();
            let shared = match &common {
                None => way.len(),
                Some(known) => known.iter().zip(&way).take_while(|(a, b)| a == b).count(),
            };
            way.truncate(shared);
            common = Some(way);
        }
        Ok(common.and_then(|way| way.last().copied()).unwrap_or(EntryId::ROOT))
    }
}
