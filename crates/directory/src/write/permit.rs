//! Whether who asks for an update may have it, decided before anything about its target is told.
//!
//! Invariant: what is refused here is refused whatever the entry holds: the values of a
//! modification are asked about as they were sent, even when they would change nothing.
//! Invariant: a target that the asker may not know of is refused as one that is not there.
//!
//! The effects are decided on once more, by `Rights::permit`, which alone makes a `Permitted`.

use std::collections::HashSet;

use aci::{Access, Denied, Privilege, Right, Rights, ValueChange};
use ldap::message::ModifyOperation;
use schema::{AttributeDescription, DnKey, EntryId, EntryRead};
use store::StoredEntry;

use crate::access::guard;
use crate::config::setting_config;
use crate::password_policy::set;
use crate::read::target;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::request::{Add, Modification, ModifyDn, RefusedPasswords, WriteOp};
use crate::write::{checks, passwords, rank};

/// Refuses what the asker may not do.
pub(crate) fn check(decide: &Decide<'_>, op: &WriteOp) -> Result<(), Refusal> {
    check_privileges(decide.guard.access(), op)?;
    if !decide.guard.is_bypassed() {
        check_rights(decide, op)?;
    }
    // Last: it tells that there is such an entry.
    rank::check_request(decide, op)
}

/// Refuses what the rules do not give a right to.
fn check_rights(decide: &Decide<'_>, op: &WriteOp) -> Result<(), Refusal> {
    match op {
        WriteOp::Add(op) => add(decide, op),
        WriteOp::Delete(op) => on_target(decide, &op.dn, &op.key, |_, rights| {
            rights.may_entry(Right::Delete) && may_touch_policies(decide, &op.key, false)
        }),
        WriteOp::SubtreeDelete(op) if op.is_begun() => Ok(()),
        WriteOp::SubtreeDelete(op) => {
            on_target(decide, &op.dn, &op.key, |_, rights| rights.may_entry(Right::Delete))?;
            whole_tree(decide, &op.key)
        }
        WriteOp::Modify(op) if op.key == decide.state.subschema_key => {
            let subschema = &*decide.state.subschema;
            let rights = decide.guard.on(subschema);
            let is_allowed = may_all(&rights, subschema, &op.modifications)
                && op.refused.iter().all(|one| may_set(&rights, subschema, one));
            if is_allowed { Ok(()) } else { Err(Denied.into()) }
        }
        // Nothing changes, but it is told that there is such an entry.
        WriteOp::Modify(op) if op.modifications.is_empty() && op.refused.is_empty() => {
            on_target(decide, &op.dn, &op.key, |_, rights| rights.is_disclosed())
        }
        WriteOp::Modify(op) => on_target(decide, &op.dn, &op.key, |stored, rights| {
            let is_beside = op.modifications.iter().all(|one| one.description.is_password());
            may_all(rights, stored, &op.modifications)
                && op.refused.iter().all(|one| may_set(rights, stored, one))
                && (is_beside || may_touch_policies(decide, &op.key, false))
        }),
        WriteOp::ModifyDn(op) => on_target(decide, &op.dn, &op.key, |_, rights| {
            may_rename(decide, op, rights) && may_touch_policies(decide, &op.key, true)
        }),
        WriteOp::PasswordModify(op) => {
            let password = &decide.state.schema.well_known().user_password;
            let new = op.new.as_ref().map_or(passwords::UNKNOWN, |new| new.stored.as_slice());
            on_target(decide, &op.dn, &op.key, |stored, rights| {
                may_put(rights, stored, password, new)
            })
        }
        // Its values are decided on when they are known.
        WriteOp::StateChange(op) => {
            on_target(decide, &op.dn, &op.key, |_, rights| rights.is_disclosed())
        }
        // Those are decided on by privileges alone.
        WriteOp::IndexConfig(_) | WriteOp::SettingConfig(_) => Ok(()),
        // The server's own.
        WriteOp::Rehash(_)
        | WriteOp::AccountEvents(_)
        | WriteOp::Level(_)
        | WriteOp::SinkProgress(_) => Ok(()),
        WriteOp::Transaction(_) => Ok(()),
    }
}

/// Refuses what needs a privilege, whatever the directory holds.
fn check_privileges(access: &Access, op: &WriteOp) -> Result<(), Refusal> {
    let is_allowed = match op {
        WriteOp::Modify(op) => {
            checks::may_change_password(access, &op.key)
                || (op.refused.is_empty()
                    && !op.modifications.iter().any(|one| one.description.is_password()))
        }
        WriteOp::PasswordModify(op) => checks::may_change_password(access, &op.key),
        WriteOp::StateChange(_) => access.has(Privilege::PasswordReset),
        WriteOp::IndexConfig(_) => access.has(Privilege::ConfigWrite),
        WriteOp::SettingConfig(op) => setting_config::may_change(op.setting, access),
        WriteOp::Add(_)
        | WriteOp::Delete(_)
        | WriteOp::SubtreeDelete(_)
        | WriteOp::ModifyDn(_)
        | WriteOp::Rehash(_)
        | WriteOp::AccountEvents(_)
        | WriteOp::Level(_)
        | WriteOp::SinkProgress(_)
        | WriteOp::Transaction(_) => true,
    };
    if is_allowed { Ok(()) } else { Err(Denied.into()) }
}

