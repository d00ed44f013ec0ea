//! Roles of Sun's and 389's servers. They are for entries below the superior of the entry that
//! defines them.
//!
//! Invariant: where not all could be looked at, whoever asks is told, and those that could count.

use std::cell::Cell;
use std::sync::Arc;

use ldap::filter::Filter;
use rustc_hash::FxHashSet;
use schema::{DnKey, EntryRead, ResolvedFilter, Schema, Truth, WithoutSecrets};
use store::{StoreError, StoredEntry};

use super::lookup::{GROUPS_MAX, Group, Groups};

/// How many roles are looked at that a nested one names, and that these name, and so on.
const ROLE_PARTS_MAX: usize = 1_000;

/// How a role says who has it.
#[derive(Clone, Copy)]
pub(crate) enum RoleKind {
    /// Their entries name it.
    Managed,
    /// By a filter.
    Filtered,
    /// They have one of other roles.
    Nested,
}

/// Who may have a role.
#[derive(Clone, Copy)]
struct Person<'p> {
    entry: &'p dyn EntryRead,
    key: &'p DnKey,
    /// Not all parts of a role were looked at.
    is_cut: &'p Cell<bool>,
}

/// Roles that are found by their definitions: filtered and nested ones.
pub(crate) struct Defined {
    roles: Vec<Arc<Group>>,
    is_cut: bool,
}

/// The roles of an entry.
#[derive(Debug, Default)]
pub(crate) struct HasRoles {
    pub(crate) roles: Vec<Arc<Group>>,
    /// Some were left out.
    pub(crate) is_cut: bool,
}

impl RoleKind {
    /// What an entry defines, if it defines a role.
    pub(crate) fn of(entry: &dyn EntryRead, schema: &Schema) -> Option<Self> {
        let mut kind = None;
        entry.visit_values(&schema.well_known().object_class, &mut |_, class| {
            let found =
                CLASSES.iter().find(|(name, _)| class.eq_ignore_ascii_case(name.as_bytes()));
            kind = found.map(|(_, kind)| *kind);
            kind.is_none()
        });
        kind
    }
}

