//! What every change of an entry passes before it is logged, whichever operation makes it.
//!
//! Invariant: an operation gets its `Permitted` here and nowhere else (`cargo xtask tidy` lists who
//! asks for one), so a check that stands here is one that no operation can skip.
//! Invariant: a password is no part of a name and has no options: a bind, a reset and a policy then
//! mean the same values, and no clear text is in a DN.
//! Invariant: an ACI has no options, so whoever looks at `aci` sees what is in force.
//! Invariant: what decides how passwords are kept and tried, and which policy governs whom, is
//! changed by the privilege `password-reset` alone: no right on an entry makes up for it.

use std::sync::Arc;

use aci::{
    Access, Denied, Own, Permitted, Privilege, Right, Rights, privilege_for, why_not_granted,
};
use ldap::dn::Rdn;
use ldap::result::ResultCode;
use schema::{AttributeDelta, AttributeDescription, Change, DeleteChange, DnKey, Entry, Schema};
use store::{Resolved, StoredEntry};

use crate::access::{acis, guard};
use crate::constraint;
use crate::groups::member_entry::MemberEntry;
use crate::password_policy::set;
use crate::request::refusal::Refusal;
use crate::virtual_attributes::set as virtual_attributes;
use crate::write::decision::Decide;
use crate::write::rank;

/// A change that is complete, and what it is to be checked against.
pub(crate) struct Checked<'c> {
    /// The entry before the change.
    pub(crate) key: &'c DnKey,
    pub(crate) rights: &'c Rights<'c>,
    /// The rights on the entry below which a rename moves it.
    pub(crate) onto: Option<&'c Rights<'c>>,
    /// The entry as the change leaves it.
    pub(crate) after: &'c Entry,
    pub(crate) passwords: Passwords<'c>,
    /// What the server gave the entry by itself: of these attributes nobody needs a right.
    pub(crate) given: &'c [Arc<AttributeDescription>],
}

/// By whose word passwords change.
#[derive(Clone, Copy)]
pub(crate) enum Passwords<'c> {
    /// Nobody's: the change must not be about any.
    Untouched,
    /// The policy allows it, and has set these attributes beside.
    Decided(&'c [Arc<AttributeDescription>]),
    /// The server's own: the same password in another form, the state of an account.
    OfServer,
}

/// What a change does with values of one attribute.
struct Touch<'c> {
    description: &'c AttributeDescription,
    adds: bool,
}

/// Passes a change through every check. The rights make the `Permitted`; after them come the
/// constraints, which tell of other entries.
pub(crate) fn permit(
    decide: &Decide<'_>,
    checked: &Checked<'_>,
    change: Change,
) -> Result<Permitted<Change>, Refusal> {
    let schema = &decide.state.schema;
    if let Some(rdn) = new_rdn(&change) {
        check_rdn(rdn, schema)?;
    }
    let touches = touches(&change);
    for touch in &touches {
        if touch.adds {
            acis::check_description(schema, touch.description)?;
        }
        if touch.adds && !matches!(checked.passwords, Passwords::OfServer) {
            check_description(touch.description)?;
        }
        if touch.description.is_password() && matches!(checked.passwords, Passwords::Untouched) {
            return Err(Refusal::new(
                ResultCode::UnwillingToPerform,
                "a password is changed by modify or password modify only",
            ));
        }
    }
    if !may_touch(decide, checked, &change, &touches)
        || !may_change_policies(decide, checked, &change)
    {
        return Err(Denied.into());
    }
    check_governing(decide, checked, &change)?;
    if !matches!(checked.passwords, Passwords::OfServer) {
        rank::check_change(decide, &change)?;
    }
    if touches.iter().any(|one| schema.well_known().aci.covers(one.description)) {
        acis::check_entry(schema, checked.after)?;
    }
    set::check_entry(schema, checked.after)?;
    virtual_attributes::check_entry(schema, checked.after)?;
    check_definitions(decide, checked.after, &change)?;
    let permitted = match (checked.onto, checked.passwords) {
        (Some(onto), _) => checked.rights.permit_move(change, onto)?,
        (None, Passwords::Decided(own)) => {
            checked.rights.permit_with(change, &Own { of_password: own, given: checked.given })?
        }
        (None, Passwords::Untouched | Passwords::OfServer) => {
            checked.rights.permit_with(change, &Own { of_password: &[], given: checked.given })?
        }
    };
    // Only who may rename the entry learns that something is about it.
    check_targets(decide, checked.key, permitted.get())?;
    // What the administrator moves in or brings back is as it was.
    if !decide.controls.relax {
        check_privileges(permitted.get())?;
    }
    if !matches!(checked.passwords, Passwords::OfServer) {
        constraint::check::check(decide, checked, permitted.get())?;
    }
    Ok(permitted)
}

