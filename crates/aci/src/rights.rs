//! What one identity may do with one entry: every decision about it is asked here.
//!
//! Invariant: nothing leaves the server and nothing is logged but by the rights on the very entry.
//! Invariant: whoever has the privilege `bypass-acl` is asked nothing further.

use std::iter::successors;
use std::sync::Arc;

use ldap::dn::DnText;
use schema::{
    Attribute, AttributeDelta, AttributeDescription, AttributeType, Change, EntryRead, Selection,
};

use crate::{
    Access, Bypass, Denied, EntryRights, Permitted, Privilege, Reach, Right, Searchable,
    ValueChange, VisibleEntry,
};

/// The rights of one identity on one entry.
pub struct Rights<'e> {
    access: &'e Access,
    /// None: access rules do not apply.
    rules: Option<EntryRights<'e>>,
}

impl<'e> Rights<'e> {
    /// The rights on `entry` where these rules hold.
    pub fn on(access: &'e Access, reach: &'e Reach<'e>, entry: &'e dyn EntryRead) -> Self {
        Self { access, rules: Some(reach.of(entry)) }
    }

    /// All rights on any entry, for an identity that no access rules apply to.
    pub fn all(bypass: Bypass<'e>) -> Self {
        Self { access: bypass.access(), rules: None }
    }

    /// Whether values of this attribute may be returned.
    pub fn may_read(&self, description: &AttributeDescription) -> bool {
        self.may(Right::Read, description)
    }

    /// Whether this attribute may be used in a filter. Without the right an assertion on it is
    /// Undefined, so that the answer tells nothing about the value.
    pub fn may_search(&self, description: &AttributeDescription) -> bool {
        self.may(Right::Search, description)
    }

