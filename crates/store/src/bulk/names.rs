//! Names in memory, while there is no order of keys to write them in.
//!
//! Invariant: no two entries below one superior have the same RDN key.

use heed::{PutFlags, RwTxn};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::StoreError;
use crate::key::RowKey;
use crate::lmdb::Table;
use crate::names::add_to_row;

/// The names of all entries.
#[derive(Debug, Default)]
pub(crate) struct LoadedNames {
    /// Entry ids by [`hash`]. That two of even a thousand million names share one of 128 bits has
    /// odds of 1 to 10^20; then the load would be refused, nothing wrong would be stored.
    ids: FxHashMap<u128, u64>,
    rows: Vec<NameRow>,
    /// Row keys without their parents, one after the other.
    octets: Vec<u8>,
    /// Whole RDN keys of those that are too long for a row, by entry id.
    long: FxHashMap<u64, Box<[u8]>>,
    /// How many subordinates each superior has.
    children: FxHashMap<u64, u64>,
}

#[derive(Clone, Copy, Debug)]
struct NameRow {
    parent: u64,
    id: u64,
    start: usize,
    length: u16,
}

impl LoadedNames {
    /// The entry with this RDN below `parent`.
    pub(crate) fn find(&self, parent: u64, rdn_key: &[u8]) -> Option<u64> {
        self.ids.get(&hash(parent, rdn_key)).copied()
    }

    /// Adds a name that is not there.
    pub(crate) fn push(&mut self, parent: u64, rdn_key: &[u8], id: u64) {
        let before = self.ids.insert(hash(parent, rdn_key), id);
        assert!(before.is_none(), "the name was looked for before");
        let (key, is_shortened) = RowKey::name(parent, rdn_key);
        let key = key.as_bytes().get(PARENT_BYTES..).unwrap_or_default();
        let length = u16::try_from(key.len()).expect("a key has at most KEY_LENGTH_MAX_BYTES");
        self.rows.push(NameRow { parent, id, start: self.octets.len(), length });
        self.octets.extend_from_slice(key);
        if is_shortened {
            self.long.insert(id, rdn_key.into());
        }
        *self.children.entry(parent).or_default() += 1;
    }

    /// Writes the tables `names` and `children`, which are empty.
    pub(crate) fn write(
        mut self,
        txn: &mut RwTxn<'_>,
        names: Table,
        children: Table,
    ) -> Result<(), StoreError> {
        self.ids = FxHashMap::default();
        let octets = std::mem::take(&mut self.octets);
        let key_of = |row: &NameRow| {
            octets.get(row.start..row.start + usize::from(row.length)).unwrap_or_default()
        };
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by(|one, other| {
            one.parent.cmp(&other.parent).then_with(|| key_of(one).cmp(key_of(other)))
        });
        let is_same = |one: &NameRow, next: &NameRow| {
            one.parent == next.parent && key_of(one) == key_of(next)
        };
        let mut key = Vec::new();
        // Only shortened keys can be the same.
        for rows in rows.chunk_by(is_same) {
            let Some(first) = rows.first() else { continue };
            key.clear();
            key.extend_from_slice(&first.parent.to_be_bytes());
            key.extend_from_slice(key_of(first));
            let mut value = Vec::new();
            for row in rows {
                let whole = self.long.get(&row.id);
                let rdn_key = whole.map_or(key_of(row), AsRef::as_ref);
                value = add_to_row(Some(&value), rdn_key, whole.is_some(), row.id);
            }
            names.put_with_flags(txn, PutFlags::APPEND, &key, &value)?;
        }
        let mut counts: Vec<(u64, u64)> = self.children.into_iter().collect();
        counts.sort_unstable();
        for (parent, count) in counts {
            let (key, count) = (parent.to_be_bytes(), count.to_be_bytes());
            children.put_with_flags(txn, PutFlags::APPEND, &key, &count)?;
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows.len() as u64
    }
}

fn hash(parent: u64, rdn_key: &[u8]) -> u128 {
    xxh3_128_with_seed(rdn_key, parent)
}

const PARENT_BYTES: usize = 8;
