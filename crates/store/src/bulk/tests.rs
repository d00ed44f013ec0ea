//! The bulk load: what it makes is what adding makes, and nothing is there before it is finished.

pub(crate) mod crash;
mod lists;
mod random;

use std::sync::Arc;

use ldap::dn::Dn;
use schema::{AddChange, Change, DnKey, Entry, EntryId, RdnKey, Schema};

use super::*;
use crate::base::lmdb::{StoreOptions, TABLE_NAMES};
use crate::base::meta::Counters;
use crate::index::IndexConfig;
use crate::read::view::Memories;
use crate::testing::{create, entry, fresh};

/// Adds entries one by one, in one batch.
fn add_each(store: &Store, entries: &[Entry]) {
    let schema = store.schema();
    let mut batch = store.begin().unwrap();
    for entry in entries {
        let key = DnKey::from_dn(&schema, entry.name()).unwrap();
        let is_context = store.naming_contexts().keys().any(|context| *context == key);
        let (parent, key) = if is_context {
            (EntryId::ROOT, RdnKey::of_naming_context(&key))
        } else {
            let parent = batch.view().resolve(&key.parent().unwrap()).unwrap();
            let crate::read::view::Resolved::Found(parent) = parent else { panic!("{parent:?}") };
            (parent, key.leaf().unwrap())
        };
        let id = batch.next_entry_id();
        batch.apply(&Change::Add(AddChange { id, parent, key, entry: entry.clone() })).unwrap();
    }
    batch.commit().unwrap();
}

fn load(store: &Store, entries: &[Entry]) -> Result<BulkReport, BulkError> {
    let mut loader = store.bulk_load(&LoadOptions::default())?;
    for (entry, line) in entries.iter().zip(1..) {
        loader.load(entry, line * 10)?;
    }
    loader.commit()
}

/// All rows but the counters.
fn rows(store: &Store) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let environment = store.base_environment();
    let txn = environment.read().unwrap();
    let mut rows = Vec::new();
    for (name, table) in TABLE_NAMES.into_iter().zip(environment.tables.all()) {
        for row in table.iter(&txn).unwrap() {
            let (key, value) = row.unwrap();
            if key != b"counters" && key != b"digest-key" {
                rows.push((name, key.to_vec(), value.to_vec()));
            }
        }
    }
    rows
}

/// A tree with all that is special: long names and values, many ids for one key, options, several
/// naming contexts, superiors of superiors.
fn tree(people: usize) -> Vec<Entry> {
    let mut entries = vec![
        entry("dc=example,dc=com\nobjectClass: top\nobjectClass: domain\ndc: example"),
        entry("ou=People,dc=example,dc=com\nobjectClass: organizationalUnit\nou: People"),
        entry("o=Other\nobjectClass: organization\no: Other\no;lang-de: Andere"),
    ];
    for number in 0..people {
        entries.push(entry(&format!(
            "uid=user.{number},ou=people,DC=example,dc=com\nobjectClass: top\n\
             objectClass: inetOrgPerson\nuid: user.{number}\ncn: Name {number} Other\n\
             cn: Second {}\nsn: {}\nmail: user.{number}@example.com\n\
             telephoneNumber: +1 {:09}\nref: ldap://x/{}",
            number % 7,
            number % 100,
            number * 7919,
            number % 3,
        )));
    }
    for last in ["x", "y"] {
        let name = format!("cn={}{last}", "n".repeat(480));
        let value = "v".repeat(230);
        entries
            .push(entry(&format!("{name},o=other\nobjectClass: person\ncn: {value}{last}\nsn: a")));
        entries.push(entry(&format!("cn=below,{name},o=other\nobjectClass: person\nsn: b")));
    }
    entries
}

#[test]
fn a_load_makes_the_rows_that_single_adds_make() {
    // Few and many ids a list; ids below and above the border of a chunk.
    for (people, next_entry_id) in [(0, 1), (1, 1), (70, 1), (200, 8100)] {
        let entries = tree(people);
        let (one, other) = (fresh(), fresh());
        for store in [&one, &other] {
            let environment = store.base_environment();
            let mut txn = environment.write().unwrap();
            let counters = Counters { next_entry_id, ..Counters::FIRST };
            counters.write(environment.tables.meta, &mut txn).unwrap();
            txn.commit().unwrap();
            store.versions.settle(counters, store.dictionary());
        }
        add_each(&one, &entries);
        let report = load(&other, &entries).unwrap();
        assert_eq!(report.entries, entries.len() as u64);
        let (one, other) = (rows(&one), rows(&other));
        for (single, loaded) in one.iter().zip(&other) {
            assert_eq!(single, loaded, "{people} people");
        }
        assert_eq!(one.len(), other.len());
    }
}

