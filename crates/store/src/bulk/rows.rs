//! What the merged keys become: rows of `postings` and of `names`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::merge::Rows;
use super::target::Piece;
use crate::base::lmdb::NAMES;
use crate::error::StoreError;
use crate::index::posting::{Head, INLINE_IDS_MAX, Span, Width, write_chunks_of_spans};
use crate::index::{BRANCH_LISTS, LEVEL_LISTS};
use crate::rows::key::{RowKey, append_postings, display};
use crate::rows::names::add_to_row;

/// What the threads have written, all together.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Posting lists.
    pub(super) lists: AtomicU64,
    /// Ids in the lists of levels.
    pub(super) below: AtomicU64,
    /// Ids in the lists of branches.
    pub(super) branches: AtomicU64,
    /// Ids in `names`.
    pub(super) names: AtomicU64,
}

fn add(to: &AtomicU64, spans: &[Span]) {
    to.fetch_add(count(spans), Ordering::Relaxed);
}

fn count(spans: &[Span]) -> u64 {
    spans.iter().map(|span| span.last - span.first + 1).sum()
}

/// Makes the rows of posting lists.
#[derive(Debug)]
pub(super) struct PostingRows {
    tally: Arc<Tally>,
    lists: u64,
    ids: Vec<u64>,
    head: Vec<u8>,
    /// The chunks of a list: their numbers, and where their rows end.
    chunks: Vec<(u64, usize)>,
    chunk_rows: Vec<u8>,
}

impl PostingRows {
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        let (ids, head, chunks, chunk_rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { tally, lists: 0, ids, head, chunks, chunk_rows }
    }

    fn push_list(&mut self, index: u16, value: &[u8], spans: &[Span], out: &mut Piece) {
        let count = count(spans);
        if count <= INLINE_IDS_MAX as u64 {
            self.ids.clear();
            self.ids.extend(spans.iter().flat_map(|span| span.first..=span.last));
            let ids = &self.ids;
            return out.push_with(
                |key| append_postings(index, value, key),
                |row| Head::write_inline(ids, row),
            );
        }
        // The head comes before its chunks, and they tell how wide they are.
        self.chunks.clear();
        self.chunk_rows.clear();
        let width = write_chunks_of_spans(spans.iter().copied(), |_, number, row| {
            self.chunk_rows.extend_from_slice(row);
            self.chunks.push((number, self.chunk_rows.len()));
            Ok::<_, std::convert::Infallible>(())
        });
        let width: Width = width.unwrap_or_else(|never| match never {});
        self.head.clear();
        append_postings(index, value, &mut self.head);
        out.push_with(
            |key| key.extend_from_slice(&self.head),
            |row| Head::write_chunked(count, width, row),
        );
        let mut start = 0;
        for &(number, end) in &self.chunks {
            let row = self.chunk_rows.get(start..end).unwrap_or_default();
            out.push(RowKey::chunk(&self.head, number).as_bytes(), row);
            start = end;
        }
    }
}

impl Rows for PostingRows {
    #[inline]
    fn push(&mut self, key: &[u8], spans: &[Span], out: &mut Piece) -> Result<(), StoreError> {
        let Some((index, value)) = key.split_first_chunk() else { return Ok(()) };
        let index = u16::from_be_bytes(*index);
        self.lists += 1;
        if let [Span { first, last }] = spans
            && first == last
        {
            // Most values are had by one entry.
            out.push_with(
                |key| append_postings(index, value, key),
                |row| Head::write_inline(&[*first], row),
            );
        } else {
            self.push_list(index, value, spans, out);
        }
        match index {
            LEVEL_LISTS => add(&self.tally.below, spans),
            BRANCH_LISTS => add(&self.tally.branches, spans),
            _ => {}
        }
        Ok(())
    }
}

impl Drop for PostingRows {
    fn drop(&mut self) {
        self.tally.lists.fetch_add(self.lists, Ordering::Relaxed);
    }
}

/// Makes the rows of names.
#[derive(Debug)]
pub(super) struct NameRows<'n> {
    pub(super) tally: Arc<Tally>,
    /// Whole RDN keys of those that are too long for a row, by entry id.
    pub(super) long: &'n FxHashMap<u64, Box<[u8]>>,
}

impl Rows for NameRows<'_> {
    #[inline]
    fn push(&mut self, key: &[u8], spans: &[Span], out: &mut Piece) -> Result<(), StoreError> {
        // Behind the number that all have.
        let key = key.get(2..).unwrap_or_default();
        add(&self.tally.names, spans);
        match spans {
            [Span { first, last }] if first == last && !self.long.contains_key(first) => {
                out.push(key, &first.to_be_bytes());
                Ok(())
            }
            _ => {
                let mut row = Vec::new();
                for id in spans.iter().flat_map(|span| span.first..=span.last) {
                    // Only shortened keys can be the same.
                    let whole = self.long.get(&id);
                    let whole = whole.ok_or_else(|| {
                        StoreError::corrupt(NAMES, display(key), "is the name of several entries")
                    })?;
                    row = add_to_row(Some(&row), whole, true, id);
                }
                out.push(key, &row);
                Ok(())
            }
        }
    }
}
