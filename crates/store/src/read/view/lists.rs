//! Reading posting lists: those of the base, with what lies over it.
//!
//! Invariant: of a long list only the chunks are read that can matter to what is asked.

use std::ops::Bound;

use super::View;
use crate::base::lmdb::POSTINGS;
use crate::error::StoreError;
use crate::index::ids::{IdGatherer, IdSet};
use crate::index::posting::{Chunk, Head, Marks, Width};
use crate::overlay::cells::row_hash;
use crate::overlay::deltas::{
    PostingChange, chunk_number, damaged, last_of_each, merge_ids, merged,
};
use crate::read::interrupt::{Interrupt, Watch};
use crate::read::row_cache::SlotKey;
use crate::rows::key::{RowKey, display};

/// A posting list that was found.
#[derive(Clone, Debug)]
pub(crate) struct List<'v> {
    pub(super) head: Option<Head<'v>>,
    /// The key of the head row; empty when the ids are all in the head.
    pub(super) key: Box<[u8]>,
    pub(super) changes: Changes<'v>,
}

impl List<'_> {
    /// A list of one id, with nothing over it.
    fn of_one(id: u64) -> Self {
        let head = Some(Head::of_one(id));
        Self { head, key: Box::default(), changes: Changes::default() }
    }

    /// How many ids there are. Exact when nothing lies over a list, and when the list is short;
    /// else at most how many: ids that come over the base are counted, those that go are not.
    pub(crate) fn count(&self) -> u64 {
        let base = self.head.as_ref().map_or(0, Head::count);
        if self.changes.is_empty() {
            return base;
        }
        match self.head {
            None if self.changes.is_one_layer() => self.changes.added,
            None | Some(Head::Inline(_)) if self.changes.len() <= CHANGES_COUNTED_MAX => {
                let mut ids = Vec::new();
                merge_ids(&self.inline(), &self.changes.together(), &mut ids);
                ids.len() as u64
            }
            None | Some(_) => base + self.changes.added,
        }
    }

    /// At most so many ids there are.
    pub(super) fn count_at_most(&self) -> u64 {
        self.head.as_ref().map_or(0, Head::count) + self.changes.added
    }

    /// The ids in the head.
    fn inline(&self) -> Vec<u64> {
        match self.head {
            Some(Head::Inline(ids)) => ids.collect(),
            Some(Head::Chunked(..)) | None => Vec::new(),
        }
    }
}

/// To count a short list exactly, up to this many changes are looked at.
const CHANGES_COUNTED_MAX: usize = 64;

/// Ids of a list from one place on.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) ids: IdSet,
    /// The list has no other ids up to this one; none when there are no more.
    pub(crate) upto: Option<u64>,
}

/// What lies over a list of the base. Each part is in the order of the ids, each id once.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes<'v> {
    /// Of sealed layers, from the oldest to the newest.
    sealed: Vec<&'v [PostingChange]>,
    /// Of the open layer.
    open: Vec<PostingChange>,
    /// At most so many ids come.
    pub(super) added: u64,
}

impl<'v> Changes<'v> {
    pub(super) fn of(sealed: Vec<&'v [PostingChange]>, added: u64) -> Self {
        Self { sealed, open: Vec::new(), added }
    }