#[test]
fn names_that_do_not_fit_into_the_memory_end_the_load() {
    let store = fresh();
    add_each(&store, &tree(0)[..1]);
    let before = rows(&store);
    let options = LoadOptions { memory_bytes: 0, held: Held::Keep, ..LoadOptions::default() };
    let ended = (|| {
        let mut loader = store.bulk_load(&options)?;
        for number in 0..70_000 {
            let text = format!("ou={number},dc=example,dc=com\nobjectClass: organizationalUnit");
            loader.load(&entry(&text), 1)?;
        }
        loader.commit()
    })();
    let Err(BulkError::NoMemory { entries, names_bytes, max_bytes }) = ended else {
        panic!("{ended:?}")
    };
    assert!((20_000..70_000).contains(&entries), "{entries}");
    assert!(max_bytes < names_bytes && names_bytes < 2 * max_bytes, "{names_bytes}");
    assert_eq!(rows(&store), before);
}

#[test]
fn entries_of_naming_contexts_are_replaced_or_kept() {
    let entries = tree(100);
    let (context, rest) = entries.split_at(3);
    let old = entry("dc=example,dc=com\nobjectClass: domain\ndc: example\ndescription: old");
    let kept = entry("o=Other\nobjectClass: organization\no: Other");
    let one = fresh();
    add_each(&one, &[old, kept]);
    let mut loaded = context[..2].to_vec();
    loaded.extend_from_slice(rest);
    assert_eq!(load(&one, &loaded).unwrap().entries, loaded.len() as u64);
    assert_eq!(one.check(&mut |_, _, _| {}).unwrap().findings, []);
    assert_eq!(one.statistics().unwrap().entries, entries.len() as u64);
    let view = one.snapshot(Memories::default()).unwrap();
    let stored = view.expect_entry(1).unwrap().to_entry().unwrap();
    assert_eq!(&stored, &context[0]);
}

#[test]
fn readers_see_a_load_when_it_is_finished_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let mut reader = store.reader();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    loader.load(&tree(0)[0], 1).unwrap();
    assert_eq!(reader.view().unwrap().entry_count().unwrap(), 0);
    drop(loader);
    assert_eq!(reader.view().unwrap().entry_count().unwrap(), 0);
    load(&store, &tree(5)).unwrap();
    assert_eq!(reader.view().unwrap().entry_count().unwrap(), tree(5).len() as u64);
    let schema = Schema::builtin();
    let key = DnKey::from_text(&schema, "uid=USER.3,ou=people,dc=example,dc=com").unwrap();
    let found = reader.view().unwrap().resolve(&key).unwrap();
    assert!(matches!(found, crate::read::view::Resolved::Found(_)), "{found:?}");
}

#[track_caller]
fn check_refused(entries: &[&str], want: &str, line: u64) {
    let entries: Vec<Entry> = entries.iter().map(|text| entry(text)).collect();
    let store = fresh();
    let error = load(&store, &entries).unwrap_err();
    let BulkError::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!((error.to_string().as_str(), refusal.place.line), (want, line));
    assert_eq!(store.statistics().unwrap().entries, 0);
}

#[test]
fn each_refusal_tells_the_place() {
    let top = "dc=example,dc=com\nobjectClass: domain";
    let people = "ou=People,dc=example,dc=com\nobjectClass: organizationalUnit";
    check_refused(
        &[top, people, "OU=people , dc=Example,dc=com\nobjectClass: organizationalUnit"],
        "entry 'OU=people,dc=Example,dc=com' exists already, from line 20",
        30,
    );
    check_refused(&[top, top], "entry 'dc=example,dc=com' exists already, from line 10", 20);
    check_refused(
        &[top, "cn=a,ou=None,dc=example,dc=com\nobjectClass: person"],
        "entry 'cn=a,ou=None,dc=example,dc=com': its superior 'ou=None,dc=example,dc=com' does \
         not exist",
        20,
    );
    check_refused(
        &[people],
        "entry 'ou=People,dc=example,dc=com': its superior 'dc=example,dc=com' does not exist",
        10,
    );
    check_refused(
        &[top, "dc=org\nobjectClass: domain"],
        "entry 'dc=org' is in no naming context",
        20,
    );
    check_refused(
        &[top, "cn=a,dc=example,dc=org\nobjectClass: person"],
        "entry 'cn=a,dc=example,dc=org' is in no naming context",
        20,
    );
    check_refused(
        &[top, "dc=\\c3,dc=example,dc=com\nobjectClass: domain"],
        "entry 'dc=\\c3,dc=example,dc=com': the value of 'dc' holds a character outside of IA5",
        20,
    );
}