    /// Whether this attribute, and all that asking for it gets, may be used in a filter.
    pub fn may_search_all(&self, description: &AttributeDescription) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may_all(Right::Search, description))
    }

    /// Whether a compare may assert a value of this attribute.
    pub fn may_compare(&self, description: &AttributeDescription) -> bool {
        self.may(Right::Compare, description)
    }

    /// Whether there is a right on an attribute.
    pub fn may(&self, right: Right, description: &AttributeDescription) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may(right, description))
    }

    /// Whether there is a right on the entry as a whole.
    pub fn may_entry(&self, right: Right) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may_entry(right))
    }

    /// Whether a value may be added to an attribute, or taken from it.
    pub fn may_value(
        &self,
        change: ValueChange,
        description: &AttributeDescription,
        value: &[u8],
    ) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may_value(change, description, value))
    }

    /// Whether a value may come into the name of the entry, or go from it.
    pub fn may_name(
        &self,
        change: ValueChange,
        description: &AttributeDescription,
        value: &[u8],
    ) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.may_name(change, description, value))
    }

    /// Whether the own name may be added to an attribute, or taken from it.
    pub fn may_self(&self, change: ValueChange, description: &AttributeDescription) -> bool {
        let own = self.access.identity().dn().map(DnText::as_str).unwrap_or_default();
        self.may_value(change, description, own.as_bytes())
    }

    /// Whether the entry may be sent: some attribute of it may be read.
    pub fn may_see(&self) -> bool {
        self.may_entry(Right::Read)
    }

    /// Whether the identity may learn that there is such an entry: it may read, search for or
    /// compare anything of it.
    pub fn is_disclosed(&self) -> bool {
        [Right::Read, Right::Search, Right::Compare].into_iter().any(|one| self.may_entry(one))
    }

    /// The entry as a filter may see it.
    pub fn searchable<'s>(&'s self, entry: &'s dyn EntryRead) -> Searchable<'s> {
        Searchable::new(self, entry)
    }

    /// The entry reduced to what the identity asked for and may read.
    pub fn visible<'s>(
        &'s self,
        entry: &'s dyn EntryRead,
        selection: &'s Selection,
    ) -> VisibleEntry<'s> {
        VisibleEntry::new(self, entry, selection)
    }

    /// Decides on a change of the entry that is complete but for its log position.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks the right.
    pub fn permit(&self, change: Change) -> Result<Permitted<Change>, Denied> {
        let is_allowed = match &change {
            Change::Add(add) => {
                let mut attributes = add.entry.attributes().iter();
                self.may_entry(Right::Add) && attributes.all(|one| self.may_begin_with(one))
            }
            Change::Delete(_) => self.may_entry(Right::Delete),
            Change::Modify(modify) => modify.deltas.iter().all(|delta| self.may_change(delta)),
            Change::Rename(rename) => rename.deltas.iter().all(|delta| self.may_change(delta)),
            // Those are no changes of an entry.
            Change::Schema(_)
            | Change::Index(_)
            | Change::Setting(_)
            | Change::Gather(_)
            | Change::Level(_) => false,
        };
        if is_allowed { Ok(Permitted::new(change)) } else { Err(Denied) }
    }

    /// Decides on a change of which a part is the server's own. Of that the identity needs no
    /// rights.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks the right.
    pub fn permit_with(&self, change: Change, own: &Own<'_>) -> Result<Permitted<Change>, Denied> {
        let follows = |one: &Arc<AttributeDescription>| {
            (own.of_password.contains(one) && is_of_password(one))
                || (own.given.contains(one) && !one.is_operational() && !one.is_password())
        };
        let is_allowed = match &change {
            Change::Modify(modify) => modify
                .deltas
                .iter()
                .all(|delta| follows(&delta.description) || self.may_change(delta)),
            Change::Add(add) => {
                let mut attributes = add.entry.attributes().iter();
                self.may_entry(Right::Add)
                    && attributes.all(|one| follows(&one.description) || self.may_begin_with(one))
            }
            _ => return self.permit(change),
        };
        if is_allowed { Ok(Permitted::new(change)) } else { Err(Denied) }
    }

    /// Decides on a rename of the entry that brings it below another superior, on which `onto` are
    /// the rights.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks a right on one of them.
    pub fn permit_move(
        &self,
        change: Change,
        onto: &Rights<'_>,
    ) -> Result<Permitted<Change>, Denied> {
        if !self.may_entry(Right::Export) || !onto.may_entry(Right::Import) {
            return Err(Denied);
        }
        self.permit(change)
    }

    /// Whether an attribute may change by these values.
    fn may_change(&self, delta: &AttributeDelta) -> bool {
        let AttributeDelta { description, removed, added } = delta;
        // What only the server sets, and superior classes, which it adds to those that were asked
        // for.
        if description.kind.no_user_modification
            || (removed.is_empty() && description.kind.is_named("objectClass"))
        {
            return true;
        }
        self.has_privilege_for(description)
            && removed.iter().all(|one| self.may_value(ValueChange::Delete, description, one))
            && added.iter().all(|one| self.may_value(ValueChange::Add, description, one))
    }

    /// Whether a new entry may have these values. Who adds it says what it holds; but what is
    /// operational grants or steers something (roles, limits, areas of policies, referrals), so it
    /// needs the right that a modification needs, or its privilege.
    pub fn may_begin_with(&self, attribute: &Attribute) -> bool {
        let Attribute { description, values } = attribute;
        match privilege_for(description) {
            Some(privilege) => self.access.has(privilege),
            None => {
                !description.is_operational()
                    // What only the server sets.
                    || description.kind.no_user_modification
                    || values.iter().all(|one| self.may_value(ValueChange::Add, description, one))
            }
        }
    }

    /// Whether the identity has the privilege that changing an attribute needs beside the right.
    pub fn has_privilege_for(&self, description: &AttributeDescription) -> bool {
        privilege_for(description).is_none_or(|privilege| self.access.has(privilege))
    }
}

