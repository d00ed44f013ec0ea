//! How changes get into the rows of posting lists.
//!
//! Invariant: each list is looked up once, and each of its chunks that changes once; rows are
//! written only where something changes.

use heed::RwTxn;

use crate::base::lmdb::{POSTINGS, Table};
use crate::error::StoreError;
use crate::index::posting::{
    Changed, Chunk, Head, INLINE_AGAIN_IDS_MAX, INLINE_IDS_MAX, Runs, Width, write_chunks,
};
use crate::overlay::deltas::{PostingChange, chunk_number, damaged, merge_ids};
use crate::rows::key::{RowKey, display};

/// Rewrites lists.
#[derive(Debug)]
pub(crate) struct ListWriter {
    postings: Table,
    row: Vec<u8>,
    runs: Runs,
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
    /// A list of so many ids in chunks of this width.
    Chunked(u64, Width),
}

impl ListWriter {
    pub(crate) const fn new(postings: Table) -> Self {
        Self { postings, row: Vec::new(), runs: Runs::new(), before: Vec::new(), after: Vec::new() }
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
            Found::Chunked(count, width) => {
                return self.change_chunked(txn, head, (count, width), changes);
            }
            Found::Nothing | Found::Inline => {}
        }
        merge_ids(&self.before, changes, &mut self.after);
        if self.after == self.before {
            return Ok(());
        }
        if self.after.len() > INLINE_IDS_MAX {
            return self.write_chunked(txn, head);
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
            Head::Chunked(count, width) => Ok(Found::Chunked(count, width)),
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

    /// Writes the ids in `after` as a list in chunks, which there was not.
    fn write_chunked(&mut self, txn: &mut RwTxn<'_>, head: &[u8]) -> Result<(), StoreError> {
        let width = write_chunks(&self.after, |_, number, row| {
            self.postings.put(txn, RowKey::chunk(head, number).as_bytes(), row)
        })?;
        self.write_head(txn, head, self.after.len() as u64, width)
    }

    fn write_head(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        count: u64,
        width: Width,
    ) -> Result<(), StoreError> {
        self.row.clear();
        Head::write_chunked(count, width, &mut self.row);
        Ok(self.postings.put(txn, head, &self.row)?)
    }

    fn change_chunked(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        before: (u64, Width),
        changes: &[PostingChange],
    ) -> Result<(), StoreError> {
        let (mut count, mut width) = before;
        let mut rest = changes;
        while let Some(first) = rest.first() {
            let number = width.chunk_of(first.id());
            let end = rest.partition_point(|change| width.chunk_of(change.id()) == number);
            let (of_chunk, after) = rest.split_at(end);
            let key = RowKey::chunk(head, number);
            match self.change_chunk(txn, key.as_bytes(), width, of_chunk)? {
                Changed::Nothing => rest = after,
                Changed::Places { added, removed, .. } => {
                    count = (count + added).checked_sub(removed).ok_or_else(|| {
                        StoreError::corrupt(POSTINGS, display(head), "counts too few ids")
                    })?;
                    rest = after;
                }
                // Chunks that were changed already have their changes.
                Changed::TooLong => width = self.narrow(txn, head, width)?,
            }
        }
        if count <= INLINE_AGAIN_IDS_MAX {
            self.take_chunks(txn, head, width)?;
            return self.write_inline(txn, head);
        }
        if (count, width) != before {
            self.write_head(txn, head, count, width)?;
        }
        Ok(())
    }

    /// Changes one chunk, unless its row would be too long.
    fn change_chunk(
        &mut self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        width: Width,
        changes: &[PostingChange],
    ) -> Result<Changed, StoreError> {
        let row = self.postings.get(txn, key)?;
        let before = row.map(|row| Chunk::read(row).ok_or_else(|| damaged(key))).transpose()?;
        let places = changes.iter().map(|change| (width.place_of(change.id()), change.is_added()));
        self.row.clear();
        let changed = self.runs.change(width, before, places, &mut self.row);
        match changed {
            Changed::Nothing | Changed::TooLong => {}
            Changed::Places { is_empty: true, .. } => {
                self.postings.delete(txn, key)?;
            }
            Changed::Places { is_empty: false, .. } => self.postings.put(txn, key, &self.row)?,
        }
        Ok(changed)
    }

    /// Cuts all chunks of a list into halves; returns their width. A list is narrowed three times
    /// at most, however long it becomes.
    fn narrow(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        width: Width,
    ) -> Result<Width, StoreError> {
        let narrower = width.narrower().expect("every chunk fits into a bitmap");
        let mut chunks: Vec<(u64, Vec<u8>)> = Vec::new();
        for row in self.postings.prefix_iter(txn, head)? {
            let (key, row) = row?;
            if let Some(number) = chunk_number(head, key) {
                chunks.push((number, row.to_vec()));
            }
        }
        for (number, _) in &chunks {
            self.postings.delete(txn, RowKey::chunk(head, *number).as_bytes())?;
        }
        for (number, row) in chunks {
            let chunk =
                Chunk::read(&row).ok_or_else(|| damaged(RowKey::chunk(head, number).as_bytes()))?;
            for second in [false, true] {
                self.runs.clear();
                chunk.for_each_run(|run| {
                    run.half(second, narrower).into_iter().for_each(|half| self.runs.push(half));
                });
                if self.runs.is_empty() {
                    continue;
                }
                self.row.clear();
                let fits = self.runs.write(narrower, &mut self.row);
                debug_assert!(fits, "half of a row that fits");
                let key = RowKey::chunk(head, 2 * number + u64::from(second));
                self.postings.put(txn, key.as_bytes(), &self.row)?;
            }
        }
        Ok(narrower)
    }

    /// Removes all chunks of a list; their ids are in `after` then.
    fn take_chunks(
        &mut self,
        txn: &mut RwTxn<'_>,
        head: &[u8],
        width: Width,
    ) -> Result<(), StoreError> {
        self.after.clear();
        let mut keys = Vec::new();
        for row in self.postings.prefix_iter(txn, head)? {
            let (key, row) = row?;
            let Some(number) = chunk_number(head, key) else { continue };
            let chunk = Chunk::read(row).ok_or_else(|| damaged(key))?;
            chunk.for_each(|place| self.after.push(width.id_at(number, place)));
            keys.push(key.to_vec());
        }
        for key in keys {
            self.postings.delete(txn, &key)?;
        }
        Ok(())
    }
}
