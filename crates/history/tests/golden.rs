//! Change records of every released format read back, and lead to the same entries for ever.
//!
//! `golden/records-N.bin` holds records of format N, each after its length (four octets, most
//! significant first); `golden/records-N.ldif` is what a directory holds when all of them were
//! applied to an empty one. `golden/records-N-level-L.bin` holds those kinds of changes that came
//! with level L. None of the files is ever changed. A new format or level gets new files, written
//! by `cargo test -p history --test golden -- --ignored write`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what went wrong")]

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::Timestamp;
use history::Csn;
use history::log::Reign;
use history::record::{
    CONTEXTS_LEVEL, GATHER_LEVEL, OpKind, Origin, RECORD_FORMAT, Record, RecordHead, Who,
};
use ldap::dn::Dn;
use offline::{ExportOptions, export};
use schema::{
    AddChange, Attribute, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId,
    GatherChange, IndexChange, ModifyChange, RdnKey, RenameChange, Schema, SchemaChange,
    SettingChange,
};
use store::{IndexConfig, Lsn, NAMING_CONTEXTS, NO_CONTEXT, Store, StoreOptions};

const COLOUR: &str = "attributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'badgeColour' EQUALITY \
                      caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";

#[test]
fn records_of_format_1_lead_to_the_same_entries() {
    check(1, 0x80a4_2266_ff92_7782);
}

#[test]
fn this_release_writes_what_the_corpus_holds() {
    let corpus = fs::read(golden(RECORD_FORMAT, "bin")).unwrap();
    let records = written(corpus_changes());
    assert!(records == corpus, "the octets of a format do not change: make a new one");
}

#[test]
fn records_of_level_2_read_back() {
    let corpus = fs::read(golden_of_level(2)).unwrap();
    assert!(written(index_changes()) == corpus, "the octets of a level do not change");
    let records = split(&corpus);
    assert_eq!(records.len(), index_changes().len());
    for (bytes, (_, changes)) in records.into_iter().zip(index_changes()) {
        assert_eq!(RecordHead::read(bytes).unwrap().level, 2);
        assert_eq!(Record::decode(bytes, &Schema::builtin()).unwrap().changes, changes);
    }
    let first = "extensible cn 2.5.13.5".parse().unwrap();
    let (dir, contexts) = (tempfile::tempdir().unwrap(), [dn("dc=example,dc=com")]);
    let (options, indexes) = (StoreOptions::default(), IndexConfig::none().and(first));
    let data = dir.path().join("data");
    let store = Store::create(&data, &options, Schema::builtin(), indexes, &contexts).unwrap();
    let mut batch = store.begin().unwrap();
    for (_, changes) in index_changes() {
        changes.iter().for_each(|change| batch.apply(change).unwrap());
    }
    batch.commit().unwrap();
    let left = store.indexes();
    let left: Vec<String> = left.definitions().iter().map(ToString::to_string).collect();
    let filtered = "equality uid where (objectClass=person)";
    assert_eq!(left, [filtered, "equality l with title"]);
}

#[test]
fn records_of_level_5_read_back() {
    let corpus = fs::read(golden_of_level(5)).unwrap();
    assert!(written(gather_changes()) == corpus, "the octets of a level do not change");
    let records = split(&corpus);
    assert_eq!(records.len(), gather_changes().len());
    for (bytes, (_, changes)) in records.into_iter().zip(gather_changes()) {
        assert_eq!(RecordHead::read(bytes).unwrap().level, 5);
        assert_eq!(Record::decode(bytes, &Schema::builtin()).unwrap().changes, changes);
    }
}

#[test]
fn records_of_level_7_read_back() {
    let corpus = fs::read(golden_of_level(7)).unwrap();
    assert!(written(context_changes()) == corpus, "the octets of a level do not change");
    let (dir, contexts) = (tempfile::tempdir().unwrap(), [dn("dc=example,dc=com")]);
    let (options, indexes) = (StoreOptions::default(), IndexConfig::none());
    let data = dir.path().join("data");
    let store = Store::create(&data, &options, Schema::builtin(), indexes, &contexts).unwrap();
    let mut seen = Vec::new();
    for bytes in split(&corpus) {
        assert_eq!(RecordHead::read(bytes).unwrap().level, 7);
        let record = Record::decode(bytes, &Schema::builtin()).unwrap();
        let mut batch = store.begin().unwrap();
        record.changes.iter().for_each(|change| batch.apply(change).unwrap());
        batch.commit().unwrap();
        seen.push(store.naming_contexts().names().map(ToString::to_string).collect::<Vec<_>>());
    }
    assert_eq!(seen, [vec!["dc=example,dc=com", "o=New"], vec![], vec!["o=New"]]);
}

