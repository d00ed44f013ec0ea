//! What tests of several files share.

use std::ops::Deref;
use std::path::Path;

use ldap::dn::Dn;
use schema::{Entry, Schema};

use crate::base::lmdb::StoreOptions;
use crate::index::{IndexConfig, IndexDefinition};
use crate::rows::record::RecordHead;
use crate::store::Store;

/// A store of two naming contexts in a directory that goes with it.
pub(crate) fn fresh() -> TestStore {
    let directory = tempfile::tempdir().unwrap();
    TestStore { store: create(directory.path()), _directory: directory }
}

/// A store and the directory that it is in.
pub(crate) struct TestStore {
    store: Store,
    _directory: tempfile::TempDir,
}

impl TestStore {
    pub(crate) fn new(store: Store, directory: tempfile::TempDir) -> Self {
        Self { store, _directory: directory }
    }
}

impl Deref for TestStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// A store of two naming contexts in a directory of the test.
pub(crate) fn create(directory: &Path) -> Store {
    let contexts = ["dc=example,dc=com", "o=Other"].map(|dn| Dn::parse(dn).unwrap());
    let indexes = indexes();
    let options = StoreOptions::default();
    Store::create(directory, &options, Schema::builtin(), indexes, &contexts).unwrap()
}

/// Those of a new store, and behind them one at least of each other sort.
pub(crate) fn indexes() -> IndexConfig {
    MORE_INDEXES.iter().fold(IndexConfig::default(), |config, line| {
        config.and(IndexDefinition::parse(line).unwrap())
    })
}

const MORE_INDEXES: [&str; 9] = [
    "presence sn",
    "approximate description",
    "extensible cn caseExactMatch",
    "extensible cn wordMatch",
    "extensible cn caseExactSubstringsMatch",
    "extensible uidNumber integerBitAndMatch",
    "equality l with objectClass",
    "equality cn with sn where (!(description=none))",
    "substring cn where (objectClass=person)",
];

/// An entry from its name and lines `attribute: value`.
pub(crate) fn entry(text: &str) -> Entry {
    let (name, lines) = text.split_once('\n').unwrap_or((text, ""));
    let pairs = lines.lines().map(|line| {
        let (description, value) = line.split_once(": ").unwrap();
        (description, value.as_bytes())
    });
    Entry::from_pairs(Dn::parse(name).unwrap(), pairs, &Schema::builtin()).unwrap()
}

/// How many records of the base are compressed, and how many are not.
pub(crate) fn record_versions(store: &Store) -> (usize, usize) {
    let environment = store.base_environment();
    let txn = environment.read().unwrap();
    let rows = environment.tables.entries.iter(&txn).unwrap();
    let rows: Vec<bool> = rows
        .map(|row| RecordHead::parse(row.unwrap().1).unwrap().plain_attributes().is_none())
        .collect();
    let compressed = rows.iter().filter(|is| **is).count();
    (compressed, rows.len() - compressed)
}
