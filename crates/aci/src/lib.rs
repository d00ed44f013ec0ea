//! Who may see and do what. The only crate that builds a [`VisibleEntry`] or a [`Permitted`] change.
//!
//! Invariant: knows no storage and no socket; it sees an entry only through `schema::EntryRead`.
//! Invariant: both capability types have private fields. What was not decided here can neither be
//! sent to a client nor be logged.
//!
//! The rules of this version are fixed: the root identity may do everything; everyone else may
//! read, search and compare what is not a password, and may change nothing but their own password
//! through the password modify operation (RFC 3062).

mod identity;
mod permitted;
mod visible;

pub use identity::Identity;
pub use permitted::{Denied, Permitted, Purpose};
pub use visible::{Searchable, VisibleEntry};

use schema::{AttributeDescription, Change, EntryRead, Selection};

/// The rights of one identity. Made once per bind, asked many times per request.
#[derive(Clone, Debug)]
pub struct Access {
    identity: Identity,
}

impl Access {
    /// The rights of `identity`.
    pub fn of(identity: Identity) -> Self {
        Self { identity }
    }

    /// Whose rights these are.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether values of this attribute may be returned.
    pub fn may_read(&self, description: &AttributeDescription) -> bool {
        self.is_root() || !description.is_password()
    }

    /// Whether this attribute may be used in a filter. Without the right an assertion on it is
    /// Undefined, so that the answer tells nothing about the value.
    pub fn may_search(&self, description: &AttributeDescription) -> bool {
        self.may_read(description)
    }

    /// Whether a compare may assert a value of this attribute.
    pub fn may_compare(&self, description: &AttributeDescription) -> bool {
        self.may_read(description)
    }

    /// Whether the identity may change anything at all; asked before a request is examined, so
    /// that a refusal does not depend on what the directory holds.
    pub fn may_change(&self) -> bool {
        self.is_root()
    }

    /// Whether the identity may use passwords, policies and limits of an administrator.
    pub fn is_root(&self) -> bool {
        matches!(self.identity, Identity::Root(_))
    }

    /// The entry as a filter may see it.
    pub fn searchable<'e>(&'e self, entry: &'e dyn EntryRead) -> Searchable<'e> {
        Searchable::new(self, entry)
    }

    /// The entry reduced to what this identity asked for and may read.
    pub fn visible<'e>(
        &'e self,
        entry: &'e dyn EntryRead,
        selection: &'e Selection,
    ) -> VisibleEntry<'e> {
        VisibleEntry::new(self, entry, selection)
    }

    /// Decides on a change that is complete but for its log position.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks the right.
    pub fn permit(&self, change: Change, purpose: Purpose) -> Result<Permitted<Change>, Denied> {
        match (&self.identity, purpose) {
            (Identity::Root(_), _) => Ok(Permitted::new(change)),
            (Identity::Entry(own), Purpose::PasswordModify)
                if changes_only_password(&change, own) =>
            {
                Ok(Permitted::new(change))
            }
            (Identity::Entry(_) | Identity::Anonymous, _) => Err(Denied),
        }
    }
}

/// Whether the change touches nothing but password and operational attributes of `own`.
fn changes_only_password(change: &Change, own: &ldap::dn::Dn) -> bool {
    match change {
        Change::Modify(modify) => {
            modify.dn == *own
                && modify.deltas.iter().all(|delta| {
                    delta.description.is_password() || delta.description.is_operational()
                })
        }
        Change::Add(_) | Change::Rename(_) | Change::Delete(_) | Change::Schema(_) => false,
    }
}
