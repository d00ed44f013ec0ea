//! Long posting lists through the doors that others use: loaded in bulk or written in batches and
//! flushed, they hold the same ids, and the check finds nothing wrong with either.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange, RdnKey,
    ResolvedFilter, Schema,
};
use store::{Ask, IndexConfig, IndexKind, LoadOptions, Store, StoreOptions};

/// The ids of all entries are below this.
const ENTRIES: u64 = 2_600;
/// Of each of them, every entry whose id it divides has the value.
const DIVISORS: [u64; 6] = [1, 2, 3, 7, 40, 900];

fn create(directory: &Path) -> Arc<Store> {
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let indexes = IndexConfig::none().with("l", &[IndexKind::Presence, IndexKind::Equality]);
    let contexts = [Dn::parse("dc=x").unwrap()];
    let store = Store::create(directory, &options, Schema::builtin(), indexes, &contexts);
    Arc::new(store.unwrap())
}

fn divides(id: u64) -> impl Iterator<Item = u64> {
    DIVISORS.into_iter().filter(move |divisor| id.is_multiple_of(*divisor))
}

fn entry(id: u64) -> Entry {
    let dn = if id == 1 { "dc=x".to_owned() } else { format!("cn={id},dc=x") };
    let values: Vec<String> = divides(id).map(|divisor| format!("by {divisor}")).collect();
    let pairs = values.iter().map(|value| ("l", value.as_bytes()));
    let class = [("objectClass", &b"top"[..])];
    Entry::from_pairs(Dn::parse(&dn).unwrap(), class.into_iter().chain(pairs), &Schema::builtin())
        .unwrap()
}

fn add(id: u64) -> Change {
    let entry = entry(id);
    let key = DnKey::from_dn(&Schema::builtin(), entry.name()).unwrap();
    let key = if id == 1 { RdnKey::of_naming_context(&key) } else { key.leaf().unwrap() };
    let parent = EntryId(u64::from(id > 1));
    Change::Add(AddChange { id: EntryId(id), parent, key, entry })
}

fn remove_value(id: u64, divisor: u64) -> Change {
    let description = Schema::builtin().describe("l").unwrap();
    let removed = vec![format!("by {divisor}").into_bytes()];
    let delta = AttributeDelta { description, removed, added: Vec::new() };
    Change::Modify(ModifyChange { id: EntryId(id), dn: Dn::root(), deltas: vec![delta] })
}

fn delete(id: u64) -> Change {
    Change::Delete(DeleteChange { id: EntryId(id), dn: Dn::root(), attributes: Vec::new() })
}

/// One durable batch.
fn write(store: &Store, changes: impl IntoIterator<Item = Change>) {
    let mut batch = store.begin().unwrap();
    changes.into_iter().for_each(|change| batch.apply(&change).unwrap());
    batch.commit().unwrap();
    store.flush().unwrap();
}

fn found(store: &Arc<Store>, filter: &str) -> BTreeSet<u64> {
    let filter = ResolvedFilter::resolve(&Filter::parse(filter).unwrap(), &Schema::builtin());
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let plan = view.plan(&Ask::new(&filter, EntryId(1), Scope::Subtree)).unwrap();
    plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect()
}

#[track_caller]
fn holds(store: &Arc<Store>, has: impl Fn(u64, u64) -> bool) {
    for divisor in DIVISORS {
        let want: BTreeSet<u64> = (1..ENTRIES).filter(|id| has(*id, divisor)).collect();
        assert_eq!(found(store, &format!("(l=by {divisor})")), want, "{divisor}");
    }
    assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
}

#[test]
fn long_lists_are_the_same_however_they_came() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = create(&directory.path().join("loaded"));
    let mut loader = loaded.bulk_load(&LoadOptions::default()).unwrap();
    (1..ENTRIES).for_each(|id| loader.load(&entry(id), id).unwrap());
    loader.commit().unwrap();
    let written = create(&directory.path().join("written"));
    let ids: Vec<u64> = (1..ENTRIES).collect();
    // The lists are made sparse and become too dense for wide chunks in between.
    for ids in ids.chunks(300) {
        write(&written, ids.iter().map(|id| add(*id)));
    }
    for store in [&loaded, &written] {
        holds(store, |id, divisor| id.is_multiple_of(divisor));
        let removed = |id: u64, divisor: u64| divisor < 4 && id % 11 == 6;
        let changes = (1..ENTRIES).flat_map(|id| divides(id).map(move |divisor| (id, divisor)));
        let changes = changes.filter(|(id, divisor)| removed(*id, *divisor));
        write(store, changes.map(|(id, divisor)| remove_value(id, divisor)));
        holds(store, |id, divisor| id.is_multiple_of(divisor) && !removed(id, divisor));
        let is_left = |id: u64| id < 100 || id.is_multiple_of(90);
        write(store, (2..ENTRIES).filter(|id| !is_left(*id)).map(delete));
        holds(store, |id, divisor| {
            is_left(id) && id.is_multiple_of(divisor) && !removed(id, divisor)
        });
    }
}
