//! The state after exactly one change, held to be compared with that of another server: digests of
//! slices of the entries, read again row by row, and for what differs, what it is.
//!
//! What is compared is what is stored, not what changes have added up to (`write/digest.rs`): a row
//! that a disk has changed counts as it is now.
//!
//! Invariant: with one key, slices of the same rows have the same digest, and no others; how rows
//! are stored (compressed, in layers, in the base) does not matter.
//! Invariant: no value leaves here, and no damage of a row makes reading fail.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use schema::EntryId;

use crate::base::digest::{Digest, DigestKey, RowHash};
use crate::base::lmdb::PlainTable;
use crate::base::meta;
use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::awaited::Catch;
use crate::read::reader::HeldPages;
use crate::read::view::{ReferenceList, View};
use crate::rows::record::Record;
use crate::rows::{apart, key};
use crate::store::Store;
use crate::write::digest::entry_hash;

/// The state after one change, held: LMDB reuses none of its pages until it is dropped.
#[derive(Debug)]
pub struct HeldState {
    view: View<'static>,
    key: Arc<DigestKey>,
    /// For whoever asks who keeps old pages.
    _hold: HeldPages,
}

/// Why a state is not held.
#[derive(Debug)]
pub enum NotHeld {
    /// A later one is published, and the one that is asked for never was by itself, or is no more.
    Passed {
        /// The last change that is published.
        at: Lsn,
    },
    /// The change did not come in time.
    NotReached {
        /// The last change that is published.
        at: Lsn,
    },
    /// Another state is waited for.
    Busy,
    /// Why there is none to compare, in a sentence.
    Refused(String),
}

/// A slice of the entries: those whose ids are in a range.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Slice {
    /// Its last id: what was asked for, or the last entry that was read for `bytes_max`.
    pub through: u64,
    /// How many entries there are.
    pub entries: u64,
    /// How many octets they have, not compressed.
    pub bytes: u64,
    /// The sum of what they are.
    pub digest: Digest,
    /// The id of the first entry behind `through`; none when there is none.
    pub next: Option<u64>,
}

/// What there is of an entry in a held state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HeldEntry {
    /// It is not there.
    Missing,
    /// Its row cannot be read: why.
    Unreadable(String),
    /// It is there.
    Readable {
        /// Its name; none when one above it cannot be read.
        dn: Option<String>,
        /// Its `entryUUID`; empty when it has none.
        uuid: String,
        /// Where it is, in one number.
        name: Digest,
        /// Each attribute, and its values in one number.
        attributes: Vec<(String, Digest)>,
    },
}

impl Store {
    /// Holds the state after exactly the change `lsn`: at once, if that is the last that is
    /// published, or when it is, within `limit`. One is waited for at a time; whoever writes is not
    /// kept, but ends a batch with that change.
    ///
    /// # Errors
    /// Why there is none.
    pub fn hold_at(&self, lsn: Lsn, limit: Duration) -> Result<HeldState, NotHeld> {
        if !self.keeps_digest() {
            return Err(NotHeld::Refused("no digest of the data is kept".to_owned()));
        }
        let Ok(_holding) = self.holding.try_lock() else { return Err(NotHeld::Busy) };
        let catch = self.versions.catch(lsn, limit);
        let failed = |error: StoreError| NotHeld::Refused(error.to_string());
        match catch {
            None => Err(NotHeld::NotReached { at: self.published().lsn }),
            Some(Catch::Passed { at }) => Err(NotHeld::Passed { at }),
            Some(Catch::Failed(error)) => Err(failed(error)),
            Some(Catch::Caught(caught)) => {
                let key = caught.version.environment.digest_key().map_err(failed)?;
                let (view, hold) = self.view_caught(*caught);
                Ok(HeldState { view, key, _hold: hold })
            }
        }
    }

    /// Whether a batch is to end with this change, because the state after it is waited for.
    #[inline]
    #[must_use]
    pub fn is_awaited(&self, lsn: Lsn) -> bool {
        self.versions.awaited.is_end(lsn)
    }
}

