//! The digest of the state: a number that tells two states apart without comparing them.
//!
//! It is a sum of a keyed hash of each row that servers of a cluster have in common: entries, the
//! ids of attributes, settings, and definitions that were added online. A change takes the hashes
//! of what was from the sum, and adds those of what is. Which indexes there are is not in it, nor
//! what follows from the entries: how far an index is differs from server to server, and the check
//! compares names, counts and posting lists with the entries.
//!
//! Invariant: the order of rows and of changes does not matter, and no form of storing them, such
//! as compression.
//! Invariant: the key stays in the database. A sum of hashes that anybody can compute can be made
//! to come out as one likes by whoever chooses enough of the rows (the generalized birthday
//! problem); whoever does not know the key and sees no hash of a row cannot do better than guess.

use std::fmt;
use std::sync::Arc;

use heed::{AnyTls, RoTxn, RwTxn};
use sha2::{Digest as _, Sha256};

use crate::base::lmdb::{META, Table};
use crate::base::position::Lsn;
use crate::error::StoreError;

/// The digest of a state, see `base/digest.rs`. Only digests of one store, or of copies of it, can
/// be compared.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Digest {
    high: u64,
    low: u64,
}

impl Digest {
    /// Of the number that it is.
    #[must_use]
    pub const fn from_number(number: u128) -> Self {
        Self { high: (number >> 64) as u64, low: number as u64 }
    }

    /// The number that it is.
    #[must_use]
    pub const fn number(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// A row is there from now on.
    pub(crate) const fn with(self, row: RowHash) -> Self {
        Self::from_number(self.number().wrapping_add(row.0))
    }

    /// A row is there no more.
    pub(crate) const fn without(self, row: RowHash) -> Self {
        Self::from_number(self.number().wrapping_sub(row.0))
    }

    /// As it is stored: two numbers of eight octets.
    pub(crate) const fn halves(self) -> [u64; 2] {
        [self.high, self.low]
    }

    pub(crate) const fn of_halves([high, low]: [u64; 2]) -> Self {
        Self { high, low }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.number())
    }
}

/// The digest of the state after a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DigestPoint {
    /// The number of the record.
    pub lsn: Lsn,
    /// The running hash after it.
    pub hash: u64,
    /// The digest of the state.
    pub digest: Digest,
}

/// What a row adds to the digest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RowHash(u128);

impl RowHash {
    /// The digest of this row alone.
    pub(crate) const fn alone(self) -> Digest {
        Digest::from_number(self.0)
    }

    /// What this and another row add.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

/// What of an entry is hashed: its record, not compressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestedEntry<'a> {
    pub(crate) id: u64,
    pub(crate) parent: u64,
    pub(crate) rdn: &'a str,
    /// The octets of the attributes.
    pub(crate) attributes: &'a [u8],
}

/// The key of the hashes.
#[derive(Clone)]
pub(crate) struct DigestKey(Sha256);

impl DigestKey {
    fn new(key: &[u8; KEY_BYTES]) -> Self {
        // The key fills a block, so that it is hashed once.
        let mut hasher = Sha256::new();
        hasher.update(key);
        hasher.update([0; BLOCK_BYTES - KEY_BYTES]);
        Self(hasher)
    }

