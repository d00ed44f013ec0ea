//! From a name to the entry it stands for: DNs, authorization identities (RFC 4513 §5.2.1.8), and
//! users' names that an attribute of the entry equals.
//!
//! Invariant: a user's name stands for one entry or for none. When two entries have it, nobody is
//! let in by it: whoever may write the attribute could otherwise become somebody else.

use std::borrow::Cow;

use aci::{Access, Identity};
use ldap::dn::{Dn, DnText};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{DnKey, EntryId, EntryRead as _, MatchingRule, ResolvedFilter, Schema, Truth};
use store::{Ask, Resolved, StoredEntry, View};

use crate::bind::authentication::IdentityMapper;
use crate::bind::credentials::RootIdentity;
use crate::bind::login;
use crate::bind::user_name::{Found, UserName};
use crate::directory::{Directory, State};
use crate::request::refusal::Refusal;

/// Who `name` stands for; `None` when nobody does. Refuses a DN that is none.
pub(crate) fn find(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    name: UserName<'_>,
) -> Result<Option<Found>, Refusal> {
    match name {
        UserName::Dn(name) => {
            let key = DnKey::from_text(&state.schema, name)
                .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
            find_dn(&directory.credentials.root, view, &key)
        }
        UserName::User(name) => find_user(directory, state, view, name),
    }
}

/// Who has this DN.
pub(crate) fn find_dn(
    root: &RootIdentity,
    view: &View<'_>,
    key: &DnKey,
) -> Result<Option<Found>, Refusal> {
    if *key == root.key {
        return Ok(Some(Found::Root));
    }
    Ok(match view.resolve(key)? {
        Resolved::Found(id) if id != EntryId::ROOT => Some(Found::Entry(id)),
        _ => None,
    })
}

/// The entry of a name that somebody else vouches for: an identity provider, a key distribution
/// centre. They do not decide who is the administrator here; their names are users' names below the
/// bases, whatever their form; and such a name has to be written as ours are.
pub(crate) fn find_vouched(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    name: UserName<'_>,
) -> Result<Option<Found>, Refusal> {
    if !is_as_written(&state.schema, name) {
        directory.seldom.name.line(|left_out| {
            tracing::info!(
                left_out,
                "an external name is not written like the name here, so it cannot sign in"
            );
        });
        return Ok(None);
    }
    let found = match find(directory, state, view, name) {
        Err(refusal) if refusal.code == ResultCode::InvalidDnSyntax => None,
        found => found?,
    };
    let Some(Found::Entry(id)) = found else { return Ok(None) };
    let Some(entry) = view.entry(id)? else { return Ok(None) };
    let bases = bases(&directory.credentials.authentication().names, state, view)?;
    Ok(is_below_any(view, &entry, bases.as_deref())?.then_some(Found::Entry(id)))
}

/// Whether string preparation (RFC 4518) changes nothing of a name but the case of letters, and in
/// a DN spaces: elsewhere `an\u{ad}na` may be somebody else than `anna`.
fn is_as_written(schema: &Schema, name: UserName<'_>) -> bool {
    match name {
        UserName::User(name) => is_prepared(schema, name.as_bytes()),
        UserName::Dn(name) => is_dn_as_written(schema, name),
    }
}

/// Whether string preparation changes nothing of a DN but the case of letters, and spaces.
pub(crate) fn is_dn_as_written(schema: &Schema, name: &str) -> bool {
    let Ok(name) = Dn::parse(name) else { return false };
    let mut avas = name.rdns().iter().flat_map(|rdn| rdn.avas());
    avas.all(|ava| is_value_as_written(schema, &ava.value))
}

/// Whether string preparation changes nothing of a value of a DN but the case of letters, and
/// spaces. What is no text is not prepared.
pub(crate) fn is_value_as_written(schema: &Schema, value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return true };
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    is_prepared(schema, words.join(" ").as_bytes())
}

fn is_prepared(schema: &Schema, value: &[u8]) -> bool {
    let mut prepared = Vec::with_capacity(value.len());
    MatchingRule::find("caseExactMatch")
        .is_some_and(|rule| (rule.prepare)(schema, value, &mut prepared).is_ok())
        && prepared == value
}

fn find_user(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    name: &str,
) -> Result<Option<Found>, Refusal> {
    if name.is_empty() || name.len() > USER_NAME_MAX_BYTES {
        return Ok(None);
    }
    let mapper = &directory.credentials.authentication().names;
    for attribute in &mapper.attributes {
        let pair = AvaFilter { description: attribute, value: Cow::Borrowed(name.as_bytes()) };
        match find_all(directory, state, view, &Filter::Equality(pair))? {
            Matches::None => {}
            Matches::One(id) => return Ok(Some(Found::Entry(id))),
            Matches::Many => return Ok(None),
        }
    }
    Ok(None)
}

/// How many entries a name stands for.
enum Matches {
    None,
    One(EntryId),
    Many,
}

