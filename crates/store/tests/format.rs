//! docs/storage-format.md is true: its example rows are what the store writes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use heed::EnvOpenOptions;
use heed::types::Bytes;
use ldap::dn::Dn;
use schema::{AddChange, Change, DeleteChange, DnKey, Entry, EntryId, RdnKey, Schema};
use store::{IndexConfig, IndexDefinition, IndexKind, Store, StoreOptions};

const PAGE: &str = include_str!("../../../docs/storage-format.md");
const TABLES: [&str; 7] =
    ["meta", "attributes", "entries", "names", "children", "postings", "values"];

/// Table and key, and value.
type Rows = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// The rows in the blocks with this mark: table, key and value, two spaces between them.
fn documented(block: &str) -> Rows {
    let mut rows = Rows::new();
    let mut in_block = false;
    for line in PAGE.lines() {
        match line {
            line if line.strip_prefix("```") == Some(block) => in_block = true,
            "```" => in_block = false,
            line if in_block => {
                let parts: Vec<&str> = line.split("  ").collect();
                let [table, key, value] = parts[..] else { panic!("three parts: {line}") };
                let before = rows.insert((table.to_owned(), octets(key)), octets(value));
                assert_eq!(before, None, "{line}");
            }
            _ => {}
        }
    }
    rows
}

/// Hexadecimal digits and quoted texts, spaces between them.
fn octets(text: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    for (at, part) in text.split('"').enumerate() {
        if at % 2 == 1 {
            octets.extend_from_slice(part.as_bytes());
            continue;
        }
        for word in part.split_whitespace() {
            for at in (0..word.len()).step_by(2) {
                octets.push(u8::from_str_radix(&word[at..at + 2], 16).unwrap());
            }
        }
    }
    octets
}

fn fill(store: &Store) {
    fill_with(store, &[("sn", "O")]);
}

/// `more` is what the person has beside the name.
fn fill_with(store: &Store, more: &[(&str, &str)]) {
    let schema = Schema::builtin();
    let mut batch = store.begin().unwrap();
    let mut add = |dn: &str, pairs: &[(&str, &str)], parent: u64| {
        let dn = Dn::parse(dn).unwrap();
        let key = DnKey::from_dn(&schema, &dn).unwrap();
        let key = if parent == 0 { RdnKey::of_naming_context(&key) } else { key.leaf().unwrap() };
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        let entry = Entry::from_pairs(dn, pairs, &schema).unwrap();
        let (id, parent) = (batch.next_entry_id(), EntryId(parent));
        batch.apply(&Change::Add(AddChange { id, parent, key, entry })).unwrap();
    };
    add("dc=x", &[("objectClass", "domain"), ("dc", "x")], 0);
    let person = [&[("objectClass", "person"), ("cn", "Al")][..], more].concat();
    add("cn=Al,dc=x", &person, 1);
    batch.commit().unwrap();
}

/// Makes the directory a compressed one.
#[expect(unsafe_code, reason = "opens the environment as another tool would")]
fn compress_with(directory: &std::path::Path, dictionary: &[u8]) {
    // SAFETY: the store was closed, and nobody else has the file open.
    let env = unsafe {
        EnvOpenOptions::new().map_size(1 << 28).max_dbs(TABLES.len() as u32).open(directory)
    };
    let env = env.unwrap();
    let txn = env.write_txn().unwrap();
    let put = env.create_databases_and_commit(txn, |opener, txn| {
        let meta = opener.create_database::<Bytes, Bytes>(txn, Some("meta"))?;
        meta.put(txn, b"compression 0000", dictionary)?;
        Ok::<_, heed::Error>(heed::CommitOrAbort::<_, ()>::Commit(()))
    });
    put.unwrap();
    env.prepare_for_closing().wait();
}

#[expect(unsafe_code, reason = "opens the environment as another tool would")]
fn stored(directory: &std::path::Path) -> Rows {
    // SAFETY: the store was closed, and nobody else has the file open.
    let env = unsafe {
        EnvOpenOptions::new().map_size(1 << 28).max_dbs(TABLES.len() as u32).open(directory)
    };
    let env = env.unwrap();
    let txn = env.read_txn().unwrap();
    let tables = env
        .open_databases_and_commit(txn, |opener, txn| {
            let mut tables = Vec::new();
            for name in TABLES {
                tables.push(opener.open_database::<Bytes, Bytes>(txn, Some(name))?.unwrap());
            }
            let tables: [_; TABLES.len()] = tables.try_into().unwrap();
            Ok::<_, heed::Error>(heed::CommitOrAbort::<_, ()>::Commit(tables))
        })
        .unwrap()
        .unwrap_commit();
    let txn = env.read_txn().unwrap();
    let mut rows = Rows::new();
    for (name, table) in TABLES.into_iter().zip(tables) {
        for row in table.iter(&txn).unwrap() {
            let (key, value) = row.unwrap();
            // By chance.
            if name == "meta" && key == b"digest-key" {
                assert_eq!(value.len(), 32);
                continue;
            }
            rows.insert((name.to_owned(), key.to_vec()), value.to_vec());
        }
    }
    rows
}