impl Groups<'_> {
    /// Whether an entry has the role that another one defines.
    pub(crate) fn has_role(
        &self,
        definition: &StoredEntry<'_>,
        kind: RoleKind,
        role: &DnKey,
        who: &DnKey,
    ) -> Result<Truth, StoreError> {
        self.begin();
        let Some(person) = self.entry(who)? else { return Ok(Truth::False) };
        let is_cut = &Cell::new(false);
        self.has_role_of(definition, kind, role, Person { entry: &person, key: who, is_cut })
    }

    fn has_role_of(
        &self,
        definition: &StoredEntry<'_>,
        kind: RoleKind,
        role: &DnKey,
        person: Person<'_>,
    ) -> Result<Truth, StoreError> {
        if !is_for(role, person) {
            return Ok(Truth::False);
        }
        match kind {
            RoleKind::Managed | RoleKind::Filtered => {
                Ok(self.has_plain_role(definition, kind, role, person))
            }
            RoleKind::Nested => self.has_nested_role(definition, role, person),
        }
    }

    /// Whether an entry has a role that is not nested.
    fn has_plain_role(
        &self,
        definition: &StoredEntry<'_>,
        kind: RoleKind,
        role: &DnKey,
        person: Person<'_>,
    ) -> Truth {
        let known = self.schema.well_known();
        match kind {
            RoleKind::Managed => {
                let names = self.names(person.entry, &known.ns_role_dn);
                if names.contains(role) { Truth::True } else { Truth::False }
            }
            RoleKind::Filtered => {
                let mut found = Truth::Undefined;
                definition.visit_values(&known.ns_role_filter, &mut |_, value| {
                    let text = std::str::from_utf8(value).ok();
                    let filter = text.and_then(|text| Filter::parse(text).ok());
                    found = filter.map_or(Truth::Undefined, |filter| {
                        let filter = ResolvedFilter::resolve(&filter, self.schema);
                        filter.matches(self.schema, &WithoutSecrets(person.entry))
                    });
                    false
                });
                found
            }
            RoleKind::Nested => Truth::Undefined,
        }
    }

    /// Whether an entry has one of the roles that a nested one names, of those that a nested one
    /// of them names, and so on: each is looked at once, so circles are harmless.
    fn has_nested_role(
        &self,
        definition: &StoredEntry<'_>,
        role: &DnKey,
        person: Person<'_>,
    ) -> Result<Truth, StoreError> {
        let of_parts = &self.schema.well_known().ns_role_dn;
        let mut open = self.names(definition, of_parts);
        let mut seen = FxHashSet::default();
        seen.insert(role.clone());
        let mut found = Truth::False;
        while let Some(part) = open.pop() {
            if !seen.insert(part.clone()) {
                continue;
            }
            if seen.len() > ROLE_PARTS_MAX || !self.takes_one() {
                person.is_cut.set(true);
                return Ok(Truth::Undefined);
            }
            let entry = self.entry(&part)?;
            let kind = entry.as_ref().and_then(|entry| RoleKind::of(entry, self.schema));
            found = found.or(match (&entry, kind) {
                (Some(_), Some(_)) if !is_for(&part, person) => Truth::False,
                (Some(entry), Some(RoleKind::Nested)) => {
                    open.extend(self.names(entry, of_parts));
                    Truth::False
                }
                (Some(entry), Some(kind)) => self.has_plain_role(entry, kind, &part, person),
                (Some(_), None) | (None, _) => Truth::Undefined,
            });
            if found == Truth::True {
                break;
            }
        }
        Ok(found)
    }

    /// The roles that an entry has.
    pub(crate) fn roles_of(&self, entry: &StoredEntry<'_>) -> Result<HasRoles, StoreError> {
        self.roles_of_named(entry, &self.key(entry))
    }

    /// As [`Self::roles_of`], of an entry that is perhaps not there yet, or not as it is now.
    pub(crate) fn roles_of_named(
        &self,
        entry: &dyn EntryRead,
        key: &DnKey,
    ) -> Result<HasRoles, StoreError> {
        self.begin();
        let (mut found, is_cut) = (HasRoles::default(), Cell::new(false));
        let person = Person { entry, key, is_cut: &is_cut };
        for name in self.names(entry, &self.schema.well_known().ns_role_dn) {
            let Some(definition) = self.entry(&name)? else { continue };
            let is_managed = RoleKind::of(&definition, self.schema);
            if matches!(is_managed, Some(RoleKind::Managed)) {
                self.add_role(&definition, RoleKind::Managed, person, &mut found)?;
            }
        }
        let defined = self.defined()?;
        found.is_cut |= defined.is_cut;
        for role in &defined.roles {
            if !self.takes_one() {
                found.is_cut = true;
                break;
            }
            let Some(definition) = self.view.entry(role.id)? else { continue };
            if let Some(kind) = RoleKind::of(&definition, self.schema) {
                self.add_role(&definition, kind, person, &mut found)?;
            }
        }
        found.is_cut |= is_cut.get();
        Ok(found)
    }

    /// The roles that an entry has, of those with these names: however many others there are.
    pub(crate) fn roles_among(
        &self,
        entry: &StoredEntry<'_>,
        names: &[DnKey],
    ) -> Result<HasRoles, StoreError> {
        self.begin();
        let (mut found, is_cut, key) = (HasRoles::default(), Cell::new(false), self.key(entry));
        let person = Person { entry, key: &key, is_cut: &is_cut };
        for name in names {
            if !self.takes_one() {
                found.is_cut = true;
                break;
            }
            let Some(definition) = self.entry(name)? else { continue };
            if let Some(kind) = RoleKind::of(&definition, self.schema) {
                self.add_role(&definition, kind, person, &mut found)?;
            }
        }
        found.is_cut |= is_cut.get();
        Ok(found)
    }

    fn add_role(
        &self,
        definition: &StoredEntry<'_>,
        kind: RoleKind,
        person: Person<'_>,
        found: &mut HasRoles,
    ) -> Result<(), StoreError> {
        let role = self.named(definition);
        let has = self.has_role_of(definition, kind, &role.key, person)?;
        if has == Truth::True && !found.roles.iter().any(|one| one.id == role.id) {
            match found.roles.len() < GROUPS_MAX {
                true => found.roles.push(role),
                false => found.is_cut = true,
            }
        }
        Ok(())
    }

    fn defined(&self) -> Result<&Defined, StoreError> {
        if let Some(defined) = self.asked().roles.get() {
            return Ok(defined);
        }
        let mut defined = Defined { roles: Vec::new(), is_cut: false };
        for (class, kind) in CLASSES {
            if matches!(kind, RoleKind::Managed) {
                continue;
            }
            let listed = self.listed(class, |entry| Some((self.named(entry), ())))?;
            defined.is_cut |= listed.is_cut;
            defined.roles.extend(listed.groups.into_iter().map(|(role, ())| role));
        }
        Ok(self.asked().roles.get_or_init(|| defined))
    }
}

/// Whether a role is for entries where this one is.
fn is_for(role: &DnKey, person: Person<'_>) -> bool {
    role.parent().is_some_and(|superior| person.key.is_within(&superior))
}

/// The classes of definitions.
const CLASSES: [(&str, RoleKind); 3] = [
    ("nsManagedRoleDefinition", RoleKind::Managed),
    ("nsFilteredRoleDefinition", RoleKind::Filtered),
    ("nsNestedRoleDefinition", RoleKind::Nested),
];
