//! Memberships that follow what entries are like.
//!
//! Invariant: what follows is decided on the state that the change leaves, and is in its record;
//! nobody needs a right on the group.
//! Invariant: an entry is in a group when any of the assignments for it says so.

use std::sync::Arc;

use aci::{Permitted, Privilege};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{
    Assertion, AttributeDelta, AttributeDescription, Change, DnKey, EntryRead, ModifyChange,
    Schema, ValueKey,
};
use store::{Resolved, StoreError, StoredEntry, View};

use super::text::{Assignment, Membership};
use crate::constraint::changed::Changed;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::stamp::{self, Stamp};

/// Whether any of them makes members.
pub(crate) fn any(all: &[Assignment]) -> bool {
    all.iter().any(|one| one.membership().is_some())
}

/// What follows in groups from a change that is in the view already.
pub(crate) fn follow(
    view: &View<'_>,
    schema: &Schema,
    stamp: &Stamp,
    all: &[Assignment],
    change: &Change,
) -> Result<Vec<Permitted<Change>>, StoreError> {
    let (id, deltas, old) = match change {
        Change::Add(add) => (add.id, None, None),
        Change::Modify(modify) => (modify.id, Some(&modify.deltas), None),
        Change::Rename(rename) => (rename.id, Some(&rename.deltas), Some(&rename.old_dn)),
        _ => return Ok(Vec::new()),
    };
    let is_concerned =
        |one: &Assignment| old.is_some() || one.is_concerned(deltas.map(Vec::as_slice));
    if !all.iter().any(|one| one.membership().is_some() && is_concerned(one)) {
        return Ok(Vec::new());
    }
    let Some(entry) = view.entry(id)? else { return Ok(Vec::new()) };
    let Ok(key) = DnKey::from_text(schema, entry.dn()) else { return Ok(Vec::new()) };
    let old_key = old.and_then(|old| DnKey::from_dn(schema, old).ok());
    let reversed = deltas.map(|deltas| reversed(deltas)).unwrap_or_default();
    let before = Changed { before: &entry, deltas: &reversed };
    let is_new = deltas.is_none();
    let mut follows: Vec<ModifyChange> = Vec::new();
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
        if was != is {
            let names = [Some(entry.dn().to_owned()), old.map(Dn::to_string)];
            let Some(group) = membership.group(view)? else { continue };
            let mover = Mover { schema, membership, group: &group, names };
            let Some(delta) = mover.delta(is) else { continue };
            match follows.iter_mut().find(|change| change.id == group.id()) {
                Some(change) => change.deltas.push(delta),
                None => {
                    let Ok(dn) = Dn::parse_stored(group.dn()) else { continue };
                    let mut deltas = stamp::of_what_follows(&group, schema, stamp);
                    deltas.push(delta);
                    follows.push(ModifyChange { id: group.id(), dn, deltas });
                }
            }
        }
    }
    Ok(follows.into_iter().map(Change::Modify).map(Permitted::internal).collect())
}

impl Membership {
    /// The group, if there is one.
    fn group<'v>(&self, view: &'v View<'_>) -> Result<Option<StoredEntry<'v>>, StoreError> {
        match view.resolve(&self.group)? {
            Resolved::Found(id) => view.entry(id),
            Resolved::Missing { .. } | Resolved::NoContext => Ok(None),
        }
    }
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

/// An entry that comes into a group, or leaves it.
struct Mover<'a> {
    schema: &'a Schema,
    membership: &'a Membership,
    group: &'a StoredEntry<'a>,
    /// Its name, and the one it had before.
    names: [Option<String>; 2],
}

impl Mover<'_> {
    /// What changes in the group, if it may have members and has it not so already.
    fn delta(&self, comes: bool) -> Option<AttributeDelta> {
        let names = self.names.iter().flatten();
        // Where names do not follow, it is there under the one it had.
        let there = names.clone().find_map(|name| self.there(name));
        let (removed, added) = match (comes, there) {
            (true, None) if self.takes() => {
                (Vec::new(), names.take(1).map(|name| name.clone().into_bytes()).collect())
            }
            (false, Some(value)) => (vec![value], Vec::new()),
            (true, _) | (false, None) => return None,
        };
        let description = Arc::clone(&self.membership.attribute);
        Some(AttributeDelta { description, removed, added })
    }

    /// Whether the classes of the group have the attribute.
    fn takes(&self) -> bool {
        let (group, mut takes) = (self.group, false);
        let kind = &self.membership.attribute.kind;
        group.visit_values(&self.schema.well_known().object_class, &mut |_, class| {
            let class = std::str::from_utf8(class).ok().and_then(|it| self.schema.object_class(it));
            takes |= class.is_some_and(|class| class.allows(kind));
            !takes
        });
        if !takes {
            let (group, attribute) = (group.dn(), kind.name());
            tracing::warn!(group, attribute, "an assignment names no group that has members");
        }
        takes
    }

    /// The value of the group that is this name, as it is stored.
    fn there(&self, name: &str) -> Option<Vec<u8>> {
        let attribute = &self.membership.attribute;
        let prepare =
            |value: &[u8]| Assertion::equality(self.schema, Arc::clone(attribute), value).ok();
        let asked = prepare(name.as_bytes())?;
        let only = ValueKey { rule: asked.rule, key: &asked.key };
        let mut found = None;
        self.group.visit_matching(attribute, Some(&only), &mut |description, value| {
            let is_it = *description == **attribute
                && prepare(value).is_some_and(|one| one.key == asked.key);
            if is_it {
                found = Some(value.to_vec());
            }
            !is_it
        });
        found
    }
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
