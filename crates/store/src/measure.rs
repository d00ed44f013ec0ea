//! Posting lists and compression by themselves, for measurements and tests: these see only what is
//! public.
//!
//! Invariant: nothing else uses it; the lists are in a store without entries.

use std::path::Path;
use std::sync::Arc;

use schema::Schema;

use crate::base::compress::{Compression, Compressor, Trainer};
use crate::base::lmdb::StoreOptions;
use crate::error::StoreError;
use crate::index::IndexConfig;
use crate::index::ids::IdSet;
use crate::overlay::deltas::PostingChange;
use crate::overlay::flush::ListWriter;
use crate::read::interrupt::NEVER;
use crate::read::reader::StoreReader;
use crate::read::view::View;
use crate::rows::dictionary::Dictionary;
use crate::rows::key::RowKey;
use crate::rows::record::{Record, RecordHead, RecordWriter};
use crate::store::Store;

/// Makes a store a compressed one with a dictionary from people who are made up: it needs no
/// entries.
pub fn compress(store: &Store) -> Result<(), StoreError> {
    store.adopt_compression(&made_up_compression())
}

impl Store {
    /// Whether records are compressed as they are written.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.versions.with(|version| version.dictionary.compression().is_some())
    }

    /// Compresses with these dictionaries from now on; there is no batch that has another.
    pub(crate) fn adopt_compression(
        &self,
        compression: &Arc<Compression>,
    ) -> Result<(), StoreError> {
        let environment = self.base_environment();
        let mut txn = environment.write()?;
        for (key, octets) in compression.rows() {
            environment.tables.meta.put(&mut txn, key.as_bytes(), octets)?;
        }
        txn.commit().map_err(|error| environment.commit_failed(error))?;
        self.versions.translate(None, |dictionary| {
            Ok(dictionary.clone().with_compression(Some(Arc::clone(compression))))
        })
    }
}

/// Dictionaries from people who are made up.
pub(crate) fn made_up_compression() -> Arc<Compression> {
    let mut trainer = Trainer::new();
    (0..MADE_UP_PEOPLE).for_each(|number| trainer.sample(&person_row(number)));
    trainer.train().expect("people have enough in common")
}

/// A record of a person with this number.
pub(crate) fn person_row(number: u64) -> Vec<u8> {
    let mut row = Vec::new();
    let mut record = RecordWriter::begin(7, &format!("cn=Person {number}"), &mut row);
    record.attribute(0, [&b"top"[..], b"person", b"organizationalPerson"].into_iter());
    let name = format!("Person {number}");
    record.attribute(1, [name.as_bytes()].into_iter());
    record.attribute(2, [format!("This describes {name} at length.").as_bytes()].into_iter());
    record.attribute(3, [(number * 7919 % 10_007).to_string().as_bytes()].into_iter());
    record.finish().expect("it is short");
    row
}

/// Reads a record of any version, as an entry of a directory with four attributes; what every
/// reader of the store does with a row. Says whether it is one.
#[must_use]
pub fn is_record(row: &[u8], compression: &RecordReader, buffer: &mut Vec<u8>) -> bool {
    let Ok(record) = Record::read(row, &compression.0, buffer) else { return false };
    let is_plain = RecordHead::parse(row).is_ok_and(|head| head.plain_attributes().is_some());
    // The values of what is not compressed are looked into by a check, not by every reader.
    match is_plain {
        true => record.attributes_unchecked().all(|(id, values)| id < 4 && !values.is_empty()),
        false => record.attributes().all(|(id, values)| id < 4 && values.iter().count() > 0),
    }
}

/// What [`is_record`] reads with.
#[derive(Debug)]
pub struct RecordReader(Dictionary);

impl RecordReader {
    /// With a made-up compression.
    pub fn new() -> Result<Self, StoreError> {
        let texts = ["objectClass", "cn", "description", "employeeNumber"].map(str::to_owned);
        let dictionary = Dictionary::new(Schema::builtin(), &[])?.with_texts(&texts)?;
        Ok(Self(dictionary.with_compression(Some(made_up_compression()))))
    }

    /// A record of a person with this number, compressed.
    #[must_use]
    pub fn compressed(&self, number: u64) -> Vec<u8> {
        let (mut out, row) = (Vec::new(), person_row(number));
        let compression = self.0.compression().expect("it was made with one");
        if Compressor::new(compression).compress(&row, &mut out) { out } else { row }
    }
}

