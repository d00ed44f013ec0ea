//! The access rules at work in one request: who asks, and what that means for each entry.
//!
//! Invariant: every decision about an entry goes through the rights at its place; there is no other
//! way from an entry to a client, or from a request to a change.

use aci::{Access, Rights};
use schema::{AttributeDescription, Entry, EntryId, EntryRead};
use store::{StoredEntry, View};

use crate::refusal::Refusal;

/// Who asks, and the rules in force. One for each request.
pub(crate) struct Guard<'a> {
    access: &'a Access,
}

impl<'a> Guard<'a> {
    /// The rules for a request of `access`.
    pub(crate) fn new(access: &'a Access) -> Self {
        Self { access }
    }

    /// Who asks.
    pub(crate) fn access(&self) -> &'a Access {
        self.access
    }

    /// The place of a stored entry.
    pub(crate) fn at<'e>(
        &'e self,
        _view: &View<'_>,
        stored: &'e StoredEntry<'_>,
    ) -> Result<Place<'e>, Refusal> {
        Ok(Place { access: self.access, entry: stored })
    }

    /// The place of an entry that is to be, below `superior`.
    pub(crate) fn at_new<'e>(
        &'e self,
        _view: &View<'_>,
        entry: &'e Entry,
        _superior: EntryId,
    ) -> Result<Place<'e>, Refusal> {
        Ok(Place { access: self.access, entry })
    }

    /// The place of an entry that the server makes itself.
    pub(crate) fn at_made<'e>(&'e self, entry: &'e dyn EntryRead) -> Place<'e> {
        Place { access: self.access, entry }
    }

    /// Whether the asker may search for values of an attribute in every entry there is: only then
    /// what an index says need not be asked of the entries.
    pub(crate) fn may_search_everywhere(&self, description: &AttributeDescription) -> bool {
        self.access.may_search_everywhere(description)
    }

    /// Whether there is an entry in which the asker may search for values of an attribute.
    pub(crate) fn may_search_somewhere(&self, description: &AttributeDescription) -> bool {
        self.access.may_search_everywhere(description)
    }
}

/// An entry, and the rules that hold where it is.
pub(crate) struct Place<'e> {
    access: &'e Access,
    entry: &'e dyn EntryRead,
}

impl Place<'_> {
    /// What the asker may do with the entry.
    pub(crate) fn rights(&self) -> Rights<'_> {
        Rights::on(self.access, self.entry)
    }
}
