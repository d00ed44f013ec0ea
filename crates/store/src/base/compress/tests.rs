//! Compressed records read as what was written; damage is refused.

use std::sync::Arc;

use ldap::message::Values;
use proptest::prelude::*;
use schema::{AddChange, Change, EntryId, RdnKey, Schema};

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::base::position::LogPosition;
use crate::bulk::{Held, LoadOptions};
use crate::measure::{made_up_compression as compression, person_row};
use crate::read::view::Resolved;
use crate::rows::dictionary::Dictionary;
use crate::rows::record::{Record, RecordWriter};
use crate::store::Store;
use crate::testing::{create, entry, record_versions};

/// A dictionary of `count` attributes, compressed.
fn dictionary(compression: &Arc<Compression>) -> Dictionary {
    let texts = ["objectClass", "cn", "description", "employeeNumber"].map(str::to_owned);
    let dictionary = Dictionary::new(Schema::builtin(), &[]).unwrap().with_texts(&texts).unwrap();
    dictionary.with_compression(Some(Arc::clone(compression)))
}

#[test]
fn records_become_shorter_and_read_the_same() {
    let compression = compression();
    let dictionary = dictionary(&compression);
    let mut compressor = Compressor::new(&compression);
    let (mut out, mut buffer, mut lengths) = (vec![9], Vec::new(), (0, 0));
    for number in 1000..1100 {
        let row = person_row(number);
        assert!(compressor.compress(&row, &mut out));
        lengths = (lengths.0 + row.len(), lengths.1 + out.len());
        let read = Record::read(&out, &dictionary, &mut buffer).unwrap();
        let plain = Record::parse(&row, 4).unwrap();
        assert_eq!((read.parent, read.rdn), (plain.parent, plain.rdn));
        assert_eq!(format!("{:?}", read.attributes()), format!("{:?}", plain.attributes()));
        // What is compressed is not compressed again, and is nothing to a reader without.
        assert!(!compressor.compress(&out.clone(), &mut Vec::new()));
        assert_eq!(Record::parse(&out, 4).unwrap_err(), "is compressed");
        let mut below = Vec::new();
        Record::copy_below(&out, 3, &mut below).unwrap();
        let read = Record::read(&below, &dictionary, &mut buffer).unwrap();
        assert_eq!((read.parent, read.rdn), (3, plain.rdn));
        assert_eq!(format!("{:?}", read.attributes()), format!("{:?}", plain.attributes()));
    }
    assert!(lengths.1 * 2 < lengths.0, "{lengths:?}");
}

#[test]
fn without_enough_in_common_nothing_is_compressed() {
    let mut trainer = Trainer::new();
    (0..100).for_each(|number| trainer.sample(&person_row(number)));
    assert!(trainer.train().is_none());
    assert!(Compression::new(Vec::new()).is_none());
    assert!(Compression::new(vec![Vec::new()]).is_none());
    assert!(Compression::new(vec![vec![1; DICTIONARY_MAX_BYTES + 1]]).is_none());
    // What is longer compressed stays as it is.
    let mut row = Vec::new();
    let mut record = RecordWriter::begin(1, "cn=x", &mut row);
    record.attribute(1, [&b"q"[..]].into_iter());
    record.finish().unwrap();
    assert!(!Compressor::new(&compression()).compress(&row, &mut Vec::new()));
}

#[test]
fn impossible_frames_are_refused_before_memory_is_taken() {
    let compression = compression();
    let mut out = Vec::new();
    let mut decompress = |number, frame: &[u8]| {
        let result = compression.decompress(number, frame, &mut out);
        assert!(out.capacity() < 4 << 20, "{}", out.capacity());
        result.unwrap_err()
    };
    let missing = "is compressed with a dictionary that is not there";
    assert_eq!(decompress(1, &[]), missing);
    assert_eq!(decompress(u64::MAX, &[]), missing);
    assert_eq!(decompress(0, &[]), "is compressed and does not tell its length");
    // Lengths of 8 octets in a single segment: 1 TiB, and 200 MiB.
    let tell = |length: u64| [&[0xe0][..], &length.to_le_bytes()].concat();
    let large = decompress(0, &tell(1 << 40));
    assert_eq!(large, "is compressed and larger than an entry may be");
    let large = decompress(0, &tell(200 << 20));
    assert_eq!(large, "is compressed and has an impossible length");
    assert_eq!(decompress(0, &tell(3)), "is compressed and damaged");
}

#[test]
fn large_entries_are_compressed_whole() {
    let compression = compression();
    let dictionary = dictionary(&compression);
    let mut row = Vec::new();
    let mut record = RecordWriter::begin(1, "cn=x", &mut row);
    let values: Vec<Vec<u8>> =
        (0..50_000).map(|n| format!("uid=user.{n},ou=people,dc=x").into_bytes()).collect();
    record.attribute(1, values.iter().map(Vec::as_slice));
    record.attribute(2, [&[b'a'; 3 << 20][..]].into_iter());
    record.finish().unwrap();
    let (mut out, mut buffer) = (Vec::new(), Vec::new());
    assert!(Compressor::new(&compression).compress(&row, &mut out));
    assert!(out.len() * 5 < row.len());
    let read = Record::read(&out, &dictionary, &mut buffer).unwrap();
    assert_eq!(read.values(1).iter().count(), values.len());
    assert_eq!(read.values(2).iter().next().map(<[u8]>::len), Some(3 << 20));
}

