//! Finding the entry a request names, or saying why not (RFC 4511 §4.1.9, RFC 3296 §4).

use std::sync::Arc;

use schema::{DnKey, Entry, EntryId};
use store::{Resolved, StoredEntry, View};

use crate::access::guard::{Guard, NO_SUCH_ENTRY};
use crate::directory::{Directory, State};
use crate::read::root_dse::{self, Offer};
use crate::request::referral;
use crate::request::refusal::Refusal;

/// Entries the server makes itself; they are in no naming context.
pub(crate) enum Special {
    /// The root DSE.
    Root(Entry),
    /// The subschema subentry.
    Subschema(Arc<Entry>),
}

impl Special {
    pub(crate) fn entry(&self) -> &Entry {
        match self {
            Self::Root(entry) => entry,
            Self::Subschema(entry) => entry,
        }
    }
}

/// The special entry named by `key`, if it is one.
pub(crate) fn special(
    directory: &Directory,
    state: &State,
    key: &DnKey,
    offer: impl FnOnce() -> Offer,
) -> Option<Special> {
    if key.depth() == 0 {
        return Some(Special::Root(root_dse::entry(directory, &state.schema, offer())));
    }
    (*key == state.subschema_key).then(|| Special::Subschema(Arc::clone(&state.subschema)))
}

/// How the named entry is looked for.
pub(crate) struct Lookup<'a> {
    /// The name as the client wrote it, and its key: referral URLs are made of them.
    pub(crate) name: &'a str,
    pub(crate) key: &'a DnKey,
    /// Referral objects are looked out for; else they are entries like others.
    pub(crate) referrals: bool,
    /// What a referral URL is to say about the scope; `None` outside searches.
    pub(crate) scope: Option<ldap::message::Scope>,
}

/// Finds an entry of the naming contexts.
///
/// Refuses with `noSuchObject`, naming the nearest superior that the asker may know of, or with
/// `referral` when the entry is or lies below a referral object. What it finds the asker may not
/// know of: see [`Guard::hidden`] and [`Guard::denied`].
pub(crate) fn find(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    lookup: &Lookup<'_>,
) -> Result<EntryId, Refusal> {
    find_for(view, state, guard, lookup.key, lookup)
}

/// Finds the entry `key` on the way to the one that `lookup` asks for.
fn find_for(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    key: &DnKey,
    lookup: &Lookup<'_>,
) -> Result<EntryId, Refusal> {
    let resolved = view.resolve(key)?;
    let nearest = match &resolved {
        Resolved::Found(id) => Some(*id),
        Resolved::Missing { nearest } => *nearest,
        Resolved::NoContext => None,
    };
    if lookup.referrals
        && let Some(nearest) = nearest
        && let Some(refusal) = referral::above(view, state, guard, nearest, lookup)?
    {
        return Err(refusal);
    }
    match resolved {
        Resolved::Found(id) => Ok(id),
        Resolved::Missing { nearest } => {
            Err(guard.not_there(view, nearest.unwrap_or(EntryId::ROOT))?)
        }
        Resolved::NoContext => Err(Refusal::no_such_object(
            String::new(),
            "the name is in none of the naming contexts of this server",
        )),
    }
}

/// Finds the superior of a new entry: like `find`, but the entry asked for (`lookup`) is one below.
pub(crate) fn find_superior(
    view: &View<'_>,
    state: &State,
    guard: &Guard<'_>,
    superior: &DnKey,
    lookup: &Lookup<'_>,
) -> Result<EntryId, Refusal> {
    find_for(view, state, guard, superior, lookup).map_err(of_superior)
}

/// A refusal to look for the superior of an entry that is to be.
pub(crate) fn of_superior(mut refusal: Refusal) -> Refusal {
    if refusal.code == ldap::result::ResultCode::NoSuchObject && !refusal.matched.is_empty() {
        refusal.diagnostic = "the superior of the entry does not exist; add it first".into();
    }
    refusal
}

/// Reads an entry that was found.
pub(crate) fn stored<'v>(view: &'v View<'_>, id: EntryId) -> Result<StoredEntry<'v>, Refusal> {
    view.entry(id)?.ok_or_else(|| Refusal::no_such_object(String::new(), NO_SUCH_ENTRY))
}
