//! The table `names`, and what a reader remembers of it.
//!
//! Invariants: a row exists for each entry and no other; remembered are only entries that have
//! subordinates in the snapshot they were read in, and they are forgotten when the counter of moved
//! names or the base differs, so what is remembered is as true as the table.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::lmdb::NAMES;
use crate::error::StoreError;
use crate::rows::key::{self, display};

/// The most entries a reader remembers; then it starts anew.
pub(crate) const NAME_CACHE_ENTRIES_MAX: usize = 16_384;

/// What a reader remembers of entries that have subordinates.
#[derive(Debug, Default)]
pub(crate) struct NameCache {
    naming: Naming,
    by_id: FxHashMap<u64, KnownParent>,
    /// Ids by the octets of the DN key.
    by_key: FxHashMap<Box<[u8]>, u64>,
}

/// What remembered names are good for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Naming {
    /// Which base of the store they were read over.
    pub(crate) base: u64,
    /// The counter of moved names.
    pub(crate) moved: u64,
}

/// An entry that has subordinates.
#[derive(Clone, Debug)]
pub(crate) struct KnownParent {
    pub(crate) dn: Arc<str>,
    pub(crate) parent: u64,
}

impl NameCache {
    /// Takes the cache over to another point in time.
    pub(crate) fn renewed(mut self, naming: Naming) -> Self {
        self.renew(naming);
        self
    }

    /// Goes on to another point in time: forgets what is not good for it.
    pub(crate) fn renew(&mut self, naming: Naming) {
        if self.naming != naming {
            *self = Self { naming, ..Self::default() };
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn parent(&self, id: u64) -> Option<&KnownParent> {
        self.by_id.get(&id)
    }

    pub(crate) fn put_parent(&mut self, id: u64, known: KnownParent) {
        if self.by_id.len() >= NAME_CACHE_ENTRIES_MAX {
            self.by_id.clear();
        }
        self.by_id.insert(id, known);
    }

    pub(crate) fn id(&self, dn_key: &[u8]) -> Option<u64> {
        self.by_key.get(dn_key).copied()
    }

    pub(crate) fn put_id(&mut self, dn_key: &[u8], id: u64) {
        if self.by_key.contains_key(dn_key) {
            return;
        }
        if self.by_key.len() >= NAME_CACHE_ENTRIES_MAX {
            self.by_key.clear();
        }
        self.by_key.insert(dn_key.into(), id);
    }
}

/// Reads a row. Rows of shortened keys hold whole keys, since names may share a shortened one:
/// id, length of the key in four octets, key; and again.
pub(crate) fn find_in_row(
    row: &[u8],
    rdn_key: &[u8],
    is_shortened: bool,
) -> Result<Option<u64>, StoreError> {
    if !is_shortened {
        let id = key::id(row).filter(|&id| id != 0);
        return id.map(Some).ok_or_else(|| damaged(rdn_key));
    }
    for item in RowItems::new(row) {
        let (id, whole) = item.ok_or_else(|| damaged(rdn_key))?;
        if whole == rdn_key {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The row with one more name in it.
pub(crate) fn add_to_row(
    row: Option<&[u8]>,
    rdn_key: &[u8],
    is_shortened: bool,
    id: u64,
) -> Vec<u8> {
    if !is_shortened {
        return id.to_be_bytes().to_vec();
    }
    let mut row = row.unwrap_or_default().to_vec();
    row.extend_from_slice(&id.to_be_bytes());
    row.extend_from_slice(&(rdn_key.len() as u32).to_be_bytes());
    row.extend_from_slice(rdn_key);
    row
}

/// The row without the name of `id`; empty when it was the only one.
pub(crate) fn remove_from_row(row: &[u8], is_shortened: bool, id: u64) -> Vec<u8> {
    let mut left = Vec::new();
    if is_shortened {
        for (other, whole) in RowItems::new(row).flatten().filter(|(other, _)| *other != id) {
            left = add_to_row(Some(&left), whole, true, other);
        }
    }
    left
}

/// All ids in a row; `key` tells which form the row has.
pub(crate) fn ids_in_row(key: &[u8], row: &[u8]) -> Result<Vec<u64>, StoreError> {
    let damaged = || damaged(key);
    if key.len() <= 8 + key::NAME_KEY_MAX_BYTES {
        return Ok(vec![key::id(row).ok_or_else(damaged)?]);
    }
    RowItems::new(row).map(|item| item.map(|(id, _)| id).ok_or_else(damaged)).collect()
}

/// An entry id, and the whole key where that of its row is shortened.
pub(crate) type NameItem<'r> = (u64, Option<&'r [u8]>);

/// All entries of a row, and the whole key of each where the row's is shortened; `key` tells which
/// form the row has.
pub(crate) fn row_items<'r>(key: &[u8], row: &'r [u8]) -> Result<Vec<NameItem<'r>>, StoreError> {
    let damaged = || damaged(key);
    if key.len() <= 8 + key::NAME_KEY_MAX_BYTES {
        return Ok(vec![(key::id(row).ok_or_else(damaged)?, None)]);
    }
    let items = RowItems::new(row);
    items.map(|item| item.map(|(id, whole)| (id, Some(whole))).ok_or_else(damaged)).collect()
}

struct RowItems<'a> {
    rest: &'a [u8],
}

impl<'a> RowItems<'a> {
    const fn new(row: &'a [u8]) -> Self {
        Self { rest: row }
    }

