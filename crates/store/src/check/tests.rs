//! Planted damage must be found, and told by table and key.

use std::sync::Arc;

use heed::RwTxn;
use ldap::dn::Dn;
use schema::{AddChange, Change, DnKey, Entry, EntryId, RdnKey, Schema};

use crate::key::RowKey;
use crate::lmdb::{StoreOptions, Tables};
use crate::{IndexConfig, IndexKind, Store};

/// 200 people, so that some lists are in chunks.
fn filled(directory: &std::path::Path) -> Store {
    use IndexKind::{Equality, Presence, Substring};
    let schema = Schema::builtin();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let indexes = IndexConfig::none()
        .with("cn", &[Equality, Substring])
        .with("objectClass", &[Equality])
        .with("sn", &[Presence]);
    let context = Dn::parse("dc=x").unwrap();
    let store =
        Store::create(directory, &options, Arc::clone(&schema), indexes, &[context]).unwrap();
    let mut batch = store.begin().unwrap();
    for number in 0..200_u64 {
        let text = if number == 0 { "dc=x".to_owned() } else { format!("cn=n{number},dc=x") };
        let dn = Dn::parse(&text).unwrap();
        let parent = EntryId(u64::from(number > 0));
        let key = if number == 0 {
            RdnKey::of_naming_context(&DnKey::from_dn(&schema, &dn).unwrap())
        } else {
            RdnKey::from_rdn(&schema, &dn.rdns()[0]).unwrap()
        };
        let name = format!("n{number}");
        let pairs = [("objectClass", &b"person"[..]), ("cn", name.as_bytes()), ("sn", b"x")];
        let entry = Entry::from_pairs(dn, pairs, &schema).unwrap();
        let id = batch.next_entry_id();
        batch.apply(&Change::Add(AddChange { id, parent, key, entry })).unwrap();
    }
    batch.commit().unwrap();
    store
}

#[track_caller]
fn check(damage: impl FnOnce(&mut RwTxn<'_>, &Tables), want: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let store = filled(directory.path());
    let mut txn = store.environment.write().unwrap();
    damage(&mut txn, &store.environment.tables);
    txn.commit().unwrap();
    let mut calls = 0;
    let report = store.check(&mut |_| calls += 1).unwrap();
    assert!(calls > 0);
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    for (at, want) in want.iter().enumerate() {
        assert!(findings.get(at).is_some_and(|found| found.contains(want)), "{findings:#?}");
    }
    assert_eq!(findings.len(), want.len(), "{findings:#?}");
    assert_eq!(report.finding_count, want.len() as u64);
}

#[test]
fn what_is_whole_has_no_findings() {
    check(|_, _| (), &[]);
}

#[test]
fn a_list_that_is_gone_is_found() {
    check(
        |txn, tables| {
            let key = RowKey::postings(0, b"n7");
            assert!(tables.postings.delete(txn, key.as_bytes()).unwrap());
        },
        &["table 'postings', key equality cn: lacks entry 8 in 'n7'"],
    );
}

#[test]
fn a_list_with_an_id_too_many_is_found() {
    check(
        |txn, tables| {
            let key = RowKey::postings(0, b"n7");
            tables.postings.put(txn, key.as_bytes(), &[0, 8, 1]).unwrap();
        },
        &["table 'postings', key equality cn: has entry 9 in 'n7', which lacks it"],
    );
}

#[test]
fn an_id_that_is_gone_from_a_chunk_is_found() {
    check(
        |txn, tables| {
            let head = RowKey::postings(2, b"2.5.6.6");
            assert!(tables.postings.get(txn, head.as_bytes()).unwrap().is_some());
            let key = RowKey::chunk(head.as_bytes(), 0);
            // Runs: 1 to 4 and 6 to 200.
            let row = [2, 1, 0, 4, 0, 6, 0, 200, 0];
            tables.postings.put(txn, key.as_bytes(), &row).unwrap();
        },
        &[
            "has another number of ids than it counts",
            "equality objectClass: lacks entry 5 in",
            "counts 200 ids where there are 199",
        ],
    );
}

#[test]
fn an_entry_that_is_gone_is_found() {
    check(
        |txn, tables| {
            assert!(tables.entries.delete(txn, &20_u64.to_be_bytes()).unwrap());
        },
        &[
            "table 'names', key 0000000000000001636e3d6e3139: leads to 20, which is no entry",
            "table 'children', key 1: counts 199 where there are 198",
            "equality cn: has entry 20 in 'n19', which lacks it",
            "substring cn: has entry 20",
            "substring cn: has entry 20",
            "substring cn: has entry 20",
            "substring cn: has entry 20",
            "substring cn: has entry 20",
            "equality objectClass: has entry 20",
            "presence sn: has entry 20",
        ],
    );
}

#[test]
fn a_name_that_is_gone_is_found() {
    check(
        |txn, tables| {
            let (key, _) = RowKey::name(1, b"cn=n5");
            assert!(tables.names.delete(txn, key.as_bytes()).unwrap());
        },
        &["table 'names', key cn=n5: is missing for entry 6"],
    );
}

#[test]
fn a_name_that_leads_elsewhere_is_found() {
    check(
        |txn, tables| {
            let (key, _) = RowKey::name(1, b"cn=n5");
            tables.names.put(txn, key.as_bytes(), &7_u64.to_be_bytes()).unwrap();
        },
        &["key cn=n5: leads to entry 7, not to 6", "leads to 7 of another name"],
    );
}

#[test]
fn a_wrong_count_and_a_count_of_nothing_are_found() {
    check(
        |txn, tables| {
            tables.children.put(txn, &1_u64.to_be_bytes(), &3_u64.to_be_bytes()).unwrap();
            tables.children.put(txn, &999_u64.to_be_bytes(), &0_u64.to_be_bytes()).unwrap();
        },
        &["key 1: counts 3 where there are 199", "key 999: is about no entry"],
    );
}

#[test]
fn damaged_rows_are_found() {
    check(
        |txn, tables| {
            let row = tables.entries.get(txn, &20_u64.to_be_bytes()).unwrap().unwrap().to_vec();
            let mut broken = row.clone();
            let last = broken.len() - 3;
            broken[last] = 0x30;
            tables.entries.put(txn, &300_u64.to_be_bytes(), &broken).unwrap();
            tables.entries.put(txn, &301_u64.to_be_bytes(), &[9]).unwrap();
            tables.postings.put(txn, &[0, 1, 0], &[0, 1]).unwrap();
            tables.postings.put(txn, RowKey::postings(77, b"").as_bytes(), &[0, 1]).unwrap();
        },
        &[
            "table 'entries', key 300: has values that are not in wire form",
            "table 'entries', key 301: has an unknown version",
            "table 'meta', key counters: entry 301 has an id that is yet to come",
            "table 'postings', key 000100: is no key of a list",
            "table 'postings', key 004d0000: is no key of a list",
        ],
    );
}

#[test]
fn a_loop_of_superiors_is_found() {
    check(
        |txn, tables| {
            let row = tables.entries.get(txn, &20_u64.to_be_bytes()).unwrap().unwrap().to_vec();
            let mut own = row.clone();
            // The parent comes after the version.
            own[1] = 20;
            tables.entries.put(txn, &20_u64.to_be_bytes(), &own).unwrap();
        },
        &[
            "table 'entries', key 20: is its own superior",
            "table 'names', key 0000000000000001636e3d6e3139: leads to 20 of another name",
            "table 'children', key 1: counts 199 where there are 198",
            "table 'children', key 20: is missing where there are 1",
        ],
    );
}
