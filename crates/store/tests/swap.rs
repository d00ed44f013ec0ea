//! Another base takes the place of the one in use.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use ldap::dn::Dn;
use schema::{AddChange, Change, DnKey, Entry, EntryId, RdnKey, Schema};
use store::{
    IndexConfig, IndexKind, LoadOptions, Lsn, Resolved, Store, StoreError, StoreOptions, View,
};

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

fn create(directory: &Path, context: &str, indexes: IndexConfig) -> Store {
    let contexts = [Dn::parse(context).unwrap()];
    Store::create(directory, &options(), Schema::builtin(), indexes, &contexts).unwrap()
}

/// Adds entries, each below the one before it, in a batch that is published and not flushed.
fn add(store: &Store, names: &[&str]) {
    let mut batch = store.begin().unwrap();
    for name in names {
        let dn = Dn::parse(name).unwrap();
        let dn_key = DnKey::from_dn(&Schema::builtin(), &dn).unwrap();
        let parent = batch.view().resolve(&dn_key.parent().unwrap()).unwrap();
        let (parent, key) = match parent {
            Resolved::Found(parent) => (parent, dn_key.leaf().unwrap()),
            _ => (EntryId::ROOT, RdnKey::of_naming_context(&dn_key)),
        };
        let pairs = [("objectClass", &b"top"[..])];
        let entry = Entry::from_pairs(dn, pairs, &Schema::builtin()).unwrap();
        let id = batch.next_entry_id();
        batch.apply(&Change::Add(AddChange { id, parent, key, entry })).unwrap();
    }
    let mark = batch.seal();
    store.publish(mark.lsn, mark.position);
}

fn finds(view: &View<'_>, dn: &str) -> bool {
    let key = DnKey::from_text(&Schema::builtin(), dn).unwrap();
    matches!(view.resolve(&key).unwrap(), Resolved::Found(_))
}

/// Puts the data file of a store that is closed into a directory of its own.
fn incoming(of: &Path, under: &Path, name: &str) -> std::path::PathBuf {
    let directory = under.join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(of.join("data.mdb"), directory.join("data.mdb")).unwrap();
    directory
}

#[test]
fn readers_go_over_to_the_new_base_and_views_keep_the_old_one() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The same number of changes, names and moved names, so that only the base tells them apart.
    let other = create(there.path(), "dc=x", IndexConfig::default());
    add(&other, &["dc=x", "ou=b,dc=x", "cn=new,ou=b,dc=x"]);
    other.flush().unwrap();
    drop(other);
    let store = Arc::new(create(here.path(), "dc=x", IndexConfig::default()));
    add(&store, &["dc=x", "ou=a,dc=x", "cn=old,ou=a,dc=x"]);
    store.flush().unwrap();
    add(&store, &["cn=over,dc=x"]);
    let (mut early, mut reader) = (store.reader(), store.reader());
    let view = early.view().unwrap();
    assert!(finds(view, "cn=old,ou=a,dc=x") && finds(reader.view().unwrap(), "cn=old,ou=a,dc=x"));
    // One that is sealed and not published is gone, too.
    let mut batch = store.begin().unwrap();
    let gone = schema::DeleteChange { id: EntryId(3), dn: Dn::root(), attributes: vec![] };
    batch.apply(&Change::Delete(gone)).unwrap();
    batch.seal();

    let from = incoming(there.path(), here.path(), "incoming-1");
    let mark = store.swap_base(&from, &options(), Schema::builtin()).unwrap();
    assert_eq!(mark.lsn, Lsn(3));
    assert_eq!((store.base(), store.published(), store.tentative()), (mark, mark, mark));
    assert!(finds(view, "cn=old,ou=a,dc=x") && finds(view, "cn=over,dc=x"));
    assert_eq!(view.children(EntryId(1)).unwrap().count(), 2);
    let now = reader.view().unwrap();
    assert!(finds(now, "cn=new,ou=b,dc=x") && !finds(now, "cn=old,ou=a,dc=x"));
    assert!(!finds(now, "cn=over,dc=x"));
    assert_eq!(now.dn(EntryId(3)).unwrap(), "cn=new,ou=b,dc=x");

    // It goes on from there, and a second time.
    add(&store, &["cn=after,ou=b,dc=x"]);
    store.flush().unwrap();
    assert!(finds(reader.view().unwrap(), "cn=after,ou=b,dc=x"));
    assert!(finds(early.view().unwrap(), "cn=after,ou=b,dc=x"));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
    assert!(store.bulk_load(&LoadOptions::default()).is_err());
    let from = incoming(there.path(), here.path(), "incoming-2");
    store.swap_base(&from, &options(), Schema::builtin()).unwrap();
    assert!(!finds(reader.view().unwrap(), "cn=after,ou=b,dc=x"));
    add(&store, &["cn=last,ou=b,dc=x"]);
    store.flush().unwrap();

    // Whoever opens the directory finds the new base.
    drop((early, reader, store));
    let store = Arc::new(Store::open(here.path(), &options(), Schema::builtin()).unwrap());
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    assert!(finds(view, "cn=last,ou=b,dc=x") && finds(view, "cn=new,ou=b,dc=x"));
    assert!(!finds(view, "cn=old,ou=a,dc=x") && !finds(view, "cn=after,ou=b,dc=x"));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}

#[test]
fn a_base_of_other_contexts_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let store = Arc::new(create(here.path(), "dc=x", IndexConfig::default()));
    add(&store, &["dc=x"]);
    let there = tempfile::tempdir().unwrap();
    drop(create(there.path(), "dc=y", IndexConfig::default()));
    let from = incoming(there.path(), here.path(), "incoming");
    let error = store.swap_base(&from, &options(), Schema::builtin()).unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    assert!(finds(store.reader().view().unwrap(), "dc=x"));
    add(&store, &["cn=n,dc=x"]);
    store.flush().unwrap();
    assert_eq!(store.published().lsn, Lsn(2));
}

/// Changes of indexes are changes: who is far behind has other ones.
#[test]
fn a_base_brings_its_indexes() {
    let here = tempfile::tempdir().unwrap();
    let store = Arc::new(create(here.path(), "dc=x", IndexConfig::default()));
    add(&store, &["dc=x"]);
    let there = tempfile::tempdir().unwrap();
    drop(create(there.path(), "dc=x", IndexConfig::none().with("sn", &[IndexKind::Presence])));
    let from = incoming(there.path(), here.path(), "incoming");
    store.swap_base(&from, &options(), Schema::builtin()).unwrap();
    assert_eq!(store.indexes().definitions().len(), 1);
    add(&store, &["dc=x"]);
    store.flush().unwrap();
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}