impl HeldState {
    /// The change after which it is.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.view.lsn()
    }

    /// How many entries it has, as is counted when they change.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn entry_count(&self) -> Result<u64, StoreError> {
        self.view.entry_count()
    }

    /// The entries with the ids from `from` to `through`; a slice ends with the entry that makes it
    /// longer than `bytes_max`.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn slice(&self, from: u64, through: u64, bytes_max: u64) -> Result<Slice, StoreError> {
        let mut slice = Slice { through, ..Slice::default() };
        self.walk(from, |id, hash, bytes| {
            if id > slice.through {
                slice.next = Some(id);
                return ControlFlow::Break(());
            }
            slice.entries += 1;
            slice.bytes += bytes;
            slice.digest = slice.digest.with(hash);
            if slice.bytes > bytes_max {
                slice.through = slice.through.min(id);
            }
            ControlFlow::Continue(())
        })?;
        Ok(slice)
    }

    /// Each entry with an id from `from` to `through`, and what it is in one number; no more than
    /// `entries_max`.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn entries(
        &self,
        from: u64,
        through: u64,
        entries_max: usize,
    ) -> Result<Vec<(u64, Digest)>, StoreError> {
        let mut all = Vec::new();
        self.walk(from, |id, hash, _| {
            if id > through || all.len() >= entries_max {
                return ControlFlow::Break(());
            }
            all.push((id, hash.alone()));
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    /// What there is of an entry.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn describe(&self, id: u64) -> Result<HeldEntry, StoreError> {
        let row_key = id.to_be_bytes();
        let Some(row) = self.view.rows(PlainTable::Entries, &row_key, &row_key)?.next() else {
            return Ok(HeldEntry::Missing);
        };
        let (found, row) = row?;
        if found != row_key {
            return Ok(HeldEntry::Unreadable("its key is no entry id".to_owned()));
        }
        let (dictionary, mut buffer) = (self.view.dictionary(), Vec::new());
        let record = match Record::read(row, dictionary, &mut buffer) {
            Ok(record) => record,
            Err(reason) => return Ok(HeldEntry::Unreadable(reason.to_owned())),
        };
        let mut uuid = String::new();
        let mut attributes = Vec::new();
        for (attribute, octets) in record.attributes_unchecked() {
            let text = match dictionary.description(attribute) {
                Some(description) => description.text().to_owned(),
                None => format!("attribute {attribute}"),
            };
            if text.eq_ignore_ascii_case(ENTRY_UUID)
                && let Some(value) = first_value(octets)
            {
                uuid = String::from_utf8_lossy(value).into_owned();
            }
            let mut hash = self.key.values(attribute, octets);
            if record.listed.contains(attribute) {
                hash = hash.and(self.listed_hash(id, attribute)?);
            }
            attributes.push((text, hash.alone()));
        }
        for attribute in record.listed.iter().filter(|one| record.values(*one).is_empty()) {
            let description = dictionary.description(attribute);
            let text = description.map_or_else(String::new, |one| one.text().to_owned());
            attributes.push((text, self.listed_hash(id, attribute)?.alone()));
        }
        for of in record.apart.iter() {
            let description = dictionary.description(of.attribute);
            let text = description.map_or_else(String::new, |one| one.text().to_owned());
            attributes.push((text, self.apart_hash(id, of.attribute)?.alone()));
        }
        let name = self.key.name(record.parent, record.rdn).alone();
        let dn = self.view.dn(EntryId(id)).ok();
        Ok(HeldEntry::Readable { dn, uuid, name, attributes })
    }

    /// What else the servers of a cluster have in common, each row and what it is in one number:
    /// the numbers of attributes, settings, and definitions that were added online.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn common_rows(&self) -> Result<Vec<(String, Digest)>, StoreError> {
        let mut all = Vec::new();
        for row in self.view.rows(PlainTable::Meta, FIRST_KEY, &[])? {
            let (row_key, value) = row?;
            if meta::is_digested(row_key) {
                all.push((key::display(row_key), self.key.meta(row_key, value).alone()));
            }
        }
        for row in self.view.rows(PlainTable::Attributes, FIRST_KEY, &[])? {
            let (row_key, text) = row?;
            let (name, hash) = match row_key.try_into().map(u32::from_be_bytes) {
                Ok(id) => (format!("attribute {id}"), self.key.attribute(id, text)),
                Err(_) => {
                    let name = format!("attribute {}", key::display(row_key));
                    (name, self.key.unreadable(row_key, text))
                }
            };
            all.push((name, hash.alone()));
        }
        Ok(all)
    }

    /// What the values of an attribute that are in a list add.
    fn listed_hash(&self, source: u64, attribute: u32) -> Result<RowHash, StoreError> {
        let list = ReferenceList::new(&self.view, source, attribute);
        let (mut hash, mut last) = (RowHash::default(), EntryId::ROOT);
        loop {
            let ids = list.after(last, LISTED_AT_ONCE)?;
            for target in &ids {
                hash = hash.and(self.key.reference(source, attribute, target.0));
            }
            match ids.last() {
                Some(id) => last = *id,
                None => return Ok(hash),
            }
        }
    }

    /// What the values of an attribute add that are rows of their own.
    fn apart_hash(&self, id: u64, attribute: u32) -> Result<RowHash, StoreError> {
        let (prefix, mut hash) = (apart::prefix(attribute, id), RowHash::default());
        for row in self.view.rows(PlainTable::Values, &prefix, &prefix)? {
            let (row_key, row) = row?;
            hash = hash.and(match apart::values(row) {
                Some(values) => values.into_iter().fold(RowHash::default(), |hash, value| {
                    hash.and(self.key.value(id, attribute, value))
                }),
                None => self.key.unreadable(row_key, row),
            });
        }
        Ok(hash)
    }

    /// Goes through the entries from `from` on: the id of each, what it adds to a digest, and its
    /// octets.
    fn walk(
        &self,
        from: u64,
        mut each: impl FnMut(u64, RowHash, u64) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let (dictionary, mut buffer) = (self.view.dictionary(), Vec::new());
        for row in self.view.rows(PlainTable::Entries, &from.to_be_bytes(), &[])? {
            let (row_key, row) = row?;
            let id = key::id(row_key);
            let record = id.and_then(|_| Record::read(row, dictionary, &mut buffer).ok());
            let (hash, bytes) = match (id, record) {
                (Some(id), Some(record)) => {
                    let mut bytes = record.rdn.len() + record.attribute_octets().len();
                    let mut hash = entry_hash(&self.key, id, &record);
                    for attribute in record.listed.iter() {
                        hash = hash.and(self.listed_hash(id, attribute)?);
                    }
                    for of in record.apart.iter() {
                        hash = hash.and(self.apart_hash(id, of.attribute)?);
                        bytes += usize::try_from(of.octets).unwrap_or_default();
                    }
                    (hash, bytes)
                }
                (Some(_) | None, _) => (self.key.unreadable(row_key, row), row.len()),
            };
            let id = id.unwrap_or_else(|| nearest(row_key));
            if each(id, hash, bytes as u64).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The id among which a key lies that is none.
fn nearest(row_key: &[u8]) -> u64 {
    let mut octets = [0; 8];
    octets.iter_mut().zip(row_key).for_each(|(octet, found)| *octet = *found);
    u64::from_be_bytes(octets)
}

/// The first value of an attribute, if it is well formed.
fn first_value(octets: &[u8]) -> Option<&[u8]> {
    ldap::ber::Reader::new(octets).octets(ldap::ber::Tag::OCTET_STRING).ok()
}

/// So many ids of a list are held at once.
const LISTED_AT_ONCE: usize = 4096;
const ENTRY_UUID: &str = "entryUUID";
/// No key is before it: LMDB takes no empty one.
const FIRST_KEY: &[u8] = &[0];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::LoadOptions;
    use crate::testing::{entry, fresh};

    #[test]
    fn a_row_that_cannot_be_read_is_compared_as_it_is() {
        let store = fresh();
        let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
        loader.load(&entry("dc=example,dc=com\nobjectClass: domain\ndc: example"), 1).unwrap();
        loader.commit().unwrap();
        store.keep_digest().unwrap();
        let lsn = store.published().lsn;
        let held = || store.hold_at(lsn, Duration::ZERO).unwrap();
        let whole = |state: &HeldState| state.slice(1, u64::MAX, u64::MAX).unwrap();
        let good = whole(&held());
        let put = |key: &[u8], row: &[u8]| {
            let environment = store.base_environment();
            let mut txn = environment.write().unwrap();
            environment.tables.entries.put(&mut txn, key, row).unwrap();
            txn.commit().unwrap();
        };
        put(&1_u64.to_be_bytes(), b"\x07");
        let state = held();
        let odd = whole(&state);
        assert_eq!((odd.entries, odd.bytes), (1, 1));
        assert_ne!(odd.digest, good.digest);
        let unreadable = HeldEntry::Unreadable("has an unknown version".to_owned());
        assert_eq!(state.describe(1).unwrap(), unreadable);
        drop(state);
        put(&1_u64.to_be_bytes(), b"\x08");
        assert_ne!(whole(&held()).digest, odd.digest);
        // A row whose key is none lies behind the entry whose id it begins with.
        put(&[0, 0, 0, 0, 0, 0, 0, 1, 9], b"\x08");
        let state = held();
        let ids: Vec<u64> = state.entries(1, 9, 9).unwrap().iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 1]);
        assert_eq!(whole(&state).entries, 2);
    }
}
