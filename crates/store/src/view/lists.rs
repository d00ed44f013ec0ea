//! Reading posting lists: those of the base, with what lies over it.

use std::ops::Bound;

use super::View;
use crate::cells::row_hash;
use crate::deltas::{PostingChange, chunk_number, damaged};
use crate::error::StoreError;
use crate::ids::{IdGatherer, IdSet};
use crate::interrupt::{Interrupt, NEVER, Watch};
use crate::key::{RowKey, display};
use crate::lmdb::POSTINGS;
use crate::posting::{Chunk, Head, chunk_of, place_of};

/// The most lists of a range with changes over the base; of a range with more nothing is known.
const CHANGED_LISTS_MAX: usize = 200_000;

/// How much is in a range of lists.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(dead_code, reason = "for the planner")]
pub(crate) struct RangeCount {
    /// How many lists there are.
    pub(crate) lists: u64,
    /// How many ids they have, an id that is in several of them each time; with changes over the
    /// base, at most how many.
    pub(crate) ids: u64,
    /// Every list was counted; else there are more.
    pub(crate) is_exact: bool,
}

/// A posting list that was found.
#[derive(Clone, Debug)]
pub(crate) struct List<'v> {
    head: Option<Head<'v>>,
    /// The key of the head row; empty when the ids are all in the head.
    key: Box<[u8]>,
    changes: Changes<'v>,
}

impl List<'_> {
    /// How many ids there are; with changes over the base, at most how many.
    pub(crate) fn count(&self) -> u64 {
        self.head.as_ref().map_or(0, Head::count) + self.changes.added
    }
}

/// What lies over a list of the base. Each part is in the order of the ids, each id once.
#[derive(Clone, Debug, Default)]
struct Changes<'v> {
    /// Of sealed layers, from the oldest to the newest.
    sealed: Vec<&'v [PostingChange]>,
    /// Of the open layer.
    open: Vec<PostingChange>,
    /// At most so many ids come.
    added: u64,
}

impl<'v> Changes<'v> {
    fn of(sealed: Vec<&'v [PostingChange]>, open: Vec<PostingChange>) -> Self {
        let all = sealed.iter().copied().flatten().chain(&open);
        let added = all.filter(|change| change.is_added()).count() as u64;
        Self { sealed, open, added }
    }

    const fn is_empty(&self) -> bool {
        self.sealed.is_empty() && self.open.is_empty()
    }

    fn apply(&self, set: &mut IdSet) {
        for changes in &self.sealed {
            set.change(changes);
        }
        set.change(&self.open);
    }

    /// Whether an id is in the list now, if a change says so.
    fn says(&self, id: u64) -> Option<bool> {
        let find = |changes: &[PostingChange]| {
            let at = changes.binary_search_by_key(&id, |change| change.id()).ok()?;
            changes.get(at).map(|change| change.is_added())
        };
        find(&self.open).or_else(|| self.sealed.iter().rev().find_map(|changes| find(changes)))
    }
}

