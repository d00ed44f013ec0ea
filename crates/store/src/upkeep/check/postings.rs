//! The posting lists in the table against those that the entries make.

use super::{Checker, FindingKind, Progress};
use crate::base::lmdb::POSTINGS;
use crate::error::StoreError;
use crate::index::posting::{Chunk, Head, Width};
use crate::index::{IndexState, SOURCE_LISTS, TARGET_LISTS};
use crate::rows::key::{PostingKey, display};

/// A list that is being read.
struct List {
    head: Vec<u8>,
    index: u16,
    value: Vec<u8>,
    /// What the head says about the chunks: how many ids they have, and how wide they are.
    chunks: Option<(u64, Width)>,
    ids: Vec<u64>,
}

impl Checker<'_> {
    pub(super) fn postings(&mut self, progress: Progress<'_>) -> Result<(), StoreError> {
        let total = self.tables.postings.len(self.txn)?;
        let mut open: Option<List> = None;
        for (done, row) in (0_u64..).zip(self.tables.postings.iter(self.txn)?) {
            let (row_key, row) = row?;
            if done.is_multiple_of(PROGRESS_ROWS) {
                progress("indexes", done, total);
            }
            self.row(&mut open, row_key, row);
        }
        self.compare(open);
        progress("indexes", total, total);
        self.missing(|_| true)
    }

    /// Checks the posting lists of one index.
    pub(super) fn postings_of(&mut self, index: u16) -> Result<(), StoreError> {
        let mut open: Option<List> = None;
        for row in self.tables.postings.prefix_iter(self.txn, &index.to_be_bytes())? {
            let (row_key, row) = row?;
            self.row(&mut open, row_key, row);
        }
        self.compare(open);
        self.missing(|other| other == index)
    }

    fn row(&mut self, open: &mut Option<List>, row_key: &[u8], row: &[u8]) {
        self.report.rows += 1;
        let Some(parsed) = PostingKey::parse(row_key) else {
            self.find(FindingKind::Key, POSTINGS, display(row_key), "is no index key");
            return;
        };
        // Those are no index of what is in the records.
        if matches!(parsed.index, TARGET_LISTS | SOURCE_LISTS) {
            self.report.rows -= 1;
            self.compare(open.take());
            return;
        }
        let index = self.dictionary.index_with_id(parsed.index);
        if index.is_some_and(|index| !index.state.is_written()) {
            // It is being dropped: heads go before their chunks.
            self.compare(open.take());
            return;
        }
        match parsed.chunk {
            None => {
                self.compare(open.take());
                *open = self.head(row_key, parsed, row);
            }
            Some(number) => self.chunk(open.as_mut(), row_key, number, row),
        }
    }

    fn head(&mut self, row_key: &[u8], parsed: PostingKey, row: &[u8]) -> Option<List> {
        let head = row_key.to_vec();
        let PostingKey { index, value, .. } = parsed;
        if !self.lists.has(index) {
            let reason = format!("is of index {index}, which there is not");
            self.find(FindingKind::Key, POSTINGS, display(row_key), reason);
            return None;
        }
        let (chunks, ids) = match Head::read(row).filter(Head::is_well_formed) {
            Some(Head::Inline(ids)) => (None, ids.collect()),
            Some(Head::Chunked(count, width)) => (Some((count, width)), Vec::new()),
            None => {
                self.find(FindingKind::Posting, POSTINGS, display(row_key), "is not well formed");
                self.lists.take(index, &value);
                return None;
            }
        };
        Some(List { head, index, value, chunks, ids })
    }

    fn chunk(&mut self, open: Option<&mut List>, row_key: &[u8], number: u64, row: &[u8]) {
        let list = open.filter(|list| row_key.starts_with(&list.head));
        let Some((list, (_, width))) = list.and_then(|list| list.chunks.map(|of| (list, of)))
        else {
            self.find(
                FindingKind::Posting,
                POSTINGS,
                display(row_key),
                "is a chunk without a head",
            );
            return;
        };
        let is_in_range = |number| number <= width.chunk_of(u64::MAX);
        match Chunk::read(row).filter(|chunk| is_in_range(number) && chunk.is_well_formed(width)) {
            Some(chunk) => chunk.for_each(|place| list.ids.push(width.id_at(number, place))),
            None => {
                self.find(FindingKind::Posting, POSTINGS, display(row_key), "is not well formed");
            }
        }
    }

    /// Compares a list that was read with what it should be.
    fn compare(&mut self, list: Option<List>) {
        let Some(list) = list else { return };
        let row_key = display(&list.head);
        if list.chunks.is_some_and(|(count, _)| count != list.ids.len() as u64) {
            let reason = "counts other ids than there are";
            self.find(FindingKind::Posting, POSTINGS, &row_key, reason);
        }
        let want = self.lists.take(list.index, &list.value);
        let want: Vec<u64> = want.map(|want| want.iter().collect()).unwrap_or_default();
        if want == list.ids {
            return;
        }
        let state = self.state_of(list.index);
        let lacks =
            want.iter().find(|&&id| list.ids.binary_search(&id).is_err() && state.holds(id));
        let extra = list.ids.iter().find(|id| want.binary_search(id).is_err());
        let reason = match (lacks, extra) {
            (Some(id), _) => format!("lacks entry {id}"),
            (None, Some(id)) => format!("has entry {id}, which does not have this value"),
            // It is being built, and has not come to what is lacking.
            (None, None) if list.ids.is_sorted_by(|one, next| one < next) => return,
            (None, None) => "is not in order".to_owned(),
        };
        self.find(FindingKind::Posting, POSTINGS, row_key, reason);
    }

    /// Of an index that is being built, not every list has every entry. The tree's are whole.
    fn state_of(&self, index: u16) -> IndexState {
        self.dictionary.index_with_id(index).map_or(IndexState::Valid, |index| index.state)
    }

    /// The lists that the table does not have, of indexes that are looked at.
    fn missing(&mut self, is_looked_at: impl Fn(u16) -> bool) -> Result<(), StoreError> {
        let lists = std::mem::replace(&mut self.lists, crate::bulk::Lists::new(&self.dictionary));
        lists.drain(|index, value, list| {
            if !is_looked_at(index) {
                return Ok(());
            }
            let row_key = crate::rows::key::RowKey::postings(index, value);
            let state = self.state_of(index);
            let Some(id) = list.iter().find(|&id| state.holds(id)) else { return Ok(()) };
            let reason = format!("is missing, entry {id} has this value");
            self.find(FindingKind::Posting, POSTINGS, display(row_key.as_bytes()), reason);
            Ok(())
        })
    }
}

/// Progress is told every so many rows.
const PROGRESS_ROWS: u64 = 100_000;