/// Passes the deletion of an entry.
pub(crate) fn permit_delete(
    decide: &Decide<'_>,
    stored: &StoredEntry<'_>,
    change: DeleteChange,
) -> Result<Permitted<Change>, Refusal> {
    if !may_set_policies(decide) && set::is_policy(stored, &decide.state.schema) {
        return Err(Denied.into());
    }
    let permitted = decide.guard.on(stored).permit(Change::Delete(change))?;
    // Only who may delete the entry learns what it is.
    if virtual_attributes::is_holder(stored, &decide.state.schema) {
        may_define(decide)?;
    }
    Ok(permitted)
}

/// Whether the asker may add, change, rename and delete password policies.
pub(crate) fn may_set_policies(decide: &Decide<'_>) -> bool {
    decide.guard.access().has(Privilege::PasswordReset)
}

/// Refuses a name that holds a password, whichever way its type is written: names are in logs, in
/// answers and in other entries. An object class is refused as well.
pub(crate) fn check_rdn(rdn: &Rdn, schema: &Schema) -> Result<(), Refusal> {
    let refuse = |why| Err(Refusal::new(ResultCode::NamingViolation, why));
    let class = &schema.well_known().object_class.kind;
    for ava in rdn.avas() {
        let Ok(found) = schema.describe(&ava.attribute) else { continue };
        if found.is_password() {
            return refuse("a password cannot be part of a name");
        }
        // A rename would make it an entry of another kind.
        if found.kind.is_subtype_of(class) {
            return refuse("an object class cannot be part of a name");
        }
    }
    Ok(())
}

/// Refuses new values of a password under an option: they would be passwords that no reset and no
/// policy knows of.
pub(crate) fn check_description(description: &AttributeDescription) -> Result<(), Refusal> {
    match description.is_password() && !description.options().is_empty() {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::ConstraintViolation,
            format!("'{}': a password has no options", description.text()),
        )),
    }
}

/// Refuses to say what other entries have, in spite of what may be written into them, to those who
/// may not say who may do so.
fn check_definitions(decide: &Decide<'_>, after: &Entry, change: &Change) -> Result<(), Refusal> {
    let schema = &decide.state.schema;
    let object_class = &schema.well_known().object_class;
    let was_one = || {
        let mut classes = deltas(change).iter().filter(|one| one.description == *object_class);
        classes.any(|one| one.removed.iter().any(|value| virtual_attributes::is_class(value)))
    };
    match virtual_attributes::is_holder(after, schema) || was_one() {
        true => may_define(decide),
        false => Ok(()),
    }
}

/// Refuses to change what entries have without storing it to all who may not change access rules.
fn may_define(decide: &Decide<'_>) -> Result<(), Refusal> {
    match decide.guard.access().has(Privilege::ModifyAcl) {
        true => Ok(()),
        false => Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "a collective attribute or a Class of Service says what other entries have: that takes \
             the privilege modify-acl",
        )),
    }
}

/// Refuses to delete an entry and all below it if definitions go with it. Only who may delete the
/// entry is told why.
pub(crate) fn check_definitions_within(
    decide: &Decide<'_>,
    key: &DnKey,
    top: &StoredEntry<'_>,
) -> Result<(), Refusal> {
    if !decide.virtual_attributes.holds_within(key) {
        return Ok(());
    }
    let told = may_define(decide);
    match decide.guard.on(top).may_entry(Right::Delete) {
        true => told,
        false => told.map_err(|_| Denied.into()),
    }
}

