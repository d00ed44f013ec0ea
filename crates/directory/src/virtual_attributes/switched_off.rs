//! Accounts that are switched off by what a Class of Service gives them, as whole roles are by
//! 389's and Sun's servers.
//!
//! Invariant: what cannot be read switches nobody on: whoever asks is told of the failure. Nor does
//! what is too much to look at: where a role may be left out that is switched off, the account is.

use std::cell::{Cell, OnceCell, RefCell};

use ldap::dn::Dn;
use schema::{AttributeDescription, DnKey, EntryRead, Schema};
use store::{Resolved, StoreError, StoredEntry, View};

use super::definition::Source;
use super::giver::Giver;
use super::service;
use super::set::VirtualAttributes;
use crate::groups::lookup::{GROUPS_MAX, Groups};
use crate::groups::roles::HasRoles;
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
    let (is_cut, roles) = (Cell::new(false), OnceCell::new());
    let find = || match roles_with_templates(all, view, schema, types, stored) {
        Ok((roles, some_left_out)) => {
            is_cut.set(some_left_out);
            roles
        }
        Err(error) => {
            *failed.borrow_mut() = Some(error);
            Vec::new()
        }
    };
    let roles = || roles.get_or_init(find).clone();
    let giver = Giver::new(all, view, stored, None);
    let wants = |asked: &AttributeDescription| types.disabling().any(|one| **one == *asked);
    let given = giver.of(&wants, &roles);
    giver.check()?;
    failed.take().map_or(Ok(()), Err)?;
    let mut switches = types.read_with(stored, &|asked| {
        let found = given.iter().find(|one| *one.description == *asked)?;
        Some(GivenSwitch { values: &found.values, hides: found.hides })
    });
    if is_cut.get() && !switches.is_disabled {
        let account = stored.dn();
        tracing::warn!(account, "an account is off: too many roles to tell whether one is");
        switches.is_disabled = true;
    }
    Ok(switches)
}

/// The roles of an account of which a template may say that it is off, and whether some were left
/// out. Others are not looked at, however many there are: whoever may add some switches nobody on
/// or off by it.
fn roles_with_templates(
    all: &VirtualAttributes,
    view: &View<'_>,
    schema: &Schema,
    types: &SwitchTypes,
    stored: &StoredEntry<'_>,
) -> Result<(Vec<String>, bool), StoreError> {
    let groups = Groups::new(view, schema);
    let of_all = || groups.roles_of(stored).map(|found| (names_of(&found), found.is_cut));
    let mut names = Vec::new();
    for above in above_templates(all, schema, types) {
        let Resolved::Found(above) = view.resolve(above)? else { continue };
        // Where templates are among very many entries it is less to go by the roles that it has.
        if view.child_count(above)? > GROUPS_MAX as u64 {
            return of_all();
        }
        for child in view.children(above)? {
            // One that cannot be read fails for those alone who have the role that it is for.
            let Ok(template) = view.entry(child?) else { return of_all() };
            let template = template.filter(|one| service::is_template(one, schema));
            names.extend(template.and_then(|one| role_of(&one, schema)));
        }
    }
    let found = groups.roles_among(stored, &names)?;
    Ok((names_of(&found), found.is_cut))
}

fn names_of(found: &HasRoles) -> Vec<String> {
    found.roles.iter().map(|role| role.name.clone()).collect()
}

/// The entries above the templates of roles that may switch accounts off.
fn above_templates<'d>(
    all: &'d VirtualAttributes,
    schema: &Schema,
    types: &SwitchTypes,
) -> Vec<&'d DnKey> {
    let role = &schema.well_known().ns_role;
    let switches = |one: &AttributeDescription| types.disabling().any(|it| **it == *one);
    let attributes = all.attributes().iter().filter(|one| switches(&one.description));
    let mut above: Vec<&DnKey> = Vec::new();
    for definition in attributes.flat_map(|one| &one.definitions) {
        match &definition.source {
            Source::Named { below, by } if **by == **role && !above.contains(&below) => {
                above.push(below);
            }
            Source::Named { .. }
            | Source::Constant(_)
            | Source::Superior(_)
            | Source::Referenced { .. }
            | Source::Text(_)
            | Source::Template(_) => {}
        }
    }
    above
}

/// The name of the role that a template is for: it is called by it.
fn role_of(template: &StoredEntry<'_>, schema: &Schema) -> Option<DnKey> {
    let name = Dn::parse_stored(template.dn()).ok()?;
    let ava = name.rdns().first()?.avas().first()?;
    DnKey::from_text(schema, std::str::from_utf8(&ava.value).ok()?).ok()
}
