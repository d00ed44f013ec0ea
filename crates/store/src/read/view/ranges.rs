//! Ranges of posting lists: all lists whose head keys lie between two keys.
//!
//! Invariant: counting a range reads the heads of its lists and none of their chunks.

use std::ops::Bound;

use super::View;
use super::lists::{Changes, List};
use crate::error::StoreError;
use crate::index::ids::{IdGatherer, IdSet};
use crate::index::posting::{Chunk, Head, Width};
use crate::overlay::deltas::{PostingChange, chunk_number, damaged};
use crate::overlay::layer::ChangedList;
use crate::overlay::merge::{merged_lists_in, together};
use crate::read::interrupt::{Interrupt, Watch};

/// How much is in a range of lists.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RangeCount {
    /// How many lists there are.
    pub(crate) lists: u64,
    /// How many ids they have, an id that is in several of them each time; with changes over the
    /// base, at most how many.
    pub(crate) ids: u64,
    /// Every list was counted; else there are more.
    pub(crate) is_exact: bool,
}

/// After so many chunks the rest of a list is passed over by looking the next one up.
const CHUNKS_STEPPED_MAX: u32 = 6;

impl View<'_> {
    /// Counts the lists whose head keys are at least `from` and below `to`, and their ids; gives up
    /// after `probes_max` lists.
    pub(crate) fn range_count(
        &self,
        from: &[u8],
        to: &[u8],
        probes_max: u64,
        interrupt: Interrupt<'_>,
    ) -> Result<RangeCount, StoreError> {
        let mut watch = Watch::new(interrupt);
        let open = self.memory.map(|memory| memory.lists_in(from, to)).unwrap_or_default();
        let mut changed = merged_lists_in(&self.layers, &open, from, to);
        let mut count = RangeCount { is_exact: true, ..RangeCount::default() };
        let mut probes = 0;
        let mut is_over = || {
            probes += 1;
            probes > probes_max
        };
        changed.next_group();
        let mut start: Box<[u8]> = from.into();
        loop {
            let mut passed: Option<Box<[u8]>> = None;
            let mut long: Option<(&[u8], u32)> = None;
            let range = (Bound::Included(&*start), Bound::Excluded(to));
            let rows = self.ground.tables.postings.range(self.ground.snapshot.txn(), &range)?;
            for row in rows {
                let (key, row) = row?;
                watch.row()?;
                if let Some((head, chunks)) = &mut long
                    && chunk_number(head, key).is_some()
                {
                    *chunks += 1;
                    if *chunks > CHUNKS_STEPPED_MAX {
                        passed = Some(after_chunks(head));
                        break;
                    }
                    continue;
                }
                while changed.group().first().is_some_and(|list| list.head < key) {
                    if is_over() {
                        return Ok(RangeCount { is_exact: false, ..count });
                    }
                    count.add_changed(changed.group());
                    changed.next_group();
                }
                if is_over() {
                    return Ok(RangeCount { is_exact: false, ..count });
                }
                let head = Head::read(row).ok_or_else(|| damaged(key))?;
                count.lists += 1;
                count.ids += head.count();
                if changed.group().first().is_some_and(|list| list.head == key) {
                    count.ids += added(changed.group());
                    changed.next_group();
                }
                long = matches!(head, Head::Chunked(..)).then_some((key, 0));
            }
            match passed {
                Some(passed) => start = passed,
                None => break,
            }
        }
        while !changed.group().is_empty() {
            watch.row()?;
            if is_over() {
                return Ok(RangeCount { is_exact: false, ..count });
            }
            count.add_changed(changed.group());
            changed.next_group();
        }
        Ok(count)
    }

    /// The head key of the base behind `count` others that are at least `from`, if it is below
    /// `to`.
    pub(crate) fn head_after(
        &self,
        from: &[u8],
        to: &[u8],
        count: usize,
    ) -> Result<Option<Box<[u8]>>, StoreError> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let (mut head, mut passed): (&[u8], usize) = (&[], 0);
        for row in self.ground.tables.postings.range(self.ground.snapshot.txn(), &range)? {
            let (key, _) = row?;
            if !head.is_empty() && chunk_number(head, key).is_some() {
                continue;
            }
            if passed == count {
                return Ok(Some(key.into()));
            }
            (head, passed) = (key, passed + 1);
        }
        Ok(None)
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
        let open = self.memory.map(|memory| memory.lists_in(from, to)).unwrap_or_default();
        let mut changed = merged_lists_in(&self.layers, &open, from, to);
        let mut watch = Watch::new(interrupt);
        let mut gathered = Gathered { ids: IdGatherer::default(), room: ids_max, scratch: vec![] };
        changed.next_group();
        let range = (Bound::Included(from), Bound::Excluded(to));
        // The list whose chunks are being read; no width when it has changes and was taken whole.
        let mut long: Option<(&[u8], Option<Width>)> = None;
        for row in self.ground.tables.postings.range(self.ground.snapshot.txn(), &range)? {
            let (key, row) = row?;
            watch.row()?;
            if let Some((head, width)) = long
                && let Some(number) = chunk_number(head, key)
            {
                if let Some(width) = width {
                    let chunk = Chunk::read(row).ok_or_else(|| damaged(key))?;
                    gathered.ids.push_chunk(width, number, chunk);
                }
                continue;
            }
            while changed.group().first().is_some_and(|list| list.head < key) {
                watch.row()?;
                if !gathered.push_changed(changed.group()) {
                    return Ok(None);
                }
                changed.next_group();
            }
            let head = Head::read(row).ok_or_else(|| damaged(key))?;
            let has_changes = changed.group().first().is_some_and(|list| list.head == key);
            let more = if has_changes { added(changed.group()) } else { 0 };
            if !gathered.has_room(head.count() + more) {
                return Ok(None);
            }
            long = match head {
                Head::Chunked(_, width) => Some((key, (!has_changes).then_some(width))),
                Head::Inline(_) => None,
            };
            if has_changes {
                let layers = changed.group().iter().map(|list| list.changes).collect();
                let changes = Changes::of(layers, more);
                let list = List { head: Some(head), key: key.into(), changes };
                self.gather(&mut gathered.ids, &list, interrupt)?;
                changed.next_group();
            } else if let Head::Inline(ids) = head {
                ids.for_each(|id| gathered.ids.push(id));
            }
        }
        while !changed.group().is_empty() {
            watch.row()?;
            if !gathered.push_changed(changed.group()) {
                return Ok(None);
            }
            changed.next_group();
        }
        Ok(Some(gathered.ids.finish()))
    }
}