/// The one entry below the mapper's bases that matches `filter`; `None` when there is none or more
/// than one.
pub(crate) fn find_one(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    filter: &Filter<'_>,
) -> Result<Option<Found>, Refusal> {
    Ok(match find_all(directory, state, view, filter)? {
        Matches::One(id) => Some(Found::Entry(id)),
        Matches::None | Matches::Many => None,
    })
}

fn find_all(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    filter: &Filter<'_>,
) -> Result<Matches, Refusal> {
    let resolved = ResolvedFilter::resolve(filter, &state.schema);
    let plan = view.plan(&Ask::new(&resolved, EntryId::ROOT, Scope::Subtree))?;
    if plan.estimate > CANDIDATES_MAX {
        directory.seldom.name.line(|left_out| {
            tracing::warn!(
                attributes = attributes(filter),
                left_out,
                "too many entries would have to be read to find the entry of a name: give the \
                 attribute an equality index"
            );
        });
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "users are not found by name here, because an index is missing; bind with a DN",
        ));
    }
    let bases = bases(&directory.credentials.authentication().names, state, view)?;
    let mut found = Matches::None;
    for entry in plan.entries(view, EntryId::ROOT) {
        let entry = entry?;
        if resolved.matches(&state.schema, &entry) != Truth::True
            || !is_below_any(view, &entry, bases.as_deref())?
        {
            continue;
        }
        if let Matches::One(_) = found {
            directory.seldom.name.line(|left_out| {
                tracing::warn!(
                    attributes = attributes(filter),
                    left_out,
                    "a name that more than one entry has cannot sign in"
                );
            });
            return Ok(Matches::Many);
        }
        found = Matches::One(entry.id());
    }
    Ok(found)
}

/// The attribute types of a filter, for the log: no values.
fn attributes(filter: &Filter<'_>) -> String {
    match filter {
        Filter::Equality(pair) => pair.description.to_owned(),
        Filter::And(parts) => parts.iter().map(attributes).collect::<Vec<_>>().join("+"),
        _ => String::new(),
    }
}

/// The entries named as bases; `None` when all entries are looked at.
fn bases(
    mapper: &IdentityMapper,
    state: &State,
    view: &View<'_>,
) -> Result<Option<Vec<EntryId>>, Refusal> {
    if mapper.bases.is_empty() {
        return Ok(None);
    }
    let mut bases = Vec::new();
    for name in &mapper.bases {
        if let Ok(key) = DnKey::from_text(&state.schema, name)
            && let Resolved::Found(id) = view.resolve(&key)?
        {
            bases.push(id);
        }
    }
    Ok(Some(bases))
}

fn is_below_any(
    view: &View<'_>,
    entry: &StoredEntry<'_>,
    bases: Option<&[EntryId]>,
) -> Result<bool, Refusal> {
    let Some(bases) = bases else {
        return Ok(true);
    };
    for base in bases {
        if view.is_within(entry, *base)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What an entry that has proved itself may do. Everybody who authenticates as an entry comes by
/// here, whatever the proof was.
pub(crate) fn access(state: &State, entry: &StoredEntry<'_>) -> Result<Access, Refusal> {
    let key = DnKey::from_text(&state.schema, entry.dn())
        .map_err(|error| Refusal::new(ResultCode::Other, error.to_string()))?;
    access_keyed(state, entry, key)
}

/// What an entry that has proved itself may do, where the key of its name is known.
pub(crate) fn access_keyed(
    state: &State,
    entry: &StoredEntry<'_>,
    key: DnKey,
) -> Result<Access, Refusal> {
    let dn = DnText::of_entry(entry.dn())?;
    let access = Access::with(Identity::Entry(dn), state.grants.read(entry));
    Ok(access.keyed(key).of_entry(entry.id()))
}

/// What may be done by whoever has proved by other means than a password to be who was found.
/// Refuses accounts that are switched off, expired, or locked by somebody.
pub(crate) fn access_without_password(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    found: Found,
) -> Result<Option<Access>, Refusal> {
    if let Found::Entry(id) = found
        && let Some(entry) = view.entry(id)?
    {
        login::check_usable(directory, state, view, &entry)?;
    }
    access_of(&directory.credentials.root, state, view, found)
}

/// What whoever was found may do, whether anything was proved or not; `None` when the entry is
/// gone.
pub(crate) fn access_of(
    root: &RootIdentity,
    state: &State,
    view: &View<'_>,
    found: Found,
) -> Result<Option<Access>, Refusal> {
    match found {
        Found::Root => Ok(Some(root.access())),
        Found::Entry(id) => view.entry(id)?.map(|entry| access(state, &entry)).transpose(),
    }
}

/// Candidates read for one name; with an index there are as many as matches.
const CANDIDATES_MAX: u64 = 100;

/// Octets of a user's name.
const USER_NAME_MAX_BYTES: usize = 1_024;