/// Finds the target and asks about it.
fn on_target(
    decide: &Decide<'_>,
    dn: &ldap::dn::Dn,
    key: &DnKey,
    may: impl FnOnce(&StoredEntry<'_>, &Rights<'_>) -> bool,
) -> Result<(), Refusal> {
    let name = dn.to_string();
    let (view, guard) = (decide.view, decide.guard);
    let id = target::find(view, decide.state, guard, &decide.lookup(&name, key))?;
    let stored = guard::stored(view, id)?;
    if may(&stored, &guard.on(&stored)) {
        return Ok(());
    }
    Err(guard.denied(view, &stored)?)
}

/// Whether no password policy is in the way of who may set none: one at this name, or also `below`.
fn may_touch_policies(decide: &Decide<'_>, key: &DnKey, below: bool) -> bool {
    checks::may_set_policies(decide) || {
        let policies = decide.directory.rules.password_policies.load();
        !(if below { policies.holds_within(key) } else { policies.holds(key) })
    }
}

fn add(decide: &Decide<'_>, op: &Add) -> Result<(), Refusal> {
    let guard = decide.guard;
    let rights = guard.on(&op.entry);
    let is_allowed = rights.may_entry(Right::Add)
        && (checks::may_set_policies(decide) || !set::is_policy(&op.entry, &decide.state.schema))
        && op.entry.attributes().iter().all(|one| rights.may_begin_with(one));
    if is_allowed {
        return Ok(());
    }
    // The root DSE, the subschema subentry and the tops of naming contexts are known to everybody.
    let is_known =
        op.key.depth() == 0 || op.key == decide.state.subschema_key || decide.is_context(&op.key);
    let (Some(above), false) = (op.key.parent(), is_known) else { return Err(Denied.into()) };
    let name = op.entry.name().to_string();
    let lookup = decide.lookup(&name, &op.key);
    let superior = target::find_superior(decide.view, decide.state, guard, &above, &lookup)?;
    let stored = guard::stored(decide.view, superior)?;
    Err(target::of_superior(guard.denied(decide.view, &stored)?))
}

/// Refuses to delete a tree of which an entry must not be deleted.
fn whole_tree(decide: &Decide<'_>, key: &DnKey) -> Result<(), Refusal> {
    let store::Resolved::Found(base) = decide.view.resolve(key)? else { return Ok(()) };
    let mut waiting: Vec<EntryId> = vec![base];
    while let Some(id) = waiting.pop() {
        let stored = guard::stored(decide.view, id)?;
        if !decide.guard.on(&stored).may_entry(Right::Delete) {
            return Err(Denied.into());
        }
        for child in decide.view.children(id)? {
            waiting.push(child?);
        }
    }
    Ok(())
}

/// Whether all modifications are allowed. `entry` is as it was before all of them, so that whether
/// its values may go is asked once, however often they are to.
fn may_all(rights: &Rights<'_>, entry: &dyn EntryRead, modifications: &[Modification]) -> bool {
    if let [one] = modifications {
        return may(rights, Some(entry), one);
    }
    let mut asked = HashSet::new();
    modifications.iter().all(|one| {
        let is_emptied = one.values.is_empty();
        let is_new = match one.operation {
            ModifyOperation::Delete if !is_emptied => true,
            ModifyOperation::Delete | ModifyOperation::Replace => {
                asked.insert((&*one.description, is_emptied))
            }
            ModifyOperation::Add | ModifyOperation::Increment => true,
        };
        may(rights, is_new.then_some(entry), one)
    })
}

/// Whether a modification is allowed; without an entry, when all that it has may go.
fn may(rights: &Rights<'_>, entry: Option<&dyn EntryRead>, modification: &Modification) -> bool {
    let Modification { operation, description, values } = modification;
    let all = |change: ValueChange| {
        values.iter().all(|value| rights.may_value(change, description, value))
    };
    rights.has_privilege_for(description)
        && match operation {
            ModifyOperation::Add if values.is_empty() => rights.may(Right::Write, description),
            ModifyOperation::Add => all(ValueChange::Add),
            ModifyOperation::Delete | ModifyOperation::Replace if values.is_empty() => {
                entry.is_none_or(|entry| may_take_all(rights, entry, description))
            }
            ModifyOperation::Delete => all(ValueChange::Delete),
            ModifyOperation::Replace => {
                entry.is_none_or(|entry| may_take_each(rights, entry, description))
                    && all(ValueChange::Add)
            }
            ModifyOperation::Increment => rights.may(Right::Write, description),
        }
}