/// The octets come first on each line of the example, then two spaces and what they mean.
#[test]
fn the_example_of_the_documentation_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/change-records.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, example) = page.split_once("```octets\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let octets = example.lines().filter_map(|line| line.split("  ").next());
    let octets: String = octets.flat_map(|part| part.chars().filter(|one| *one != ' ')).collect();
    let corpus = fs::read(golden(1, "bin")).unwrap();
    let first: String = split(&corpus)[0].iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(octets, first);
}

#[test]
#[ignore = "writes the corpus of a new format"]
fn write() {
    if !golden_of_level(GATHER_LEVEL).exists() {
        fs::write(golden_of_level(GATHER_LEVEL), written(gather_changes())).unwrap();
    }
    if !golden_of_level(CONTEXTS_LEVEL).exists() {
        fs::write(golden_of_level(CONTEXTS_LEVEL), written(context_changes())).unwrap();
    }
    let path = golden(RECORD_FORMAT, "bin");
    assert!(!path.exists(), "a corpus is never changed");
    let records = written(corpus_changes());
    fs::write(path, &records).unwrap();
    let (ldif, hash) = applied(&records);
    println!("hash {hash:#x}");
    fs::write(golden(RECORD_FORMAT, "ldif"), ldif).unwrap();
}

/// Reads the corpus of a format, applies it to an empty store and compares.
#[track_caller]
fn check(format: u16, digest: u64) {
    let corpus = fs::read(golden(format, "bin")).unwrap();
    let (ldif, hash) = applied(&corpus);
    let expected = fs::read_to_string(golden(format, "ldif")).unwrap();
    assert_eq!(ldif, expected);
    assert_eq!(hash, digest, "{hash:#x} is not the running hash of the corpus");
}

/// What the records lead to, as LDIF, and the running hash after them.
fn applied(corpus: &[u8]) -> (String, u64) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
    let options = StoreOptions::default();
    let indexes = IndexConfig::default();
    let store = Store::create(&data, &options, Schema::builtin(), indexes, &contexts).unwrap();
    let (mut last, mut hash) = (0, 0);
    for bytes in split(corpus) {
        let head = RecordHead::read(bytes).unwrap();
        assert_eq!((head.lsn.0, head.prev_hash), (last + 1, hash), "each follows the one before");
        let record = Record::decode(bytes, &store.schema()).unwrap();
        let mut batch = store.begin().unwrap();
        record.changes.iter().for_each(|change| batch.apply(change).unwrap());
        batch.commit().unwrap();
        (last, hash) = (head.lsn.0, head.hash);
    }
    drop(store);
    let mut ldif = Vec::new();
    let options = ExportOptions { is_by_name: true, ..ExportOptions::default() };
    export(&data, &options, &mut ldif).unwrap();
    (String::from_utf8(ldif).unwrap(), hash)
}

