//! A branch of a tree that the server makes, and how its entries are made.

use ldap::dn::Dn;
use ldap::message::Scope;
use schema::{DnKey, Entry, Schema, Selection};

use crate::directory::Directory;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::request::refusal::Refusal;

/// A part of a tree: everything at and below one name.
pub(crate) struct Branch {
    /// The name of its topmost entry, whose superior is an entry of the tree.
    pub(crate) name: &'static str,
    /// Making it may take longer than a connection's neighbours should wait: it goes to the pool.
    pub(crate) is_slow: fn(&BranchSource<'_>) -> bool,
    /// Makes its entries, the topmost first and every superior before its subordinates.
    pub(crate) entries: MakeEntries,
}

pub(super) type MakeEntries = fn(&BranchSource<'_>) -> Result<Vec<Entry>, Refusal>;

pub(crate) fn never(_: &BranchSource<'_>) -> bool {
    false
}

pub(crate) fn always(_: &BranchSource<'_>) -> bool {
    true
}

/// What a branch is made from.
pub(crate) struct BranchSource<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) schema: &'a Schema,
    /// Which entry is asked for, or entries below which.
    pub(crate) base: &'a DnKey,
    /// How far below.
    pub(crate) scope: Scope,
    pub(super) selection: &'a Selection,
}

impl BranchSource<'_> {
    /// Whether an attribute is asked for by name: what costs much is made only then.
    pub(crate) fn asks(&self, name: &str) -> bool {
        let description = self.schema.describe(name);
        description.is_ok_and(|description| self.selection.names_attribute(&description))
    }

    /// Begins an entry of the classes; its naming value is put in.
    ///
    /// `name` is written by the code, with values escaped where they are not.
    pub(crate) fn entry(&self, name: &str, classes: &[&str]) -> EntryMaker<'_> {
        EntryMaker::new(self.schema, name, classes)
    }
}

/// An entry in the making.
pub(crate) struct EntryMaker<'a> {
    schema: &'a Schema,
    entry: Entry,
}

impl<'a> EntryMaker<'a> {
    fn new(schema: &'a Schema, name: &str, classes: &[&str]) -> Self {
        let dn = Dn::parse(name).expect("the code writes valid names");
        let maker = Self { schema, entry: Entry::new(dn) };
        let mut maker = maker
            .values("objectClass", classes.iter().map(|&class| class.to_owned()))
            .value("structuralObjectClass", classes.first().unwrap_or(&"top"))
            .value("entryDN", name)
            .value("subschemaSubentry", SUBSCHEMA_DN);
        // Its types are defined, as those of every name in the code are.
        let _ = maker.entry.add_naming_values(schema);
        maker
    }

    /// Goes on with an entry that is there.
    pub(super) fn of(schema: &'a Schema, entry: Entry) -> Self {
        Self { schema, entry }
    }

    /// Puts one value in.
    pub(crate) fn value(self, name: &str, value: &str) -> Self {
        self.values(name, [value.to_owned()])
    }

    /// Adds values; without any the attribute stays out.
    pub(crate) fn values(mut self, name: &str, values: impl IntoIterator<Item = String>) -> Self {
        let values: Vec<Vec<u8>> = values.into_iter().map(String::into_bytes).collect();
        let description = self.schema.describe(name);
        debug_assert!(description.is_ok(), "{name} is not in the schema");
        if let Ok(description) = description
            && !values.is_empty()
        {
            // Of values that are equal to the attribute's rule, the first stays.
            let added = self.entry.add_missing_values(self.schema, &description, &values);
            debug_assert!(added.is_ok(), "{name}: {added:?}");
        }
        self
    }

    /// The entry.
    pub(crate) fn done(self) -> Entry {
        self.entry
    }
}