    const fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.open.is_empty()
    }

    const fn is_one_layer(&self) -> bool {
        self.sealed.len() + (!self.open.is_empty()) as usize == 1
    }

    fn len(&self) -> usize {
        self.sealed.iter().map(|changes| changes.len()).sum::<usize>() + self.open.len()
    }

    fn layers(&self) -> impl DoubleEndedIterator<Item = &[PostingChange]> {
        self.sealed.iter().copied().chain((!self.open.is_empty()).then_some(&*self.open))
    }

    /// All of them, of each id the last.
    fn together(&self) -> Vec<PostingChange> {
        let mut changes = Vec::with_capacity(self.len());
        self.layers().for_each(|layer| changes.extend_from_slice(layer));
        // Entries get higher and higher ids, so mostly the changes follow each other.
        if !changes.is_sorted_by(|one, next| one.id() < next.id()) {
            last_of_each(&mut changes);
        }
        changes
    }

    /// Those of ids after `after` and up to `upto`.
    fn between(&self, after: u64, upto: u64) -> Changes<'_> {
        let cut = |changes: &'_ [PostingChange]| {
            let start = changes.partition_point(|change| change.id() <= after);
            let end = changes.partition_point(|change| change.id() <= upto);
            start..end.max(start)
        };
        let layers = self.layers().filter_map(|layer| layer.get(cut(layer)));
        Changes::of(layers.filter(|layer| !layer.is_empty()).collect(), 0)
    }

    fn apply(&self, set: &mut IdSet) {
        match (&*self.sealed, &*self.open) {
            ([], []) => {}
            ([only], []) => set.change(only),
            ([], only) => set.change(only),
            _ => set.change(&self.together()),
        }
    }

    /// Whether an id is in the list now, if a change says so.
    fn says(&self, id: u64) -> Option<bool> {
        self.layers().rev().find_map(|changes| {
            let at = changes.binary_search_by_key(&id, |change| change.id()).ok()?;
            changes.get(at).map(|change| change.is_added())
        })
    }
}

