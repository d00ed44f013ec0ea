//! An entry that has privileges keeps its name, its users' names, its password and the state of its
//! account but by itself, and by who has all the privileges that it has.
//!
//! Invariant: nobody gets a privilege by giving the entry that has it another name or another
//! password, or the own name; and nobody without it lets such an account out of its lock or policy.

use aci::{Privileges, is_account_state};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{AttributeDescription, Change, EntryId, ResolvedFilter};
use store::{Ask, Resolved};

use crate::access::guard;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::request::WriteOp;

/// Refuses a request for what only equals may do, before anything is told of what the entry holds:
/// whether a password that was sent is the old one.
pub(crate) fn check_request(decide: &Decide<'_>, op: &WriteOp) -> Result<(), Refusal> {
    let key = match op {
        WriteOp::StateChange(op) => &op.key,
        WriteOp::PasswordModify(op) => &op.key,
        WriteOp::Modify(op) => {
            let refused = op.refused.iter().map(|one| &*one.description);
            let mut touched = op.modifications.iter().map(|one| &*one.description).chain(refused);
            match touched.any(|one| is_of_equals(decide, one)) {
                true => &op.key,
                false => return Ok(()),
            }
        }
        _ => return Ok(()),
    };
    match decide.view.resolve(key)? {
        Resolved::Found(id) if id != EntryId::ROOT => {
            check_own_state(decide, op, id)?;
            check(decide, id)
        }
        _ => Ok(()),
    }
}

/// Refuses who does not have all privileges to change the state of the own account: the rules for
/// passwords hold for those who may reset the passwords of others, too.
fn check_own_state(decide: &Decide<'_>, op: &WriteOp, id: EntryId) -> Result<(), Refusal> {
    let access = decide.guard.access();
    let is_of_state = match op {
        WriteOp::StateChange(_) => true,
        WriteOp::Modify(op) => {
            op.modifications.iter().any(|one| is_account_state(&one.description))
        }
        _ => false,
    };
    if !is_of_state
        || access.entry() != Some(id)
        || access.grants().privileges.include(Privileges::ALL)
    {
        return Ok(());
    }
    Err(Refusal::new(
        ResultCode::InsufficientAccessRights,
        "the state of your own account can be changed only by others, or if you have all \
         privileges",
    ))
}

/// Refuses a change of what only equals may change.
pub(crate) fn check_change(decide: &Decide<'_>, change: &Change) -> Result<(), Refusal> {
    match change {
        Change::Rename(rename) => {
            check(decide, rename.id)?;
            check_below(decide, rename.id)
        }
        Change::Modify(modify) => {
            let mut touched = modify.deltas.iter().map(|delta| &*delta.description);
            match touched.any(|one| is_of_equals(decide, one)) {
                true => check(decide, modify.id),
                false => Ok(()),
            }
        }
        Change::Add(_)
        | Change::Delete(_)
        | Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Gather(_)
        | Change::Level(_) => Ok(()),
    }
}

/// Whether values of an attribute say who signs in as the entry, and whether anybody may.
fn is_of_equals(decide: &Decide<'_>, description: &AttributeDescription) -> bool {
    decide.signs_in(description)
        || is_account_state(description)
        || decide.directory.credentials.authentication().names_users(&description.kind)
}

/// Refuses who lacks a privilege that the entry has, unless it is the own one. Who acts as somebody
/// has their privileges, but gives them no other name: that would outlive the right to act as them.
fn check(decide: &Decide<'_>, id: EntryId) -> Result<(), Refusal> {
    let access = decide.guard.access();
    let own = access.grants().privileges;
    let is_own = access.entry() == Some(id);
    let is_lent = is_own && access.prover().is_some();
    if !is_lent && (is_own || own.include(Privileges::ALL)) {
        return Ok(());
    }
    let stored = guard::stored(decide.view, id)?;
    let privileges = decide.state.grants.read(&stored).privileges;
    match privileges == Privileges::NONE || (!is_lent && own.include(privileges)) {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "the entry, or one below it, has privileges that you lack: only the entry itself, or \
             a user who has them all, may change its name and its credentials",
        )),
    }
}

/// Refuses a rename of an entry below which entries have privileges: their names change with it.
fn check_below(decide: &Decide<'_>, id: EntryId) -> Result<(), Refusal> {
    let Decide { view, state, .. } = decide;
    let Ok(privilege) = state.schema.describe("ds-privilege-name") else { return Ok(()) };
    let is_all = decide.guard.access().grants().privileges.include(Privileges::ALL);
    if is_all || view.child_count(id)? == 0 {
        return Ok(());
    }
    // In most directories few entries have privileges, or none has.
    let dictionary = view.dictionary();
    let mut ids = 0..u32::try_from(dictionary.len()).unwrap_or(u32::MAX);
    if !ids.any(|id| dictionary.description(id).is_some_and(|one| privilege.covers(one))) {
        return Ok(());
    }
    let filter = ResolvedFilter::Present(privilege);
    let plan = view.plan(&Ask::new(&filter, id, Scope::Subtree))?;
    if plan.estimate > LOOKED_AT_MAX {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "too many entries would have to be looked at for privileges: give ds-privilege-name a \
             presence index, or have the administrator rename the entry",
        ));
    }
    for entry in plan.entries(view, EntryId::ROOT) {
        let entry = entry?;
        if view.is_within(&entry, id)? {
            check(decide, entry.id())?;
        }
    }
    Ok(())
}

/// Entries below a renamed one that are read to see whether they have privileges: the writer does
/// nothing else meanwhile.
const LOOKED_AT_MAX: u64 = 10_000;
