//! What tests of several files share.

use std::path::Path;

use ldap::dn::Dn;
use schema::{Entry, Schema};

use crate::index::IndexConfig;
use crate::lmdb::StoreOptions;
use crate::store::Store;

/// A store of two naming contexts in a directory that nobody sees any more.
pub(crate) fn fresh() -> Store {
    let dir = tempfile::tempdir().unwrap();
    // The files go when the directory does; the map stays good as long as the store is open.
    create(dir.path())
}

/// The same in a directory of the test.
pub(crate) fn create(directory: &Path) -> Store {
    let contexts = ["dc=example,dc=com", "o=Other"].map(|dn| Dn::parse(dn).unwrap());
    let indexes = IndexConfig::default();
    let options = StoreOptions::default();
    Store::create(directory, &options, Schema::builtin(), indexes, &contexts).unwrap()
}

/// An entry from its name and lines `attribute: value`.
pub(crate) fn entry(text: &str) -> Entry {
    let (name, lines) = text.split_once('\n').unwrap_or((text, ""));
    let pairs = lines.lines().map(|line| {
        let (description, value) = line.split_once(": ").unwrap();
        (description, value.as_bytes())
    });
    Entry::from_pairs(Dn::parse(name).unwrap(), pairs, &Schema::builtin()).unwrap()
}
