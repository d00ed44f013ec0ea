//! Keeping the digest of the state (`base/digest.rs`): what changes add to it and take from it,
//! and what it was after records of the past.
//!
//! Only a server of a cluster keeps one: hashing an entry twice would be a hundredth and more of
//! what a modification takes. It begins with [`Store::keep_digest`], and goes on in that database.
//!
//! Invariant: the digest of a batch is that of its rows, also after it went back.
//! Invariant: what [`Store::digests`] tells of a record never changes, nor goes another way in
//! another copy of the store.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heed::{AnyTls, RoTxn};
use schema::AttributeDescription;
use sha2::{Digest as _, Sha256};

use crate::base::digest::{Digest, DigestKey, DigestPoint, DigestedEntry, RowHash};
use crate::base::lmdb::{ATTRIBUTES, ENTRIES, PlainTable, Tables, VALUES};
use crate::base::meta::{self, Counters};
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::index::TARGET_LISTS;
use crate::read::listed_rows::each_listed;
use crate::rows::apart;
use crate::rows::dictionary::Dictionary;
use crate::rows::key::{self, display};
use crate::rows::record::{Record, RecordHead};
use crate::store::Store;
use crate::write::batch::Batch;

/// The digest is kept of each record whose number is a multiple of this.
pub const DIGEST_INTERVAL_RECORDS: u64 = 4096;

/// So many digests of the past are kept: of a quarter of a million records.
pub const DIGESTS_KEPT_MAX: usize = 64;

/// Digests of the past.
#[derive(Debug, Default)]
pub(crate) struct KeptDigests(Mutex<VecDeque<DigestPoint>>);

impl KeptDigests {
    /// A record was made. What was noted of it and of later ones before did not come to be.
    #[inline]
    pub(crate) fn note(&self, point: DigestPoint) {
        if point.lsn.0.is_multiple_of(DIGEST_INTERVAL_RECORDS) {
            self.keep(point);
        }
    }

    /// What was noted of records after `last` never came to be.
    pub(crate) fn drop_after(&self, last: Lsn) {
        self.lock().retain(|point| point.lsn <= last);
    }

