//! Memberships that follow what entries are like.
//!
//! Invariant: an entry is in a group when any of the assignments for it says so.

use std::sync::Arc;

use aci::Privilege;
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{AttributeDelta, AttributeDescription, Change, DnKey, EntryRead, Schema};
use store::Resolved;

use super::follow::Follows;
use super::text::Assignment;
use crate::constraint::changed::Changed;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The groups that an entry comes into by a change, and those that it leaves.
pub(super) fn follow(
    follows: &mut Follows<'_>,
    all: &[Assignment],
    change: &Change,
) -> Result<(), Refusal> {
    let (view, schema) = (follows.view, follows.schema);
    let (id, deltas, old) = match change {
        Change::Add(add) => (add.id, None, None),
        Change::Modify(modify) => (modify.id, Some(&modify.deltas), None),
        Change::Rename(rename) => (rename.id, Some(&rename.deltas), Some(&rename.old_dn)),
        _ => return Ok(()),
    };
    let is_concerned =
        |one: &Assignment| old.is_some() || one.is_concerned(deltas.map(Vec::as_slice));
    if !all.iter().any(|one| one.membership().is_some() && is_concerned(one)) {
        return Ok(());
    }
    let Some(entry) = view.entry(id)? else { return Ok(()) };
    let Ok(key) = DnKey::from_text(schema, entry.dn()) else { return Ok(()) };
    let old_key = old.and_then(|old| DnKey::from_dn(schema, old).ok());
    let reversed = deltas.map(|deltas| reversed(deltas)).unwrap_or_default();
    let before = Changed { before: &entry, deltas: &reversed };
    let is_new = deltas.is_none();
    for (number, membership) in all.iter().map(Assignment::membership).enumerate() {
        let Some(membership) = membership else { continue };
        // Of several for a group the first one speaks for all.
        let same = |one: &&Assignment| one.membership().is_some_and(|it| it == membership);
        if all.iter().take(number).any(|one| same(&one)) {
            continue;
        }
        let old_key = old_key.as_ref().unwrap_or(&key);
        let meant = |key: &DnKey, entry: &dyn EntryRead| {
            all.iter().filter(same).any(|one| one.is_meant(schema, key, entry))
        };
        let (was, is) = (!is_new && meant(old_key, &before), meant(&key, &entry));
        if was != is
            && let Resolved::Found(group) = view.resolve(&membership.group)?
        {
            let names = [entry.dn().to_owned()].into_iter().chain(old.map(Dn::to_string));
            let names: Vec<String> = names.collect();
            follows.put(group, &membership.attribute, &names, is)?;
        }
    }
    Ok(())
}

impl Assignment {
    fn is_meant(&self, schema: &Schema, key: &DnKey, entry: &dyn EntryRead) -> bool {
        self.place.holds_at(key) && self.place.holds_for(schema, entry)
    }

    /// Whether a modification by these deltas may change whether an entry is meant; a new entry
    /// has none.
    pub(super) fn is_concerned(&self, deltas: Option<&[AttributeDelta]>) -> bool {
        let Some(deltas) = deltas else { return true };
        self.asks_about(|asked| deltas.iter().any(|delta| asked.covers(&delta.description)))
    }

    /// Whether its filter asks about one of some attributes.
    pub(crate) fn asks_about(&self, is_one: impl Fn(&AttributeDescription) -> bool) -> bool {
        let mut asks = false;
        if let Some(filter) = &self.place.filter {
            filter.visit_descriptions(&mut |asked| asks |= is_one(asked));
        }
        asks
    }
}

/// What undoes deltas.
fn reversed(deltas: &[AttributeDelta]) -> Vec<AttributeDelta> {
    let turned = deltas.iter().map(|AttributeDelta { description, removed, added }| {
        let (removed, added) = (added.clone(), removed.clone());
        AttributeDelta { description: Arc::clone(description), removed, added }
    });
    turned.collect()
}

/// Refuses a rename of what an assignment names, or of what is above it: it would be about nothing
/// then. Whoever may change the assignment may do so.
pub(crate) fn check_places(decide: &Decide<'_>, renamed: &DnKey) -> Result<(), Refusal> {
    let all = decide.directory.rules.assignments.of(decide.view, &decide.state.schema);
    let names = |one: &&Assignment| {
        let group = one.membership().map(|membership| &membership.group);
        one.place.below.iter().chain(group).any(|name| name.is_within(renamed))
    };
    let access = decide.guard.access();
    let may = [Privilege::ConfigWrite, Privilege::ModifyAcl].iter().all(|one| access.has(*one));
    match all.iter().find(names) {
        Some(assignment) if !may => Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            format!(
                "assignment '{}' names the old name, or one below it: this rename needs the \
                 privileges config-write and modify-acl",
                assignment.name
            ),
        )),
        Some(_) | None => Ok(()),
    }
}
