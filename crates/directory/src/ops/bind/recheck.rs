//! Sessions follow their entries: what a bind found out holds as long as the entry says so.
//!
//! Invariant: a session that was looked at has what its entry gives it at that point of the log, or
//! ends.

use std::sync::Arc;

use super::login;
use crate::identity_mapper;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::worker::Worker;

/// Why a session has to end.
type Ended = &'static str;

/// Looks at the entry of a session.
pub(crate) fn recheck(
    worker: &mut Worker,
    session: &mut Session,
) -> Result<Result<(), Ended>, Refusal> {
    let Some(id) = session.entry() else { return Ok(Ok(())) };
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    let Some(entry) = view.entry(id)? else {
        return Ok(Err("the entry of this session was deleted"));
    };
    if login::check_usable(&directory, &state, &entry).is_err() {
        return Ok(Err("the account of this session was switched off, or has expired"));
    }
    let access = identity_mapper::access(&state, &entry)?;
    let lost = session.own_access().loses(&access);
    // What is under way goes on with the rights that it began with: nothing must that are gone.
    let is_asking = session.outstanding() > 0 || session.transactions().any();
    if session.refresh(access) && lost && is_asking {
        return Ok(Err("the rights of this session were changed while it was asking"));
    }
    Ok(Ok(()))
}