#[test]
fn many_entries_may_wait_for_their_superiors() {
    let mut entries = tree(3000);
    let late = entries.remove(1);
    let top = entries.remove(0);
    entries.extend([late, top]);
    for compress in [false, true] {
        let store = fresh();
        let options = LoadOptions { compress, ..LoadOptions::default() };
        let mut loader = store.bulk_load(&options).unwrap();
        for (entry, line) in entries.iter().zip(1..) {
            loader.load(entry, line).unwrap();
        }
        assert_eq!(loader.commit().unwrap().entries, entries.len() as u64);
        assert!(store.check(&mut |_, _, _| {}).unwrap().findings.is_empty());
    }
}

#[test]
fn a_load_of_nothing_is_a_step_of_the_history() {
    let store = fresh();
    add_each(&store, &tree(0)[..1]);
    let before = store.base();
    load(&store, &[]).unwrap();
    let after = store.base();
    assert!(after.lsn > before.lsn && after.hash != before.hash, "{before:?} {after:?}");
}

#[test]
fn a_store_with_other_entries_is_refused() {
    let store = fresh();
    add_each(&store, &tree(0)[..2]);
    let error = store.bulk_load(&LoadOptions::default()).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "the directory is not empty: it holds 2 entries");
    load(&fresh(), &[]).unwrap();
}

#[test]
fn threads_may_prepare() {
    let entries = tree(200);
    let (one, other) = (fresh(), fresh());
    load(&one, &entries).unwrap();
    let mut loader = other.bulk_load(&LoadOptions::default()).unwrap();
    let halves: Vec<(Vec<PreparedEntry>, Preparer)> = std::thread::scope(|scope| {
        let prepare = |entries: &'static [Entry], first: u64, mut preparer: Preparer| {
            scope.spawn(move || {
                let ids = entries.iter().zip(first..);
                let prepare =
                    |(entry, id)| preparer.prepare(entry, SourceLine::default(), id).unwrap();
                let prepared: Vec<PreparedEntry> = ids.map(prepare).collect();
                (prepared, preparer)
            })
        };
        let (first, second) = Box::leak(entries.into_boxed_slice()).split_at(50);
        let threads =
            [prepare(first, 1, loader.preparer()), prepare(second, 51, loader.preparer())];
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (prepared, preparer) in halves {
        prepared.into_iter().for_each(|entry| drop(loader.add(entry).unwrap()));
        loader.retire(preparer);
    }
    loader.commit().unwrap();
    let postings = |store: &Store| {
        rows(store).into_iter().filter(|(name, ..)| *name == "postings").collect::<Vec<_>>()
    };
    assert_eq!(postings(&one), postings(&other));
    assert!(other.check(&mut |_, _, _| {}).unwrap().findings.is_empty());
}

#[test]
fn a_loaded_store_opens_again_and_takes_changes() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::default();
    let contexts: Vec<_> =
        ["dc=example,dc=com", "o=Other"].iter().map(|dn| Dn::parse(dn).unwrap()).collect();
    let indexes = IndexConfig::default();
    let store = Store::create(dir.path(), &options, Schema::builtin(), indexes, &contexts).unwrap();
    load(&store, &tree(300)).unwrap();
    drop(store);
    let store = Store::open(dir.path(), &options, Schema::builtin()).unwrap();
    add_each(&store, &[entry("cn=more,ou=People,dc=example,dc=com\nobjectClass: person\nsn: m")]);
    let report = store.check(&mut |_, _, _| {}).unwrap();
    assert_eq!((report.entries, report.findings.len()), (308, 0), "{report:?}");
}