    fn keep(&self, point: DigestPoint) {
        let mut kept = self.lock();
        while kept.back().is_some_and(|last| last.lsn >= point.lsn) {
            kept.pop_back();
        }
        kept.push_back(point);
        if kept.len() > DIGESTS_KEPT_MAX {
            kept.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<DigestPoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch<'_> {
    /// What an entry adds to the digest; nothing where none is kept.
    #[inline]
    pub(crate) fn hash_of(&self, id: u64, record: &Record<'_>) -> RowHash {
        match &self.digest_key {
            Some(key) => entry_hash(key, id, record),
            None => RowHash::default(),
        }
    }

    /// What an entry adds to the digest whose row was just written; nothing where none is kept.
    ///
    /// # Errors
    /// When the row is none: a digest without it would be that of another state.
    #[inline]
    pub(crate) fn hash_of_row(&self, id: u64, row: &[u8]) -> Result<RowHash, StoreError> {
        match &self.digest_key {
            Some(key) => row_hash(key, id, row),
            None => Ok(RowHash::default()),
        }
    }

    /// The digest loses one row and gains another.
    #[inline]
    pub(crate) fn digest(&mut self, before: RowHash, after: RowHash) {
        if let Some(digest) = &mut self.counters.digest {
            *digest = digest.without(before).with(after);
        }
    }

    /// An attribute has an id now.
    pub(crate) fn digest_attribute(&mut self, id: u32, description: &AttributeDescription) {
        let hash =
            self.digest_key.as_ref().map(|key| key.attribute(id, description.text().as_bytes()));
        self.digest(RowHash::default(), hash.unwrap_or_default());
    }

    /// Changes a row of `meta` that is in the digest; none removes it.
    pub(crate) fn put_digested(
        &mut self,
        row_key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        if let Some(key) = &self.digest_key {
            let hash = |value: Option<&[u8]>| {
                value.map(|value| key.meta(row_key, value)).unwrap_or_default()
            };
            let (before, after) = (hash(self.get(PlainTable::Meta, row_key)?), hash(value));
            self.digest(before, after);
        }
        self.put(PlainTable::Meta, row_key, value);
        Ok(())
    }
}

impl Store {
    /// Keeps a digest from now on. Where there is none yet, it is computed from all entries, and
    /// is durable with them when this returns. Waits until there is no batch and no flush.
    ///
    /// # Errors
    /// When LMDB fails, or an entry cannot be read.
    pub fn keep_digest(&self) -> Result<(), StoreError> {
        if self.versions.with(|version| version.counters.digest.is_some()) {
            return Ok(());
        }
        self.flush()?;
        let (mut seat, _flushing) = self.seat_and_flushing();
        seat.release();
        let version = self.versions.load();
        if !version.layers.is_empty() {
            // Something came in between; nobody who makes a database one of a cluster allows it.
            return Err(StoreError::Lmdb("changes came while the digest was made".to_owned()));
        }
        let environment = &version.environment;
        let meta = environment.tables.meta;
        let mut txn = environment.write()?;
        DigestKey::write(meta, &mut txn, &Sha256::digest(self.id()).into())?;
        let key = DigestKey::read(meta, &txn)?;
        let digest = digest_of(&key, &environment.tables, &txn, &version.dictionary)?;
        let counters = Counters { digest: Some(digest), ..version.counters };
        counters.write(meta, &mut txn)?;
        txn.commit().map_err(|error| environment.commit_failed(error))?;
        self.versions.settle(counters, Arc::clone(&version.dictionary));
        Ok(())
    }

    /// Whether a digest is kept.
    #[must_use]
    pub fn keeps_digest(&self) -> bool {
        self.versions.with(|version| version.counters.digest.is_some())
    }

    /// The digests after each [`DIGEST_INTERVAL_RECORDS`]th record that is published, the last
    /// [`DIGESTS_KEPT_MAX`] at most and none from before the start; and the one of now. In the
    /// order of the records; empty where none is kept.
    #[must_use]
    pub fn digests(&self) -> Vec<DigestPoint> {
        // First: what is published by now stays as it is noted.
        let now = self.versions.with(|version| version.counters.digest_point());
        let Some(now) = now else { return Vec::new() };
        let kept = self.digests.lock();
        let past = kept.iter().filter(|point| point.lsn < now.lsn);
        past.copied().chain([now]).collect()
    }

    /// Makes a change that is no record: from then on this store holds something else than another
    /// with the same history, as if a record had been applied wrongly.
    ///
    /// # Errors
    /// When the change does not fit, or LMDB fails.
    #[cfg(any(test, feature = "test-support"))]
    pub fn plant(&self, change: &schema::Change) -> Result<(), StoreError> {
        self.plant_as(|batch| batch.make(change), |_, after| after)
    }

    /// As [`Self::plant`], and the digest that is kept stays what it was, as does the number of the
    /// next entry: as if a disk had changed the rows.
    ///
    /// # Errors
    /// When the change does not fit, or LMDB fails.
    #[cfg(any(test, feature = "test-support"))]
    pub fn plant_unnoticed(&self, change: &schema::Change) -> Result<(), StoreError> {
        let make = |batch: &mut Batch<'_>| batch.make(change);
        self.plant_as(make, |before, after| Counters {
            digest: before.digest,
            next_entry_id: before.next_entry_id,
            ..after
        })
    }

    /// Makes the record of an entry one that nobody can read, as a broken disk does. What else
    /// tells of the entry stays.
    ///
    /// # Errors
    /// When LMDB fails.
    #[cfg(any(test, feature = "test-support"))]
    pub fn spoil(&self, id: schema::EntryId) -> Result<(), StoreError> {
        let make = |batch: &mut Batch<'_>| {
            batch.put(PlainTable::Entries, &id.0.to_be_bytes(), Some(&[]));
            Ok(())
        };
        self.plant_as(make, |before, _| before)
    }

    #[cfg(any(test, feature = "test-support"))]
    fn plant_as(
        &self,
        make: impl FnOnce(&mut Batch<'_>) -> Result<(), StoreError>,
        counters: impl Fn(Counters, Counters) -> Counters,
    ) -> Result<(), StoreError> {
        self.flush()?;
        let mut batch = self.begin_on_published()?;
        let before = batch.counters;
        make(&mut batch)?;
        let counters = counters(before, batch.counters);
        let dictionary = Arc::clone(&batch.dictionary);
        let first = Lsn(counters.lsn);
        let layer = Arc::new(batch.memory.seal(first, counters));
        let _flushing = self.flushing();
        let version = self.versions.load();
        let (environment, compression) = (&version.environment, dictionary.compression());
        crate::overlay::flush::write_layers(environment, &[layer], compression)?;
        // Whoever has read the base before reads it anew.
        let base = (Arc::clone(environment), version.index_epoch);
        self.versions.restart(Some(base), counters, dictionary);
        Ok(())
    }
}

/// The digest of a base, from all its rows.
fn digest_of(
    key: &DigestKey,
    tables: &Tables,
    txn: &RoTxn<'_, AnyTls>,
    dictionary: &Dictionary,
) -> Result<Digest, StoreError> {
    let mut digest = Digest::default();
    for row in tables.meta.iter(txn)? {
        let (row_key, value) = row?;
        if meta::is_digested(row_key) {
            digest = digest.with(key.meta(row_key, value));
        }
    }
    for row in tables.attributes.iter(txn)? {
        let (row_key, text) = row?;
        let id = row_key.try_into().map(u32::from_be_bytes);
        let id = id.map_err(|_| StoreError::corrupt(ATTRIBUTES, display(row_key), "is no id"))?;
        digest = digest.with(key.attribute(id, text));
    }
    each_listed(tables.postings, txn, TARGET_LISTS, |row| {
        digest = digest.with(key.reference(row.of, row.attribute, row.id));
        ControlFlow::Continue(())
    })?;
    if let Some(values) = tables.values {
        for row in values.iter(txn)? {
            let (row_key, row) = row?;
            let damaged = || StoreError::corrupt(VALUES, display(row_key), "is not well formed");
            let (attribute, id, _) = apart::parts(row_key).ok_or_else(damaged)?;
            for value in apart::values(row).ok_or_else(damaged)? {
                digest = digest.with(key.value(id, attribute, value));
            }
        }
    }
    let mut buffer = Vec::new();
    for row in tables.entries.iter(txn)? {
        let (row_key, row) = row?;
        let damaged = |reason| StoreError::corrupt(ENTRIES, display(row_key), reason);
        let id = key::id(row_key).ok_or_else(|| damaged("is no entry id"))?;
        let record = Record::read(row, dictionary, &mut buffer).map_err(damaged)?;
        digest = digest.with(entry_hash(key, id, &record));
    }
    Ok(digest)
}

/// What an entry adds to the digest whose row is not compressed.
fn row_hash(key: &DigestKey, id: u64, row: &[u8]) -> Result<RowHash, StoreError> {
    let damaged = |reason| StoreError::corrupt(ENTRIES, id, reason);
    let head = RecordHead::parse(row).map_err(damaged)?;
    let attributes = head.plain_attributes().ok_or_else(|| damaged("is compressed"))?;
    Ok(key.entry(&DigestedEntry { id, parent: head.parent, rdn: head.rdn, attributes }))
}

/// What an entry adds to the digest.
pub(crate) fn entry_hash(key: &DigestKey, id: u64, record: &Record<'_>) -> RowHash {
    let (parent, rdn, attributes) = (record.parent, record.rdn, record.attribute_octets());
    key.entry(&DigestedEntry { id, parent, rdn, attributes })
}

#[cfg(test)]
mod tests {
    use schema::{Change, DeleteChange, EntryId, ModifyChange};

    use super::*;
    use crate::bulk::LoadOptions;
    use crate::testing::{entry, fresh};

    #[test]
    fn a_row_that_cannot_be_read_is_an_error_and_changes_no_digest() {
        let store = fresh();
        let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
        let context = entry("dc=example,dc=com\nobjectClass: domain\ndc: example");
        let name = context.name().clone();
        loader.load(&context, 1).unwrap();
        loader.commit().unwrap();
        store.keep_digest().unwrap();
        let before = store.digests();
        let environment = store.base_environment();
        let mut txn = environment.write().unwrap();
        environment.tables.entries.put(&mut txn, &1_u64.to_be_bytes(), b"\x07").unwrap();
        txn.commit().unwrap();
        // One that was just made.
        let batch = store.begin().unwrap();
        for (row, want) in [
            (&b""[..], "key 7: is empty"),
            (b"\x07", "key 7: has an unknown version"),
            (b"\x01", "key 7: has no parent"),
        ] {
            let error = batch.hash_of_row(7, row).unwrap_err().to_string();
            assert!(error.ends_with(want), "{error}");
        }
        drop(batch);
        // One of the database, which is changed or goes.
        let (id, dn) = (EntryId(1), name);
        for change in [
            Change::Modify(ModifyChange { id, dn: dn.clone(), deltas: Vec::new() }),
            Change::Delete(DeleteChange { id, dn: dn.clone(), attributes: Vec::new() }),
        ] {
            let mut batch = store.begin().unwrap();
            let error = batch.apply(&change).unwrap_err();
            assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        }
        assert_eq!(store.digests(), before);
    }

    #[test]
    fn the_last_digests_are_kept_and_a_record_has_one() {
        let kept = KeptDigests::default();
        let point = |at: u64, digest| DigestPoint {
            lsn: Lsn(at * DIGEST_INTERVAL_RECORDS),
            hash: 0,
            digest: Digest::from_number(digest),
        };
        (1..=70).for_each(|at| kept.note(point(at, 1)));
        kept.note(DigestPoint { lsn: Lsn(5), ..point(1, 1) });
        assert_eq!(kept.lock().len(), DIGESTS_KEPT_MAX);
        assert_eq!(kept.lock().front(), Some(&point(7, 1)));
        // What was decided from the 69th on did not come to be.
        kept.note(point(69, 2));
        assert_eq!(kept.lock().back(), Some(&point(69, 2)));
        assert_eq!(kept.lock().len(), DIGESTS_KEPT_MAX - 1);
    }
}
