//! Accounts that are switched off by what a Class of Service gives them, as whole roles are by
//! 389's and Sun's servers.
//!
//! Invariant: what cannot be read switches nobody on: whoever asks is told of the failure.

use std::cell::RefCell;

use schema::{AttributeDescription, Schema};
use store::{StoreError, StoredEntry, View};

use super::giver::Giver;
use super::set::VirtualAttributes;
use crate::groups::lookup::Groups;
use crate::password_policy::switches::{GivenSwitch, SwitchTypes, Switches};
use crate::rules::RulesInForce;

/// What the entry of an account, and what it is given, say of the account.
///
/// # Errors
/// When what decides cannot be read.
pub(crate) fn switches(
    rules: &RulesInForce,
    view: &View<'_>,
    schema: &Schema,
    types: &SwitchTypes,
    stored: &StoredEntry<'_>,
) -> Result<Switches, StoreError> {
    let of_views = rules.of_views.load();
    let all = &*of_views.at(view.lsn()).virtual_attributes;
    if all.is_empty() || !types.disabling().any(|one| all.may_give(one)) {
        return Ok(types.read(stored));
    }
    read(all, view, schema, types, stored)
}

fn read(
    all: &VirtualAttributes,
    view: &View<'_>,
    schema: &Schema,
    types: &SwitchTypes,
    stored: &StoredEntry<'_>,
) -> Result<Switches, StoreError> {
    let failed = RefCell::new(None);
    // Of too many those that are found count: a lock must not end with one more.
    let roles = || match Groups::new(view, schema).roles_of(stored) {
        Ok(found) => found.roles.iter().map(|role| role.name.clone()).collect(),
        Err(error) => {
            *failed.borrow_mut() = Some(error);
            Vec::new()
        }
    };
    let giver = Giver::new(all, view, stored, None);
    let wants = |asked: &AttributeDescription| types.disabling().any(|one| **one == *asked);
    let given = giver.of(&wants, &roles);
    giver.check()?;
    failed.into_inner().map_or(Ok(()), Err)?;
    Ok(types.read_with(stored, &|asked| {
        let found = given.iter().find(|one| *one.description == *asked)?;
        Some(GivenSwitch { values: &found.values, hides: found.hides })
    }))
}
