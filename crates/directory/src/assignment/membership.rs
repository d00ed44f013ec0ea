//! Memberships that follow what entries are like.
//!
//! Invariant: they change in the record of the entry, and nobody needs a right on the group.

use std::sync::Arc;

use aci::{Permitted, Privilege};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{Assertion, AttributeDelta, Change, DnKey, EntryRead, ModifyChange, ValueKey};
use store::{Resolved, StoredEntry};

use super::text::{Assignment, Membership};
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::stamp;

/// An entry before a change, or after it.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'e> {
    pub(crate) key: &'e DnKey,
    /// With its superior classes.
    pub(crate) entry: &'e dyn EntryRead,
}

impl Entry<'_> {
    fn is_meant(&self, decide: &Decide<'_>, assignment: &Assignment) -> bool {
        let place = &assignment.place;
        place.holds_at(self.key) && place.holds_for(&decide.state.schema, self.entry)
    }
}

/// What follows in groups from a change of an entry, to be applied after it.
pub(crate) fn follow(
    decide: &Decide<'_>,
    before: Option<Entry<'_>>,
    after: Entry<'_>,
) -> Result<Vec<Permitted<Change>>, Refusal> {
    let schema = &*decide.state.schema;
    let all = decide.directory.rules.assignments.of(decide.view, schema)?;
    let mut follows = Vec::new();
    for (assignment, membership) in all.iter().filter_map(|one| Some((one, one.membership()?))) {
        let was = before.filter(|before| before.is_meant(decide, assignment));
        let change = match (was, after.is_meant(decide, assignment)) {
            (None, true) => membership.change(decide, after.entry.dn(), true)?,
            (Some(was), false) => membership.change(decide, was.entry.dn(), false)?,
            (None, false) | (Some(_), true) => None,
        };
        follows.extend(change.map(Change::Modify).map(Permitted::internal));
    }
    Ok(follows)
}

impl Membership {
    /// What changes in the group when an entry comes into it or leaves it; nothing if there is no
    /// such group, or it is so already.
    fn change(
        &self,
        decide: &Decide<'_>,
        name: &str,
        comes: bool,
    ) -> Result<Option<ModifyChange>, Refusal> {
        let Resolved::Found(id) = decide.view.resolve(&self.group)? else { return Ok(None) };
        let Some(group) = decide.view.entry(id)? else { return Ok(None) };
        let (removed, added) = match (comes, self.there(decide, &group, name)) {
            (true, None) => (Vec::new(), vec![name.as_bytes().to_vec()]),
            (false, Some(value)) => (vec![value], Vec::new()),
            (true, Some(_)) | (false, None) => return Ok(None),
        };
        let Ok(dn) = Dn::parse_stored(group.dn()) else { return Ok(None) };
        let description = Arc::clone(&self.attribute);
        let mut deltas = vec![AttributeDelta { description, removed, added }];
        deltas.extend(stamp::of_what_follows(&group, &decide.state.schema, &decide.stamp));
        Ok(Some(ModifyChange { id, dn, deltas }))
    }

    /// The value of the group that names an entry, as it is stored.
    fn there(&self, decide: &Decide<'_>, group: &StoredEntry<'_>, name: &str) -> Option<Vec<u8>> {
        let prepare = |value: &[u8]| {
            Assertion::equality(&decide.state.schema, Arc::clone(&self.attribute), value).ok()
        };
        let asked = prepare(name.as_bytes())?;
        let only = ValueKey { rule: asked.rule, key: &asked.key };
        let mut found = None;
        group.visit_matching(&self.attribute, Some(&only), &mut |description, value| {
            let is_it = *description == *self.attribute
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
    let all = decide.directory.rules.assignments.of(decide.view, &decide.state.schema)?;
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
