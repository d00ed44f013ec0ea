//! The digest of the state: the same in each copy with the same history, whatever happened in
//! between, and another one as soon as anything differs; and which requests have records.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use ldap::dn::Dn;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange, RdnKey,
    RenameChange, Schema, SettingChange,
};
use store::conformance::{Chance, History, contexts, indexes};
use store::{
    DIGEST_INTERVAL_RECORDS, DigestPoint, Held, IndexConfig, LoadOptions, LogPosition, Lsn, Mark,
    REQUESTS_KEPT_FOR, REQUESTS_KEPT_MAX, Store, StoreOptions,
};

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

fn open(directory: &Path) -> Store {
    Store::open(directory, &options(), Schema::builtin()).unwrap()
}

/// A new store, and a copy of it under another path.
fn two() -> (tempfile::TempDir, [Store; 2]) {
    let directory = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
    drop(Store::create(&one, &options(), Schema::builtin(), indexes(), contexts()).unwrap());
    fs::create_dir(&other).unwrap();
    for file in fs::read_dir(&one).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), other.join(file.file_name())).unwrap();
    }
    let stores = [one, other].map(|path| open(&path));
    stores.iter().for_each(|store| store.keep_digest().unwrap());
    (directory, stores)
}

fn now(store: &Store) -> DigestPoint {
    *store.digests().last().unwrap()
}

fn publish(store: &Store, batch: store::Batch<'_>) {
    let mark = batch.seal();
    store.publish(mark.lsn, mark.position);
}

fn apply(store: &Store, changes: &[Change]) {
    let mut batch = store.begin().unwrap();
    changes.iter().for_each(|change| batch.apply(change).unwrap());
    publish(store, batch);
}

#[test]
fn copies_with_the_same_history_have_the_same_digest() {
    for seed in 0..8 {
        let (_directory, [one, other]) = two();
        let (mut history, mut chance) = (History::default(), Chance::new(seed));
        for _ in 0..12 {
            let next = one.begin().unwrap().next_entry_id();
            let changes = history.batch(next, 1 + chance.below(9), &mut chance);
            let before = now(&one);
            // One of them in one batch, after another was decided and dropped.
            let mut dropped = one.begin().unwrap();
            changes.iter().for_each(|change| dropped.apply(change).unwrap());
            dropped.seal();
            one.drop_tentative();
            assert_eq!(now(&one), before);
            apply(&one, &changes);
            // The other change by change, with some that are taken back.
            for change in &changes {
                let mut batch = other.begin().unwrap();
                batch.savepoint();
                batch.apply(change).unwrap();
                batch.rollback();
                batch.apply(change).unwrap();
                publish(&other, batch);
                if chance.below(4) == 0 {
                    other.flush().unwrap();
                }
            }
            assert_eq!(now(&one), now(&other), "seed {seed}");
            // Which indexes there are is not in it.
            if changes.iter().any(|change| !matches!(change, Change::Index(_))) {
                assert_ne!(now(&one).digest, before.digest, "seed {seed}");
            }
        }
        // As is what is computed from all that is stored.
        for store in [&one, &other] {
            store.flush().unwrap();
            let report = store.check(&mut |_, _, _| {}).unwrap();
            assert_eq!(report.findings, [], "seed {seed}");
        }
    }
}

fn dn_key(dn: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), dn).unwrap()
}

fn add(id: u64, parent: u64, dn: &str) -> Change {
    let key = match parent {
        0 => RdnKey::of_naming_context(&dn_key(dn)),
        _ => dn_key(dn).leaf().unwrap(),
    };
    let pairs = [("objectClass", &b"top"[..]), ("cn", b"name"), ("description", &[b'x'; 600])];
    let entry = Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &Schema::builtin()).unwrap();
    Change::Add(AddChange { id: EntryId(id), parent: EntryId(parent), key, entry })
}

fn modify(id: u64, removed: &str, added: &str) -> Change {
    let description = Schema::builtin().describe("cn").unwrap();
    let values = |value: &str| match value {
        "" => Vec::new(),
        value => vec![value.as_bytes().to_vec()],
    };
    let (removed, added) = (values(removed), values(added));
    // Nobody looks at the name.
    let dn = contexts()[0].clone();
    Change::Modify(ModifyChange {
        id: EntryId(id),
        dn,
        deltas: vec![AttributeDelta { description, removed, added }],
    })
}

fn rename(id: u64, parent: u64, dn: &str) -> Change {
    let new_dn = Dn::parse(dn).unwrap();
    Change::Rename(RenameChange {
        id: EntryId(id),
        // Nobody looks at it.
        old_dn: new_dn.clone(),
        new_parent: EntryId(parent),
        new_rdn: new_dn.rdns()[0].clone(),
        key: dn_key(dn).leaf().unwrap(),
        new_dn,
        deltas: Vec::new(),
    })
}

