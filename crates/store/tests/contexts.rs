//! Naming contexts come, go and are renamed while the store is used.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use ldap::dn::Dn;
use schema::{
    AddChange, Change, DeleteChange, DnKey, Entry, EntryId, EntryRead, RdnKey, RenameChange,
    Schema, SettingChange,
};
use store::{IndexConfig, NAMING_CONTEXTS, NO_CONTEXT, Resolved, Store, StoreError, StoreOptions};

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

fn create(directory: &Path, context: &str) -> Arc<Store> {
    let contexts = [Dn::parse(context).unwrap()];
    let indexes = IndexConfig::default();
    let store = Store::create(directory, &options(), Schema::builtin(), indexes, &contexts);
    Arc::new(store.unwrap())
}

fn open(directory: &Path) -> Arc<Store> {
    Arc::new(Store::open(directory, &options(), Schema::builtin()).unwrap())
}

fn key(dn: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), dn).unwrap()
}

fn contexts(values: &[&str]) -> Change {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Change::Setting(SettingChange { name: NAMING_CONTEXTS.to_owned(), values })
}

/// An add of an entry, at the top of a naming context or below the entry `parent`.
fn entry(id: u64, parent: u64, dn: &str) -> Change {
    let name = Dn::parse(dn).unwrap();
    let pairs = [("objectClass", &b"top"[..]), ("objectClass", &b"extensibleObject"[..])];
    let mut entry = Entry::from_pairs(name, pairs, &Schema::builtin()).unwrap();
    entry.add_naming_values(&Schema::builtin()).unwrap();
    let key = key(dn);
    let key = match parent {
        0 => RdnKey::of_naming_context(&key),
        _ => key.leaf().unwrap(),
    };
    Change::Add(AddChange { id: EntryId(id), parent: EntryId(parent), key, entry })
}

fn apply(store: &Store, changes: &[Change]) {
    let mut batch = store.begin().unwrap();
    changes.iter().for_each(|change| batch.apply(change).unwrap());
    let mark = batch.seal();
    store.publish(mark.lsn, mark.position);
}

fn resolve(store: &Arc<Store>, dn: &str) -> Resolved {
    store.reader().view().unwrap().resolve(&key(dn)).unwrap()
}

fn names(store: &Store) -> Vec<String> {
    store.naming_contexts().names().map(ToString::to_string).collect()
}

fn is_whole(store: &Store) {
    store.flush().unwrap();
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}

#[test]
fn they_come_and_go_with_the_batch_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path(), "dc=x");
    apply(&store, &[entry(1, 0, "dc=x")]);
    let mut reader = store.reader();
    reader.view().unwrap();
    let mut early = reader.detach().unwrap();
    let mut batch = store.begin().unwrap();
    batch.apply(&contexts(&["dc=x", "o=New"])).unwrap();
    assert_eq!(batch.view().resolve(&key("o=new")).unwrap(), Resolved::Missing { nearest: None });
    batch.apply(&entry(2, 0, "o=New")).unwrap();
    let mark = batch.seal();
    assert_eq!(resolve(&store, "o=new"), Resolved::NoContext, "nobody sees it before");
    store.publish(mark.lsn, mark.position);
    assert_eq!(resolve(&store, "o=new"), Resolved::Found(EntryId(2)));
    assert_eq!(names(&store), ["dc=x", "o=New"]);
    // A point in time stays one.
    early.read(|view| assert_eq!(view.resolve(&key("o=new")).unwrap(), Resolved::NoContext));
    is_whole(&store);
    // What was dropped with the log has not been.
    let mut batch = store.begin().unwrap();
    batch.apply(&contexts(&["dc=x", "o=New", "o=Never"])).unwrap();
    batch.seal();
    store.drop_tentative();
    assert_eq!(resolve(&store, "o=never"), Resolved::NoContext);
    let gone =
        DeleteChange { id: EntryId(1), dn: Dn::parse("dc=x").unwrap(), attributes: Vec::new() };
    apply(&store, &[Change::Delete(gone), contexts(&["o=New"])]);
    assert_eq!(resolve(&store, "dc=x"), Resolved::NoContext);
    is_whole(&store);
    drop((early, reader, store));
    let store = open(directory.path());
    assert_eq!(names(&store), ["o=New"]);
    // There may be none at all.
    let gone =
        DeleteChange { id: EntryId(2), dn: Dn::parse("o=New").unwrap(), attributes: Vec::new() };
    apply(&store, &[Change::Delete(gone), contexts(&[NO_CONTEXT])]);
    is_whole(&store);
    drop(store);
    let store = open(directory.path());
    assert!(store.naming_contexts().is_empty());
    // And a setting that is not set is what the store was made with.
    apply(&store, &[contexts(&[])]);
    assert_eq!(names(&store), ["dc=x"]);
    is_whole(&store);
}

