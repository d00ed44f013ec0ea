//! Layers: what a batch, or several batches together, changed in the tables.
//!
//! A layer lies over the base and over older layers. Of the plain tables it holds whole rows, or
//! that a row is gone; of `postings` it holds, by the key of a list's head row, which ids come and
//! go. So putting a layer over a base that has its changes already changes nothing.
//!
//! Invariants: a layer never changes. Its rows and lists are in the order of their keys, each key
//! once; the changes of a list are in the order of the ids, each id once.

use std::sync::OnceLock;

use crate::base::lmdb::{PLAIN_TABLES, PlainTable};
use crate::base::meta::Counters;
use crate::base::position::{LogPosition, Lsn};
use crate::base::requests::KeptRequest;
use crate::overlay::cells::{Cells, Span};
use crate::overlay::deltas::PostingChange;

/// Sealed changes.
#[derive(Debug)]
pub(crate) struct Layer {
    plain: [Rows; PLAIN_TABLES.len()],
    lists: Lists,
    first: Lsn,
    counters: Counters,
    /// Where the last change is in the log; the log says so when the layer is published.
    position: OnceLock<LogPosition>,
    /// The requests of the records, in their order; only servers of a cluster keep them.
    requests: Vec<KeptRequest>,
}

impl Layer {
    /// The same with the requests of its records.
    pub(crate) fn with_requests(self, requests: Vec<KeptRequest>) -> Self {
        Self { requests, ..self }
    }

    /// The requests of its records, in the order of these.
    pub(crate) fn requests(&self) -> &[KeptRequest] {
        &self.requests
    }

    /// What the layer says of a row. None: nothing. None within: the row is gone.
    #[inline]
    pub(crate) fn get(&self, table: PlainTable, hash: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows(table).get(hash, key)
    }

    /// The rows of one table that were changed.
    #[inline]
    pub(crate) fn rows(&self, table: PlainTable) -> &Rows {
        table.of(&self.plain)
    }

    /// The posting lists that were changed.
    #[inline]
    pub(crate) const fn lists(&self) -> &Lists {
        &self.lists
    }

    /// The number of the first change in the layer.
    pub(crate) const fn first(&self) -> Lsn {
        self.first
    }

    /// The number of the last change in the layer.
    pub(crate) const fn last(&self) -> Lsn {
        Lsn(self.counters.lsn)
    }

    /// The counters after the last change.
    pub(crate) fn counters(&self) -> Counters {
        match self.position.get() {
            Some(&position) => Counters { position, ..self.counters },
            None => self.counters,
        }
    }

    /// Notes where the last change is in the log.
    pub(crate) fn set_position(&self, position: LogPosition) {
        // Set once: a layer is published once.
        let _ = self.position.set(position);
    }

    /// The memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.plain.iter().map(Rows::bytes).sum::<usize>()
            + self.lists.bytes()
            + self.requests.capacity() * size_of::<KeptRequest>()
    }

    /// How many rows and lists it has.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.plain.iter().map(|rows| rows.slots.len()).sum::<usize>() + self.lists.slots.len()
    }
}

/// Changed rows of a plain table.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    arena: Vec<u8>,
    slots: Vec<RowSlot>,
    cells: Cells,
}

#[derive(Clone, Copy, Debug)]
struct RowSlot {
    key: Span,
    /// None when the row is gone.
    value: Span,
    hash: u32,
}

/// A changed row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Row<'l> {
    pub(crate) key: &'l [u8],
    pub(crate) hash: u32,
    /// None when the row is gone.
    pub(crate) value: Option<&'l [u8]>,
}

impl Rows {
    #[inline]
    pub(crate) fn get(&self, hash: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        let slot = self.cells.find(hash, |slot| {
            self.slots.get(slot as usize).is_some_and(|slot| slot.key.of(&self.arena) == key)
        })?;
        self.slots.get(slot as usize).map(|slot| self.row(slot).value)
    }

