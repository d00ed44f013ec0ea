//! The bulk load: what it makes is what batches make, and until it is finished nothing has changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{AddChange, Change, DnKey, Entry, EntryId, EntryRead, RdnKey, ResolvedFilter, Schema};
use store::{
    IndexConfig, LOAD_MEMORY_DEFAULT_BYTES, LoadError, Lsn, Resolved, Store, StoreOptions, View,
};

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 30, ..StoreOptions::default() }
}

fn create(directory: &Path) -> Store {
    let contexts = ["dc=x", "o=y"].map(|text| Dn::parse(text).unwrap());
    Store::create(directory, &options(), Schema::builtin(), IndexConfig::default(), &contexts)
        .unwrap()
}

fn entry(dn: &str, pairs: &[(&str, &str)]) -> Entry {
    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
    let pairs = [("objectClass", &b"top"[..])].into_iter().chain(pairs);
    Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &Schema::builtin()).unwrap()
}

/// People with values that are shared by many, by some and by none, and names too long for a key.
fn people(count: u64) -> Vec<Entry> {
    let mut entries = vec![entry("dc=x", &[]), entry("o=y", &[]), entry("ou=p,dc=x", &[])];
    for number in 0..count {
        let padding = if number % 1000 == 7 { "n".repeat(500) } else { String::new() };
        let dn = format!("uid=u{padding}{number},ou=p,dc=x");
        let uid = format!("u{padding}{number}");
        let mail = format!("u{number}@x");
        let town = format!("town {}", number % 97);
        entries.push(entry(
            &dn,
            &[("objectClass", "person"), ("uid", &uid), ("mail", &mail), ("l", &town)],
        ));
    }
    entries
}

fn load(store: Store, entries: &[Entry], memory_max_bytes: usize) -> Store {
    let mut loader = store.bulk_load(memory_max_bytes).unwrap();
    for (line, entry) in entries.iter().enumerate() {
        assert_eq!(loader.add(entry, line as u64).unwrap().0, line as u64 + 1);
    }
    assert_eq!(loader.count(), entries.len() as u64);
    loader.finish().unwrap()
}

fn apply(store: &Store, entries: &[Entry]) {
    let schema = Schema::builtin();
    let mut batch = store.begin().unwrap();
    for entry in entries {
        let dn_key = DnKey::from_dn(&schema, entry.name()).unwrap();
        let parent = dn_key.parent().unwrap();
        let parent = match batch.view().resolve(&parent).unwrap() {
            Resolved::Found(id) => id,
            Resolved::Missing { .. } | Resolved::NoContext => EntryId::ROOT,
        };
        let key = if parent == EntryId::ROOT {
            RdnKey::of_naming_context(&dn_key)
        } else {
            dn_key.leaf().unwrap()
        };
        let id = batch.next_entry_id();
        let entry = entry.clone();
        batch.apply(&Change::Add(AddChange { id, parent, key, entry })).unwrap();
    }
    batch.commit().unwrap();
}

fn found(view: &View<'_>, filter: &str) -> Vec<String> {
    let filter = Filter::parse(filter).unwrap();
    let filter = ResolvedFilter::resolve(&filter, &Schema::builtin());
    let plan = view.plan(&filter, EntryId::ROOT, Scope::Subtree).unwrap();
    plan.entries(view, EntryId::ROOT).map(|entry| entry.unwrap().dn().to_owned()).collect()
}

