//! Posting lists in memory: what a check compares those in the table with.
//!
//! Invariants: ids come in ascending order, so each list is sorted as it grows; an id that comes
//! again for the same key counts once. A list costs one or two octets an id once it has some.

use rustc_hash::FxHashMap;

use crate::index::{BRANCH_LISTS, Form, GRAM_BYTES, IndexKind, LEVEL_LISTS};
use crate::rows::dictionary::Dictionary;
use crate::rows::record::Record;
use crate::rows::varint;

/// The ids of one key.
#[derive(Debug)]
pub(crate) enum IdList {
    /// Most values are had by one entry.
    One(u64),
    /// All others.
    More(Box<MoreIds>),
}

/// Two ids or more, each as the distance from the one before it.
#[derive(Debug)]
pub(crate) struct MoreIds {
    last: u64,
    steps: Vec<u8>,
}

impl IdList {
    fn push(&mut self, id: u64) {
        match self {
            Self::One(one) if *one == id => {}
            Self::One(one) => {
                let mut more = MoreIds { last: 0, steps: Vec::new() };
                more.push(*one);
                more.push(id);
                *self = Self::More(Box::new(more));
            }
            Self::More(more) => {
                if more.last != id {
                    more.push(id);
                }
            }
        }
    }

    /// The ids in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let (one, mut steps) = match self {
            Self::One(id) => (Some(*id), &[][..]),
            Self::More(more) => (None, more.steps.as_slice()),
        };
        let mut last = 0;
        let more = std::iter::from_fn(move || {
            last += varint::read(&mut steps)?;
            Some(last)
        });
        one.into_iter().chain(more)
    }
}

impl MoreIds {
    fn push(&mut self, id: u64) {
        assert!(id > self.last, "ids of a bulk load ascend");
        varint::write(id - self.last, &mut self.steps);
        self.last = id;
    }
}

/// The lists of one index by their keys.
#[derive(Debug)]
enum IndexLists {
    /// Of an index of grams.
    Grams(FxHashMap<[u8; GRAM_BYTES], IdList>),
    Values(FxHashMap<Box<[u8]>, IdList>),
}

/// The lists of all indexes, and those of the tree.
#[derive(Debug)]
pub(crate) struct Lists {
    /// By the id of the index; none where it is nobody's, or is being dropped.
    by_index: Vec<Option<IndexLists>>,
    /// By the superior: the entries one level below it.
    levels: FxHashMap<u64, IdList>,
    /// Those among them that have subordinates; made when all levels are there.
    branches: FxHashMap<u64, IdList>,
}

impl Lists {
    pub(crate) fn new(dictionary: &Dictionary) -> Self {
        let mut by_index = Vec::new();
        for index in dictionary.indexes().iter().filter(|index| index.state.is_written()) {
            by_index.resize_with(usize::from(index.id), || None);
            by_index.push(Some(match index.form {
                Form::Grams if !index.is_of_entries() => IndexLists::Grams(FxHashMap::default()),
                _ => IndexLists::Values(FxHashMap::default()),
            }));
        }
        Self { by_index, levels: FxHashMap::default(), branches: FxHashMap::default() }
    }

    /// Adds an entry that comes after all others.
    pub(crate) fn push(&mut self, keys: &PostingKeys, parent: u64, id: u64) {
        keys.for_each(|index, key| self.put(index, key, id));
        push_to(&mut self.levels, parent, id);
    }

    /// Makes the lists of branches, when all entries were added.
    pub(crate) fn make_branches(&mut self) {
        for (&parent, level) in &self.levels {
            for id in level.iter().filter(|id| self.levels.contains_key(id)) {
                push_to(&mut self.branches, parent, id);
            }
        }
    }

    #[inline]
    fn put(&mut self, index: u16, key: &[u8], id: u64) {
        let lists = self.by_index.get_mut(usize::from(index)).and_then(Option::as_mut);
        match lists.expect("keys are made for the indexes of this dictionary") {
            IndexLists::Grams(lists) => {
                let gram = key.try_into().expect("a substring index cuts values into grams");
                lists.entry(gram).and_modify(|list| list.push(id)).or_insert(IdList::One(id));
            }
            IndexLists::Values(lists) => match lists.get_mut(key) {
                Some(list) => list.push(id),
                None => {
                    lists.insert(key.into(), IdList::One(id));
                }
            },
        }
    }

    /// Whether there are lists of this index, or of the tree.
    pub(crate) fn has(&self, index: u16) -> bool {
        matches!(index, LEVEL_LISTS | BRANCH_LISTS)
            || self.by_index.get(usize::from(index)).is_some_and(Option::is_some)
    }