    /// How many rows there are.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// All rows in the order of their keys.
    pub(crate) fn iter(&self) -> RowsFrom<'_> {
        RowsFrom { rows: self, slots: self.slots.iter() }
    }

    /// The rows whose keys are `from` or after it, in order.
    pub(crate) fn iter_from(&self, from: &[u8]) -> RowsFrom<'_> {
        let start = self.slots.partition_point(|slot| slot.key.of(&self.arena) < from);
        RowsFrom { rows: self, slots: self.slots.get(start..).unwrap_or_default().iter() }
    }

    #[inline]
    fn row(&self, slot: &RowSlot) -> Row<'_> {
        let value = (!slot.value.is_none()).then(|| slot.value.of(&self.arena));
        Row { key: slot.key.of(&self.arena), hash: slot.hash, value }
    }

    fn bytes(&self) -> usize {
        self.arena.capacity() + self.slots.capacity() * size_of::<RowSlot>() + self.cells.bytes()
    }
}

/// Walks changed rows in the order of their keys.
#[derive(Clone, Debug)]
pub(crate) struct RowsFrom<'l> {
    rows: &'l Rows,
    slots: std::slice::Iter<'l, RowSlot>,
}

impl<'l> Iterator for RowsFrom<'l> {
    type Item = Row<'l>;

    fn next(&mut self) -> Option<Row<'l>> {
        self.slots.next().map(|slot| self.rows.row(slot))
    }
}

/// Changed posting lists.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    keys: Vec<u8>,
    changes: Vec<PostingChange>,
    slots: Vec<ListSlot>,
    cells: Cells,
}

#[derive(Clone, Copy, Debug)]
struct ListSlot {
    head: Span,
    changes: Span,
    hash: u32,
    added: u32,
}

/// A changed posting list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ChangedList<'l> {
    /// The key of the list's head row.
    pub(crate) head: &'l [u8],
    pub(crate) hash: u32,
    /// In the order of the ids, each once.
    pub(crate) changes: &'l [PostingChange],
    /// How many of the changes add an id.
    pub(crate) added: u32,
}

impl Lists {
    #[inline]
    pub(crate) fn get(&self, hash: u32, head: &[u8]) -> Option<ChangedList<'_>> {
        let slot = self.cells.find(hash, |slot| {
            self.slots.get(slot as usize).is_some_and(|slot| slot.head.of(&self.keys) == head)
        })?;
        self.slots.get(slot as usize).map(|slot| self.list(slot))
    }

    /// All lists in the order of their heads.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = ChangedList<'_>> + Clone {
        self.slots.iter().map(|slot| self.list(slot))
    }

    /// The lists whose heads are at least `from` and below `to`, in order.
    pub(crate) fn range<'l>(
        &'l self,
        from: &[u8],
        to: &[u8],
    ) -> impl ExactSizeIterator<Item = ChangedList<'l>> + DoubleEndedIterator + Clone + use<'l>
    {
        let start = self.slots.partition_point(|slot| slot.head.of(&self.keys) < from);
        let rest = self.slots.get(start..).unwrap_or_default();
        let end = rest.partition_point(|slot| slot.head.of(&self.keys) < to);
        rest.get(..end).unwrap_or_default().iter().map(|slot| self.list(slot))
    }

    #[inline]
    fn list(&self, slot: &ListSlot) -> ChangedList<'_> {
        ChangedList {
            head: slot.head.of(&self.keys),
            hash: slot.hash,
            changes: slot.changes.of(&self.changes),
            added: slot.added,
        }
    }

    fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.changes.capacity() * size_of::<PostingChange>()
            + self.slots.capacity() * size_of::<ListSlot>()
            + self.cells.bytes()
    }
}

/// How much a layer will hold, so that its memory is taken once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LayerSize {
    pub(crate) plain: [RowsSize; PLAIN_TABLES.len()],
    pub(crate) lists: usize,
    pub(crate) head_bytes: usize,
    pub(crate) changes: usize,
}