#[test]
fn the_examples_of_the_page_are_what_the_store_writes() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let indexes = [
        "presence sn",
        "equality cn",
        "substring cn",
        "extensible cn caseExactMatch",
        "approximate cn",
        "equality sn with cn",
        "equality sn where (objectClass=person)",
    ];
    let indexes = indexes.iter().fold(IndexConfig::none(), |config, line| {
        config.and(IndexDefinition::parse(line).unwrap())
    });
    let context = Dn::parse("dc=x").unwrap();
    let store =
        Store::create(directory.path(), &options, Schema::builtin(), indexes, &[context]).unwrap();
    fill(&store);
    drop(Arc::new(store));
    let (documented, stored) = (documented("row"), stored(directory.path()));
    assert!(documented.len() > 15);
    for (key, value) in &documented {
        assert_eq!(stored.get(key), Some(value), "{key:?}");
    }
    assert_eq!(stored.len(), documented.len(), "the page shows every row");
}

#[test]
fn the_compressed_record_of_the_page_is_what_the_store_writes() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let (context, schema) = (Dn::parse("dc=x").unwrap(), Schema::builtin());
    let open = || Store::open(directory.path(), &options, Schema::builtin()).unwrap();
    drop(Store::create(directory.path(), &options, schema, IndexConfig::none(), &[context]));
    let documented = documented("compressed");
    let row_key = ("meta".to_owned(), b"compression 0000".to_vec());
    compress_with(directory.path(), &documented[&row_key]);
    let store = open();
    fill_with(
        &store,
        &[("sn", "O"), ("description", "As most of them, a person of this example.")],
    );
    drop(store);
    let stored = stored(directory.path());
    assert_eq!(documented.len(), 2);
    for (key, value) in &documented {
        assert_eq!(stored.get(key), Some(value), "{key:?} {:02x?}", stored.get(key));
    }
    // And it is read again.
    let mut reader = Arc::new(open()).reader();
    let entry = reader.view().unwrap().entry(EntryId(2)).unwrap().unwrap().to_entry().unwrap();
    assert_eq!(entry.attributes().len(), 4);
}

#[test]
fn the_long_list_of_the_page_is_what_the_store_writes() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let indexes = IndexConfig::none().with("l", &[IndexKind::Equality]);
    let (context, schema) = (Dn::parse("dc=x").unwrap(), Schema::builtin());
    let store = Store::create(directory.path(), &options, Arc::clone(&schema), indexes, &[context]);
    let store = store.unwrap();
    let mut batch = store.begin().unwrap();
    for number in 1..=71_u64 {
        let dn = if number == 1 { "dc=x".to_owned() } else { format!("cn={number},dc=x") };
        let dn = Dn::parse(&dn).unwrap();
        let key = DnKey::from_dn(&schema, &dn).unwrap();
        let key = if number == 1 { RdnKey::of_naming_context(&key) } else { key.leaf().unwrap() };
        let class = if number == 1 { ("dc", &b"x"[..]) } else { ("l", &b"x"[..]) };
        let entry = Entry::from_pairs(dn, [class], &schema).unwrap();
        let (id, parent) = (EntryId(number), EntryId(u64::from(number > 1)));
        batch.apply(&Change::Add(AddChange { id, parent, key, entry })).unwrap();
    }
    batch.commit().unwrap();
    drop(store);
    let holds = |block: &str| {
        let (documented, stored) = (documented(block), stored(directory.path()));
        assert_eq!(documented.len(), 2);
        for (key, value) in &documented {
            assert_eq!(stored.get(key), Some(value), "{key:?}");
        }
    };
    holds("list 0");
    let store = Store::open(directory.path(), &options, Arc::clone(&schema)).unwrap();
    let mut batch = store.begin().unwrap();
    let delete = DeleteChange { id: EntryId(30), dn: Dn::root(), attributes: Vec::new() };
    batch.apply(&Change::Delete(delete)).unwrap();
    batch.commit().unwrap();
    drop(store);
    holds("list 1");
}

#[test]
fn the_format_file_is_as_the_page_says() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let store =
        Store::create(directory.path(), &options, Schema::builtin(), IndexConfig::none(), &[]);
    let id: String = store.unwrap().id().iter().map(|octet| format!("{octet:02x}")).collect();
    let text = std::fs::read_to_string(directory.path().join("format")).unwrap();
    assert_eq!(text, format!("roster data directory\nformat 3\nid {id}\n"));
    assert!(PAGE.contains("`roster data directory`, `format 3` and `id`"));
}