/// Entries below keep their numbers, whatever became of the length of the name above them.
#[test]
fn one_is_renamed_with_all_below() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path(), "dc=old,dc=com");
    let below = [
        entry(1, 0, "dc=old,dc=com"),
        entry(2, 1, "ou=people,dc=old,dc=com"),
        entry(3, 2, "cn=a,ou=people,dc=old,dc=com"),
    ];
    apply(&store, &below);
    is_whole(&store);
    assert_eq!(resolve(&store, "cn=a,ou=people,dc=old,dc=com"), Resolved::Found(EntryId(3)));
    let (old_dn, new_dn) = (Dn::parse("dc=old,dc=com").unwrap(), Dn::parse("o=new").unwrap());
    let rename = Change::Rename(RenameChange {
        id: EntryId(1),
        old_dn,
        new_parent: EntryId::ROOT,
        new_rdn: new_dn.rdns()[0].clone(),
        key: RdnKey::of_naming_context(&key("o=new")),
        new_dn,
        deltas: Vec::new(),
    });
    let mut reader = store.reader();
    let there = key("cn=a,ou=people,dc=old,dc=com");
    assert_eq!(reader.view().unwrap().resolve(&there).unwrap(), Resolved::Found(EntryId(3)));
    apply(&store, &[rename, contexts(&["o=new"])]);
    let check = |store: &Arc<Store>| {
        let mut reader = store.reader();
        let view = reader.view().unwrap();
        assert_eq!(view.resolve(&there).unwrap(), Resolved::NoContext);
        let now = view.resolve(&key("cn=a,ou=people,o=new")).unwrap();
        assert_eq!(now, Resolved::Found(EntryId(3)));
        assert_eq!(view.dn(EntryId(3)).unwrap(), "cn=a,ou=people,o=new");
        assert_eq!(view.entry(EntryId(2)).unwrap().unwrap().dn(), "ou=people,o=new");
    };
    // The reader that knew the names before, too.
    assert_eq!(reader.view().unwrap().resolve(&there).unwrap(), Resolved::NoContext);
    check(&store);
    is_whole(&store);
    check(&store);
    drop((reader, store));
    check(&open(directory.path()));
}

#[test]
fn what_cannot_be_together_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path(), "dc=x");
    let many: Vec<String> = (0..=store::CONTEXT_COUNT_MAX).map(|at| format!("o={at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for values in [&["dc=x", "ou=a,dc=x"][..], &["ou=a,dc=x", "dc=x"], &["no name"], &many] {
        let mut batch = store.begin().unwrap();
        let error = batch.change(&contexts(values)).unwrap_err();
        assert!(!matches!(error, StoreError::Corrupt(_)), "{error}");
        assert_eq!(batch.view().naming_contexts().len(), 1);
    }
    assert_eq!(names(&store), ["dc=x"]);
    apply(&store, &[contexts(&many[1..])]);
    is_whole(&store);
    drop(store);
    assert_eq!(open(directory.path()).naming_contexts().len(), store::CONTEXT_COUNT_MAX);
}
