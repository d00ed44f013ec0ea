//! Loads people in bulk and prints what a load, an equality search and a few filters cost, in CPU
//! time of the thread (Linux): it holds on a machine that does other work, too.
//!
//! `cargo run --release -p store --example point_read -- 100000`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement for the terminal"
)]

#[path = "people/mod.rs"]
mod people;

use std::path::PathBuf;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{
    AttributeDelta, Change, DnKey, Entry, EntryId, ModifyChange, ResolvedFilter, Schema, Truth,
};
use store::{Ask, IndexConfig, Resolved, Store, StoreOptions, StoreReader};

use people::{Instant, load, person};

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let directory = std::env::args().nth(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = directory.join(format!("point-read-{}", std::process::id()));
    let schema = Schema::builtin();
    let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
    let options = StoreOptions::default();
    let indexes = IndexConfig::default();
    let store =
        Store::create(&directory, &options, Arc::clone(&schema), indexes, &contexts).unwrap();
    let store = Arc::new(store);
    load(&store, count);
    let statistics = store.statistics().unwrap();
    println!("file {} MB, {:?}", statistics.file_bytes >> 20, statistics.tables);
    let mut reader = store.reader();
    equality(&mut reader, count);
    names(&mut reader, count);
    filters(&mut reader, count);
    writes(&store, &mut reader, count);
    let start = Instant::now();
    let report = store.check(&mut |_, _, _| ()).unwrap();
    println!("check: {:?}, {} findings", start.elapsed(), report.findings.len());
    drop(reader);
    drop(store);
    std::fs::remove_dir_all(&directory).unwrap();
}

fn numbers(count: u64) -> impl Iterator<Item = u64> {
    (0..200_000_u64).map(move |step| step.wrapping_mul(2_654_435_761) % count)
}

fn each(what: &str, start: Instant, runs: u64) {
    println!("{what}: {:.2} µs", start.elapsed().as_secs_f64() * 1e6 / runs as f64);
}

fn equality(reader: &mut StoreReader, count: u64) {
    let schema = Schema::builtin();
    let base = base(reader);
    let filters: Vec<ResolvedFilter> =
        numbers(count).map(|number| resolve(&format!("(uid=user.{number})"))).collect();
    for _ in 0..2 {
        let start = Instant::now();
        let mut octets = 0;
        for filter in &filters {
            let view = reader.view().unwrap();
            let plan = view.plan(&Ask::new(filter, base, Scope::Subtree)).unwrap();
            for entry in plan.entries(view, EntryId::ROOT) {
                let entry = entry.unwrap();
                assert!(plan.exact);
                octets += entry.rdn().len() + entry.superior_dn().len();
                octets +=
                    entry.attributes().map(|(_, values)| values.as_ber().len()).sum::<usize>();
            }
        }
        each("equality search, all attributes", start, filters.len() as u64);
        assert!(octets > 0);
    }
    let start = Instant::now();
    for filter in &filters {
        let view = reader.view().unwrap();
        let plan = view.plan(&Ask::new(filter, base, Scope::Subtree)).unwrap();
        for entry in plan.entries(view, EntryId::ROOT) {
            assert_eq!(filter.matches(&schema, &entry.unwrap()), Truth::True);
        }
    }
    each("equality search with a test of the filter", start, filters.len() as u64);
}

fn names(reader: &mut StoreReader, count: u64) {
    let schema = Schema::builtin();
    let keys: Vec<DnKey> = numbers(count)
        .map(|number| {
            let text = format!("uid=user.{number},ou=People,dc=example,dc=com");
            DnKey::from_text(&schema, &text).unwrap()
        })
        .collect();
    let start = Instant::now();
    for key in &keys {
        let view = reader.view().unwrap();
        let Resolved::Found(id) = view.resolve(key).unwrap() else { panic!("is missing") };
        assert!(view.entry(id).unwrap().is_some());
    }
    each("resolve a name and read its entry", start, keys.len() as u64);
}

fn base(reader: &mut StoreReader) -> EntryId {
    let key = DnKey::from_text(&Schema::builtin(), "dc=example,dc=com").unwrap();
    match reader.view().unwrap().resolve(&key).unwrap() {
        Resolved::Found(id) => id,
        other => panic!("{other:?}"),
    }
}

fn resolve(text: &str) -> ResolvedFilter {
    ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &Schema::builtin())
}

fn filters(reader: &mut StoreReader, count: u64) {
    let schema = Schema::builtin();
    let base = base(reader);
    for text in [
        "(&(uid=user.12*)(l=Aachen 12))",
        "(&(uid=user.1234)(telephoneNumber=*123*)(title=*ab))",
        "(&(telephoneNumber=*12345*)(|(title=*xx)(uid=user.12*)))",
        "(&(telephoneNumber=*12345*)(|(title=*xx)(mail=user.1234*)))",
        "(&(telephoneNumber=*12345*)(|(title=*xx)(givenName=Anna12)))",
        "(cn=*na*)",
        "(&(objectClass=person)(uid=user.77))",
    ] {
        let filter = resolve(text);
        let runs = 200;
        let start = Instant::now();
        let (mut candidates, mut matches) = (0, 0);
        for _ in 0..runs {
            let view = reader.view().unwrap();
            let plan = view.plan(&Ask::new(&filter, base, Scope::Subtree)).unwrap();
            for entry in plan.entries(view, EntryId::ROOT) {
                candidates += 1;
                matches += u64::from(filter.matches(&schema, &entry.unwrap()) == Truth::True);
            }
        }
        let text = format!("{text}: {} candidates, {} match", candidates / runs, matches / runs);
        each(&text, start, runs);
    }
    let _ = count;
}

fn writes(store: &Store, reader: &mut StoreReader, count: u64) {
    let schema = Schema::builtin();
    let description = schema.describe("description").unwrap();
    let changes: Vec<Change> = numbers(count)
        .take(5000)
        .enumerate()
        .map(|(at, number)| {
            let key = format!("uid=user.{number},ou=People,dc=example,dc=com");
            let key = DnKey::from_text(&schema, &key).unwrap();
            let Resolved::Found(id) = reader.view().unwrap().resolve(&key).unwrap() else {
                panic!("is missing")
            };
            let added = vec![format!("changed {at}").into_bytes()];
            let description = Arc::clone(&description);
            let delta = AttributeDelta { description, removed: Vec::new(), added };
            Change::Modify(ModifyChange { id, dn: Dn::root(), deltas: vec![delta] })
        })
        .collect();
    reader.release();
    let start = Instant::now();
    for changes in changes.chunks(50) {
        let mut batch = store.begin().unwrap();
        changes.iter().for_each(|change| batch.apply(change).unwrap());
        batch.commit().unwrap();
    }
    each("modify, unindexed, 50 a commit", start, 5000);
    let parent = {
        let key = DnKey::from_text(&schema, "ou=People,dc=example,dc=com").unwrap();
        match reader.view().unwrap().resolve(&key).unwrap() {
            Resolved::Found(id) => id,
            other => panic!("{other:?}"),
        }
    };
    reader.release();
    let added: Vec<Entry> = (0..2000).map(|step| person(count + step, &schema)).collect();
    let start = Instant::now();
    for entries in added.chunks(50) {
        let mut batch = store.begin().unwrap();
        for entry in entries {
            let key = schema::RdnKey::from_rdn(&schema, &entry.name().rdns()[0]).unwrap();
            let id = batch.next_entry_id();
            let entry = entry.clone();
            batch.apply(&Change::Add(schema::AddChange { id, parent, key, entry })).unwrap();
        }
        batch.commit().unwrap();
    }
    each("add, 50 a commit", start, 2000);
}
