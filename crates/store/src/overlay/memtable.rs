//! The open layer: what the batch that is being made has changed so far.
//!
//! Everything is appended: a row that changes again gets another version, a posting list another
//! change. So going back to a mark is taking off what came after it, and a refused request costs
//! what it wrote.
//!
//! Invariants: a slot has one version or change at least, and slots are in the order of their first
//! ones; of a list, the last change of an id counts.

use crate::base::lmdb::{PLAIN_TABLES, PlainTable};
use crate::base::meta::Counters;
use crate::base::position::Lsn;
use crate::overlay::cells::{Cells, Span, row_hash};
use crate::overlay::deltas::{PostingChange, last_of_each};
use crate::overlay::layer::{Layer, LayerBuilder, LayerSize, Row, RowsSize};
use crate::rows::key;

/// Changes that are being made.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    plain: [OpenRows; PLAIN_TABLES.len()],
    lists: OpenLists,
    order: Vec<Place>,
    changes: Vec<PostingChange>,
}

/// How far the memory was filled at some time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct MemoryMark {
    plain: [Filled; PLAIN_TABLES.len()],
    lists: Filled,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Filled {
    arena: usize,
    /// Versions or changes.
    steps: usize,
}

impl Memory {
    /// Changes a row; none removes it.
    pub(crate) fn put(&mut self, table: PlainTable, key: &[u8], value: Option<&[u8]>) {
        self.rows_mut(table).put(key, value);
    }

    /// Changes a posting list.
    #[inline]
    pub(crate) fn push(&mut self, index: u16, value: &[u8], change: PostingChange) {
        self.lists.push(index, value, change);
    }

    /// What was changed of a row. None: nothing. None within: the row is gone.
    #[inline]
    pub(crate) fn get(&self, table: PlainTable, hash: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows(table).get(hash, key)
    }

    /// What was changed of a list: in the order of the ids, each once.
    pub(crate) fn list(&self, hash: u32, head: &[u8]) -> Vec<PostingChange> {
        let lists = &self.lists;
        lists.find(hash, head).map(|slot| lists.changes_of(slot)).unwrap_or_default()
    }

    /// The rows that were changed whose keys start with `prefix` and are `from` or after it, in the
    /// order of their keys.
    pub(crate) fn rows_in(&self, table: PlainTable, from: &[u8], prefix: &[u8]) -> Vec<Row<'_>> {
        let rows = self.rows(table);
        let changed = rows.slots.iter().map(|slot| rows.row(slot));
        let mut found: Vec<Row<'_>> =
            changed.filter(|row| row.key >= from && row.key.starts_with(prefix)).collect();
        found.sort_unstable_by_key(|row| row.key);
        found
    }

    /// The lists that were changed whose heads are at least `from` and below `to`, in the order of
    /// their heads.
    pub(crate) fn lists_in(&self, from: &[u8], to: &[u8]) -> Vec<(&[u8], Vec<PostingChange>)> {
        let lists = &self.lists;
        let heads = lists.slots.iter().map(|slot| (slot.key.of(&lists.keys), slot));
        let mut found: Vec<(&[u8], Vec<PostingChange>)> = heads
            .filter(|(head, _)| from <= *head && *head < to)
            .map(|(head, slot)| (head, lists.changes_of(slot)))
            .collect();
        found.sort_unstable_by_key(|(head, _)| *head);
        found
    }

    /// How far it is filled.
    pub(crate) fn mark(&self) -> MemoryMark {
        let filled =
            |rows: &OpenRows| Filled { arena: rows.arena.len(), steps: rows.versions.len() };
        let lists = Filled { arena: self.lists.keys.len(), steps: self.lists.changes.len() };
        MemoryMark { plain: self.plain.each_ref().map(filled), lists }
    }

    /// What the rows take, with all their versions.
    pub(crate) fn row_bytes(&self) -> usize {
        self.plain.iter().map(|rows| rows.arena.len()).sum()
    }

    /// Takes back what came after the mark.
    pub(crate) fn undo(&mut self, mark: &MemoryMark) {
        for (rows, filled) in self.plain.iter_mut().zip(&mark.plain) {
            rows.undo(*filled);
        }
        self.lists.undo(mark.lists);
    }

    /// Forgets everything and keeps the room for the next batch.
    pub(crate) fn clear(&mut self) {
        if self.lists.changes.len() > STEPS_KEPT_MAX {
            *self = Self::default();
            return;
        }
        for rows in &mut self.plain {
            rows.arena.clear();
            if rows.arena.capacity() > ARENA_KEPT_MAX_BYTES {
                rows.arena = Vec::new();
            }
            rows.slots.clear();
            rows.versions.clear();
            rows.cells.clear();
        }
        self.lists.keys.clear();
        self.lists.slots.clear();
        self.lists.changes.clear();
        self.lists.cells.clear();
    }

    /// A layer of what was changed.
    pub(crate) fn seal(&mut self, first: Lsn, counters: Counters) -> Layer {
        let mut builder = LayerBuilder::new(&self.size());
        let mut order = std::mem::take(&mut self.order);
        for table in PLAIN_TABLES {
            let rows = self.rows(table);
            sort(&mut order, &rows.slots, &rows.arena);
            for slot in order.iter().filter_map(|place| rows.slots.get(place.slot as usize)) {
                builder.row(table, rows.row(slot));
            }
        }
        let lists = &self.lists;
        sort(&mut order, &lists.slots, &lists.keys);
        let mut changes = std::mem::take(&mut self.changes);
        for slot in order.iter().filter_map(|place| lists.slots.get(place.slot as usize)) {
            lists.gather(slot, &mut changes);
            builder.list(slot.hash, slot.key.of(&lists.keys), &changes);
        }
        self.order = order;
        self.changes = changes;
        builder.finish(first, counters)
    }

    fn size(&self) -> LayerSize {
        let size = |rows: &OpenRows| RowsSize { rows: rows.slots.len(), bytes: rows.arena.len() };
        LayerSize {
            plain: self.plain.each_ref().map(size),
            lists: self.lists.slots.len(),
            head_bytes: self.lists.keys.len(),
            changes: self.lists.changes.len(),
        }
    }

    #[inline]
    fn rows(&self, table: PlainTable) -> &OpenRows {
        table.of(&self.plain)
    }

    fn rows_mut(&mut self, table: PlainTable) -> &mut OpenRows {
        table.of_mut(&mut self.plain)
    }
}