impl RangeCount {
    /// Counts a list that the base does not have.
    fn add_changed(&mut self, changes: &[ChangedList<'_>]) {
        let added = added(changes);
        self.lists += u64::from(added > 0);
        self.ids += added;
    }
}

/// At most how many ids come to a list.
fn added(changes: &[ChangedList<'_>]) -> u64 {
    changes.iter().map(|list| u64::from(list.added)).sum()
}

/// What a range has given so far.
struct Gathered {
    ids: IdGatherer,
    /// How many ids there may be still.
    room: u64,
    scratch: Vec<PostingChange>,
}

impl Gathered {
    /// Takes room for so many ids.
    fn has_room(&mut self, ids: u64) -> bool {
        let rest = self.room.checked_sub(ids);
        self.room = rest.unwrap_or_default();
        rest.is_some()
    }

    /// Gathers a list that the base does not have, if there is room.
    fn push_changed(&mut self, changes: &[ChangedList<'_>]) -> bool {
        if !self.has_room(added(changes)) {
            return false;
        }
        for change in together(changes, &mut self.scratch) {
            if change.is_added() {
                self.ids.push(change.id());
            }
        }
        true
    }
}

/// The first key after all chunks of the list with this head.
fn after_chunks(head: &[u8]) -> Box<[u8]> {
    let mut key: Box<[u8]> = head.into();
    // The last octet of a head is a zero, and no key has a one there: see `rows/key.rs`.
    if let Some(last) = key.last_mut() {
        *last = 1;
    }
    key
}