fn delete(id: u64, dn: &str) -> Change {
    let (dn, attributes) = (Dn::parse(dn).unwrap(), Vec::new());
    Change::Delete(DeleteChange { id: EntryId(id), dn, attributes })
}

fn setting(values: &[&str]) -> Change {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    Change::Setting(SettingChange { name: "colour".to_owned(), values })
}

/// A store with the entries 1 to 3.
fn filled() -> (tempfile::TempDir, [Store; 2]) {
    let (directory, stores) = two();
    let context = contexts()[0].to_string();
    let changes = [
        add(1, 0, &context),
        add(2, 1, &format!("cn=a,{context}")),
        add(3, 1, &format!("cn=b,{context}")),
    ];
    stores.iter().for_each(|store| apply(store, &changes));
    (directory, stores)
}

#[test]
fn what_is_undone_leaves_no_trace_and_all_else_does() {
    let (_directory, [store, _]) = filled();
    let context = contexts()[0].to_string();
    let (a, c) = (format!("cn=a,{context}"), format!("cn=c,{context}"));
    let below = format!("cn=a,cn=b,{context}");
    let pairs = [
        (modify(2, "", "more"), modify(2, "more", "")),
        (modify(2, "name", "other"), modify(2, "other", "name")),
        (rename(2, 1, &c), rename(2, 1, &a)),
        (rename(2, 3, &below), rename(2, 1, &a)),
        (setting(&["blue"]), setting(&[])),
    ];
    let mut seen = vec![now(&store).digest];
    for (done, undone) in pairs {
        let before = now(&store).digest;
        apply(&store, &[done]);
        let there = now(&store).digest;
        assert!(!seen.contains(&there));
        seen.push(there);
        store.flush().unwrap();
        apply(&store, &[undone]);
        assert_eq!(now(&store).digest, before);
    }
    let before = now(&store).digest;
    apply(&store, &[delete(3, &format!("cn=b,{context}"))]);
    assert!(!seen.contains(&now(&store).digest));
    // An entry with all it has, under another number, is another one.
    apply(&store, &[add(4, 1, &format!("cn=b,{context}"))]);
    assert_ne!(now(&store).digest, before);
}

#[test]
fn a_digest_is_stored_with_its_record_and_goes_on_after_a_start() {
    let (directory, [one, other]) = filled();
    let (before, base) = (now(&one), one.flush().unwrap());
    assert_eq!((before.lsn, before.hash), (base.lsn, base.hash));
    // Not in the base.
    apply(&one, &[modify(2, "", "more")]);
    drop(one);
    let one = open(&directory.path().join("one"));
    assert_eq!(one.digests(), [before]);
    [&one, &other].into_iter().for_each(|store| apply(store, &[modify(3, "", "more")]));
    assert_eq!(now(&one), now(&other));
}

#[test]
fn a_digest_begins_when_it_is_asked_for_and_a_load_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let schema = Schema::builtin();
    let store =
        Store::create(directory.path(), &options(), schema, IndexConfig::none(), contexts());
    let store = store.unwrap();
    let context = contexts()[0].to_string();
    apply(&store, &[add(1, 0, &context), setting(&["blue"])]);
    assert!(!store.keeps_digest() && store.digests().is_empty());
    store.keep_digest().unwrap();
    let first = now(&store);
    // It is there, durably, and of all that was there before.
    drop(store);
    let store = open(directory.path());
    assert_eq!(store.digests(), [first]);
    store.keep_digest().unwrap();
    assert_eq!(store.digests(), [first]);
    apply(&store, &[add(2, 1, &format!("cn=a,{context}"))]);
    assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
    let loader =
        store.bulk_load(&LoadOptions { held: Held::Clear, ..LoadOptions::default() }).unwrap();
    loader.commit().unwrap();
    assert!(!store.keeps_digest());
}

#[test]
fn a_planted_difference_shows_at_once_and_in_the_check_of_neither() {
    let (_directory, [one, other]) = filled();
    one.plant(&modify(2, "", "planted")).unwrap();
    assert_eq!((now(&one).lsn, now(&one).hash), (now(&other).lsn, now(&other).hash));
    assert_ne!(now(&one).digest, now(&other).digest);
    [&one, &other].into_iter().for_each(|store| apply(store, &[modify(3, "", "more")]));
    assert_ne!(now(&one).digest, now(&other).digest);
    for store in [one, other] {
        store.flush().unwrap();
        assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
    }
}