/// More changes than this were a load, and their room is not kept.
const STEPS_KEPT_MAX: usize = 1 << 16;
/// A larger arena is not kept.
const ARENA_KEPT_MAX_BYTES: usize = 4 << 20;
/// Ends a chain of versions or changes.
const FIRST: u32 = u32::MAX;

/// A key and the newest of its versions or changes.
#[derive(Clone, Copy, Debug)]
struct OpenSlot {
    key: Span,
    hash: u32,
    newest: u32,
}

/// Changed rows of a plain table.
#[derive(Debug, Default)]
struct OpenRows {
    /// Keys and values.
    arena: Vec<u8>,
    slots: Vec<OpenSlot>,
    versions: Vec<RowVersion>,
    cells: Cells,
}

#[derive(Clone, Copy, Debug)]
struct RowVersion {
    /// None when the row is gone.
    value: Span,
    slot: u32,
    older: u32,
}

impl OpenRows {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        let hash = row_hash(key);
        let slot = match self.find(hash, key) {
            Some(slot) => slot,
            None => {
                let slot = self.slots.len() as u32;
                let key = append(&mut self.arena, key);
                self.slots.push(OpenSlot { key, hash, newest: FIRST });
                self.cells.insert(hash, slot);
                slot
            }
        };
        let value = value.map_or(Span::NONE, |value| append(&mut self.arena, value));
        let version = step_number(self.versions.len());
        if let Some(known) = self.slots.get_mut(slot as usize) {
            let older = std::mem::replace(&mut known.newest, version);
            self.versions.push(RowVersion { value, slot, older });
        }
    }

    #[inline]
    fn find(&self, hash: u32, key: &[u8]) -> Option<u32> {
        self.cells.find(hash, |slot| {
            self.slots.get(slot as usize).is_some_and(|slot| slot.key.of(&self.arena) == key)
        })
    }

    #[inline]
    fn get(&self, hash: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        let slot = self.find(hash, key)?;
        self.slots.get(slot as usize).map(|slot| self.row(slot).value)
    }

    fn row(&self, slot: &OpenSlot) -> Row<'_> {
        let value = self.versions.get(slot.newest as usize).map(|version| version.value);
        let value = value.filter(|value| !value.is_none()).map(|value| value.of(&self.arena));
        Row { key: slot.key.of(&self.arena), hash: slot.hash, value }
    }

    fn undo(&mut self, filled: Filled) {
        while self.versions.len() > filled.steps
            && let Some(version) = self.versions.pop()
        {
            take_off(&mut self.slots, &mut self.cells, version.slot, version.older);
        }
        self.arena.truncate(filled.arena);
    }
}

