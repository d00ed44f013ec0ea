//! ModifyDN of the entry at the top of a naming context: the naming context gets the name, too.
//!
//! Invariant: what lies below keeps its numbers and its names below it, so however much that is, it
//! is one change of one entry, and one of the naming contexts, in one record.

use aci::{Permitted, Privilege};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{Change, DnKey, SettingChange};
use store::NAMING_CONTEXTS;

use crate::config::naming_context_config::{check_apart, check_name, level, values};
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::request::ModifyDn;

/// The name above the new one: what the request says, or what is above the old one.
pub(super) fn superior(op: &ModifyDn) -> Dn {
    match &op.new_superior {
        Some((dn, _)) => dn.clone(),
        None => Dn::new(op.dn.rdns().iter().skip(1).cloned().collect()),
    }
}

/// Refuses who may not rename naming contexts.
pub(super) fn check_privilege(decide: &Decide<'_>) -> Result<(), Refusal> {
    match decide.guard.access().has(Privilege::ConfigWrite) {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "it is the entry at the top of a naming context: to rename that takes the privilege \
             config-write",
        )),
    }
}

/// What changes with the entry; refuses a name that the naming context cannot have.
pub(super) fn decide(
    decide: &Decide<'_>,
    old: &DnKey,
    new_dn: &Dn,
) -> Result<Vec<Permitted<Change>>, Refusal> {
    let access = decide.guard.access();
    check_name(decide, new_dn)?;
    let schema = &decide.state.schema;
    let new_key = DnKey::from_dn(schema, new_dn).unwrap_or_default();
    if new_key != *old && (new_key.is_within(old) || old.is_within(&new_key)) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a naming context cannot be renamed to a name below its own, or above it: take another \
             name, and then this one",
        ));
    }
    let before = values(decide.view)?;
    let mut after = before.clone();
    for name in &mut after {
        match DnKey::from_text(schema, name).is_ok_and(|key| key == *old) {
            true => *name = new_dn.to_string(),
            false => check_apart(decide, new_dn, name)?,
        }
    }
    let mut changes = level(decide)?;
    if after != before {
        for values in [before, after] {
            let change = SettingChange { name: NAMING_CONTEXTS.to_owned(), values };
            changes.push(access.permit(Change::Setting(change))?);
        }
    }
    Ok(changes)
}
