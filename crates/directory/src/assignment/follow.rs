//! What follows in other entries from a change: values that name the entry come and go.
//!
//! Invariant: what follows is decided on the state that the change leaves, and is in its record;
//! nobody needs a right on the entries that change with it.

use std::sync::Arc;

use aci::Permitted;
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{
    Assertion, AttributeDelta, AttributeDescription, Change, EntryId, EntryRead as _, ModifyChange,
    Schema, ValueKey,
};
use store::{StoredEntry, View};

use super::text::Assignment;
use super::{link, membership};
use crate::request::refusal::Refusal;
use crate::write::stamp::{self, Stamp};

/// Whether anything follows from any change.
pub(crate) fn any(all: &[Assignment]) -> bool {
    all.iter().any(|one| one.numbers().is_none())
}

/// What follows from a change that is in the view already.
///
/// # Errors
/// When so much follows that it does not fit into one change record.
pub(crate) fn follow(
    view: &View<'_>,
    schema: &Schema,
    stamp: &Stamp,
    all: &[Assignment],
    change: &Change,
) -> Result<Vec<Permitted<Change>>, Refusal> {
    let mut follows = Follows { view, schema, stamp, changes: Vec::new() };
    membership::follow(&mut follows, all, change)?;
    link::follow(&mut follows, all, change)?;
    Ok(follows.permitted())
}

/// Changes that follow.
pub(super) struct Follows<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) schema: &'a Schema,
    stamp: &'a Stamp,
    changes: Vec<ModifyChange>,
}

impl Follows<'_> {
    /// Has an entry name another one by this attribute, or no more, if it is not so already.
    /// `names` are those of the other: its name, and one that it had before.
    pub(super) fn put(
        &mut self,
        target: EntryId,
        attribute: &Arc<AttributeDescription>,
        names: &[String],
        comes: bool,
    ) -> Result<(), Refusal> {
        let (view, schema) = (self.view, self.schema);
        let Some(entry) = view.entry(target)? else { return Ok(()) };
        let Ok(dn) = Dn::parse_stored(entry.dn()) else { return Ok(()) };
        let Some(name) = names.first() else { return Ok(()) };
        // Where names do not follow, it is there under the one it had.
        let there = names.iter().find_map(|name| value_of(&entry, schema, attribute, name));
        if comes && !takes(&entry, schema, attribute) {
            return Ok(());
        }
        let change = match self.changes.iter().position(|change| change.id == target) {
            Some(at) => at,
            None if self.changes.len() >= FOLLOWS_MAX => return Err(too_many()),
            None => {
                let deltas = stamp::of_what_follows(&entry, schema, self.stamp);
                self.changes.push(ModifyChange { id: target, dn, deltas });
                self.changes.len() - 1
            }
        };
        let Some(change) = self.changes.get_mut(change) else { return Ok(()) };
        let delta = match change.deltas.iter().position(|delta| delta.description == *attribute) {
            Some(at) => at,
            None => {
                let description = Arc::clone(attribute);
                let (removed, added) = (Vec::new(), Vec::new());
                change.deltas.push(AttributeDelta { description, removed, added });
                change.deltas.len() - 1
            }
        };
        let Some(delta) = change.deltas.get_mut(delta) else { return Ok(()) };
        let key = |value: &[u8]| key_of(schema, attribute, value);
        let own = names.iter().map(|name| key(name.as_bytes())).collect::<Vec<_>>();
        let is_own = |value: &Vec<u8>| own.contains(&key(value));
        match (comes, there) {
            // What was to go stays.
            (true, Some(_)) => delta.removed.retain(|value| !is_own(value)),
            (true, None) if !delta.added.iter().any(is_own) => {
                delta.added.push(name.clone().into_bytes());
            }
            (false, Some(value)) if !delta.removed.iter().any(is_own) => delta.removed.push(value),
            (false, None) => delta.added.retain(|value| !is_own(value)),
            (true, None) | (false, Some(_)) => {}
        }
        Ok(())
    }

    /// Those that change more than stamps.
    fn permitted(self) -> Vec<Permitted<Change>> {
        let known = self.schema.well_known();
        let stamps = [&known.entry_csn, &known.modifiers_name, &known.modify_timestamp];
        let mut permitted = Vec::new();
        for mut change in self.changes {
            change.deltas.retain(|delta| !delta.removed.is_empty() || !delta.added.is_empty());
            if change.deltas.iter().any(|delta| !stamps.contains(&&delta.description)) {
                permitted.push(Permitted::internal(Change::Modify(change)));
            }
        }
        permitted
    }
}

/// A value as the equality rule of an attribute prepares it; none if it is no such value.
fn key_of(
    schema: &Schema,
    attribute: &Arc<AttributeDescription>,
    value: &[u8],
) -> Option<Assertion> {
    Assertion::equality(schema, Arc::clone(attribute), value).ok()
}

/// The value of an entry that is this name, as it is stored.
fn value_of(
    entry: &StoredEntry<'_>,
    schema: &Schema,
    attribute: &Arc<AttributeDescription>,
    name: &str,
) -> Option<Vec<u8>> {
    let asked = key_of(schema, attribute, name.as_bytes())?;
    let only = ValueKey { rule: asked.rule, key: &asked.key };
    let mut found = None;
    entry.visit_matching(attribute, Some(&only), &mut |description, value| {
        let is_it = *description == **attribute
            && key_of(schema, attribute, value).is_some_and(|one| one.key == asked.key);
        if is_it {
            found = Some(value.to_vec());
        }
        !is_it
    });
    found
}

/// Whether the classes of an entry have an attribute.
fn takes(entry: &StoredEntry<'_>, schema: &Schema, attribute: &AttributeDescription) -> bool {
    let (mut takes, kind) = (false, &attribute.kind);
    entry.visit_values(&schema.well_known().object_class, &mut |_, class| {
        let class = std::str::from_utf8(class).ok().and_then(|name| schema.object_class(name));
        takes |= class.is_some_and(|class| class.allows(kind));
        !takes
    });
    if !takes {
        let (entry, attribute) = (entry.dn(), kind.name());
        tracing::warn!(entry, attribute, "an assignment writes an attribute that the entry lacks");
    }
    takes
}

fn too_many() -> Refusal {
    let why = format!(
        "by an assignment at most {FOLLOWS_MAX} other entries change with one: add the values in \
         several changes"
    );
    Refusal::new(ResultCode::AdminLimitExceeded, why)
}

/// The most entries that change with one.
const FOLLOWS_MAX: usize = 1_000;