/// Refuses a rename by which the target of an ACI, or a virtual attribute, would mean other
/// entries, or none: that changes what they say, so it needs the privilege that this needs.
fn check_targets(decide: &Decide<'_>, old: &DnKey, change: &Change) -> Result<(), Refusal> {
    let Change::Rename(rename) = change else { return Ok(()) };
    if decide.guard.access().has(Privilege::ModifyAcl) {
        return Ok(());
    }
    let new = DnKey::from_dn(&decide.state.schema, &rename.new_dn).unwrap_or_default();
    if *old == new {
        return Ok(());
    }
    let what = if decide.acis.target_of_rename(old, &new).is_some() {
        "the target of an ACI names"
    } else if decide.virtual_attributes.are_of_rename(old, &new) {
        "a collective attribute, a Class of Service or a virtual attribute is at, or is about,"
    } else {
        return Ok(());
    };
    Err(Refusal::new(
        ResultCode::InsufficientAccessRights,
        format!(
            "{what} the old or the new name, or one below it: this rename needs the privilege \
             modify-acl"
        ),
    ))
}

/// Refuses people to choose which password policy governs their own account, by what they write
/// into it or by its name, and a rename by which policies would govern other subtrees.
fn check_governing(
    decide: &Decide<'_>,
    checked: &Checked<'_>,
    change: &Change,
) -> Result<(), Refusal> {
    let policies = decide.directory.rules.password_policies.load();
    let is_of_server = matches!(checked.passwords, Passwords::OfServer);
    if policies.is_empty() || is_of_server || may_set_policies(decide) {
        return Ok(());
    }
    let is_own = decide.guard.access().key() == Some(checked.key);
    let refuse = |why: &'static str| Err(Refusal::new(ResultCode::InsufficientAccessRights, why));
    let new = match change {
        Change::Rename(rename) => {
            let new = DnKey::from_dn(&decide.state.schema, &rename.new_dn).unwrap_or_default();
            if new != *checked.key && policies.are_of_rename(checked.key, &new) {
                return refuse(
                    "the subtree or the filter of a password policy names the old or the new name, \
                     or one below it: this rename needs the privilege password-reset",
                );
            }
            new
        }
        Change::Modify(_) => checked.key.clone(),
        _ => return Ok(()),
    };
    // What the server sets chooses nothing.
    let chosen = deltas(change).iter().filter(|one| !follows(checked, one));
    let chosen = chosen.filter(|one| policies.ask_for(&one.description)).collect::<Vec<_>>();
    if !is_own || (chosen.is_empty() && new == *checked.key) {
        return Ok(());
    }
    let Resolved::Found(id) = decide.view.resolve(checked.key)? else { return Ok(()) };
    let schema = &decide.state.schema;
    let before = guard::stored(decide.view, id)?.to_entry()?;
    let mut after = before.clone();
    for AttributeDelta { description, removed, added } in chosen {
        after.remove_present_values(schema, description, removed);
        after.add_missing_values(schema, description, added)?;
    }
    // Where groups follow a name, they do so later: who is in one that counts keeps the name.
    let of = |entry, key| policies.of(&MemberEntry::new(decide.view, schema, entry).keyed(key));
    match of(&before, checked.key)? == of(&after, &new)? {
        true => Ok(()),
        false => refuse(
            "another password policy would govern the own account: that takes somebody with the \
             privilege password-reset",
        ),
    }
}

/// What an entry is called from now on, where the change says that.
fn new_rdn(change: &Change) -> Option<&Rdn> {
    match change {
        Change::Add(add) => add.entry.name().rdns().first(),
        Change::Rename(rename) => Some(&rename.new_rdn),
        Change::Modify(_) | Change::Delete(_) => None,
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Gather(_)
        | Change::Level(_) => None,
    }
}