/// Changed posting lists.
#[derive(Debug, Default)]
struct OpenLists {
    keys: Vec<u8>,
    slots: Vec<OpenSlot>,
    changes: Vec<OpenChange>,
    cells: Cells,
}

#[derive(Clone, Copy, Debug)]
struct OpenChange {
    change: PostingChange,
    slot: u32,
    older: u32,
}

impl OpenLists {
    fn push(&mut self, index: u16, value: &[u8], change: PostingChange) {
        // The key is made where it will stay if it is new.
        let start = self.keys.len();
        key::append_postings(index, value, &mut self.keys);
        let head = self.keys.get(start..).unwrap_or_default();
        let hash = row_hash(head);
        let length = head.len();
        let step = step_number(self.changes.len());
        let slot = match self.position(hash, head) {
            Some(slot) => {
                self.keys.truncate(start);
                slot
            }
            None => {
                let slot = self.slots.len() as u32;
                self.slots.push(OpenSlot { key: Span::new(start, length), hash, newest: FIRST });
                self.cells.insert(hash, slot);
                slot
            }
        };
        let Some(known) = self.slots.get_mut(slot as usize) else { return };
        let newest = self.changes.get(known.newest as usize);
        if newest.is_some_and(|newest| newest.change == change) {
            // The same piece of text again.
            return;
        }
        let older = std::mem::replace(&mut known.newest, step);
        self.changes.push(OpenChange { change, slot, older });
    }

    #[inline]
    fn position(&self, hash: u32, head: &[u8]) -> Option<u32> {
        self.cells.find(hash, |slot| {
            self.slots.get(slot as usize).is_some_and(|slot| slot.key.of(&self.keys) == head)
        })
    }

    fn find(&self, hash: u32, head: &[u8]) -> Option<&OpenSlot> {
        self.slots.get(self.position(hash, head)? as usize)
    }

    fn changes_of(&self, slot: &OpenSlot) -> Vec<PostingChange> {
        let mut changes = Vec::new();
        self.gather(slot, &mut changes);
        changes
    }

    /// The changes of a list in the order of the ids, each once, into an empty buffer.
    fn gather(&self, slot: &OpenSlot, changes: &mut Vec<PostingChange>) {
        changes.clear();
        let mut next = slot.newest;
        while let Some(step) = self.changes.get(next as usize) {
            changes.push(step.change);
            next = step.older;
        }
        changes.reverse();
        // Entries are mostly added in the order of their ids.
        if !changes.is_sorted_by(|one, next| one.id() < next.id()) {
            last_of_each(changes);
        }
    }

    fn undo(&mut self, filled: Filled) {
        while self.changes.len() > filled.steps
            && let Some(step) = self.changes.pop()
        {
            take_off(&mut self.slots, &mut self.cells, step.slot, step.older);
        }
        self.keys.truncate(filled.arena);
    }
}

/// Makes `older` the newest of a slot; with none older the slot goes, which is the last one.
fn take_off(slots: &mut Vec<OpenSlot>, cells: &mut Cells, slot: u32, older: u32) {
    if older == FIRST {
        if let Some(gone) = slots.pop() {
            cells.remove(gone.hash, slot);
        }
    } else if let Some(known) = slots.get_mut(slot as usize) {
        known.newest = older;
    }
}

fn append(arena: &mut Vec<u8>, more: &[u8]) -> Span {
    let start = arena.len();
    arena.extend_from_slice(more);
    Span::new(start, more.len())
}

fn step_number(steps: usize) -> u32 {
    assert!(steps < FIRST as usize, "a batch does not fit into memory");
    steps as u32
}

/// A slot and the first octets of its key, which tell most keys apart.
#[derive(Clone, Copy, Debug)]
struct Place {
    begins: u64,
    slot: u32,
}

