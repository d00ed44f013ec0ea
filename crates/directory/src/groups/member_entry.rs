//! An entry with the groups and roles that it is in, for the filters of password policies.
//!
//! Invariant: groups are looked up when a filter asks for them, once; without such a filter this
//! costs nothing.
//! Invariant: where some were left out, those that were found count; that an entry is in none of
//! the others is Undefined. Groups count that name it by a user name which others have as well.
//! Invariant: an entry whose groups could not be read is in no other state than it would be else:
//! whoever asks it anything looks at [`MemberEntry::check`] then.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::sync::Arc;

use ldap::message::Values;
use schema::{AttributeDescription, DnKey, EntryRead, Schema, ValueKey};
use store::{StoreError, View};

use super::lookup::{Group, Groups, InGroups};
use crate::read::computed;

/// An entry, stored or not, and its groups in a view.
pub(crate) struct MemberEntry<'a> {
    entry: &'a dyn EntryRead,
    schema: &'a Schema,
    key: Option<&'a DnKey>,
    own_key: OnceCell<DnKey>,
    view: Option<&'a View<'a>>,
    groups: OnceCell<Box<Groups<'a>>>,
    in_groups: OnceCell<Box<InGroups>>,
    roles: OnceCell<(Vec<Arc<Group>>, bool)>,
    failed: RefCell<Option<StoreError>>,
}

impl fmt::Debug for MemberEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemberEntry").field(&self.entry.dn()).finish()
    }
}

impl<'a> MemberEntry<'a> {
    /// The entry, among the groups of a view.
    pub(crate) fn new(view: &'a View<'a>, schema: &'a Schema, entry: &'a dyn EntryRead) -> Self {
        Self { view: Some(view), ..Self::alone(schema, entry) }
    }

    /// The entry where there are no groups.
    pub(crate) fn alone(schema: &'a Schema, entry: &'a dyn EntryRead) -> Self {
        Self {
            entry,
            schema,
            key: None,
            own_key: OnceCell::new(),
            view: None,
            groups: OnceCell::new(),
            in_groups: OnceCell::new(),
            roles: OnceCell::new(),
            failed: RefCell::new(None),
        }
    }

    /// The entry under this name.
    #[must_use]
    pub(crate) fn keyed(self, key: &'a DnKey) -> Self {
        Self { key: Some(key), ..self }
    }

    /// The entry, without its groups.
    pub(crate) fn stored(&self) -> &dyn EntryRead {
        self.entry
    }

    /// The name that it has, or is to have.
    pub(crate) fn key(&self) -> &DnKey {
        let own = || DnKey::from_text(self.schema, self.entry.dn()).unwrap_or_default();
        self.key.unwrap_or_else(|| self.own_key.get_or_init(own))
    }

    /// The groups or roles that an attribute tells of, and whether some are left out.
    fn found(&self, asked: &AttributeDescription) -> Option<(&[Arc<Group>], bool)> {
        let known = self.schema.well_known();
        let view = self.view?;
        let groups = self.groups.get_or_init(|| Box::new(Groups::new(view, self.schema)));
        if *asked == *known.ns_role {
            let (roles, is_cut) = self.found_once(&self.roles, || {
                let found = groups.roles_of_named(self.entry, self.key())?;
                Ok((found.roles, found.is_cut))
            })?;
            return Some((roles.as_slice(), *is_cut));
        }
        let find = || groups.of_named(self.entry, self.key()).map(Box::new);
        let found = self.found_once(&self.in_groups, find)?;
        Some(match groups.is_direct(asked) {
            true => (found.found_direct(), found.told_direct().is_none()),
            false => (found.found(), found.told().is_none()),
        })
    }
}

impl MemberEntry<'_> {
    /// Groups that count although others have the same user name: nobody gets out of a policy by
    /// such a name.
    fn doubtful(&self) -> &[Arc<Group>] {
        self.in_groups.get().map(|found| found.doubtful()).unwrap_or_default()
    }

    /// What is found once; nothing where it cannot be read, which is kept for [`Self::check`].
    fn found_once<'c, T>(
        &self,
        cell: &'c OnceCell<T>,
        find: impl FnOnce() -> Result<T, StoreError>,
    ) -> Option<&'c T> {
        if cell.get().is_none() {
            match find() {
                Ok(found) => return Some(cell.get_or_init(|| found)),
                Err(error) => *self.failed.borrow_mut() = Some(error),
            }
        }
        cell.get()
    }

    /// Whether all could be read that it was asked for.
    ///
    /// # Errors
    /// That of the store: what the entry has said says nothing.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.failed.take() {
            None => Ok(()),
            Some(error) => {
                let account = self.entry.dn();
                tracing::error!(account, %error, "the groups of an account could not be read");
                Err(error)
            }
        }
    }
}

impl EntryRead for MemberEntry<'_> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.entry.split_dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        let of_groups = computed::of_groups(self.schema.well_known());
        let asks = |one: &&&AttributeDescription| one.is_operational() && asked.covers(one);
        let Some(description) = of_groups.iter().find(asks) else {
            return self.entry.visit_matching(asked, only, visit);
        };
        let Some((groups, is_cut)) = self.found(description) else { return false };
        // Whoever has seen enough does not miss the others.
        let groups = groups.iter().chain(self.doubtful());
        let is_enough = groups.into_iter().any(|group| !visit(description, group.name.as_bytes()));
        is_enough || !is_cut
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, visit);
    }
}