fn split(mut corpus: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((length, rest)) = corpus.split_first_chunk::<4>() {
        let (record, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        records.push(record);
        corpus = rest;
    }
    records
}

fn golden(format: u16, extension: &str) -> PathBuf {
    let file = format!("tests/golden/records-{format}.{extension}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn golden_of_level(level: u16) -> PathBuf {
    let file = format!("tests/golden/records-{RECORD_FORMAT}-level-{level}.bin");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// Records of these changes as this release writes them.
fn written(operations: Vec<(OpKind, Vec<Change>)>) -> Vec<u8> {
    let (mut corpus, mut prev_hash) = (Vec::new(), 0);
    for (at, (op, changes)) in operations.into_iter().enumerate() {
        let number = at as u64 + 1;
        let mut request = [0; 16];
        request[8..].copy_from_slice(&number.to_be_bytes());
        let record = Record {
            lsn: Lsn(number),
            prev_hash,
            reign: Reign(1 + number / 8),
            csn: Csn {
                time: Timestamp(1_790_000_000_000_000 + number * 1_000_003),
                count: u32::from(number == 3),
                replica: 1,
                modification: 0,
            },
            origin: Origin {
                request,
                who: who(number),
                message: number as i32 * 100,
                op,
                controls: controls(number),
                purpose: None,
            },
            changes,
        };
        let mut bytes = Vec::new();
        prev_hash = record.encode(&mut bytes).unwrap();
        corpus.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        corpus.extend_from_slice(&bytes);
    }
    corpus
}

fn who(number: u64) -> Arc<Who> {
    if number < 3 {
        return Who::server();
    }
    Arc::new(Who {
        dn: "cn=Directory Manager".to_owned(),
        authz: if number == 4 { "u:änna".to_owned() } else { String::new() },
        address: "[2001:db8::1]:50123".to_owned(),
        mechanism: Cow::Borrowed("simple"),
        session: 1 << number,
    })
}

fn controls(number: u64) -> Vec<Cow<'static, str>> {
    let oids = ["1.3.6.1.1.12", "1.2.840.113556.1.4.805"];
    oids.into_iter().take(number as usize % 3).map(Cow::Borrowed).collect()
}

/// What came with level 2.
fn index_changes() -> Vec<(OpKind, Vec<Change>)> {
    let change = |added: &[&str], removed: &[&str]| {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Change::Index(IndexChange { added: lines(added), removed: lines(removed) })
    };
    let filtered = "equality uid where (objectClass=person)";
    vec![
        (OpKind::Add, vec![change(&["substring description", filtered], &[])]),
        (OpKind::Modify, vec![change(&["equality l with title"], &["substring description"])]),
        (OpKind::Delete, vec![change(&[], &["extensible cn 2.5.13.5"])]),
    ]
}

/// What came with level 5.
fn gather_changes() -> Vec<(OpKind, Vec<Change>)> {
    let gather = |id, name: &str, attributes: &[&str], values_max| {
        let describe = |text: &&str| Schema::builtin().describe(text).unwrap();
        let attributes = attributes.iter().map(describe).collect();
        Change::Gather(GatherChange { id: EntryId(id), dn: dn(name), attributes, values_max })
    };
    let staff = "cn=staff,ou=groups,dc=example,dc=com";
    let anna = "uid=anna,ou=people,dc=example,dc=com";
    vec![
        (OpKind::Internal, vec![gather(5, staff, &["member", "member;x-old"], 5000)]),
        (
            OpKind::Internal,
            vec![gather(3, anna, &["manager"], 1), gather(1 << 40, staff, &[], u64::MAX)],
        ),
    ]
}

/// What came with level 7.
fn context_changes() -> Vec<(OpKind, Vec<Change>)> {
    let contexts = |values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        Change::Setting(SettingChange { name: NAMING_CONTEXTS.to_owned(), values })
    };
    let (first, both) =
        (contexts(&["dc=example,dc=com"]), contexts(&["dc=example,dc=com", "o=New"]));
    vec![
        (OpKind::Modify, vec![Change::Level(7), first, both.clone()]),
        (OpKind::Modify, vec![both, contexts(&[NO_CONTEXT])]),
        (OpKind::Modify, vec![contexts(&[NO_CONTEXT]), contexts(&["o=New"])]),
    ]
}

fn corpus_changes() -> Vec<(OpKind, Vec<Change>)> {
    let base = "dc=example,dc=com";
    let anna = "uid=anna,ou=people,dc=example,dc=com";
    let mary = r#"cn=Mary \+ \"Molly\"\2c  M\c3\bcller+sn=x,ou=people,dc=example,dc=com"#;
    vec![
        (OpKind::Internal, vec![add(1, 0, base, &["objectClass: domain", "dc: example"])]),
        (OpKind::Internal, vec![add(2, 1, "ou=people,dc=example,dc=com", &["ou: people"])]),
        (OpKind::Add, vec![add(3, 2, anna, &ANNA)]),
        (OpKind::Add, vec![add(4, 2, mary, &["objectClass: person", "cn: M", "sn: x"])]),
        (
            OpKind::Modify,
            vec![
                Change::Level(1),
                modify(
                    3,
                    anna,
                    &[
                        ("mail", &["anna@example.com"], &["a@example.com", "b@example.com"]),
                        ("description", &[], &["", "two  spaces", "\u{0}\u{1f600}"]),
                        ("jpegPhoto", &["\u{1}\u{2}"], &[]),
                        ("cn;lang-de;x-test", &[], &["Änna"]),
                    ],
                ),
            ],
        ),
        (
            OpKind::Modify,
            vec![Change::Schema(SchemaChange {
                added: vec![COLOUR.to_owned()],
                removed: Vec::new(),
            })],
        ),
        (
            OpKind::ModifyDn,
            vec![rename(
                4,
                mary,
                (2, "cn=Mary,ou=people,dc=example,dc=com"),
                &[("cn", &["M"], &["Mary"])],
            )],
        ),
        // A transaction: a superior, an entry moved below it, and one that is gone again.
        (
            OpKind::Transaction,
            vec![
                add(
                    5,
                    1,
                    "ou=staff,dc=example,dc=com",
                    &["objectClass: organizationalUnit", "ou: staff"],
                ),
                rename(3, anna, (5, "uid=anna,ou=staff,dc=example,dc=com"), &[]),
                add(6, 5, "cn=short,ou=staff,dc=example,dc=com", &["cn: short"]),
                delete(6, "cn=short,ou=staff,dc=example,dc=com", &[("cn", "short")]),
            ],
        ),
        (
            OpKind::PasswordModify,
            vec![modify(
                3,
                "uid=anna,ou=staff,dc=example,dc=com",
                &[("userPassword", &["{SSHA512}old"], &["{SSHA512}new"])],
            )],
        ),
        (
            OpKind::Modify,
            vec![modify(
                3,
                "uid=anna,ou=staff,dc=example,dc=com",
                &[("badgeColour", &[], &["Blue"])],
            )],
        ),
        (
            OpKind::Delete,
            vec![delete(
                4,
                "cn=Mary,ou=people,dc=example,dc=com",
                &[("objectClass", "person"), ("cn", "Mary"), ("sn", "x")],
            )],
        ),
        // What it did may be nothing that the entries show.
        (OpKind::Internal, Vec::new()),
    ]
}

const ANNA: [&str; 9] = [
    "objectClass: inetOrgPerson",
    "uid: anna",
    "cn: Anna",
    "sn: Berg",
    "mail: anna@example.com",
    "jpegPhoto: \u{1}\u{2}",
    "userPassword: {SSHA512}old",
    "entryUUID: 0196f5a0-0000-7000-8000-000000000003",
    "entryCSN: 20260921141320.000000Z#000000#001#000000",
];

fn with_colour() -> Arc<Schema> {
    let definition = schema::Definition::parse_line(COLOUR).unwrap();
    Arc::new(Schema::builtin().with_change(&[definition], &[]).unwrap())
}

fn dn(text: &str) -> Dn {
    Dn::parse(text).unwrap()
}

fn key(dn: &Dn, parent: u64) -> RdnKey {
    let key = DnKey::from_dn(&Schema::builtin(), dn).unwrap();
    if parent == 0 { RdnKey::of_naming_context(&key) } else { key.leaf().unwrap() }
}

fn add(id: u64, parent: u64, name: &str, lines: &[&str]) -> Change {
    let name = dn(name);
    let pairs = lines.iter().map(|line| {
        let (description, value) = line.split_once(": ").unwrap();
        (description, value.as_bytes())
    });
    let key = key(&name, parent);
    let entry = Entry::from_pairs(name, pairs, &Schema::builtin()).unwrap();
    Change::Add(AddChange { id: EntryId(id), parent: EntryId(parent), key, entry })
}

/// An attribute, the values it loses and those it gains.
type Delta<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

fn deltas(deltas: &[Delta<'_>]) -> Vec<AttributeDelta> {
    let schema = with_colour();
    let octets = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect();
    let delta = |(description, removed, added): &Delta<'_>| AttributeDelta {
        description: schema.describe(description).unwrap(),
        removed: octets(removed),
        added: octets(added),
    };
    deltas.iter().map(delta).collect()
}

fn modify(id: u64, name: &str, changes: &[Delta<'_>]) -> Change {
    Change::Modify(ModifyChange { id: EntryId(id), dn: dn(name), deltas: deltas(changes) })
}

fn rename(id: u64, old: &str, (parent, new): (u64, &str), changes: &[Delta<'_>]) -> Change {
    let new_dn = dn(new);
    Change::Rename(RenameChange {
        id: EntryId(id),
        old_dn: dn(old),
        new_parent: EntryId(parent),
        new_rdn: new_dn.rdns()[0].clone(),
        key: key(&new_dn, parent),
        new_dn,
        deltas: deltas(changes),
    })
}

fn delete(id: u64, name: &str, values: &[(&str, &str)]) -> Change {
    let attribute = |(description, value): &(&str, &str)| Attribute {
        description: Schema::builtin().describe(description).unwrap(),
        values: vec![value.as_bytes().to_vec()],
    };
    let attributes = values.iter().map(attribute).collect();
    Change::Delete(DeleteChange { id: EntryId(id), dn: dn(name), attributes })
}