proptest! {
    #[test]
    fn damage_never_panics(number in 0_u64..5000, at: prop::sample::Index, octet: u8, cut: bool) {
        let compression = compression_once();
        let dictionary = dictionary(&compression);
        let mut row = Vec::new();
        prop_assert!(Compressor::new(&compression).compress(&person_row(number), &mut row));
        let at = at.index(row.len());
        if cut { row.truncate(at) } else { row[at] = octet }
        let mut buffer = Vec::new();
        if let Ok(record) = Record::read(&row, &dictionary, &mut buffer) {
            let is_whole = |(id, values): (u32, Values<'_>)| id < 4 && values.iter().count() > 0;
            prop_assert!(record.attributes().all(is_whole));
        }
        prop_assert!(buffer.capacity() < 16 << 20);
    }
}

fn compression_once() -> Arc<Compression> {
    static ONCE: std::sync::OnceLock<Arc<Compression>> = std::sync::OnceLock::new();
    Arc::clone(ONCE.get_or_init(compression))
}

fn add(store: &Store, id: u64, text: &str) {
    let entry = entry(text);
    let parent = EntryId(id.min(2) - 1);
    let schema = Schema::builtin();
    let key = if id == 1 {
        RdnKey::of_naming_context(&schema::DnKey::from_dn(&schema, entry.name()).unwrap())
    } else {
        RdnKey::from_rdn(&schema, entry.name().rdns().first().unwrap()).unwrap()
    };
    let change = AddChange { id: EntryId(id), parent, key, entry };
    let mut batch = store.begin().unwrap();
    batch.apply(&Change::Add(change)).unwrap();
    let mark = batch.seal();
    store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
}

#[test]
fn a_directory_becomes_compressed_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = create(dir.path());
    add(&store, 1, "dc=example,dc=com\nobjectClass: domain\ndc: example");
    let person = |id: u64| {
        format!(
            "cn=Person {id},dc=example,dc=com\nobjectClass: top\nobjectClass: person\n\
             cn: Person {id}\nsn: Number {id}\ndescription: This is person {id} of them."
        )
    };
    (2..300).for_each(|id| add(&store, id, &person(id)));
    store.flush().unwrap();
    store.adopt_compression(&compression()).unwrap();
    assert_eq!(record_versions(&store), (0, 299));
    (300..400).for_each(|id| add(&store, id, &person(id)));
    store.flush().unwrap();
    assert_eq!(record_versions(&store), (100, 299));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
    drop(store);
    let store = Store::open(dir.path(), &StoreOptions::default(), Schema::builtin()).unwrap();
    assert!(store.is_compressed());
    let store = Arc::new(store);
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    for id in [2, 299, 300, 399] {
        let found = view.entry(EntryId(id)).unwrap().unwrap();
        assert_eq!(found.to_entry().unwrap(), entry(&person(id)));
    }
    reader.release();
    // A directory that lost its dictionaries says which entries it cannot read.
    let environment = store.base_environment();
    let mut txn = environment.write().unwrap();
    environment.tables.meta.delete(&mut txn, b"compression 0000").unwrap();
    txn.commit().unwrap();
    drop((environment, reader, store));
    let store = Store::open(dir.path(), &StoreOptions::default(), Schema::builtin()).unwrap();
    let report = store.check(&mut |_, _, _| ()).unwrap();
    let finding = report.findings.first().unwrap().to_string();
    assert!(finding.contains("300") && finding.contains("is compressed, and the directory is not"));
}

/// Loads people with these numbers; the first load brings their superiors, behind some of them.
fn load(store: &Store, numbers: std::ops::Range<u64>, compress: bool) {
    let options = LoadOptions { compress, held: Held::Keep, ..LoadOptions::default() };
    let mut loader = store.bulk_load(&options).unwrap();
    if numbers.start == 0 {
        let top = entry("dc=example,dc=com\nobjectClass: domain\ndc: example");
        loader.load(&top, 1).unwrap();
    }
    for number in numbers.clone() {
        loader.load(&loaded_person(number), number + 2).unwrap();
    }
    if numbers.start == 0 {
        let late = entry("ou=late,dc=example,dc=com\nobjectClass: organizationalUnit\nou: late");
        loader.load(&late, 9_999).unwrap();
    }
    loader.commit().unwrap();
}

fn loaded_person(number: u64) -> schema::Entry {
    let late = if number.is_multiple_of(50) { "ou=late," } else { "" };
    let below = format!("{late}dc=example,dc=com");
    entry(&format!(
        "cn=Person {number},{below}\nobjectClass: top\nobjectClass: person\ncn: Person {number}\n\
         sn: Number {number}\ndescription: This is person {number} of them."
    ))
}

#[test]
fn a_compressed_load_holds_what_a_plain_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = create(&data);
    load(&store, 0..600, true);
    drop(store);
    let open = || Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
    let store = open();
    assert!(store.is_compressed());
    let (compressed, plain) = record_versions(&store);
    assert!(compressed >= 600 && plain <= 2, "{compressed} and {plain}");
    // Another load into it compresses, whether it is asked to or not.
    load(&store, 600..700, false);
    drop(store);
    let store = Arc::new(open());
    let (compressed, plain) = record_versions(&store);
    assert!(compressed >= 700 && plain <= 2, "{compressed} and {plain}");
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    for number in 0..700 {
        let want = loaded_person(number);
        let name = schema::DnKey::from_dn(&Schema::builtin(), want.name()).unwrap();
        let Resolved::Found(id) = view.resolve(&name).unwrap() else { panic!("{number}") };
        assert_eq!(view.entry(id).unwrap().unwrap().to_entry().unwrap(), want);
    }
}