fn deltas(change: &Change) -> &[AttributeDelta] {
    match change {
        Change::Modify(modify) => &modify.deltas,
        Change::Rename(rename) => &rename.deltas,
        Change::Add(_) | Change::Delete(_) => &[],
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Gather(_)
        | Change::Level(_) => &[],
    }
}

fn touches(change: &Change) -> Vec<Touch<'_>> {
    if let Change::Add(add) = change {
        let all = add.entry.attributes().iter();
        return all.map(|one| Touch { description: &one.description, adds: true }).collect();
    }
    let touches = deltas(change).iter().map(|delta| {
        let AttributeDelta { description, added, .. } = delta;
        Touch { description, adds: !added.is_empty() }
    });
    touches.collect()
}

/// Refuses to grant a privilege that is none, or has no effect here. What was loaded stays.
fn check_privileges(change: &Change) -> Result<(), Refusal> {
    let grants = |one: &AttributeDescription| {
        privilege_for(one).is_some_and(|needed| needed == Privilege::PrivilegeChange)
    };
    let why = match change {
        Change::Add(add) => {
            let attributes = add.entry.attributes().iter();
            let mut granting = attributes.filter(|one| grants(&one.description));
            granting.find_map(|one| one.values.iter().find_map(|value| why_not_granted(value)))
        }
        _ => {
            let mut granting = deltas(change).iter().filter(|one| grants(&one.description));
            granting.find_map(|one| one.added.iter().find_map(|value| why_not_granted(value)))
        }
    };
    match why {
        None => Ok(()),
        Some(why) => {
            let diagnostic = format!("ds-privilege-name: {why}");
            Err(Refusal::new(ResultCode::ConstraintViolation, diagnostic))
        }
    }
}

/// Whether the asker may change what signs somebody in: see [`may_change_password`].
/// Whoever adds an entry says how it signs in.
fn may_touch(
    decide: &Decide<'_>,
    checked: &Checked<'_>,
    change: &Change,
    touches: &[Touch<'_>],
) -> bool {
    matches!(change, Change::Add(_))
        || matches!(checked.passwords, Passwords::OfServer)
        || may_change_password(decide.guard.access(), checked.key)
        || !touches.iter().any(|one| decide.signs_in(one.description))
}

/// Whether somebody may change what signs in the entry of this name: that of the own entry, or of
/// any other with the privilege `password-reset`. Who acts as somebody does not change what signs
/// that one in: it would outlive the right to act as them.
pub(crate) fn may_change_password(access: &Access, key: &DnKey) -> bool {
    match access.key() == Some(key) {
        true => access.prover().is_none(),
        false => access.has(Privilege::PasswordReset),
    }
}

/// Whether the asker may change the password policies that a change is about: the entries of such,
/// and the names of those below an entry.
fn may_change_policies(decide: &Decide<'_>, checked: &Checked<'_>, change: &Change) -> bool {
    if may_set_policies(decide) || matches!(checked.passwords, Passwords::OfServer) {
        return true;
    }
    let schema = &decide.state.schema;
    // The ones before this change: whoever changes them in a transaction may do so here, too.
    let policies = decide.directory.rules.password_policies.load();
    let is_about_one = match change {
        // With its superior classes.
        Change::Add(add) => set::is_policy(&add.entry, schema),
        Change::Modify(modify) => {
            (policies.holds(checked.key) || set::is_policy(checked.after, schema))
                && modify.deltas.iter().any(|delta| !follows(checked, delta))
        }
        Change::Rename(_) => {
            policies.holds_within(checked.key) || set::is_policy(checked.after, schema)
        }
        Change::Delete(_) => policies.holds(checked.key),
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Gather(_)
        | Change::Level(_) => false,
    };
    !is_about_one
}

/// Whether an attribute changes with the password of an entry, or is set by the server alone.
fn follows(checked: &Checked<'_>, delta: &AttributeDelta) -> bool {
    let description = &delta.description;
    let own = match checked.passwords {
        Passwords::Decided(own) => own,
        Passwords::Untouched | Passwords::OfServer => &[],
    };
    description.is_password() || description.kind.no_user_modification || own.contains(description)
}
