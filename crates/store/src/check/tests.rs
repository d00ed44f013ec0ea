//! Planted damage must be found.

use heed::RwTxn;

use super::*;
use crate::testing::{entry, fresh};

/// A store with three entries, ids 1 to 3, and a list of many chunks.
fn filled() -> Store {
    let store = fresh();
    let mut loader = store.bulk_load().unwrap();
    for text in [
        "dc=example,dc=com\nobjectClass: domain\ndc: example",
        "ou=People,dc=example,dc=com\nobjectClass: organizationalUnit\nou: People",
        "cn=Anna,ou=People,dc=example,dc=com\nobjectClass: person\ncn: Anna\nsn: Lee",
    ] {
        loader.add(&entry(text), 1).unwrap();
    }
    for number in 0..100 {
        let text =
            format!("l=Place {number},dc=example,dc=com\nobjectClass: locality\nl: x\nl: {number}");
        loader.add(&entry(&text), 1).unwrap();
    }
    loader.finish(&mut |_, _, _| {}).unwrap();
    store
}

/// Damages a store and checks what is found.
#[track_caller]
fn check(damage: impl FnOnce(&Tables, &mut RwTxn<'_>), want: &[(FindingKind, &str)]) {
    let store = filled();
    let mut txn = store.environment.write().unwrap();
    damage(&store.environment.tables, &mut txn);
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
        let mut txn = store.environment.write().unwrap();
        store.environment.tables.entries.put(&mut txn, &id(3), row).unwrap();
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
        let mut txn = store.environment.write().unwrap();
        below(parent)(&store.environment.tables, &mut txn);
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
        |tables, txn| tables.meta.put(txn, b"colour", b"blue").unwrap(),
        &[(Key, "table 'meta', key colour: is not known")],
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
fn findings_are_bounded_and_all_are_counted() {
    let store = filled();
    let mut txn = store.environment.write().unwrap();
    store.environment.tables.postings.clear(&mut txn).unwrap();
    txn.commit().unwrap();
    let report = store.check(&mut |_, _, _| {}).unwrap();
    assert_eq!(report.findings.len(), CHECK_FINDINGS_MAX);
    let count = report.counts[&FindingKind::Posting];
    assert!(count > CHECK_FINDINGS_MAX as u64, "{count}");
}