impl View<'_> {
    /// Finds the list of one key; none when it is empty.
    #[inline]
    pub(crate) fn list(&self, index: u16, value: &[u8]) -> Result<Option<List<'_>>, StoreError> {
        let key = RowKey::postings(index, value);
        let key = key.as_bytes();
        let changes =
            if self.stack().is_bare() { Changes::default() } else { self.changes_of(key) };
        let head = match self.ground.snapshot.get(self.ground.tables.postings, key)? {
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
            Some(Head::Chunked(count)) => {
                let mut gatherer = IdGatherer::with_capacity(count);
                let mut watch = Watch::new(interrupt);
                self.each_chunk(&list.key, &mut watch, |number, chunk| {
                    gatherer.push_chunk(number, chunk);
                })?;
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

    /// Keeps in `set` what the list holds, too. Of a long list it reads only the chunks that
    /// matter.
    pub(crate) fn intersect(
        &self,
        set: &mut IdSet,
        list: &List<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        let (IdSet::Few(ids), Some(Head::Chunked(_))) = (&mut *set, list.head) else {
            set.intersect(&self.load(list, interrupt)?);
            return Ok(());
        };
        self.retain(ids, list, true, interrupt)
    }

    /// Leaves out of `set` what the list holds. Of a long list it reads only the chunks that
    /// matter.
    #[allow(dead_code, reason = "for the planner")]
    pub(crate) fn subtract(
        &self,
        set: &mut IdSet,
        list: &List<'_>,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        let (IdSet::Few(ids), Some(Head::Chunked(_))) = (&mut *set, list.head) else {
            set.subtract(&self.load(list, interrupt)?);
            return Ok(());
        };
        self.retain(ids, list, false, interrupt)
    }

    /// Keeps the ids that are in a list in chunks, or those that are not.
    fn retain(
        &self,
        ids: &mut Vec<u64>,
        list: &List<'_>,
        is_in: bool,
        interrupt: Interrupt<'_>,
    ) -> Result<(), StoreError> {
        let mut watch = Watch::new(interrupt);
        let mut kept = Vec::with_capacity(ids.len());
        for ids in ids.chunk_by(|one, next| chunk_of(*one) == chunk_of(*next)) {
            let Some(&first) = ids.first() else { continue };
            watch.row()?;
            let key = RowKey::chunk(&list.key, chunk_of(first));
            let row = self.ground.snapshot.get(self.ground.tables.postings, key.as_bytes())?;
            let chunk = row
                .map(|row| Chunk::read(row).ok_or_else(|| damaged(key.as_bytes())))
                .transpose()?;
            kept.extend(ids.iter().filter(|&&id| {
                let says = if list.changes.is_empty() { None } else { list.changes.says(id) };
                let base = || chunk.is_some_and(|chunk| chunk.contains(place_of(id)));
                says.unwrap_or_else(base) == is_in
            }));
        }
        *ids = kept;
        Ok(())
    }

    fn each_chunk<'v>(
        &'v self,
        head: &[u8],
        watch: &mut Watch<'_>,
        mut visit: impl FnMut(u64, Chunk<'v>),
    ) -> Result<(), StoreError> {
        let ground = &self.ground;
        for row in ground.tables.postings.prefix_iter(ground.snapshot.txn(), head)? {
            let (key, row) = row?;
            watch.row()?;
            // The head itself has no number.
            if let Some(number) = chunk_number(head, key) {
                visit(number, Chunk::read(row).ok_or_else(|| damaged(key))?);
            }
        }
        Ok(())
    }

    /// Counts the lists whose head keys are at least `from` and below `to`, and their ids; gives up
    /// after so many lists of the base.
    #[allow(dead_code, reason = "for the planner")]
    pub(crate) fn range_count(
        &self,
        from: &[u8],
        to: &[u8],
        probes_max: u64,
    ) -> Result<RangeCount, StoreError> {
        let changed = self.changed_lists(from, to);
        let mut count = RangeCount { is_exact: changed.is_some(), ..RangeCount::default() };
        let mut changed = changed.unwrap_or_default().into_iter().peekable();
        let mut add = |is_new: bool, ids: u64| {
            count.lists += u64::from(is_new);
            count.ids += ids;
        };
        let ground = &self.ground;
        let mut probes = 0;
        let mut start: Box<[u8]> = from.into();
        'seek: loop {
            let range = (Bound::Included(&*start), Bound::Excluded(to));
            for row in ground.tables.postings.range(ground.snapshot.txn(), &range)? {
                let (key, row) = row?;
                if probes >= probes_max {
                    count.is_exact = false;
                    return Ok(count);
                }
                probes += 1;
                while let Some((_, changes)) = changed.next_if(|(head, _)| *head < key) {
                    add(changes.added > 0, changes.added);
                }
                let head = Head::read(row).ok_or_else(|| damaged(key))?;
                let mine = changed.next_if(|(changed, _)| *changed == key);
                add(true, head.count() + mine.map_or(0, |(_, changes)| changes.added));
                if matches!(head, Head::Chunked(_)) {
                    start = after_chunks(key);
                    continue 'seek;
                }
            }
            break;
        }
        for (_, changes) in changed {
            add(changes.added > 0, changes.added);
        }
        Ok(count)
    }

    /// The ids of all lists whose head keys are at least `from` and below `to`; none when these
    /// lists have more than `ids_max` ids together.
    pub(crate) fn range(
        &self,
        from: &[u8],
        to: &[u8],
        ids_max: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<Option<IdSet>, StoreError> {
        let Some(changed) = self.changed_lists(from, to) else { return Ok(None) };
        let mut watch = Watch::new(interrupt);
        let mut changed = changed.into_iter().peekable();
        let mut gatherer = IdGatherer::default();
        let range = (Bound::Included(from), Bound::Excluded(to));
        let ground = &self.ground;
        let mut ids = 0;
        // The list whose chunks are being read, unless it has changes and was taken whole.
        let mut long: Option<(&[u8], bool)> = None;
        for row in ground.tables.postings.range(ground.snapshot.txn(), &range)? {
            let (key, row) = row?;
            watch.row()?;
            if let Some((head, is_taken)) = long
                && let Some(number) = chunk_number(head, key)
            {
                if !is_taken {
                    gatherer.push_chunk(number, Chunk::read(row).ok_or_else(|| damaged(key))?);
                }
                continue;
            }
            while let Some((_, changes)) = changed.next_if(|(head, _)| *head < key) {
                ids += changes.added;
                self.gather(&mut gatherer, List { head: None, key: Box::default(), changes })?;
            }
            let head = Head::read(row).ok_or_else(|| damaged(key))?;
            ids += head.count();
            if ids > ids_max {
                return Ok(None);
            }
            let mine = changed.next_if(|(changed, _)| *changed == key);
            if matches!(head, Head::Chunked(_)) {
                long = Some((key, mine.is_some()));
            }
            match (mine, head) {
                (Some((_, changes)), head) => {
                    ids += changes.added;
                    let list = List { head: Some(head), key: key.into(), changes };
                    self.gather(&mut gatherer, list)?;
                }
                (None, Head::Inline(ids)) => ids.for_each(|id| gatherer.push(id)),
                (None, Head::Chunked(_)) => {}
            }
        }
        for (_, changes) in changed {
            ids += changes.added;
            if ids > ids_max {
                return Ok(None);
            }
            self.gather(&mut gatherer, List { head: None, key: Box::default(), changes })?;
        }
        Ok(Some(gatherer.finish()))
    }

    fn gather(&self, gatherer: &mut IdGatherer, list: List<'_>) -> Result<(), StoreError> {
        self.load(&list, NEVER)?.iter_after(0).for_each(|id| gatherer.push(id));
        Ok(())
    }

    /// The lists of a range that have changes, in the order of their heads; none when there are
    /// more than [`CHANGED_LISTS_MAX`].
    fn changed_lists(&self, from: &[u8], to: &[u8]) -> Option<Vec<(&[u8], Changes<'_>)>> {
        let mut sealed = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            let lists = layer.lists().range(from, to);
            if sealed.len() + lists.len() > CHANGED_LISTS_MAX {
                return None;
            }
            sealed.extend(lists.map(|list| (list.head, at, list.changes)));
        }
        let open = self.memory.map(|memory| memory.lists_in(from, to)).unwrap_or_default();
        sealed.sort_unstable_by_key(|(head, at, _)| (*head, *at));
        let mut open = open.into_iter().peekable();
        let mut changed: Vec<(&[u8], Changes<'_>)> = Vec::new();
        for lists in sealed.chunk_by(|(one, ..), (next, ..)| one == next) {
            let Some(&(head, ..)) = lists.first() else { continue };
            while let Some((head, open)) = open.next_if(|(before, _)| *before < head) {
                changed.push((head, Changes::of(Vec::new(), open)));
            }
            let open = open.next_if(|(same, _)| *same == head);
            let open = open.map(|(_, open)| open).unwrap_or_default();
            let sealed = lists.iter().map(|(_, _, changes)| *changes).collect();
            changed.push((head, Changes::of(sealed, open)));
        }
        changed.extend(open.map(|(head, open)| (head, Changes::of(Vec::new(), open))));
        Some(changed)
    }
}

/// The first key after all chunks of the list with this head.
#[allow(dead_code, reason = "for the planner")]
fn after_chunks(head: &[u8]) -> Box<[u8]> {
    let mut key: Box<[u8]> = head.into();
    // The last octet of a head is a zero, and no head has a one there: see `key.rs`.
    if let Some(last) = key.last_mut() {
        *last = 1;
    }
    key
}