/// Makes `count` records, of requests with the numbers of the records, with this time between them.
fn records(store: &Store, count: u64, step_us: u64) {
    let mut batch = store.begin().unwrap();
    for _ in 0..count {
        let Mark { lsn, hash, time_us, position } = batch.last();
        let lsn = Lsn(lsn.0 + 1);
        let value = if lsn.0.is_multiple_of(2) { "blue" } else { "red" };
        batch.change(&setting(&[value])).unwrap();
        let position = LogPosition { index: position.index + 1, ..position };
        let (hash, time_us) = (hash.wrapping_mul(31) + 1, time_us + step_us);
        let _ = batch.record(Mark { lsn, hash, time_us, position }).unwrap();
        batch.keep_request(request(lsn.0));
    }
    publish(store, batch);
}

fn request(number: u64) -> [u8; 16] {
    let mut id = [7; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    id
}

fn known(store: &Store) -> Vec<u64> {
    let requests = store.requests().unwrap();
    assert!(requests.iter().all(|one| one.id == request(one.lsn.0)));
    requests.iter().map(|one| one.lsn.0).collect()
}

#[test]
fn digests_of_the_past_are_kept_at_the_same_records_everywhere() {
    let (_directory, [one, other]) = two();
    let all = DIGEST_INTERVAL_RECORDS * 3 + 5;
    records(&one, all, 1);
    for count in [DIGEST_INTERVAL_RECORDS + 1, 3, DIGEST_INTERVAL_RECORDS * 2, 1] {
        records(&other, count, 1);
    }
    let numbers: Vec<u64> = one.digests().iter().map(|point| point.lsn.0).collect();
    let [first, second, third] = [1, 2, 3].map(|at| at * DIGEST_INTERVAL_RECORDS);
    assert_eq!(numbers, [first, second, third, all]);
    assert_eq!(one.digests(), other.digests());
    // What was decided and dropped is not told, and what comes instead is.
    let mut dropped = one.begin().unwrap();
    for _ in 0..DIGEST_INTERVAL_RECORDS {
        dropped.apply(&setting(&["green"])).unwrap();
    }
    dropped.seal();
    assert_eq!(one.digests(), other.digests());
    one.drop_tentative();
    [&one, &other].into_iter().for_each(|store| records(store, DIGEST_INTERVAL_RECORDS, 1));
    assert_eq!(one.digests(), other.digests());
    assert_eq!(one.digests().len(), 5);
}

#[test]
fn requests_are_known_by_the_records_own_times_also_after_a_start() {
    let (directory, [one, other]) = two();
    let minute_us = 60_000_000;
    records(&one, 200, 1);
    one.flush().unwrap();
    records(&one, 8, minute_us);
    assert_eq!(known(&one), (1..=208).collect::<Vec<_>>());
    // What is not in the base is in the log.
    drop(one);
    let one = open(&directory.path().join("one"));
    assert_eq!(known(&one), (1..=200).collect::<Vec<_>>());
    records(&one, 8, minute_us);
    one.flush().unwrap();
    let kept = REQUESTS_KEPT_FOR.as_secs() / 60;
    records(&one, 5, minute_us);
    let last = 213;
    assert_eq!(known(&one), (last - kept..=last).collect::<Vec<_>>());
    one.flush().unwrap();
    assert_eq!(known(&one), (last - kept..=last).collect::<Vec<_>>());
    assert_eq!(one.check(&mut |_, _, _| {}).unwrap().findings, []);
    // With other batches and flushes they are the same.
    records(&other, 200, 1);
    records(&other, 13, minute_us);
    assert_eq!(known(&other), known(&one));
    other.flush().unwrap();
    assert_eq!(known(&other), known(&one));
}

#[test]
fn a_request_is_known_while_its_record_is_among_the_last() {
    let (_directory, [one, _]) = two();
    records(&one, 10, 0);
    let first = one.requests().unwrap()[0];
    assert!(first.is_kept(Lsn(REQUESTS_KEPT_MAX), first.time_us));
    assert!(!first.is_kept(Lsn(REQUESTS_KEPT_MAX + 1), first.time_us));
    // Nothing of what was dropped or taken back.
    let mut batch = one.begin().unwrap();
    batch.savepoint();
    batch.apply(&setting(&["green"])).unwrap();
    batch.keep_request(request(11));
    batch.rollback();
    batch.apply(&setting(&["blue"])).unwrap();
    publish(&one, batch);
    assert_eq!(known(&one), (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_server_alone_keeps_neither() {
    let directory = tempfile::tempdir().unwrap();
    let (schema, indexes) = (Schema::builtin(), IndexConfig::none());
    let store = Store::create(directory.path(), &options(), schema, indexes, contexts()).unwrap();
    records(&store, DIGEST_INTERVAL_RECORDS, 1);
    store.flush().unwrap();
    assert!(store.digests().is_empty() && store.requests().unwrap().is_empty());
}
