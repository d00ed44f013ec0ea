//! Reading posting lists, with what the batch has changed in them.

use std::ops::Bound;

use super::View;
use crate::deltas::{PostingChange, chunk_number, damaged, last_of_each};
use crate::error::StoreError;
use crate::ids::{IdGatherer, IdSet};
use crate::key::{RowKey, display};
use crate::lmdb::POSTINGS;
use crate::posting::{Chunk, Head, chunk_of, place_of};

/// The most rows of a range that are read; a wider range is not looked up.
const RANGE_ROWS_MAX: usize = 200_000;

/// A posting list that was found.
#[derive(Clone, Debug)]
pub(crate) struct List<'v> {
    head: Option<Head<'v>>,
    /// The key of the head row; empty when the ids are all in the head.
    key: Box<[u8]>,
    changes: &'v [PostingChange],
}

impl List<'_> {
    /// How many ids there are; with changes of a batch, at most how many.
    pub(crate) fn count(&self) -> u64 {
        let added = self.changes.iter().filter(|change| change.is_added).count() as u64;
        self.head.as_ref().map_or(0, Head::count) + added
    }
}

impl View<'_> {
    /// Finds the list of one key; none when it is empty.
    #[inline]
    pub(crate) fn list(&self, index: u16, value: &[u8]) -> Result<Option<List<'_>>, StoreError> {
        let key = RowKey::postings(index, value);
        let key = key.as_bytes();
        let changes = self.deltas.and_then(|deltas| deltas.list(key)).unwrap_or_default();
        let head = match self.snapshot.get(self.tables.postings, key)? {
            Some(row) => Some(Head::read(row).ok_or_else(|| damaged(key))?),
            None if changes.is_empty() => return Ok(None),
            None => None,
        };
        let key = match head {
            Some(Head::Chunked(_)) => key.into(),
            Some(Head::Inline(_)) | None => Box::default(),
        };
        Ok(Some(List { head, key, changes }))
    }

    /// All ids of a list.
    pub(crate) fn load(&self, list: &List<'_>) -> Result<IdSet, StoreError> {
        let mut set = match list.head {
            None => IdSet::empty(),
            Some(Head::Inline(ids)) => IdSet::Few(ids.collect()),
            Some(Head::Chunked(count)) => {
                let mut gatherer = IdGatherer::with_capacity(count);
                self.each_chunk(&list.key, |number, chunk| gatherer.push_chunk(number, chunk))?;
                let set = gatherer.finish();
                if set.len() != count {
                    return Err(StoreError::corrupt(
                        POSTINGS,
                        display(&list.key),
                        format!("counts {count} ids where there are {}", set.len()),
                    ));
                }
                set
            }
        };
        for change in list.changes {
            set.set(change.id, change.is_added);
        }
        Ok(set)
    }

    /// Keeps in `set` what the list holds, too. Of a long list it reads only the chunks that
    /// matter.
    pub(crate) fn intersect(&self, set: &mut IdSet, list: &List<'_>) -> Result<(), StoreError> {
        let (IdSet::Few(ids), Some(Head::Chunked(_)), []) = (&mut *set, list.head, list.changes)
        else {
            set.intersect(&self.load(list)?);
            return Ok(());
        };
        let mut kept = Vec::with_capacity(ids.len());
        for ids in ids.chunk_by(|one, next| chunk_of(*one) == chunk_of(*next)) {
            let Some(&first) = ids.first() else { continue };
            let key = RowKey::chunk(&list.key, chunk_of(first));
            if let Some(row) = self.snapshot.get(self.tables.postings, key.as_bytes())? {
                let chunk = Chunk::read(row).ok_or_else(|| damaged(key.as_bytes()))?;
                kept.extend(ids.iter().filter(|&&id| chunk.contains(place_of(id))));
            }
        }
        *ids = kept;
        Ok(())
    }

    fn each_chunk<'v>(
        &'v self,
        head: &[u8],
        mut visit: impl FnMut(u64, Chunk<'v>),
    ) -> Result<(), StoreError> {
        for row in self.tables.postings.prefix_iter(self.snapshot.txn(), head)? {
            let (key, row) = row?;
            // The head itself has no number.
            if let Some(number) = chunk_number(head, key) {
                visit(number, Chunk::read(row).ok_or_else(|| damaged(key))?);
            }
        }
        Ok(())
    }

    /// The ids of all lists whose head keys are at least `from` and below `to`; none when there
    /// are more than [`RANGE_ROWS_MAX`] rows.
    pub(crate) fn range(&self, from: &[u8], to: &[u8]) -> Result<Option<IdSet>, StoreError> {
        let mut gatherer = IdGatherer::default();
        // Lists with changes are taken whole below.
        let changed = self.deltas.map(|deltas| deltas.range(from, to)).unwrap_or_default();
        let is_changed =
            |key: &[u8]| changed.binary_search_by_key(&key, |(changed, _)| *changed).is_ok();
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut long: Option<(&[u8], bool)> = None;
        for (at, row) in self.tables.postings.range(self.snapshot.txn(), &range)?.enumerate() {
            let (key, row) = row?;
            if at >= RANGE_ROWS_MAX {
                return Ok(None);
            }
            if let Some((head, is_changed)) = long
                && let Some(number) = chunk_number(head, key)
            {
                if !is_changed {
                    gatherer.push_chunk(number, Chunk::read(row).ok_or_else(|| damaged(key))?);
                }
                continue;
            }
            match Head::read(row).ok_or_else(|| damaged(key))? {
                Head::Inline(ids) if !is_changed(key) => ids.for_each(|id| gatherer.push(id)),
                Head::Inline(_) => {}
                Head::Chunked(_) => long = Some((key, is_changed(key))),
            }
        }
        let mut set = gatherer.finish();
        for (key, changes) in changed {
            let head = self.snapshot.get(self.tables.postings, key)?;
            let head = head.map(|row| Head::read(row).ok_or_else(|| damaged(key))).transpose()?;
            let changes = last_of_each(changes.to_vec());
            let list = List { head, key: key.into(), changes: &changes };
            set = set.union(self.load(&list)?);
        }
        Ok(Some(set))
    }
}
