//! Planted damage must be found.

use heed::RwTxn;
use schema::{AddChange, Change, DnKey, EntryId, MatchingRule, Schema};

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::bulk::LoadOptions;
use crate::index::{BRANCH_LISTS, IndexDefinition, IndexState, LEVEL_LISTS};
use crate::testing::{TestStore, entry, fresh};

/// A store with three entries, ids 1 to 3, and a list of many chunks.
fn filled() -> TestStore {
    let store = fresh();
    fill(&store);
    store
}

fn fill(store: &Store) {
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    for text in [
        "dc=example,dc=com\nobjectClass: domain\ndc: example",
        "ou=People,dc=example,dc=com\nobjectClass: organizationalUnit\nou: People",
        "cn=Anna,ou=People,dc=example,dc=com\nobjectClass: person\ncn: Anna\nsn: Lee\n\
         description: Tonics\nuidNumber: 4",
    ] {
        loader.load(&entry(text), 1).unwrap();
    }
    for number in 0..100 {
        let text =
            format!("l=Place {number},dc=example,dc=com\nobjectClass: locality\nl: x\nl: {number}");
        loader.load(&entry(&text), 1).unwrap();
    }
    loader.commit().unwrap();
}

/// Damages a store and checks what is found.
#[track_caller]
fn check(damage: impl FnOnce(&Tables, &mut RwTxn<'_>), want: &[(FindingKind, &str)]) {
    let store = filled();
    let environment = store.base_environment();
    let mut txn = environment.write().unwrap();
    damage(&environment.tables, &mut txn);
    txn.commit().unwrap();
    let report = store.check(&mut |_, _, _| {}).unwrap();
    let found = report.findings.iter().map(|finding| (finding.kind, finding.to_string()));
    let found: Vec<(FindingKind, String)> = found.collect();
    let want: Vec<(FindingKind, String)> =
        want.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect();
    assert_eq!(found, want);
}

fn id(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

fn name_row(parent: u64, rdn_key: &str) -> Vec<u8> {
    RowKey::name(parent, rdn_key.as_bytes()).0.as_bytes().to_vec()
}

/// The head row of a value in the index of this number.
fn posting_row(index: u16, value: &str) -> Vec<u8> {
    RowKey::postings(index, value.as_bytes()).as_bytes().to_vec()
}

#[test]
fn a_sound_store_has_no_findings_and_all_rows_are_seen() {
    let store = filled();
    let report = store.check(&mut |_, _, _| {}).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!(report.entries, 103);
    let rows: u64 = store.statistics().unwrap().tables.iter().map(|table| table.rows).sum();
    assert_eq!(report.rows, rows);
    assert_eq!(fresh().check(&mut |_, _, _| {}).unwrap().findings, []);
}

#[test]
fn records_are_read_to_the_last_value() {
    use FindingKind::{Name, Posting, Record};
    let lost = |row: &[u8]| {
        let store = filled();
        let environment = store.base_environment();
        let mut txn = environment.write().unwrap();
        environment.tables.entries.put(&mut txn, &id(3), row).unwrap();
        txn.commit().unwrap();
        let report = store.check(&mut |_, _, _| {}).unwrap();
        assert!(report.counts[&Posting] > 0 && report.counts[&Name] > 0, "{report:?}");
        assert_eq!(report.counts[&Record], 1);
        report.findings[0].to_string()
    };
    assert_eq!(lost(&[]), "table 'entries', key 3: is empty");
    assert_eq!(lost(&[9]), "table 'entries', key 3: has an unknown version");
    assert_eq!(
        lost(&[1, 2, 4, b'c', b'n', b'=', b'x', 99, 3, 4, 1, b'y']),
        "table 'entries', key 3: has an attribute that is not in the table"
    );
    assert_eq!(
        lost(&[1, 2, 4, b'c', b'n', b'=', b'x', 0, 2, 4, 1]),
        "table 'entries', key 3: has a value of attribute 0: \
         element ends too early at offset 0"
    );
    assert_eq!(
        lost(&[1, 2, 4, b'c', b'n', b'=', b'x', 0, 2, 4, 0, 0, 2, 4, 0]),
        "table 'entries', key 3: has attribute 0 twice"
    );
}

#[test]
fn names_are_checked_both_ways() {
    use FindingKind::Name;
    let anna = name_row(2, "cn=anna");
    let shown = display(&anna);
    check(
        |tables, txn| assert!(tables.names.delete(txn, &name_row(2, "cn=anna")).unwrap()),
        &[(Name, &format!("table 'names', key {shown}: does not lead to entry 3"))],
    );
    check(
        |tables, txn| tables.names.put(txn, &anna, &id(2)).unwrap(),
        &[
            (Name, &format!("table 'names', key {shown}: does not lead to entry 3")),
            (
                Name,
                &format!(
                    "table 'names', key {shown}: leads to entry 2, which has another name or is \
                     none"
                ),
            ),
        ],
    );
    let more = name_row(2, "cn=zoe");
    check(
        |tables, txn| tables.names.put(txn, &more, &id(3)).unwrap(),
        &[(
            Name,
            &format!(
                "table 'names', key {}: leads to entry 3, which has another name or is none",
                display(&more)
            ),
        )],
    );
}

#[test]
fn counts_are_exact() {
    use FindingKind::Count;
    check(
        |tables, txn| tables.children.put(txn, &id(2), &id(7)).unwrap(),
        &[(Count, "table 'children', key 2: says 7, there are 1")],
    );
    check(
        |tables, txn| assert!(tables.children.delete(txn, &id(2)).unwrap()),
        &[(Count, "table 'children', key 2: is missing, there are 1")],
    );
    check(
        |tables, txn| tables.children.put(txn, &id(3), &id(1)).unwrap(),
        &[(Count, "table 'children', key 3: says 1, there are 0")],
    );
    // A count that came back to zero stays while its entry does.
    check(|tables, txn| tables.children.put(txn, &id(3), &id(0)).unwrap(), &[]);
    check(
        |tables, txn| tables.children.put(txn, &id(900), &id(0)).unwrap(),
        &[(Count, "table 'children', key 900: is of an entry that is not there")],
    );
    check(
        |tables, txn| tables.children.put(txn, &id(2), &[1]).unwrap(),
        &[
            (Count, "table 'children', key 0000000000000002: is no number"),
            (Count, "table 'children', key 2: is missing, there are 1"),
        ],
    );
}

#[test]
fn every_index_row_is_justified_and_every_value_indexed() {
    use FindingKind::{Key, Posting};
    let store = filled();
    let number = |name: &str| {
        let wanted = store.schema().attribute_type(name).unwrap().oid.clone();
        let indexes = store.dictionary();
        let found = indexes.indexes().iter().find(|index| {
            index.attribute.kind.oid == wanted && index.kind == crate::index::IndexKind::Equality
        });
        found.unwrap().id
    };
    let (cn, l) = (number("cn"), number("l"));
    let (anna, zoe) = (posting_row(cn, "anna"), posting_row(cn, "zoe"));
    let (anna_text, zoe_text) = (display(&anna), display(&zoe));
    let found = |row: &str, what: &str| format!("table 'postings', key {row}: {what}");
    check(
        |tables, txn| assert!(tables.postings.delete(txn, &anna).unwrap()),
        &[(Posting, &found(&anna_text, "is missing, entry 3 has this value"))],
    );
    check(
        |tables, txn| tables.postings.put(txn, &zoe, &[0, 3]).unwrap(),
        &[(Posting, &found(&zoe_text, "has entry 3, which does not have this value"))],
    );
    check(
        |tables, txn| tables.postings.put(txn, &anna, &[0, 2]).unwrap(),
        &[(Posting, &found(&anna_text, "lacks entry 3"))],
    );
    check(
        |tables, txn| tables.postings.put(txn, &anna, &[0, 3, 0]).unwrap(),
        &[(Posting, &found(&anna_text, "is not well formed"))],
    );
    let unknown = posting_row(4000, "x");
    check(
        |tables, txn| tables.postings.put(txn, &unknown, &[0, 3]).unwrap(),
        &[(Key, &found(&display(&unknown), "is of index 4000, which there is not"))],
    );
    check(
        |tables, txn| tables.postings.put(txn, &[0, 0, 1], &[0, 3]).unwrap(),
        &[(Key, &found("000001", "is no index key"))],
    );
    let places = posting_row(l, "x");
    let chunk = RowKey::chunk(&places, 0).as_bytes().to_vec();
    check(
        |tables, txn| assert!(tables.postings.delete(txn, &chunk).unwrap()),
        &[
            (Posting, &found(&display(&places), "counts other ids than there are")),
            (Posting, &found(&display(&places), "lacks entry 4")),
        ],
    );
    let stray = RowKey::chunk(&anna, 5).as_bytes().to_vec();
    check(
        |tables, txn| tables.postings.put(txn, &stray, &[0, 1, 0]).unwrap(),
        &[(Posting, &found(&display(&stray), "is a chunk without a head"))],
    );
}

/// The number of the index with this definition.
fn number_of(store: &Store, line: &str) -> u16 {
    let wanted = IndexDefinition::parse(line).unwrap().canonical(&store.schema()).unwrap();
    let dictionary = store.dictionary();
    let mut all = dictionary.definitions();
    all.find(|(_, definition, _)| **definition == wanted).unwrap().0
}

#[test]
fn damage_of_every_kind_of_index_and_of_the_tree_is_found() {
    use FindingKind::Posting;
    let store = filled();
    let top = id(1);
    let mut place = b"x\x01".to_vec();
    let rule = MatchingRule::find("objectIdentifierMatch").unwrap();
    (rule.prepare)(&Schema::builtin(), b"locality", &mut place).unwrap();
    // The index, a key of it, the first entry that has the key, and one that has not.
    for (line, key, has, has_not) in [
        ("presence sn", &b""[..], 3, 4),
        ("equality cn", b"anna", 3, 4),
        ("substring cn", b"\x02 an", 3, 4),
        ("substring cn", b"a \x03\x03", 3, 4),
        ("substring cn where (objectClass=person)", b"anna", 3, 4),
        ("approximate description", b"t52", 3, 4),
        ("extensible cn caseExactMatch", b"Anna", 3, 4),
        ("extensible cn wordMatch", b"anna", 3, 4),
        ("extensible cn caseExactSubstringsMatch", b" Ann", 3, 4),
        ("extensible uidNumber integerBitAndMatch", &[2], 3, 4),
        ("equality l with objectClass", &place, 4, 3),
        ("equality cn with sn where (!(description=none))", b"anna\x01lee", 3, 4),
        ("level", &top, 2, 3),
        ("branches", &top, 2, 4),
    ] {
        let number = match line {
            "level" => LEVEL_LISTS,
            "branches" => BRANCH_LISTS,
            line => number_of(&store, line),
        };
        let head = RowKey::postings(number, key).as_bytes().to_vec();
        let shown = display(&head);
        let found = |what: String| format!("table 'postings', key {shown}: {what}");
        let lacks = found(format!("lacks entry {has}"));
        let extra = found(format!("has entry {has_not}, which does not have this value"));
        let missing = found(format!("is missing, entry {has} has this value"));
        let is_long = matches!(line, "level" | "equality l with objectClass");
        if !is_long {
            let both = [0, has, has_not - has];
            check(
                |tables, txn| tables.postings.put(txn, &head, &both).unwrap(),
                &[(Posting, &extra)],
            );
            check(
                |tables, txn| assert!(tables.postings.delete(txn, &head).unwrap()),
                &[(Posting, &missing)],
            );
        }
        if is_long || has_not > has {
            check(
                |tables, txn| {
                    if is_long {
                        let chunk = RowKey::chunk(&head, 0);
                        assert!(tables.postings.delete(txn, chunk.as_bytes()).unwrap());
                    }
                    tables.postings.put(txn, &head, &[0, 103]).unwrap();
                },
                &[(Posting, &lacks)],
            );
        }
    }
}

#[test]
fn an_index_that_is_built_or_dropped_is_checked_as_far_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::testing::create(dir.path());
    fill(&store);
    let number = number_of(&store, "equality cn");
    let set = |store: &Store, state: IndexState, ids: &[u8]| {
        let environment = store.base_environment();
        let (mut txn, tables) = (environment.write().unwrap(), environment.tables);
        let state = meta::state_row(state).unwrap();
        tables.meta.put(&mut txn, meta::state_key(number).as_bytes(), state.as_bytes()).unwrap();
        let head = posting_row(number, "anna");
        match ids {
            [] => assert!(tables.postings.delete(&mut txn, &head).unwrap()),
            ids => tables.postings.put(&mut txn, &head, &[&[0], ids].concat()).unwrap(),
        }
        txn.commit().unwrap();
    };
    let reopened = |store: Store| {
        drop(store);
        Store::open(dir.path(), &StoreOptions::default(), Schema::builtin()).unwrap()
    };
    let found = |store: &Store| {
        let report = store.check(&mut |_, _, _| {}).unwrap();
        report.findings.iter().map(|finding| finding.corruption.reason.clone()).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    let building = |upto| IndexState::Building { upto: EntryId(upto), end: EntryId(200) };
    // Entry 3 has the key.
    set(&store, building(2), &[]);
    let store = reopened(store);
    assert_eq!(found(&store), none, "the building has not come to it");
    add_person(&store, 3);
    assert_eq!(found(&store), none, "what is written goes into it");
    set(&store, building(3), &[4]);
    let store = reopened(store);
    assert_eq!(found(&store), ["lacks entry 3"]);
    set(&store, IndexState::Dropping, &[4]);
    let store = reopened(store);
    assert_eq!(found(&store), none);
    add_person(&store, 4);
    let environment = store.base_environment();
    let txn = environment.read().unwrap();
    let row = environment.tables.postings.get(&txn, &posting_row(number, "anna"));
    assert_eq!(row.unwrap(), Some(&[0, 4][..]), "nothing is written to it");
    drop(txn);
    let environment = store.base_environment();
    let mut txn = environment.write().unwrap();
    let chunk = RowKey::chunk(&posting_row(number, "berta"), 0);
    environment.tables.postings.put(&mut txn, chunk.as_bytes(), b"x").unwrap();
    txn.commit().unwrap();
    assert_eq!(found(&store), none, "heads go before their chunks");
}

/// Adds an entry with the name Anna below that with the id 1.
fn add_person(store: &Store, number: u64) {
    let entry = entry(&format!(
        "uid={number},dc=example,dc=com\nobjectClass: account\nuid: {number}\ncn: Anna"
    ));
    let key = DnKey::from_dn(&store.schema(), entry.name()).unwrap().leaf().unwrap();
    let mut batch = store.begin().unwrap();
    let id = batch.next_entry_id();
    batch.apply(&Change::Add(AddChange { id, parent: EntryId(1), key, entry })).unwrap();
    batch.commit().unwrap();
}

#[test]
fn the_way_up_ends_at_the_root() {
    let below = |parent: u64| {
        move |tables: &Tables, txn: &mut RwTxn<'_>| {
            let row = tables.entries.get(txn, &id(2)).unwrap().unwrap().to_vec();
            let mut moved = Vec::new();
            Record::copy_below(&row, parent, &mut moved).unwrap();
            tables.entries.put(txn, &id(2), &moved).unwrap();
        }
    };
    for (parent, want) in [
        (900, "table 'entries', key 900: is missing, though it has subordinates"),
        (2, "table 'entries', key 2: is its own superior"),
        (0, "table 'entries', key 2: 'ou=People' is no naming context"),
    ] {
        let store = filled();
        let environment = store.base_environment();
        let mut txn = environment.write().unwrap();
        below(parent)(&environment.tables, &mut txn);
        txn.commit().unwrap();
        let report = store.check(&mut |_, _, _| {}).unwrap();
        let is_this = |finding: &&Finding| finding.kind == FindingKind::Superior;
        let found: Vec<String> =
            report.findings.iter().filter(is_this).map(ToString::to_string).collect();
        assert_eq!(found, [want]);
    }
}

#[test]
fn numbers_and_unknown_rows_are_found() {
    use FindingKind::{Key, Number};
    check(
        |tables, txn| {
            let before = Counters::read(tables.meta, txn).unwrap();
            let counters = Counters { next_entry_id: 103, ..before };
            counters.write(tables.meta, txn).unwrap();
        },
        &[(Number, "table 'entries', key 103: is not below the next id, 103")],
    );
    check(
        |tables, txn| {
            let before = Counters::read(tables.meta, txn).unwrap();
            assert!(before.hash != 0 && before.entry_count == 103);
            let counters = Counters { lsn: 0, entry_count: 102, ..before };
            counters.write(tables.meta, txn).unwrap();
        },
        &[
            (Number, "table 'meta', key counters: says 102 entries, there are 103"),
            (Number, "table 'meta', key counters: has a running hash before the first change"),
        ],
    );
    check(
        |tables, txn| tables.meta.put(txn, b"request 00000000000000000001", b"\0").unwrap(),
        &[(Key, "table 'meta', key request 00000000000000000001: is no list of requests")],
    );
    check(
        |tables, txn| tables.meta.put(txn, b"colour", b"blue").unwrap(),
        &[(Key, "table 'meta', key colour: is not known")],
    );
    // Global ACIs that somebody set were reported.
    check(|tables, txn| tables.meta.put(txn, b"setting global-aci", b"\0\0\0\x02ab").unwrap(), &[]);
    check(
        |tables, txn| tables.meta.put(txn, b"setting global-aci", b"\0\0\0\x03ab").unwrap(),
        &[(Key, "table 'meta', key setting global-aci: is no list of texts")],
    );
    check(
        |tables, txn| tables.attributes.put(txn, &0_u32.to_be_bytes(), b"sn").unwrap(),
        &[(Number, "table 'attributes', key 00000000: 'sn' is not what is in use")],
    );
    check(
        |tables, txn| tables.entries.put(txn, b"x", b"").unwrap(),
        &[(Key, "table 'entries', key x: is no entry id")],
    );
}

#[test]
fn a_digest_that_is_not_that_of_the_data_is_found() {
    let digest_findings = |damage: &dyn Fn(&Tables, &mut RwTxn<'_>)| {
        let store = filled();
        store.keep_digest().unwrap();
        assert_eq!(store.check(&mut |_, _, _| {}).unwrap().findings, []);
        let environment = store.base_environment();
        let mut txn = environment.write().unwrap();
        damage(&environment.tables, &mut txn);
        txn.commit().unwrap();
        let report = store.check(&mut |_, _, _| {}).unwrap();
        let is_this = |finding: &&Finding| finding.to_string().contains("has the digest");
        report.findings.iter().filter(is_this).count()
    };
    let first = |tables: &Tables, txn: &RwTxn<'_>| {
        let row = tables.entries.iter(txn).unwrap().last().unwrap().unwrap();
        (row.0.to_vec(), row.1.to_vec())
    };
    let count = digest_findings(&|tables, txn| {
        let (key, mut row) = first(tables, txn);
        *row.last_mut().unwrap() ^= 1;
        tables.entries.put(txn, &key, &row).unwrap();
    });
    assert_eq!(count, 1);
    let count = digest_findings(&|tables, txn| {
        tables.meta.put(txn, b"setting colour", b"").unwrap();
    });
    assert_eq!(count, 1);
    let count = digest_findings(&|tables, txn| {
        let before = Counters::read(tables.meta, txn).unwrap();
        let counters = Counters { digest: Some(Digest::default()), ..before };
        counters.write(tables.meta, txn).unwrap();
    });
    assert_eq!(count, 1);
    // An entry that cannot be read is what is to be said.
    let count = digest_findings(&|tables, txn| {
        let (key, _) = first(tables, txn);
        tables.entries.put(txn, &key, b"").unwrap();
    });
    assert_eq!(count, 0);
}

#[test]
fn findings_are_bounded_and_all_are_counted() {
    let store = filled();
    let environment = store.base_environment();
    let mut txn = environment.write().unwrap();
    environment.tables.postings.clear(&mut txn).unwrap();
    txn.commit().unwrap();
    let report = store.check(&mut |_, _, _| {}).unwrap();
    assert_eq!(report.findings.len(), CHECK_FINDINGS_MAX);
    let count = report.counts[&FindingKind::Posting];
    assert!(count > CHECK_FINDINGS_MAX as u64, "{count}");
}