impl View<'_> {
    /// Finds the list of one key; none when it is empty.
    #[inline]
    pub(crate) fn list(&self, index: u16, value: &[u8]) -> Result<Option<List<'_>>, StoreError> {
        let is_bare = self.stack().is_bare();
        let slot = SlotKey::list(index, value);
        let known = self.ground.remembered(slot.as_ref(), &self.uses);
        if is_bare && let Some(known) = known {
            return Ok(known.map(List::of_one));
        }
        let key = RowKey::postings(index, value);
        let key = key.as_bytes();
        let changes = if is_bare { Changes::default() } else { self.changes_of(key) };
        let head = match known {
            Some(known) => known.map(Head::of_one),
            None => self.read_head(key, slot.as_ref())?,
        };
        if head.is_none() && changes.is_empty() {
            return Ok(None);
        }
        let key = match head {
            Some(Head::Chunked(..)) => key.into(),
            Some(Head::Inline(_)) | None => Box::default(),
        };
        Ok(Some(List { head, key, changes }))
    }

    /// Reads the head of a list in the base, and remembers it if it is short enough.
    fn read_head(
        &self,
        key: &[u8],
        slot: Option<&SlotKey>,
    ) -> Result<Option<Head<'_>>, StoreError> {
        let row = self.ground.snapshot.get(self.ground.tables.postings, key)?;
        let head = row.map(|row| Head::read(row).ok_or_else(|| damaged(key))).transpose()?;
        match head {
            None => self.ground.remember(slot, None, &self.uses),
            Some(Head::Inline(mut ids)) => {
                if let (Some(only), None) = (ids.next(), ids.next()) {
                    self.ground.remember(slot, Some(only), &self.uses);
                }
            }
            Some(Head::Chunked(..)) => {}
        }
        Ok(head)
    }

    fn changes_of(&self, head: &[u8]) -> Changes<'_> {
        let hash = row_hash(head);
        let open = self.memory.map(|memory| memory.list(hash, head)).unwrap_or_default();
        let mut added = open.iter().filter(|change| change.is_added()).count() as u64;
        let mut sealed = Vec::new();
        for layer in &*self.layers {
            if let Some(list) = layer.lists().get(hash, head) {
                added += u64::from(list.added);
                sealed.push(list.changes);
            }
        }
        Changes { sealed, open, added }
    }

    /// All ids of a list.
    pub(crate) fn load(
        &self,
        list: &List<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<IdSet, StoreError> {
        let mut set = match list.head {
            None => IdSet::empty(),
            Some(Head::Inline(ids)) => IdSet::Few(ids.collect()),
            Some(Head::Chunked(count, width)) => {
                let mut gatherer = IdGatherer::with_capacity(count);
                self.gather_chunks(&mut gatherer, &list.key, width, interrupt)?;
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
        list.changes.apply(&mut set);
        Ok(set)
    }

    /// Puts all ids of a list to those that were gathered: many lists become one set in time that
    /// is linear in their ids.
    pub(crate) fn gather(
        &self,
        gatherer: &mut IdGatherer,
        list: &List<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        match list.head {
            Some(Head::Inline(ids)) if list.changes.is_empty() => {
                ids.for_each(|id| gatherer.push(id));
            }
            Some(Head::Chunked(_, width)) if list.changes.is_empty() => {
                self.gather_chunks(gatherer, &list.key, width, interrupt)?;
            }
            Some(_) | None => gatherer.push_set(self.load(list, interrupt)?),
        }
        Ok(())
    }

    fn gather_chunks(
        &self,
        gatherer: &mut IdGatherer,
        head: &[u8],
        width: Width,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        let mut watch = Watch::new(interrupt);
        let from = RowKey::chunk(head, 0);
        for row in self.chunks(head, from.as_bytes())? {
            let (number, chunk) = row?;
            watch.row()?;
            gatherer.push_chunk(width, number, chunk);
        }
        Ok(())
    }

    /// The chunks of a list from a row on, with their numbers.
    fn chunks<'v>(
        &'v self,
        head: &'v [u8],
        from: &[u8],
    ) -> Result<impl Iterator<Item = Result<(u64, Chunk<'v>), StoreError>> + 'v, StoreError> {
        let ground = &self.ground;
        let range = (Bound::Included(from), Bound::Unbounded);
        let rows = ground.tables.postings.range(ground.snapshot.txn(), &range)?;
        Ok(rows.map_while(move |row| {
            let read = |(key, row)| {
                // The row after the last chunk is the head of another list.
                let number = chunk_number(head, key)?;
                Some(Chunk::read(row).map(|chunk| (number, chunk)).ok_or_else(|| damaged(key)))
            };
            match row {
                Ok(row) => read(row),
                Err(error) => Some(Err(error.into())),
            }
        }))
    }

    /// Keeps in `set` what the list holds, too. Of a long list it reads only the chunks that
    /// matter.
    pub(crate) fn intersect(
        &self,
        set: &mut IdSet,
        list: &List<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        self.keep(set, list, true, interrupt)
    }

    /// Leaves out of `set` what the list holds. Of a long list it reads only the chunks that
    /// matter.
    pub(crate) fn subtract(
        &self,
        set: &mut IdSet,
        list: &List<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        self.keep(set, list, false, interrupt)
    }

    /// Keeps the ids that are in a list, or those that are not.
    fn keep(
        &self,
        set: &mut IdSet,
        list: &List<'_>,
        is_in: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        match (&mut *set, list.head) {
            (IdSet::Few(ids), Some(Head::Chunked(count, width))) => {
                let chunks = KeptOf { list, count, width, is_in };
                let before = (!list.changes.is_empty()).then(|| ids.clone());
                self.keep_few(ids, &chunks, &mut Watch::new(interrupt))?;
                if let Some(before) = before {
                    list.changes.correct(&before, ids, is_in);
                }
            }
            (set, _) => {
                let other = self.load(list, interrupt)?;
                if is_in { set.intersect(&other) } else { set.subtract(&other) }
            }
        }
        Ok(())
    }

    /// Keeps the ids that are in a list, or those that are not, by the chunks of the base alone.
    /// Where most chunks matter they are walked, else each one is looked up.
    fn keep_few(
        &self,
        ids: &mut Vec<u64>,
        of: &KeptOf<'_, '_>,
        watch: &mut Watch<'_>,
    ) -> Result<(), StoreError> {
        let KeptOf { list, count, width, is_in } = *of;
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else { return Ok(()) };
        let span = width.chunk_of(last) - width.chunk_of(first) + 1;
        let wanted = ids.chunk_by(|one, next| width.chunk_of(*one) == width.chunk_of(*next));
        let is_walked = LOOKUP_IN_STEPS * (ids.len() as u64).min(span) > count.min(span);
        let (mut kept, mut marks) = (Vec::with_capacity(ids.len()), Marks::default());
        let mut keep = |ids: &[u64], chunk: Option<Chunk<'_>>| match chunk {
            Some(chunk) => chunk.retain(width, ids, is_in, &mut marks, &mut kept),
            None if is_in => {}
            None => kept.extend_from_slice(ids),
        };
        if is_walked {
            let from = RowKey::chunk(&list.key, width.chunk_of(first));
            let mut chunks = self.chunks(&list.key, from.as_bytes())?;
            let mut next = chunks.next().transpose()?;
            for ids in wanted {
                let Some(&first) = ids.first() else { continue };
                let number = width.chunk_of(first);
                while next.is_some_and(|(at, _)| at < number) {
                    watch.row()?;
                    next = chunks.next().transpose()?;
                }
                let chunk = next.filter(|(at, _)| *at == number);
                keep(ids, chunk.map(|(_, chunk)| chunk));
            }
        } else {
            for ids in wanted {
                let Some(&first) = ids.first() else { continue };
                watch.row()?;
                let key = RowKey::chunk(&list.key, width.chunk_of(first));
                let key = key.as_bytes();
                let row = self.ground.snapshot.get(self.ground.tables.postings, key)?;
                let read = |row| Chunk::read(row).ok_or_else(|| damaged(key));
                keep(ids, row.map(read).transpose()?);
            }
        }
        *ids = kept;
        Ok(())
    }

    /// Whether a list has an id. Of a long list one chunk is read.
    pub(crate) fn list_has(&self, list: &List<'_>, id: u64) -> Result<bool, StoreError> {
        if let Some(says) = list.changes.says(id) {
            return Ok(says);
        }
        let width = match list.head {
            None => return Ok(false),
            Some(Head::Inline(mut ids)) => return Ok(ids.any(|one| one == id)),
            Some(Head::Chunked(_, width)) => width,
        };
        let key = RowKey::chunk(&list.key, width.chunk_of(id));
        let row = self.ground.snapshot.get(self.ground.tables.postings, key.as_bytes())?;
        let Some(row) = row else { return Ok(false) };
        let chunk = Chunk::read(row).ok_or_else(|| damaged(key.as_bytes()))?;
        let mut found = Vec::new();
        chunk.retain(width, &[id], true, &mut Marks::default(), &mut found);
        Ok(!found.is_empty())
    }

    /// The next ids of a list after `after`, `most` or a few more or less; none only at its end. No
    /// more than these are made, however long the list is and whatever lies over it.
    pub(crate) fn ids_after(
        &self,
        list: &List<'_>,
        mut after: u64,
        most: usize,
    ) -> Result<Vec<u64>, StoreError> {
        let most = most.max(1);
        let mut found = Vec::new();
        loop {
            let mut ids = self.base_after(list, after, most)?;
            let mut upto = match ids.last() {
                Some(last) if ids.len() >= most => *last,
                Some(_) | None => u64::MAX,
            };
            for layer in list.changes.layers() {
                let start = layer.partition_point(|change| change.id() <= after);
                upto = upto.min(
                    layer.get(start.saturating_add(most)).map_or(u64::MAX, |change| change.id()),
                );
            }
            ids.truncate(ids.partition_point(|id| *id <= upto));
            let changes = list.changes.between(after, upto);
            match changes.is_empty() {
                true => found.append(&mut ids),
                false => found.append(&mut merged(&ids, &changes.together())),
            }
            if found.len() >= most || upto == u64::MAX {
                return Ok(found);
            }
            after = upto;
        }
    }

    /// As [`Self::ids_after`], of the base alone, and not more than `most`.
    fn base_after(&self, list: &List<'_>, after: u64, most: usize) -> Result<Vec<u64>, StoreError> {
        let width = match list.head {
            None => return Ok(Vec::new()),
            Some(Head::Inline(ids)) => {
                return Ok(ids.filter(|id| *id > after).take(most).collect());
            }
            Some(Head::Chunked(_, width)) => width,
        };
        let mut found = Vec::new();
        let from = RowKey::chunk(&list.key, width.chunk_of(after.saturating_add(1)));
        for row in self.chunks(&list.key, from.as_bytes())? {
            let (number, chunk) = row?;
            chunk.for_each_run(|run| {
                let (first, last) = (width.id_at(number, run.first), width.id_at(number, run.last));
                let room = most - found.len();
                found.extend((first.max(after.saturating_add(1))..=last).take(room));
            });
            if found.len() >= most {
                break;
            }
        }
        Ok(found)
    }

    /// The ids of a list after `after`: about `ids_min` at least, and not many more. To walk a
    /// long list in parts without holding it.
    pub(crate) fn window(
        &self,
        list: &List<'_>,
        after: u64,
        ids_min: usize,
        interrupt: Interrupt<'_>,
    ) -> Result<Window, StoreError> {
        let Some(Head::Chunked(_, width)) = list.head else {
            let mut ids = self.load(list, interrupt)?;
            ids.keep_after(after);
            return Ok(Window { ids, upto: None });
        };
        let mut watch = Watch::new(interrupt);
        let mut gatherer = IdGatherer::with_capacity(ids_min as u64);
        let (mut gathered, mut upto) = (0, None);
        let from = RowKey::chunk(&list.key, width.chunk_of(after.saturating_add(1)));
        for row in self.chunks(&list.key, from.as_bytes())? {
            let (number, chunk) = row?;
            if gathered >= ids_min.max(1) {
                // All before this chunk were gathered.
                upto = Some(width.id_at(number, 0) - 1);
                break;
            }
            watch.row()?;
            gathered += chunk.count();
            gatherer.push_chunk(width, number, chunk);
        }
        let mut ids = gatherer.finish();
        list.changes.between(after, upto.unwrap_or(u64::MAX)).apply(&mut ids);
        ids.keep_after(after);
        Ok(Window { ids, upto })
    }
}

/// A list in chunks, and whether what is in it or what is not is to be kept.
#[derive(Clone, Copy)]
struct KeptOf<'l, 'v> {
    list: &'l List<'v>,
    count: u64,
    width: Width,
    is_in: bool,
}

/// A lookup of a row costs as much as so many steps from row to row.
const LOOKUP_IN_STEPS: u64 = 4;
/// Looking for one change costs about as much as so many steps from change to change.
const SEARCH_IN_STEPS: usize = 16;

impl Changes<'_> {
    /// `ids` was made of `before` by the base alone; puts right what changes over the base say.
    fn correct(&self, before: &[u64], ids: &mut Vec<u64>, is_in: bool) {
        let searched = before.len() * SEARCH_IN_STEPS * self.layers().count();
        let said: Vec<PostingChange> = if searched < self.len() {
            let says = |&id: &u64| Some(PostingChange::new(id, self.says(id)? == is_in));
            before.iter().filter_map(says).collect()
        } else {
            let mut rest = before;
            let mut said = self.together();
            said.retain_mut(|change| {
                let id = change.id();
                rest = rest.get(rest.partition_point(|&at| at < id)..).unwrap_or_default();
                *change = PostingChange::new(id, change.is_added() == is_in);
                rest.first() == Some(&id)
            });
            said
        };
        if !said.is_empty() {
            let corrected = merged(ids, &said);
            *ids = corrected;
        }
    }
}
