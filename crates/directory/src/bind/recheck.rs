//! Whoever asks is who they are now: what a bind found out holds as long as the entries say so.
//!
//! Invariant: a session that was looked at has what its entry gives it at that point of the log, or
//! ends.
//! Invariant: nothing is written for an identity that is not what it was when it asked, at the very
//! point of the log where that is decided: a name may have changed hands, a transaction waits.

use std::sync::Arc;

use aci::{Access, Privilege, Right};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId};
use store::View;

use super::login;
use crate::access::group_limits;
use crate::access::guard::{Viewer, guarded};
use crate::bind::identity_mapper;
use crate::directory::{Directory, State};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

/// Why an identity is not what it was.
type Ended = &'static str;

/// Looks at the entry of a session.
pub(crate) fn recheck(
    worker: &mut Worker,
    session: &mut Session,
) -> Result<Result<(), Ended>, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load_full();
    let (view, groups) = worker.snapshot.view_with_groups()?;
    let mut access = match now(&directory, &state, view, session.own_access())? {
        Ok(Some(access)) => access,
        Ok(None) => return Ok(Ok(())),
        Err(why) => return Ok(Err(why)),
    };
    if let Some(grants) = group_limits::with_groups(&state, view, groups, &access)? {
        access = access.granted(grants);
    }
    let lost = session.own_access().loses(&access);
    // What is under way goes on with the rights that it began with: nothing must that are gone.
    let is_asking = session.outstanding() > 0 || session.transactions().any();
    if session.refresh(access) && lost && is_asking {
        return Ok(Err("the rights of this session changed during a request"));
    }
    Ok(Ok(()))
}

/// Refuses a write of an identity that is not what it was when it asked.
pub(crate) fn check(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    access: &Access,
) -> Result<(), Refusal> {
    let refuse = |why| Err(Refusal::new(ResultCode::InsufficientAccessRights, why));
    match now(directory, state, view, access)? {
        Ok(Some(now)) if access.loses(&now) => {
            refuse("the name or the privileges of the identity changed; bind again")
        }
        Ok(Some(_) | None) => Ok(()),
        Err(why) => refuse(why),
    }
}

/// The access that the entry of an identity gives now, without the limits of groups, which decide
/// on nothing; none when it has no entry.
fn now(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    access: &Access,
) -> Result<Result<Option<Access>, Ended>, Refusal> {
    if let Some(prover) = access.prover()
        && !may_act(directory, state, view, prover, access)?
    {
        return Ok(Err("the right to act as another identity was withdrawn"));
    }
    let Some(id) = access.entry() else { return Ok(Ok(None)) };
    let Some(entry) = view.entry(id)? else {
        return Ok(Err("the entry of this session was deleted"));
    };
    if !login::is_usable(directory, state, view, &entry)? {
        return Ok(Err("the account of this session was switched off, or has expired"));
    }
    let now = identity_mapper::access(state, &entry)?;
    Ok(Ok(Some(now.proved_by(access.prover()))))
}

/// Whether an entry may act as this identity now: it can sign in, and has the privilege and the
/// right.
fn may_act(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    prover: EntryId,
    access: &Access,
) -> Result<bool, Refusal> {
    let Some(entry) = view.entry(prover)? else { return Ok(false) };
    let prover = identity_mapper::access(state, &entry)?.from_origin(access.origin().clone());
    if !login::is_usable(directory, state, view, &entry)? || !prover.has(Privilege::ProxiedAuth) {
        return Ok(false);
    }
    let Some(id) = access.entry() else { return Ok(true) };
    // That it is gone is found out by whoever asks for it.
    let Some(other) = view.entry(id)? else { return Ok(true) };
    let viewer = Viewer { directory, access: &prover, view, schema: &state.schema };
    Ok(guarded(&viewer, &DnKey::root(), |guard| guard.on(&other).may_entry(Right::Proxy)))
}
