//! Finding the entry a request names, or saying why not (RFC 4511 §4.1.9, RFC 3296 §4).

use schema::{DnKey, EntryId};
use store::{Resolved, View};

use crate::access::guard::Guard;
use crate::directory::State;
use crate::read::lookup::Lookup;
use crate::request::referral;
use crate::request::refusal::Refusal;

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