/// What the server changes in an entry beside what was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own<'o> {
    /// Attributes that follow from a change of the password, as far as they are passwords or the
    /// state of an account.
    pub of_password: &'o [Arc<AttributeDescription>],
    /// Attributes whose values it gives, as far as they are user attributes and no passwords.
    pub given: &'o [Arc<AttributeDescription>],
}

/// Whether an attribute says whether and how long an account may be used, and by which policy.
pub fn is_account_state(description: &AttributeDescription) -> bool {
    privilege_for(description) == Some(Privilege::PasswordReset)
}

/// The privilege that changing an attribute needs. A type that is derived from one has the effect
/// of that one, so it needs the same.
pub fn privilege_for(description: &AttributeDescription) -> Option<Privilege> {
    let needs = |kind: &AttributeType| {
        if kind.is_named("aci") {
            Some(Privilege::ModifyAcl)
        } else if kind.is_named("ds-privilege-name") {
            Some(Privilege::PrivilegeChange)
        } else if ACCOUNT_STATE.iter().any(|name| kind.is_named(name)) {
            Some(Privilege::PasswordReset)
        } else {
            None
        }
    };
    let kind: &AttributeType = &description.kind;
    // All of them are operational: most types need not be asked for each name.
    successors(Some(kind), |kind| kind.superior.as_deref())
        .filter(|kind| kind.is_operational())
        .find_map(needs)
}

/// Whether an attribute changes with a password, by the server's own rules.
fn is_of_password(description: &AttributeDescription) -> bool {
    let mut named = PASSWORD_STATE.iter();
    description.is_password() || named.any(|name| description.kind.is_named(name))
}

/// The state of an account that a change of its password brings (draft-behera-ldap-password-policy
/// §5.3).
const PASSWORD_STATE: &[&str] = &[
    "pwdChangedTime",
    "pwdAccountLockedTime",
    "pwdFailureTime",
    "pwdGraceUseTime",
    "pwdReset",
    "pwdStartTime",
    "pwdEndTime",
    "pwdLastSuccess",
    "pwdHistory",
    "pwdTPRUseCount",
    "pwdTPRValidFrom",
    "pwdTPRExpireAt",
];

/// What locks, unlocks and ends accounts, and says by which policy: operational attributes that
/// are written by those who may reset passwords.
const ACCOUNT_STATE: &[&str] = &[
    "pwdAccountLockedTime",
    "pwdReset",
    "pwdPolicySubentry",
    "pwdStartTime",
    "pwdEndTime",
    "nsAccountLock",
    "ds-pwp-account-disabled",
    "ds-pwp-account-expiration-time",
    "ds-pwp-password-policy-dn",
];

#[cfg(test)]
mod tests {
    use schema::{Definition, DefinitionKind, Schema};

    use super::*;

    #[test]
    fn a_derived_type_needs_the_privilege_of_the_one_it_is_derived_from() {
        // Such types are refused by now; an older release may have let them in.
        let types = [
            ("aci", Privilege::ModifyAcl),
            ("ds-privilege-name", Privilege::PrivilegeChange),
            ("nsAccountLock", Privilege::PasswordReset),
            ("pwdPolicySubentry", Privilege::PasswordReset),
        ];
        for (name, privilege) in types {
            let text = |number: u8, superior: &str| {
                let text = format!(
                    "( 1.3.6.1.4.1.99999.{number} NAME 'my{number}' SUP {superior} \
                     USAGE directoryOperation )"
                );
                Definition::parse(DefinitionKind::AttributeType, &text).unwrap()
            };
            let derived = [text(1, name), text(2, "my1")];
            let schema = Schema::builtin().with_change(&derived, &[]).unwrap();
            for name in [name, "my1", "my2;x-option"] {
                let description = schema.describe(name).unwrap();
                assert_eq!(privilege_for(&description), Some(privilege), "{name}");
            }
        }
        let schema = Schema::builtin();
        for name in ["cn", "userPassword", "nsRoleDN", "ds-rlim-size-limit"] {
            assert_eq!(privilege_for(&schema.describe(name).unwrap()), None, "{name}");
        }
    }
}