    fn read(&mut self) -> Option<(u64, &'a [u8])> {
        let (id, rest) = self.rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (whole, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.rest = rest;
        Some((u64::from_be_bytes(*id), whole))
    }
}

impl<'a> Iterator for RowItems<'a> {
    /// None inside when the row is damaged; nothing comes after that.
    type Item = Option<(u64, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.read();
        if item.is_none() {
            self.rest = &[];
        }
        Some(item)
    }
}

fn damaged(key: &[u8]) -> StoreError {
    StoreError::corrupt(NAMES, display(key), "is not well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_share_a_row_are_told_apart() {
        let one = add_to_row(None, b"one", true, 1);
        let both = add_to_row(Some(&one), b"other", true, 2);
        assert_eq!(find_in_row(&both, b"one", true).unwrap(), Some(1));
        assert_eq!(find_in_row(&both, b"other", true).unwrap(), Some(2));
        assert_eq!(find_in_row(&both, b"third", true).unwrap(), None);
        assert_eq!(find_in_row(&remove_from_row(&both, true, 1), b"one", true).unwrap(), None);
        assert_eq!(remove_from_row(&one, true, 1), Vec::<u8>::new());
        assert!(find_in_row(&both[..both.len() - 1], b"third", true).is_err());
        let plain = add_to_row(None, b"one", false, 7);
        assert_eq!(find_in_row(&plain, b"one", false).unwrap(), Some(7));
        assert!(find_in_row(&[0; 8], b"one", false).is_err());
        assert_eq!(remove_from_row(&plain, false, 7), Vec::<u8>::new());
    }

    #[test]
    fn a_cache_is_good_for_one_counter() {
        let mut cache = NameCache::default();
        cache.put_id(b"x", 1);
        cache.put_parent(1, KnownParent { dn: "dc=x".into(), parent: 0 });
        let cache = cache.renewed(Naming::default());
        assert_eq!(cache.id(b"x"), Some(1));
        let mut cache = cache.renewed(Naming { base: 0, moved: 1 });
        assert!(cache.id(b"x").is_none() && cache.parent(1).is_none());
        cache.put_id(b"x", 1);
        let cache = cache.renewed(Naming { base: 1, moved: 1 });
        assert!(cache.id(b"x").is_none());
    }

    #[test]
    fn a_cache_is_bounded() {
        let mut cache = NameCache::default();
        for id in 1..=NAME_CACHE_ENTRIES_MAX as u64 + 1 {
            cache.put_id(&id.to_be_bytes(), id);
            cache.put_parent(id, KnownParent { dn: "".into(), parent: 0 });
        }
        assert_eq!((cache.by_id.len(), cache.by_key.len()), (1, 1));
    }
}