/// How much a layer holds of one plain table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowsSize {
    pub(crate) rows: usize,
    /// Keys and values.
    pub(crate) bytes: usize,
}

impl LayerSize {
    /// What a layer holds; sums are an upper bound for several of them merged.
    pub(crate) fn of(layer: &Layer) -> Self {
        let plain = layer.plain.each_ref();
        Self {
            plain: plain.map(|rows| RowsSize { rows: rows.slots.len(), bytes: rows.arena.len() }),
            lists: layer.lists.slots.len(),
            head_bytes: layer.lists.keys.len(),
            changes: layer.lists.changes.len(),
        }
    }

    /// Both together.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        for (one, other) in self.plain.iter_mut().zip(other.plain) {
            one.rows += other.rows;
            one.bytes += other.bytes;
        }
        self.lists += other.lists;
        self.head_bytes += other.head_bytes;
        self.changes += other.changes;
        self
    }
}

/// Makes a layer of what comes in order: in each table, and in the lists, keys ascend.
#[derive(Debug, Default)]
pub(crate) struct LayerBuilder {
    plain: [Rows; PLAIN_TABLES.len()],
    lists: Lists,
}

impl LayerBuilder {
    pub(crate) fn new(size: &LayerSize) -> Self {
        let plain = size.plain.map(|size| Rows {
            arena: Vec::with_capacity(size.bytes),
            slots: Vec::with_capacity(size.rows),
            cells: Cells::default(),
        });
        let lists = Lists {
            keys: Vec::with_capacity(size.head_bytes),
            changes: Vec::with_capacity(size.changes),
            slots: Vec::with_capacity(size.lists),
            cells: Cells::default(),
        };
        Self { plain, lists }
    }

    /// Appends a row; its key is after all before it in this table.
    pub(crate) fn row(&mut self, table: PlainTable, row: Row<'_>) {
        let rows = table.of_mut(&mut self.plain);
        debug_assert!(
            rows.slots.last().is_none_or(|last| last.key.of(&rows.arena) < row.key),
            "rows are appended in order"
        );
        let key = append(&mut rows.arena, row.key);
        let value = row.value.map_or(Span::NONE, |value| append(&mut rows.arena, value));
        rows.slots.push(RowSlot { key, value, hash: row.hash });
    }

    /// Appends a list; its head is after all before it. `changes` are in the order of the ids, each
    /// once.
    pub(crate) fn list(&mut self, hash: u32, head: &[u8], changes: &[PostingChange]) {
        let lists = &mut self.lists;
        debug_assert!(
            lists.slots.last().is_none_or(|last| last.head.of(&lists.keys) < head),
            "lists are appended in order"
        );
        debug_assert!(
            changes.is_sorted_by(|one, next| one.id() < next.id()),
            "changes of a list ascend"
        );
        let head = append(&mut lists.keys, head);
        let added = changes.iter().filter(|change| change.is_added()).count() as u32;
        let changes = append(&mut lists.changes, changes);
        lists.slots.push(ListSlot { head, changes, hash, added });
    }

    /// The layer of the changes from `first` on; `counters` are those after its last change.
    pub(crate) fn finish(mut self, first: Lsn, counters: Counters) -> Layer {
        for rows in &mut self.plain {
            trim(&mut rows.arena);
            trim(&mut rows.slots);
            rows.cells = cells_of(rows.slots.iter().map(|slot| slot.hash));
        }
        trim(&mut self.lists.keys);
        trim(&mut self.lists.changes);
        trim(&mut self.lists.slots);
        self.lists.cells = cells_of(self.lists.slots.iter().map(|slot| slot.hash));
        let (position, requests) = (OnceLock::new(), Vec::new());
        Layer { plain: self.plain, lists: self.lists, first, counters, position, requests }
    }
}

#[inline]
fn append<T: Copy>(arena: &mut Vec<T>, more: &[T]) -> Span {
    let start = arena.len();
    arena.extend_from_slice(more);
    Span::new(start, more.len())
}

