//! What of a change its reader may see: what the access rules of now allow of the entry that was
//! changed, as it is now, or as it was when it was deleted.
//!
//! Invariant: a change is hidden where its reader may not see the entry by every name that the
//! answer tells: that of the time of the change, and that of now. What nobody can decide any more,
//! because the entry is gone and the record does not have it, only those see whom no rules concern.

use std::collections::BTreeMap;

use ldap::dn::Dn;
use ldap::message::Values;
use schema::{AttributeDescription, Change, DnKey, Entry, EntryRead, Schema, ValueKey};
use store::{StoreError, View};

use crate::access::guard::Guard;

/// The entry that was changed, as its reader may know it.
pub(crate) struct Target {
    /// Its entryUUID, where it is known and may be.
    pub(super) uuid: Option<String>,
    /// Of each attribute that changed, whether its values may be told; none: all may.
    shown: Option<BTreeMap<String, bool>>,
}

impl Target {
    /// What `guard`, which is one for entries anywhere, lets see; none if that is nothing.
    ///
    /// # Errors
    /// When the entry cannot be read.
    pub(crate) fn of(
        change: &Change,
        guard: &Guard<'_>,
        view: &View<'_>,
        schema: &Schema,
    ) -> Result<Option<Self>, StoreError> {
        let (id, names) = match change {
            Change::Add(add) => (add.id, vec![add.entry.name()]),
            Change::Modify(modify) => (modify.id, vec![&modify.dn]),
            Change::Rename(rename) => (rename.id, vec![&rename.old_dn, &rename.new_dn]),
            Change::Delete(delete) => {
                let mut entry = Entry::new(delete.dn.clone());
                for one in &delete.attributes {
                    let values = one.values.clone();
                    // They were values of an entry.
                    let _ = entry.replace_values(schema, &one.description, values);
                }
                // Without attributes rules about them would not hold.
                if delete.attributes.is_empty() && !guard.is_bypassed() {
                    return Ok(None);
                }
                return Ok(Self::as_seen(&entry, &[&delete.dn], change, guard, schema));
            }
            Change::Schema(_)
            | Change::Index(_)
            | Change::Setting(_)
            | Change::Level(_)
            | Change::Gather(_) => {
                return Ok(None);
            }
        };
        if let Some(stored) = view.entry(id)? {
            return Ok(Self::as_seen(&stored, &names, change, guard, schema));
        }
        if let Change::Add(add) = change {
            // As it was in the beginning: it is gone, and what it became is not known here.
            return Ok(match guard.is_bypassed() {
                true => Self::as_seen(&add.entry, &names, change, guard, schema),
                false => None,
            });
        }
        Ok(guard.is_bypassed().then_some(Self { uuid: None, shown: None }))
    }

    fn as_seen(
        entry: &dyn EntryRead,
        names: &[&Dn],
        change: &Change,
        guard: &Guard<'_>,
        schema: &Schema,
    ) -> Option<Self> {
        let description = schema.describe("entryUUID").ok();
        let mut uuid = None;
        if let Some(description) = &description {
            entry.visit_values(description, &mut |_, value| {
                uuid = std::str::from_utf8(value).ok().map(str::to_owned);
                false
            });
        }
        if guard.is_bypassed() {
            return Some(Self { uuid, shown: None });
        }
        let mut shown: BTreeMap<String, bool> = BTreeMap::new();
        let (mut sees_all, mut sees_uuid) = (guard.on(entry).may_see(), true);
        let mut by_name = |entry: &dyn EntryRead| {
            let rights = guard.on(entry);
            sees_all &= rights.may_see();
            sees_uuid &= description.as_ref().is_some_and(|one| rights.may_read(one));
            for description in changed(change) {
                let may = shown.entry(description.text().to_owned()).or_insert(true);
                *may &= rights.may_read(description);
            }
        };
        by_name(entry);
        let now = DnKey::from_text(schema, entry.dn()).ok();
        for name in names {
            if DnKey::from_dn(schema, name).ok() != now {
                by_name(&Named { entry, name: name.to_string() });
            }
        }
        sees_all.then_some(Self { uuid: uuid.filter(|_| sees_uuid), shown: Some(shown) })
    }

    /// Whether values of an attribute may be told.
    pub(super) fn shows(&self, description: &AttributeDescription) -> bool {
        let Some(shown) = &self.shown else { return true };
        shown.get(description.text()) == Some(&true)
    }
}

/// The attributes that a change is about.
fn changed(change: &Change) -> Vec<&AttributeDescription> {
    match change {
        Change::Add(add) => add.entry.attributes().iter().map(|one| &*one.description).collect(),
        Change::Delete(delete) => delete.attributes.iter().map(|one| &*one.description).collect(),
        Change::Modify(modify) => modify.deltas.iter().map(|one| &*one.description).collect(),
        Change::Rename(rename) => rename.deltas.iter().map(|one| &*one.description).collect(),
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => Vec::new(),
    }
}

/// An entry by a name that it had.
struct Named<'e> {
    entry: &'e dyn EntryRead,
    name: String,
}

impl EntryRead for Named<'_> {
    fn dn(&self) -> &str {
        &self.name
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.entry.visit_matching(asked, only, visit)
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, visit);
    }
}