const MADE_UP_PEOPLE: u64 = 600;

/// The index that all lists are of.
const INDEX: u16 = 0;

/// Lists of a store.
#[derive(Debug)]
pub struct PostingLists {
    store: Arc<Store>,
    reader: StoreReader,
}

impl PostingLists {
    /// Makes a store without lists in a directory that is not there yet.
    pub fn create(directory: &Path) -> Result<Self, StoreError> {
        let (options, schema) = (StoreOptions::default(), Schema::builtin());
        let store = Store::create(directory, &options, schema, IndexConfig::none(), &[])?;
        let store = Arc::new(store);
        let reader = store.reader();
        Ok(Self { store, reader })
    }

    /// Adds ids, which ascend, to lists in one transaction, as a flush does.
    pub fn add<'l>(
        &mut self,
        lists: impl IntoIterator<Item = (&'l [u8], &'l [u64])>,
    ) -> Result<(), StoreError> {
        self.reader.release();
        let environment = self.store.base_environment();
        let mut txn = environment.write()?;
        let mut writer = ListWriter::new(environment.tables.postings);
        for (key, ids) in lists {
            let changes: Vec<PostingChange> =
                ids.iter().map(|&id| PostingChange::new(id, true)).collect();
            writer.change(&mut txn, RowKey::postings(INDEX, key).as_bytes(), &changes)?;
        }
        txn.commit().map_err(|error| environment.commit_failed(error))
    }

    /// How many rows the lists take.
    pub fn rows(&self) -> Result<u64, StoreError> {
        let environment = self.store.base_environment();
        let txn = environment.read()?;
        Ok(environment.tables.postings.len(&txn)?)
    }

    /// Reads a list; how many ids it has.
    pub fn load(&mut self, key: &[u8]) -> Result<u64, StoreError> {
        let view = self.reader.view()?;
        let list = view.list(INDEX, key)?;
        list.map_or(Ok(0), |list| Ok(view.load(&list, NEVER)?.len()))
    }

    /// Walks a list in windows of about so many ids; how many ids it has.
    pub fn walk(&mut self, key: &[u8], ids_min: usize) -> Result<u64, StoreError> {
        let view = self.reader.view()?;
        let Some(list) = view.list(INDEX, key)? else { return Ok(0) };
        let (mut count, mut after) = (0, Some(0));
        while let Some(start) = after {
            let window = view.window(&list, start, ids_min, NEVER)?;
            count += window.ids.len();
            after = window.upto;
        }
        Ok(count)
    }

    /// How many of the ids, which ascend, are in a list.
    pub fn intersect(&mut self, ids: &[u64], key: &[u8]) -> Result<u64, StoreError> {
        let view = self.reader.view()?;
        let mut set = IdSet::from_unsorted(ids.to_vec());
        if let Some(list) = view.list(INDEX, key)? {
            view.intersect(&mut set, &list, NEVER)?;
        }
        Ok(set.len())
    }

    /// How many of the ids, which ascend, are not in a list.
    pub fn subtract(&mut self, ids: &[u64], key: &[u8]) -> Result<u64, StoreError> {
        let view = self.reader.view()?;
        let mut set = IdSet::from_unsorted(ids.to_vec());
        if let Some(list) = view.list(INDEX, key)? {
            view.subtract(&mut set, &list, NEVER)?;
        }
        Ok(set.len())
    }

    /// How many ids the lists of the keys from `from` to before `to` have.
    pub fn range(&mut self, from: &[u8], to: &[u8]) -> Result<u64, StoreError> {
        let (from, to) = (RowKey::postings_from(INDEX, from), RowKey::postings_from(INDEX, to));
        let view: &View<'_> = self.reader.view()?;
        let set = view.range(from.as_bytes(), to.as_bytes(), u64::MAX, NEVER)?;
        Ok(set.map_or(0, |set| set.len()))
    }

    /// How many ids the lists of the keys from `from` to before `to` have together.
    pub fn range_count(&mut self, from: &[u8], to: &[u8]) -> Result<u64, StoreError> {
        let (from, to) = (RowKey::postings_from(INDEX, from), RowKey::postings_from(INDEX, to));
        let view = self.reader.view()?;
        Ok(view.range_count(from.as_bytes(), to.as_bytes(), u64::MAX, NEVER)?.ids)
    }
}