/// Gives room back that was taken for more than there is.
fn trim<T>(of: &mut Vec<T>) {
    if of.len() < of.capacity() / 4 * 3 {
        of.shrink_to_fit();
    }
}

fn cells_of(hashes: impl ExactSizeIterator<Item = u32>) -> Cells {
    let mut cells = Cells::with_room(hashes.len());
    for (slot, hash) in (0..).zip(hashes) {
        cells.insert(hash, slot);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::cells::row_hash;

    fn row<'r>(key: &'r [u8], value: Option<&'r [u8]>) -> Row<'r> {
        Row { key, hash: row_hash(key), value }
    }

    fn change(id: u64, is_added: bool) -> PostingChange {
        PostingChange::new(id, is_added)
    }

    #[test]
    fn a_layer_finds_what_was_put_into_it() {
        let counters = Counters { lsn: 9, ..Counters::FIRST };
        let mut builder = LayerBuilder::default();
        builder.row(PlainTable::Entries, row(b"a", Some(b"one")));
        builder.row(PlainTable::Entries, row(b"b", None));
        builder.row(PlainTable::Names, row(b"a", Some(b"")));
        builder.list(row_hash(b"l"), b"l", &[change(3, true), change(7, false)]);
        builder.list(row_hash(b"m"), b"m", &[change(1, true)]);
        let layer = builder.finish(Lsn(4), counters);
        let get = |table, key: &[u8]| layer.get(table, row_hash(key), key);
        assert_eq!(get(PlainTable::Entries, b"a"), Some(Some(&b"one"[..])));
        assert_eq!(get(PlainTable::Entries, b"b"), Some(None));
        assert_eq!(get(PlainTable::Entries, b"c"), None);
        assert_eq!(get(PlainTable::Names, b"a"), Some(Some(&b""[..])));
        assert_eq!(get(PlainTable::Meta, b"a"), None);
        let list = layer.lists().get(row_hash(b"l"), b"l").unwrap();
        assert_eq!((list.changes.len(), list.added), (2, 1));
        assert!(layer.lists().get(row_hash(b"k"), b"k").is_none());
        assert_eq!((layer.first(), layer.last(), layer.len()), (Lsn(4), Lsn(9), 5));
        let heads = |from: &[u8], to: &[u8]| -> Vec<Vec<u8>> {
            layer.lists().range(from, to).map(|list| list.head.to_vec()).collect()
        };
        assert_eq!(heads(b"", b"z"), [b"l", b"m"]);
        assert_eq!(heads(b"l", b"m"), [b"l"]);
        assert_eq!(heads(b"m", b"l"), Vec::<Vec<u8>>::new());
        let keys = |from: &[u8]| -> Vec<Vec<u8>> {
            layer.rows(PlainTable::Entries).iter_from(from).map(|row| row.key.to_vec()).collect()
        };
        assert_eq!(keys(b"aa"), [b"b"]);
        assert_eq!(layer.rows(PlainTable::Entries).len(), 2);
    }

    #[test]
    fn a_layer_of_many_rows_finds_each() {
        let mut builder = LayerBuilder::new(&LayerSize::default());
        let keys: Vec<[u8; 4]> = (0..5000_u32).map(u32::to_be_bytes).collect();
        for key in &keys {
            builder.row(PlainTable::Children, row(key, Some(key)));
        }
        let layer = builder.finish(Lsn(1), Counters::FIRST);
        for key in &keys {
            let found = layer.get(PlainTable::Children, row_hash(key), key);
            assert_eq!(found, Some(Some(&key[..])));
        }
        let absent = 5000_u32.to_be_bytes();
        assert_eq!(layer.get(PlainTable::Children, row_hash(&absent), &absent), None);
        let size = LayerSize::of(&layer).plus(LayerSize::of(&layer));
        assert_eq!((size.plain[4].rows, size.plain[4].bytes), (10_000, 80_000));
        assert!(layer.bytes() > 5000 * 8);
    }
}