    /// Takes the list of a key out.
    pub(crate) fn take(&mut self, index: u16, key: &[u8]) -> Option<IdList> {
        match index {
            LEVEL_LISTS => self.levels.remove(&crate::rows::key::id(key)?),
            BRANCH_LISTS => self.branches.remove(&crate::rows::key::id(key)?),
            index => match self.by_index.get_mut(usize::from(index))?.as_mut()? {
                IndexLists::Grams(lists) => lists.remove(key),
                IndexLists::Values(lists) => lists.remove(key),
            },
        }
    }

    /// Takes each list out, in the order of index and key.
    pub(crate) fn drain<E>(
        self,
        mut visit: impl FnMut(u16, &[u8], &IdList) -> Result<(), E>,
    ) -> Result<(), E> {
        for (index, lists) in (0..).zip(self.by_index) {
            match lists {
                None => {}
                Some(IndexLists::Grams(lists)) => {
                    for (gram, list) in sorted(lists) {
                        visit(index, &gram, &list)?;
                    }
                }
                Some(IndexLists::Values(lists)) => {
                    for (key, list) in sorted(lists) {
                        visit(index, &key, &list)?;
                    }
                }
            }
        }
        for (index, lists) in [(LEVEL_LISTS, self.levels), (BRANCH_LISTS, self.branches)] {
            for (parent, list) in sorted(lists) {
                visit(index, &parent.to_be_bytes(), &list)?;
            }
        }
        Ok(())
    }
}

fn push_to(lists: &mut FxHashMap<u64, IdList>, parent: u64, id: u64) {
    lists.entry(parent).and_modify(|list| list.push(id)).or_insert(IdList::One(id));
}

fn sorted<K: Ord>(lists: FxHashMap<K, IdList>) -> Vec<(K, IdList)> {
    let mut lists: Vec<(K, IdList)> = lists.into_iter().collect();
    lists.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    lists
}

/// The keys of one entry in all indexes.
#[derive(Debug, Default)]
pub(crate) struct PostingKeys {
    /// Index, length of the key, key; and again.
    octets: Vec<u8>,
}

impl PostingKeys {
    /// Adds the keys of the values of one attribute.
    pub(crate) fn extend<'v>(
        &mut self,
        dictionary: &Dictionary,
        attribute: u32,
        values: impl Iterator<Item = &'v [u8]> + Clone,
        scratch: &mut Vec<u8>,
    ) {
        for index in dictionary.indexes_of(attribute) {
            let count = if index.kind == IndexKind::Presence { 1 } else { usize::MAX };
            for value in values.clone().take(count) {
                index.keys(dictionary.schema(), value, scratch, |key| self.push(index.id, key));
            }
        }
    }

    /// Adds the keys of a value that is a row of its own, but that of presence, which the record
    /// tells.
    pub(crate) fn extend_apart(
        &mut self,
        dictionary: &Dictionary,
        attribute: u32,
        value: &[u8],
        scratch: &mut Vec<u8>,
    ) {
        let of_values =
            dictionary.indexes_of(attribute).filter(|index| index.kind != IndexKind::Presence);
        for index in of_values {
            index.keys(dictionary.schema(), value, scratch, |key| self.push(index.id, key));
        }
    }

    /// Adds the keys of a record in the indexes that are made of whole entries, and of what it says
    /// beside its values.
    pub(crate) fn extend_with_record(
        &mut self,
        dictionary: &Dictionary,
        record: &Record<'_>,
        scratch: &mut Vec<u8>,
    ) {
        for index in dictionary.indexes_of_entries() {
            index.entry_keys(dictionary, record, scratch, |key| self.push(index.id, key));
        }
        // Of values in reference lists only this is in an index. Those that are rows of their own
        // come by themselves.
        let apart = record.apart.iter().map(|of| of.attribute);
        let outside = record.listed.iter().chain(apart);
        for index in outside.flat_map(|attribute| dictionary.indexes_of(attribute)) {
            if index.kind == IndexKind::Presence {
                self.push(index.id, &[]);
            }
        }
    }

    fn push(&mut self, index: u16, key: &[u8]) {
        let length = u16::try_from(key.len()).expect("keys are shortened");
        self.octets.extend_from_slice(&index.to_le_bytes());
        self.octets.extend_from_slice(&length.to_le_bytes());
        self.octets.extend_from_slice(key);
    }

    #[inline]
    fn for_each(&self, mut visit: impl FnMut(u16, &[u8])) {
        let mut rest = self.octets.as_slice();
        while let Some((&[a, b, c, d], after)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_le_bytes([c, d]));
            let Some((key, after)) = after.split_at_checked(length) else { return };
            visit(u16::from_le_bytes([a, b]), key);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_hold_what_was_pushed(
            ids in prop::collection::btree_set(2_u64..1 << 40, 1..200),
        ) {
            let mut list = IdList::One(*ids.first().unwrap());
            for &id in &ids {
                list.push(id);
                list.push(id);
            }
            let want: Vec<u64> = ids.into_iter().collect();
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), want);
        }
    }
}
