//! Changes of posting lists, and how they get into the rows.
//!
//! Invariant: for one key and one id, the last change counts. Adding an id that is there, or
//! removing one that is not, changes nothing.

use heed::RwTxn;

use crate::error::StoreError;
use crate::key::{RowKey, display};
use crate::lmdb::{POSTINGS, Table};
use crate::posting::{
    Bits, Chunk, Head, INLINE_AGAIN_IDS_MAX, INLINE_IDS_MAX, chunk_of, id_at, place_of,
};

/// One id comes or goes, in eight octets: an overlay holds millions of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PostingChange(u64);

impl PostingChange {
    /// `id` is below [`ENTRY_ID_LIMIT`].
    #[inline]
    pub(crate) const fn new(id: u64, is_added: bool) -> Self {
        Self((id << 1) | is_added as u64)
    }

    #[inline]
    pub(crate) const fn id(self) -> u64 {
        self.0 >> 1
    }

    #[inline]
    pub(crate) const fn is_added(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Ids are below this; it would take longer than anything lasts to use them up.
pub(crate) const ENTRY_ID_LIMIT: u64 = 1 << 63;

/// Keeps the last change of each id, in the order of the ids.
pub(crate) fn last_of_each(changes: &mut Vec<PostingChange>) {
    // Stable: changes of one id stay in the order they were made.
    changes.sort_by_key(|change| change.id());
    changes.dedup_by(|later, kept| {
        let is_same = later.id() == kept.id();
        if is_same {
            *kept = *later;
        }
        is_same
    });
}

/// Rewrites lists.
#[derive(Debug)]
pub(crate) struct ListWriter {
    pub(crate) postings: Table,
    pub(crate) row: Vec<u8>,
}

impl ListWriter {
    /// Applies changes, which are in the order of their ids, to one list.
    pub(crate) fn change(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        changes: &[PostingChange],
    ) -> Result<(), StoreError> {
        let before = match self.postings.get(txn, head)? {
            None => Vec::new(),
            Some(row) => match Head::read(row) {
                Some(Head::Inline(ids)) => ids.collect(),
                Some(Head::Chunked(count)) => {
                    return self.change_chunked(txn, head, count, changes);
                }
                None => return Err(damaged(head)),
            },
        };
        let ids = merged(&before, changes);
        if ids == before {
            return Ok(());
        }
        if ids.len() > INLINE_IDS_MAX {
            let all: Vec<PostingChange> =
                ids.into_iter().map(|id| PostingChange::new(id, true)).collect();
            return self.change_chunked(txn, head, 0, &all);
        }
        self.write_inline(txn, head, &ids)
    }

    fn write_inline(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        ids: &[u64],
    ) -> Result<(), StoreError> {
        if ids.is_empty() {
            self.postings.delete(txn, head)?;
            return Ok(());
        }
        self.row.clear();
        Head::write_inline(ids, &mut self.row);
        Ok(self.postings.put(txn, head, &self.row)?)
    }

    fn change_chunked(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        count: u64,
        changes: &[PostingChange],
    ) -> Result<(), StoreError> {
        let mut after = count;
        for changes in changes.chunk_by(|one, next| chunk_of(one.id()) == chunk_of(next.id())) {
            let Some(first) = changes.first() else { continue };
            let key = RowKey::chunk(head, chunk_of(first.id()));
            let (added, removed) = self.change_chunk(txn, key.as_bytes(), changes)?;
            after = (after + added).checked_sub(removed).ok_or_else(|| {
                StoreError::corrupt(POSTINGS, display(head), "counts too few ids")
            })?;
        }
        if after <= INLINE_AGAIN_IDS_MAX {
            let ids = self.take_chunks(txn, head)?;
            return self.write_inline(txn, head, &ids);
        }
        if after != count {
            self.row.clear();
            Head::write_chunked(after, &mut self.row);
            self.postings.put(txn, head, &self.row)?;
        }
        Ok(())
    }

    /// Changes one chunk; returns how many ids came and how many went.
    fn change_chunk(
        &mut self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        changes: &[PostingChange],
    ) -> Result<(u64, u64), StoreError> {
        let mut bits = match self.postings.get(txn, key)? {
            None => Bits::new(),
            Some(row) => Bits::of(Chunk::read(row).ok_or_else(|| damaged(key))?),
        };
        let (mut added, mut removed) = (0, 0);
        for change in changes {
            let changed = u64::from(bits.set(place_of(change.id()), change.is_added()));
            if change.is_added() {
                added += changed;
            } else {
                removed += changed;
            }
        }
        if added + removed == 0 {
            return Ok((0, 0));
        }
        if bits.is_empty() {
            self.postings.delete(txn, key)?;
        } else {
            self.row.clear();
            bits.write(&mut self.row);
            self.postings.put(txn, key, &self.row)?;
        }
        Ok((added, removed))
    }

    /// Removes all chunks of a list and returns their ids.
    fn take_chunks(&self, txn: &mut RwTxn<'_>, head: &[u8]) -> Result<Vec<u64>, StoreError> {
        let mut ids = Vec::new();
        let mut keys = Vec::new();
        for row in self.postings.prefix_iter(txn, head)? {
            let (key, row) = row?;
            let Some(number) = chunk_number(head, key) else { continue };
            let chunk = Chunk::read(row).ok_or_else(|| damaged(key))?;
            chunk.for_each(|place| ids.push(id_at(number, place)));
            keys.push(key.to_vec());
        }
        for key in keys {
            self.postings.delete(txn, &key)?;
        }
        Ok(ids)
    }
}

/// The number of the chunk that `key` is the row of, in the list with this head.
#[inline]
pub(crate) fn chunk_number(head: &[u8], key: &[u8]) -> Option<u64> {
    let number: [u8; 7] = key.strip_prefix(head)?.try_into().ok()?;
    let [a, b, c, d, e, f, g] = number;
    Some(u64::from_be_bytes([0, a, b, c, d, e, f, g]))
}

pub(crate) fn damaged(key: &[u8]) -> StoreError {
    StoreError::corrupt(POSTINGS, display(key), "is not well formed")
}

/// `ids` with the changes; both are in the order of the ids.
pub(crate) fn merged(ids: &[u64], changes: &[PostingChange]) -> Vec<u64> {
    let mut merged = Vec::with_capacity(ids.len() + changes.len());
    let mut rest = ids;
    for change in changes {
        let at = rest.partition_point(|&id| id < change.id());
        let (before, after) = rest.split_at(at);
        merged.extend_from_slice(before);
        rest = match after {
            [same, after @ ..] if *same == change.id() => after,
            _ => after,
        };
        if change.is_added() {
            merged.push(change.id());
        }
    }
    merged.extend_from_slice(rest);
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_change_of_an_id_counts(
            ids in prop::collection::btree_set(1_u64..40, 0..30),
            changes in prop::collection::vec((1_u64..40, any::<bool>()), 0..60),
        ) {
            let mut want: BTreeSet<u64> = ids.clone();
            let mut changes: Vec<PostingChange> = changes
                .into_iter()
                .map(|(id, is_added)| PostingChange::new(id, is_added))
                .collect();
            for change in &changes {
                if change.is_added() {
                    want.insert(change.id());
                } else {
                    want.remove(&change.id());
                }
            }
            let ids: Vec<u64> = ids.into_iter().collect();
            last_of_each(&mut changes);
            let got = merged(&ids, &changes);
            prop_assert_eq!(got, want.into_iter().collect::<Vec<_>>());
        }
    }
}
