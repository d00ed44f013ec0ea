//! Roles of Sun's and 389's servers. They are for entries below the superior of the entry that
//! defines them.

use std::sync::Arc;

use ldap::filter::Filter;
use schema::{DnKey, EntryRead, ResolvedFilter, Schema, Truth, WithoutSecrets};
use store::{StoreError, StoredEntry};

use super::lookup::{GROUPS_MAX, Group, Groups};

/// How deep roles are looked for in roles, and how many parts of one are looked at.
const ROLE_DEPTH_MAX: usize = 4;
const ROLE_PARTS_MAX: usize = 16;

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
        let Some(person) = self.entry(who)? else { return Ok(Truth::False) };
        self.has_role_at(definition, kind, role, Person { entry: &person, key: who }, 0)
    }

    fn has_role_at(
        &self,
        definition: &StoredEntry<'_>,
        kind: RoleKind,
        role: &DnKey,
        person: Person<'_>,
        depth: usize,
    ) -> Result<Truth, StoreError> {
        let known = self.schema.well_known();
        if !role.parent().is_some_and(|superior| person.key.is_within(&superior)) {
            return Ok(Truth::False);
        }
        Ok(match kind {
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
            RoleKind::Nested if depth >= ROLE_DEPTH_MAX => Truth::Undefined,
            RoleKind::Nested => {
                let mut found = Truth::False;
                let names = self.names(definition, &known.ns_role_dn);
                for (number, part) in names.iter().enumerate() {
                    let entry = self.entry(part)?.filter(|_| number < ROLE_PARTS_MAX);
                    let kind = entry.as_ref().and_then(|entry| RoleKind::of(entry, self.schema));
                    found = found.or(match (&entry, kind) {
                        (Some(entry), Some(kind)) => {
                            self.has_role_at(entry, kind, part, person, depth + 1)?
                        }
                        _ => Truth::Undefined,
                    });
                    if found == Truth::True {
                        break;
                    }
                }
                found
            }
        })
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
        let mut found = HasRoles::default();
        let person = Person { entry, key };
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
            found.is_cut |= !self.takes_one();
            if found.is_cut {
                break;
            }
            let Some(definition) = self.view.entry(role.id)? else { continue };
            if let Some(kind) = RoleKind::of(&definition, self.schema) {
                self.add_role(&definition, kind, person, &mut found)?;
            }
        }
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
        let has = self.has_role_at(definition, kind, &role.key, person, 0)?;
        if has == Truth::True && !found.roles.iter().any(|one| one.id == role.id) {
            found.is_cut |= found.roles.len() >= GROUPS_MAX;
            if !found.is_cut {
                found.roles.push(role);
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

/// The classes of definitions.
const CLASSES: [(&str, RoleKind); 3] = [
    ("nsManagedRoleDefinition", RoleKind::Managed),
    ("nsFilteredRoleDefinition", RoleKind::Filtered),
    ("nsNestedRoleDefinition", RoleKind::Nested),
];
