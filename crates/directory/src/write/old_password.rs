//! The old password that a request sends: a guess, which counts as a bind does.

use auth::password;
use schema::{AttributeDescription, DnKey};
use store::Resolved;

use crate::bind::hashing::Behind;
use crate::bind::login::Login;
use crate::directory::State;
use crate::password_policy::attempts::Own;
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;
use crate::write::request::OldPassword;

/// The stored value that the old password is behind. It is wrong as well where there is no such
/// entry, which the decision tells. It is looked at, but does not count, when no bind with it
/// would: nobody guesses here what they may not guess there.
pub(crate) fn behind(
    worker: &mut Worker,
    key: &DnKey,
    state: &State,
    old: &[u8],
) -> Result<OldPassword, Refusal> {
    let known = state.schema.well_known();
    let stored = stored_now(worker, key, &known.user_password)?;
    let Behind::At(place) = worker.which(old, &stored) else { return Ok(OldPassword::Wrong) };
    let may_try = login(worker, key, state)?
        .is_some_and(|login| login.may_try(&worker.directory, Own::None).is_ok());
    let right = stored.get(place).filter(|_| may_try).cloned();
    Ok(right.map_or(OldPassword::Wrong, OldPassword::Right))
}

/// Whether nobody may try a password of the account now.
pub(crate) fn is_shut(worker: &mut Worker, key: &DnKey, state: &State) -> Result<bool, Refusal> {
    let login = login(worker, key, state)?;
    Ok(login.is_some_and(|login| login.may_try(&worker.directory, Own::None).is_err()))
}

/// The old password was wrong: to the policy a bind that failed.
pub(crate) fn note_wrong(worker: &mut Worker, key: &DnKey, state: &State) -> Result<(), Refusal> {
    worker.request.is_wrong_guess = true;
    if let Some(login) = login(worker, key, state)? {
        // Why it is refused is told by the decision, to those who may know of the entry.
        let _ = login.settle(worker, Own::None, false);
    }
    Ok(())
}

/// Whether a password that was looked at counts as right. A wrong one is noted, and so is one that
/// no bind may try now.
pub(crate) fn counts(
    worker: &mut Worker,
    key: &DnKey,
    state: &State,
    is_right: bool,
) -> Result<bool, Refusal> {
    if is_right && !is_shut(worker, key, state)? {
        return Ok(true);
    }
    note_wrong(worker, key, state)?;
    Ok(false)
}

/// The account of an entry, if there is one.
fn login(worker: &mut Worker, key: &DnKey, state: &State) -> Result<Option<Login>, Refusal> {
    let directory = &worker.directory;
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(key)? else { return Ok(None) };
    let entry = view.entry(id)?;
    let read = |entry| Login::read(directory, state, view, &entry, key);
    Ok(entry.map(read).transpose()?)
}

/// The values that the entry has before anything that waits is written.
pub(crate) fn stored_now(
    worker: &mut Worker,
    key: &DnKey,
    description: &AttributeDescription,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(key)? else { return Ok(Vec::new()) };
    let stored = view.entry(id)?.map(|entry| password::stored_in(&entry, description));
    Ok(stored.unwrap_or_default())
}