/// Whether passwords that are refused could be set, were they not.
pub(crate) fn may_set(
    rights: &Rights<'_>,
    entry: &dyn EntryRead,
    refused: &RefusedPasswords,
) -> bool {
    let RefusedPasswords { operation, description } = refused;
    rights.has_privilege_for(description)
        && (*operation != ModifyOperation::Replace || may_take_each(rights, entry, description))
        && rights.may_value(ValueChange::Add, description, passwords::UNKNOWN)
}

/// Whether a password may come in the place of all that an entry has.
pub(crate) fn may_put(
    rights: &Rights<'_>,
    entry: &dyn EntryRead,
    password: &AttributeDescription,
    new: &[u8],
) -> bool {
    may_take_each(rights, entry, password) && rights.may_value(ValueChange::Add, password, new)
}

/// Whether an attribute may lose all its values; where it has none, whether it may be written.
fn may_take_all(
    rights: &Rights<'_>,
    entry: &dyn EntryRead,
    description: &AttributeDescription,
) -> bool {
    let mut is_there = false;
    entry.visit_values(description, &mut |_, _| {
        is_there = true;
        false
    });
    match is_there {
        true => may_take_each(rights, entry, description),
        false => rights.may(Right::Write, description),
    }
}

/// Whether each value that an attribute has may go.
fn may_take_each(
    rights: &Rights<'_>,
    entry: &dyn EntryRead,
    description: &AttributeDescription,
) -> bool {
    let mut is_allowed = true;
    entry.visit_values(description, &mut |_, value| {
        is_allowed = rights.may_value(ValueChange::Delete, description, value);
        is_allowed
    });
    is_allowed
}

/// Whether the values of the new name may come, those of the old one go, and the entry may leave
/// its place. Whether it may come to the new one is asked of the new superior.
fn may_rename(decide: &Decide<'_>, op: &ModifyDn, rights: &Rights<'_>) -> bool {
    let schema = &decide.state.schema;
    let may = |change: ValueChange, ava: &ldap::dn::Ava| {
        schema.describe(&ava.attribute).is_ok_and(|description| {
            rights.has_privilege_for(&description)
                && rights.may_name(change, &description, &ava.value)
        })
    };
    let new = op.new_rdn.avas().iter().all(|ava| may(ValueChange::Add, ava));
    let mut old = op.dn.rdns().first().into_iter().flat_map(|rdn| rdn.avas());
    new && (!op.delete_old_rdn || old.all(|ava| may(ValueChange::Delete, ava)))
        && (!op.moves() || rights.may_entry(Right::Export))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use aci::Identity;
    use ldap::dn::{Dn, DnText};
    use ldap::message::Values;
    use schema::{Entry, Schema};

    use super::*;

    /// An entry that counts how often its values are visited.
    struct Counting(Entry, Cell<usize>);

    impl EntryRead for Counting {
        fn dn(&self) -> &str {
            self.0.dn()
        }

        fn visit_matching(
            &self,
            asked: &AttributeDescription,
            only: Option<&schema::ValueKey<'_>>,
            visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
        ) -> bool {
            self.0.visit_matching(asked, only, &mut |description, value| {
                self.1.set(self.1.get() + 1);
                visit(description, value)
            })
        }

        fn visit_wanted(
            &self,
            wants: &dyn Fn(&AttributeDescription) -> bool,
            visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
        ) {
            self.0.visit_wanted(wants, visit);
        }
    }

    #[test]
    fn whether_values_may_go_is_asked_once() {
        let schema = Schema::builtin();
        let name = Dn::parse("cn=a,dc=x").unwrap();
        let numbers = (0..100).map(|number| number.to_string()).collect::<Vec<_>>();
        let pairs = numbers.iter().map(|number| ("description", number.as_bytes()));
        let entry = Counting(Entry::from_pairs(name, pairs, &schema).unwrap(), Cell::new(0));
        let access = Access::of(Identity::Root(DnText::of_entry("cn=root").unwrap()));
        let rights = Rights::all(access.bypass().unwrap());
        let description = schema.describe("description").unwrap();
        let one = |operation, values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes().to_vec()).collect();
            Modification { operation, description: Arc::clone(&description), values }
        };
        let replace = one(ModifyOperation::Replace, &["x"]);
        assert!(may_all(&rights, &entry, &vec![replace; 1_000]));
        assert_eq!(entry.1.take(), 100);
        let delete = one(ModifyOperation::Delete, &[]);
        assert!(may_all(&rights, &entry, &vec![delete; 1_000]));
        assert_eq!(entry.1.take(), 100 + 1, "and whether there is any");
    }
}