#[test]
fn loading_and_adding_make_the_same_data() {
    let entries = people(3_000);
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [added, loaded, loaded_in_parts] = &directories;
    let added = create(added.path());
    apply(&added, &entries);
    let loaded = load(create(loaded.path()), &entries, LOAD_MEMORY_DEFAULT_BYTES);
    // So little memory that the lists are written out again and again.
    let loaded_in_parts = load(create(loaded_in_parts.path()), &entries, 300_000);
    let stores = [added, loaded, loaded_in_parts].map(Arc::new);
    for store in &stores {
        let report = store.check(&mut |_| ()).unwrap();
        assert_eq!(report.findings, []);
        assert_eq!(report.entries, entries.len() as u64);
    }
    let rows = |store: &Store| {
        let tables = store.statistics().unwrap().tables;
        tables.iter().map(|table| (table.name, table.rows)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&stores[0]), rows(&stores[1]));
    assert_eq!(rows(&stores[0]), rows(&stores[2]));
    let mut readers = stores.each_ref().map(Store::reader);
    let [one, other, third] = readers.each_mut().map(|reader| reader.view().unwrap());
    for filter in ["(uid=u17)", "(l=town 5)", "(mail=*99@*)", "(objectClass=person)", "(uid=un*)"] {
        let want = found(one, filter);
        assert!(!want.is_empty(), "{filter}");
        assert_eq!(found(other, filter), want, "{filter}");
        assert_eq!(found(third, filter), want, "{filter}");
    }
}

#[test]
fn a_load_replaces_what_was_there_and_counts_as_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path());
    apply(&store, &people(10));
    let loaded = Arc::new(load(store, &people(5), LOAD_MEMORY_DEFAULT_BYTES));
    assert_eq!(loaded.statistics().unwrap().entries, 8);
    assert_eq!(loaded.reader().view().unwrap().lsn(), Lsn(14));
    drop(loaded);
    let opened = Store::open(directory.path(), &options(), Schema::builtin()).unwrap();
    assert_eq!(opened.statistics().unwrap().entries, 8);
    apply(&opened, &[entry("uid=new,ou=p,dc=x", &[("uid", "new")])]);
    assert_eq!(opened.check(&mut |_| ()).unwrap().findings, []);
}

#[test]
fn a_load_that_is_not_finished_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path());
    apply(&store, &people(10));
    let mut loader = store.bulk_load(LOAD_MEMORY_DEFAULT_BYTES).unwrap();
    loader.add(&entry("dc=x", &[]), 1).unwrap();
    assert!(directory.path().join("load").exists());
    drop(loader);
    let opened = Store::open(directory.path(), &options(), Schema::builtin()).unwrap();
    assert_eq!(opened.statistics().unwrap().entries, 13);
    assert!(!directory.path().join("load").exists());
}

#[test]
fn entries_that_cannot_be_loaded_are_refused_with_both_places() {
    let directory = tempfile::tempdir().unwrap();
    let mut loader = create(directory.path()).bulk_load(LOAD_MEMORY_DEFAULT_BYTES).unwrap();
    let mut check = |dn: &str, line: u64, want: &str| {
        let got = loader.add(&entry(dn, &[]), line).map_err(|error| error.to_string());
        match got {
            Ok(id) => assert_eq!(id.0.to_string(), want, "{dn}"),
            Err(error) => assert_eq!(error, want, "{dn}"),
        }
    };
    check("ou=a,dc=x", 1, "the superior of entry 'ou=a,dc=x' does not come before it");
    check("dc=x", 2, "1");
    check("ou=a,dc=x", 3, "2");
    check("OU=A, DC=X", 4, "entry 'OU=A,DC=X' is there already, from line 3");
    check("cn=b,ou=a,dc=x", 5, "3");
    check("cn=b,ou=c,dc=x", 6, "the superior of entry 'cn=b,ou=c,dc=x' does not come before it");
    check("cn=c,cn=b,ou=a,dc=x", 7, "4");
    check("cn=d,ou=a,dc=x", 8, "5");
    check("dc=z", 9, "entry 'dc=z' is in none of the naming contexts");
    check("o=y", 10, "6");
    let name = loader.add(&entry("member=no name,dc=x", &[]), 11);
    assert!(matches!(name, Err(LoadError::Name { .. })), "{name:?}");
    let store = loader.finish().unwrap();
    assert_eq!(store.check(&mut |_| ()).unwrap().findings, []);
    assert_eq!(store.statistics().unwrap().entries, 6);
}