/// The slots in the order of their keys.
fn sort(order: &mut Vec<Place>, slots: &[OpenSlot], arena: &[u8]) {
    let key = |slot: u32| slots.get(slot as usize).map_or(&[][..], |slot| slot.key.of(arena));
    order.clear();
    order.extend((0..).zip(slots).map(|(slot, known)| {
        let key = known.key.of(arena);
        let begins = match key.first_chunk::<8>() {
            Some(begins) => *begins,
            None => {
                let mut begins = [0; 8];
                begins.iter_mut().zip(key).for_each(|(begins, octet)| *begins = *octet);
                begins
            }
        };
        Place { begins: u64::from_be_bytes(begins), slot }
    }));
    order.sort_unstable_by(|one, other| {
        one.begins.cmp(&other.begins).then_with(|| key(one.slot).cmp(key(other.slot)))
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, Vec<u8>, Option<Vec<u8>>),
        Push(u8, Vec<u8>, u64, bool),
        Mark,
        Undo,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = || prop::collection::vec(prop::sample::select(vec![0_u8, 1, 7, 255]), 0..12);
        let few = || prop::sample::select(vec![vec![], vec![1_u8], vec![1, 0], vec![2; 9]]);
        prop_oneof![
            4 => (0_u8..5, few(), prop::option::of(key())).prop_map(|(t, k, v)| Step::Put(t, k, v)),
            6 => (0_u8..2, few(), 1_u64..6, any::<bool>())
                .prop_map(|(i, k, id, added)| Step::Push(i, k, id, added)),
            2 => (0_u8..5, key(), prop::option::of(key())).prop_map(|(t, k, v)| Step::Put(t, k, v)),
            1 => Just(Step::Mark),
            1 => Just(Step::Undo),
        ]
    }

    /// What the memory should hold.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Model {
        rows: BTreeMap<(u8, Vec<u8>), Option<Vec<u8>>>,
        lists: BTreeMap<Vec<u8>, BTreeMap<u64, bool>>,
    }

    fn table(number: u8) -> PlainTable {
        PLAIN_TABLES[usize::from(number)]
    }

    fn ids(changes: &[PostingChange]) -> BTreeMap<u64, bool> {
        changes.iter().map(|change| (change.id(), change.is_added())).collect()
    }

    fn check(memory: &mut Memory, model: &Model) {
        for ((number, key), value) in &model.rows {
            let found = memory.get(table(*number), row_hash(key), key);
            assert_eq!(found, Some(value.as_deref()));
        }
        for (head, changes) in &model.lists {
            assert_eq!(&ids(&memory.list(row_hash(head), head)), changes);
        }
        let layer = memory.seal(Lsn(1), Counters::FIRST);
        let mut sealed = Model::default();
        for (number, table) in (0..).zip(PLAIN_TABLES) {
            let rows = layer.rows(table).iter();
            assert!(
                rows.clone()
                    .map(|row| row.key)
                    .eq(memory.rows_in(table, &[], &[]).iter().map(|row| row.key))
            );
            for row in rows {
                assert_eq!(layer.get(table, row.hash, row.key), Some(row.value));
                sealed.rows.insert((number, row.key.to_vec()), row.value.map(<[u8]>::to_vec));
            }
        }
        for list in layer.lists().iter() {
            sealed.lists.insert(list.head.to_vec(), ids(list.changes));
            assert!(list.changes.is_sorted_by_key(|change| change.id()));
        }
        let all = memory.lists_in(&[], &[255; 9]);
        assert!(layer.lists().iter().map(|list| list.head).eq(all.iter().map(|(head, _)| *head)));
        assert_eq!(&sealed, model);
    }

    proptest! {
        #[test]
        fn the_open_layer_and_the_sealed_one_agree_with_a_model(
            steps in prop::collection::vec(step(), 0..80),
        ) {
            let mut memory = Memory::default();
            let mut model = Model::default();
            let mut marks = vec![(memory.mark(), model.clone())];
            for step in steps {
                match step {
                    Step::Put(number, key, value) => {
                        memory.put(table(number), &key, value.as_deref());
                        model.rows.insert((number, key), value);
                    }
                    Step::Push(index, value, id, is_added) => {
                        let index = u16::from(index);
                        memory.push(index, &value, PostingChange::new(id, is_added));
                        let head = key::RowKey::postings(index, &value).as_bytes().to_vec();
                        model.lists.entry(head).or_default().insert(id, is_added);
                    }
                    Step::Mark => marks.push((memory.mark(), model.clone())),
                    Step::Undo => {
                        if marks.len() > 1 && let Some((mark, before)) = marks.pop() {
                            memory.undo(&mark);
                            prop_assert_eq!(memory.mark(), mark);
                            model = before;
                        }
                    }
                }
            }
            check(&mut memory, &model);
            while let Some((mark, before)) = marks.pop() {
                memory.undo(&mark);
                check(&mut memory, &before);
            }
            memory.clear();
            check(&mut memory, &Model::default());
        }
    }
}