    /// The key of a database.
    ///
    /// # Errors
    /// When there is none, or the database cannot be read.
    pub(crate) fn read(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Arc<Self>, StoreError> {
        let row = meta.get(txn, DIGEST_KEY.as_bytes())?;
        let key = row.and_then(|row| row.try_into().ok());
        let key = key.ok_or_else(|| StoreError::corrupt(META, DIGEST_KEY, "is no key"))?;
        Ok(Arc::new(Self::new(key)))
    }

    /// Has a database have a key: `key`, unless it has one.
    pub(crate) fn write(
        meta: Table,
        txn: &mut RwTxn<'_>,
        key: &[u8; KEY_BYTES],
    ) -> Result<(), StoreError> {
        if meta.get(txn, DIGEST_KEY.as_bytes())?.is_none() {
            meta.put(txn, DIGEST_KEY.as_bytes(), key)?;
        }
        Ok(())
    }

    /// What an entry adds.
    pub(crate) fn entry(&self, entry: &DigestedEntry<'_>) -> RowHash {
        let DigestedEntry { id, parent, rdn, attributes } = *entry;
        let numbers = [id, parent, rdn.len() as u64].map(u64::to_be_bytes);
        self.hash(OF_ENTRY, &[numbers.as_flattened(), rdn.as_bytes(), attributes])
    }

    /// What a row of `attributes` adds.
    pub(crate) fn attribute(&self, id: u32, text: &[u8]) -> RowHash {
        self.hash(OF_ATTRIBUTE, &[&id.to_be_bytes(), text])
    }

    /// What a row of `meta` adds.
    pub(crate) fn meta(&self, key: &[u8], value: &[u8]) -> RowHash {
        self.hash(OF_META, &[&(key.len() as u64).to_be_bytes(), key, value])
    }

    /// What it adds that an attribute of an entry names another one, in a reference list.
    pub(crate) fn reference(&self, source: u64, attribute: u32, target: u64) -> RowHash {
        let parts: [&[u8]; 3] =
            [&source.to_be_bytes(), &attribute.to_be_bytes(), &target.to_be_bytes()];
        self.hash(OF_REFERENCE, &parts)
    }

    /// What a value of an attribute of an entry adds that is a row of its own.
    pub(crate) fn value(&self, entry: u64, attribute: u32, value: &[u8]) -> RowHash {
        self.hash(OF_VALUE, &[&entry.to_be_bytes(), &attribute.to_be_bytes(), value])
    }

    /// A row of `entries` that cannot be read, for comparing it; it adds to no digest of a state.
    pub(crate) fn unreadable(&self, row_key: &[u8], row: &[u8]) -> RowHash {
        self.hash(OF_UNREADABLE, &[&(row_key.len() as u64).to_be_bytes(), row_key, row])
    }

    /// The values of one attribute of an entry, for comparing them alone.
    pub(crate) fn values(&self, attribute: u32, octets: &[u8]) -> RowHash {
        self.hash(OF_VALUES, &[&attribute.to_be_bytes(), octets])
    }

    /// Where an entry is, for comparing it alone.
    pub(crate) fn name(&self, parent: u64, rdn: &str) -> RowHash {
        self.hash(OF_NAME, &[&parent.to_be_bytes(), rdn.as_bytes()])
    }

    /// Of parts that can only be read in one way.
    fn hash(&self, table: u8, parts: &[&[u8]]) -> RowHash {
        let mut hasher = self.0.clone();
        hasher.update([table]);
        parts.iter().for_each(|part| hasher.update(part));
        let octets: [u8; 32] = hasher.finalize().into();
        let (half, _) = octets.split_first_chunk().unwrap_or((&[0; 16], &[]));
        RowHash(u128::from_be_bytes(*half))
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A secret.
        f.write_str("DigestKey")
    }
}

/// The octets of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// The octets that SHA-256 takes at a time.
const BLOCK_BYTES: usize = 64;

/// The row of the key.
pub(crate) const DIGEST_KEY: &str = "digest-key";

/// Which table a row is of, or which part of one.
const OF_ENTRY: u8 = 1;
const OF_ATTRIBUTE: u8 = 2;
const OF_META: u8 = 3;
const OF_UNREADABLE: u8 = 4;
const OF_VALUES: u8 = 5;
const OF_NAME: u8 = 6;
const OF_REFERENCE: u8 = 7;
const OF_VALUE: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_a_sum() {
        let key = DigestKey::new(&[7; KEY_BYTES]);
        let entry =
            |id| key.entry(&DigestedEntry { id, parent: 1, rdn: "cn=x", attributes: b"octets" });
        let one = Digest::default().with(entry(5)).with(entry(6));
        let other = Digest::default().with(entry(6)).with(entry(7)).with(entry(5));
        assert_ne!(one, other);
        assert_eq!(one, other.without(entry(7)));
        assert_eq!(Digest::default(), one.without(entry(5)).without(entry(6)));
        assert_eq!(Digest::from_number(one.number()), one);
        assert_eq!(Digest::of_halves(one.halves()), one);
        assert_eq!(Digest::from_number(255).to_string(), "000000000000000000000000000000ff");
    }

    #[test]
    fn each_part_counts_where_it_is() {
        let key = DigestKey::new(&[7; KEY_BYTES]);
        let entry = |id, parent, rdn, attributes: &'static [u8]| {
            key.entry(&DigestedEntry { id, parent, rdn, attributes })
        };
        let mut all = vec![
            entry(1, 2, "cn=ab", b"c"),
            entry(2, 1, "cn=ab", b"c"),
            entry(1, 2, "cn=a", b"bc"),
            entry(1, 2, "cn=ab", b"d"),
            key.attribute(1, b"cn"),
            key.attribute(2, b"cn"),
            key.meta(b"ab", b"c"),
            key.meta(b"a", b"bc"),
            key.unreadable(b"a", b"bc"),
            key.values(1, b"cn"),
            key.name(1, "cn"),
            key.reference(1, 2, 3),
            key.reference(3, 2, 1),
            key.value(1, 2, b"cn"),
            key.value(2, 1, b"cn"),
            DigestKey::new(&[8; KEY_BYTES]).meta(b"a", b"bc"),
        ];
        let count = all.len();
        all.sort_by_key(|hash| hash.0);
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
