//! How changes get into the rows of posting lists.
//!
//! Invariant: each list is looked up once, and each of its chunks that changes once; rows are
//! written only where something changes.

use heed::RwTxn;

use crate::deltas::{PostingChange, chunk_number, damaged, merge_ids};
use crate::error::StoreError;
use crate::key::{RowKey, display};
use crate::lmdb::{POSTINGS, Table};
use crate::posting::{
    Bits, Chunk, Head, INLINE_AGAIN_IDS_MAX, INLINE_IDS_MAX, chunk_of, id_at, place_of,
};

/// Rewrites lists.
#[derive(Debug)]
pub(crate) struct ListWriter {
    postings: Table,
    row: Vec<u8>,
    before: Vec<u64>,
    after: Vec<u64>,
}

/// What was found of a list.
enum Found {
    /// Nothing, and the row was written.
    Written,
    /// Nothing.
    Nothing,
    /// A list whose ids are in the head; they are in `before`.
    Inline,
    /// A list of so many ids in chunks.
    Chunked(u64),
}

impl ListWriter {
    pub(crate) const fn new(postings: Table) -> Self {
        Self { postings, row: Vec::new(), before: Vec::new(), after: Vec::new() }
    }

    /// Applies changes, which are in the order of their ids, to one list.
    pub(crate) fn change(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        changes: &[PostingChange],
    ) -> Result<(), StoreError> {
        match self.find(txn, head, changes)? {
            Found::Written => return Ok(()),
            Found::Chunked(count) => return self.change_chunked(txn, head, count, changes),
            Found::Nothing | Found::Inline => {}
        }
        merge_ids(&self.before, changes, &mut self.after);
        if self.after == self.before {
            return Ok(());
        }
        if self.after.len() > INLINE_IDS_MAX {
            let all: Vec<PostingChange> =
                self.after.iter().map(|&id| PostingChange::new(id, true)).collect();
            return self.change_chunked(txn, head, 0, &all);
        }
        self.write_inline(txn, head)
    }

    /// Looks a list up. Where there may be none and ids only come, looking up and writing are one:
    /// most lists are of one value of one entry.
    fn find(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        changes: &[PostingChange],
    ) -> Result<Found, StoreError> {
        self.before.clear();
        let may_be_new =
            changes.len() <= INLINE_IDS_MAX && changes.iter().all(|change| change.is_added());
        let row = if may_be_new {
            self.after.clear();
            self.after.extend(changes.iter().map(|change| change.id()));
            self.row.clear();
            Head::write_inline(&self.after, &mut self.row);
            match self.postings.get_or_put(txn, head, &self.row)? {
                None => return Ok(Found::Written),
                Some(row) => row,
            }
        } else {
            match self.postings.get(txn, head)? {
                None => return Ok(Found::Nothing),
                Some(row) => row,
            }
        };
        match Head::read(row).ok_or_else(|| damaged(head))? {
            Head::Inline(ids) => {
                self.before.extend(ids);
                Ok(Found::Inline)
            }
            Head::Chunked(count) => Ok(Found::Chunked(count)),
        }
    }

    /// Writes the ids in `after` as a head, or removes it when there are none.
    fn write_inline(&mut self, txn: &mut RwTxn<'_>, head: &[u8]) -> Result<(), StoreError> {
        if self.after.is_empty() {
            self.postings.delete(txn, head)?;
            return Ok(());
        }
        self.row.clear();
        Head::write_inline(&self.after, &mut self.row);
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
            self.take_chunks(txn, head)?;
            return self.write_inline(txn, head);
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

    /// Removes all chunks of a list; their ids are in `after` then.
    fn take_chunks(&mut self, txn: &mut RwTxn<'_>, head: &[u8]) -> Result<(), StoreError> {
        self.after.clear();
        let mut keys = Vec::new();
        for row in self.postings.prefix_iter(txn, head)? {
            let (key, row) = row?;
            let Some(number) = chunk_number(head, key) else { continue };
            let chunk = Chunk::read(row).ok_or_else(|| damaged(key))?;
            chunk.for_each(|place| self.after.push(id_at(number, place)));
            keys.push(key.to_vec());
        }
        for key in keys {
            self.postings.delete(txn, &key)?;
        }
        Ok(())
    }
}
