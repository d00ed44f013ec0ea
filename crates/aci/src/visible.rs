//! The wall before the socket: an entry reduced to what its reader may see.

use ldap::message::Values;
use schema::{AttributeDescription, EntryRead, Selection};

use crate::Access;

/// An entry as one identity may see it. The only form in which an entry leaves the server.
pub struct VisibleEntry<'e> {
    access: &'e Access,
    entry: &'e dyn EntryRead,
    selection: &'e Selection,
}

impl<'e> VisibleEntry<'e> {
    pub(crate) fn new(
        access: &'e Access,
        entry: &'e dyn EntryRead,
        selection: &'e Selection,
    ) -> Self {
        Self { access, entry, selection }
    }

    /// The name, as sent.
    pub fn dn(&self) -> &str {
        self.entry.dn()
    }

    /// Calls `visit` with the description and the values of each attribute that was asked for and
    /// may be read.
    pub fn visit(&self, visit: &mut dyn FnMut(&str, Values<'_>)) {
        self.entry.visit_attributes(&mut |description, values| {
            if self.selection.selects(description) && self.access.may_read(description) {
                visit(description.text(), values);
            }
        });
    }
}

/// An entry as a filter of one identity may see it: an assertion on an attribute without the right
/// to search it cannot be answered and is Undefined.
pub struct Searchable<'e> {
    access: &'e Access,
    entry: &'e dyn EntryRead,
}

impl<'e> Searchable<'e> {
    pub(crate) fn new(access: &'e Access, entry: &'e dyn EntryRead) -> Self {
        Self { access, entry }
    }
}

impl EntryRead for Searchable<'_> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn visit_values(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        if !self.access.may_search(asked) {
            return false;
        }
        self.entry.visit_values(asked, &mut |description, value| {
            // A supertype may be searchable where one of its subtypes is not.
            !self.access.may_search(description) || visit(description, value)
        })
    }

    fn visit_attributes(&self, visit: &mut dyn FnMut(&AttributeDescription, Values<'_>)) {
        self.entry.visit_attributes(&mut |description, values| {
            if self.access.may_search(description) {
                visit(description, values);
            }
        });
    }
}
