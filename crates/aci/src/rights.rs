//! What one identity may do with one entry: every decision about it is asked here.
//!
//! Invariant: nothing leaves the server and nothing is logged but by the rights on the very entry.

use schema::{AttributeDescription, Change, EntryRead, Selection};

use crate::{Access, Denied, Identity, Permitted, Purpose, Searchable, VisibleEntry};

/// The rights of one identity on one entry.
#[derive(Clone, Copy, Debug)]
pub struct Rights<'e> {
    access: &'e Access,
}

impl<'e> Rights<'e> {
    /// The rights on `entry`.
    pub fn on(access: &'e Access, _entry: &'e dyn EntryRead) -> Self {
        Self { access }
    }

    /// Whether values of this attribute may be returned.
    pub fn may_read(self, description: &AttributeDescription) -> bool {
        self.access.is_root() || !description.is_password()
    }

    /// Whether this attribute may be used in a filter. Without the right an assertion on it is
    /// Undefined, so that the answer tells nothing about the value.
    pub fn may_search(self, description: &AttributeDescription) -> bool {
        self.may_read(description)
    }

    /// Whether a compare may assert a value of this attribute.
    pub fn may_compare(self, description: &AttributeDescription) -> bool {
        self.may_read(description)
    }

    /// The entry as a filter may see it.
    pub fn searchable(self, entry: &'e dyn EntryRead) -> Searchable<'e> {
        Searchable::new(self, entry)
    }

    /// The entry reduced to what the identity asked for and may read.
    pub fn visible(self, entry: &'e dyn EntryRead, selection: &'e Selection) -> VisibleEntry<'e> {
        VisibleEntry::new(self, entry, selection)
    }

    /// Decides on a change of the entry that is complete but for its log position.
    ///
    /// # Errors
    /// [`Denied`] when the identity lacks the right.
    pub fn permit(self, change: Change, purpose: Purpose) -> Result<Permitted<Change>, Denied> {
        match (self.access.identity(), purpose) {
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
        Change::Add(_)
        | Change::Rename(_)
        | Change::Delete(_)
        | Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_) => false,
    }
}
