//! Index keys of many entries, gathered in memory and written in the order of the keys.
//!
//! Invariant: ids are pushed in ascending order, so each list is ascending as it grows.

use rustc_hash::FxHashMap;
use schema::Schema;

use super::write::Appender;
use crate::deltas::{ListWriter, PostingChange};
use crate::error::StoreError;
use crate::index::{GRAM_BYTES, Index, IndexKind};
use crate::key::RowKey;
use crate::lmdb::Environment;
use crate::posting::{Bits, Head, INLINE_IDS_MAX, chunk_of, id_at, place_of};
use crate::varint;

/// Keys of one index that are kept with their lists; further keys are sorted at the end, which is
/// better where each entry has its own.
const COMMON_KEYS_MAX: usize = 4096;

/// The keys of all indexes.
#[derive(Debug)]
pub(super) struct Postings {
    /// By the number of the index.
    lists: Vec<Lists>,
    scratch: Vec<u8>,
    memory_bytes: usize,
    /// Something was written out already: lists must be merged with what is there.
    is_flushed: bool,
}

#[derive(Debug)]
enum Lists {
    Grams(FxHashMap<u32, IdList>),
    Keys { common: FxHashMap<Box<[u8]>, IdList>, rare: RareKeys },
}

impl Postings {
    pub(super) fn new(indexes: &[Index]) -> Self {
        let lists = indexes
            .iter()
            .map(|index| match index.kind {
                IndexKind::Substring => Lists::Grams(FxHashMap::default()),
                IndexKind::Presence | IndexKind::Equality => {
                    Lists::Keys { common: FxHashMap::default(), rare: RareKeys::default() }
                }
            })
            .collect();
        Self { lists, scratch: Vec::new(), memory_bytes: 0, is_flushed: false }
    }

    /// How much memory the keys take, about.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    pub(super) fn push(&mut self, index: &Index, schema: &Schema, value: &[u8], id: u64) {
        let Some(lists) = self.lists.get_mut(usize::from(index.id)) else { return };
        let memory = &mut self.memory_bytes;
        match lists {
            Lists::Grams(grams) => index.keys(schema, value, &mut self.scratch, |gram| {
                *memory += grams.entry(gram_number(gram)).or_default().push(id);
            }),
            Lists::Keys { common, rare } => {
                index.keys(schema, value, &mut self.scratch, |key| {
                    if let Some(list) = common.get_mut(key) {
                        *memory += list.push(id);
                    } else if common.len() < COMMON_KEYS_MAX {
                        *memory += key.len() + common.entry(key.into()).or_default().push(id);
                    } else {
                        *memory += rare.push(key, id);
                    }
                });
            }
        }
    }

    /// Writes everything out, and starts anew.
    pub(super) fn flush(
        &mut self,
        environment: &Environment,
        indexes: &[Index],
    ) -> Result<(), StoreError> {
        let merge = self.is_flushed;
        let lists = std::mem::replace(self, Self::new(indexes)).lists;
        let mut sink = Sink {
            appender: Appender::begin(environment)?,
            merge,
            writer: ListWriter { postings: environment.tables.postings, row: Vec::new() },
        };
        for (index, lists) in indexes.iter().zip(lists) {
            match lists {
                Lists::Grams(grams) => {
                    let mut grams: Vec<(u32, IdList)> = grams.into_iter().collect();
                    grams.sort_unstable_by_key(|(gram, _)| *gram);
                    for (gram, list) in grams {
                        let [_, key @ ..] = gram.to_be_bytes();
                        sink.list(index.id, &key, &list)?;
                    }
                }
                Lists::Keys { common, rare } => write_keys(&mut sink, index.id, common, rare)?,
            }
        }
        sink.appender.finish()?;
        self.is_flushed = true;
        Ok(())
    }
}

/// Three octets as a number in the same order.
fn gram_number(gram: &[u8]) -> u32 {
    debug_assert_eq!(gram.len(), GRAM_BYTES, "substring keys have one length");
    gram.iter().fold(0, |number, &byte| (number << 8) | u32::from(byte))
}

fn write_keys(
    sink: &mut Sink<'_>,
    index: u16,
    common: FxHashMap<Box<[u8]>, IdList>,
    mut rare: RareKeys,
) -> Result<(), StoreError> {
    let mut common: Vec<(Box<[u8]>, IdList)> = common.into_iter().collect();
    common.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let mut common = common.into_iter().peekable();
    rare.sort();
    for keys in rare.refs.chunk_by(|one, other| rare.key(one) == rare.key(other)) {
        let Some(first) = keys.first() else { continue };
        let key = rare.key(first);
        while let Some((common_key, list)) = common.next_if(|(common_key, _)| **common_key < *key) {
            sink.list(index, &common_key, &list)?;
        }
        let mut list = IdList::default();
        keys.iter().for_each(|key| {
            list.push(key.id);
        });
        sink.list(index, key, &list)?;
    }
    for (key, list) in common {
        sink.list(index, &key, &list)?;
    }
    Ok(())
}

/// Ids in ascending order, as the steps between them.
#[derive(Debug, Default)]
struct IdList {
    last: u64,
    count: u64,
    steps: Vec<u8>,
}

impl IdList {
    /// Adds an id that is not less than the last; returns how much memory the list took more.
    #[inline]
    fn push(&mut self, id: u64) -> usize {
        debug_assert!(id >= self.last, "ids come in order");
        if id == self.last {
            return 0;
        }
        let before = self.steps.capacity();
        varint::write(id - self.last, &mut self.steps);
        self.last = id;
        self.count += 1;
        let is_new = if self.count == 1 { LIST_OVERHEAD_BYTES } else { 0 };
        self.steps.capacity() - before + is_new
    }

    fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let mut rest = self.steps.as_slice();
        let mut last = 0;
        std::iter::from_fn(move || {
            last += varint::read(&mut rest)?;
            Some(last)
        })
    }
}

/// What a list takes in a map besides its ids.
const LIST_OVERHEAD_BYTES: usize = 64;

/// Keys that are each in few entries, one after the other.
#[derive(Debug, Default)]
struct RareKeys {
    bytes: Vec<u8>,
    refs: Vec<KeyRef>,
}

#[derive(Clone, Copy, Debug)]
struct KeyRef {
    /// The first octets of the key: most comparisons need no more.
    prefix: u64,
    start: usize,
    length: u32,
    id: u64,
}

impl RareKeys {
    fn push(&mut self, key: &[u8], id: u64) -> usize {
        let mut prefix = [0; 8];
        prefix.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        let prefix = u64::from_be_bytes(prefix);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.refs.push(KeyRef { prefix, start, length: key.len() as u32, id });
        size_of::<KeyRef>() + key.len()
    }

    fn key(&self, key: &KeyRef) -> &[u8] {
        self.bytes.get(key.start..key.start + key.length as usize).unwrap_or_default()
    }

    fn sort(&mut self) {
        let mut refs = std::mem::take(&mut self.refs);
        refs.sort_unstable_by(|one, other| {
            let by_key = || self.key(one).cmp(self.key(other));
            one.prefix.cmp(&other.prefix).then_with(by_key).then(one.id.cmp(&other.id))
        });
        self.refs = refs;
    }
}

/// Where lists go: appended, or merged into those that are there.
struct Sink<'e> {
    appender: Appender<'e>,
    merge: bool,
    writer: ListWriter,
}

impl Sink<'_> {
    fn list(&mut self, index: u16, key: &[u8], list: &IdList) -> Result<(), StoreError> {
        let head = RowKey::postings(index, key);
        let head = head.as_bytes();
        let table = self.writer.postings;
        if self.merge {
            let changes: Vec<PostingChange> =
                list.ids().map(|id| PostingChange { id, is_added: true }).collect();
            let bytes = head.len() + list.steps.len();
            return self.appender.write(bytes, |txn| self.writer.change(txn, head, &changes));
        }
        let row = &mut self.writer.row;
        row.clear();
        if list.count <= INLINE_IDS_MAX as u64 {
            let ids: Vec<u64> = list.ids().collect();
            Head::write_inline(&ids, row);
            return self.appender.append(table, head, row);
        }
        Head::write_chunked(list.count, row);
        self.appender.append(table, head, row)?;
        let mut ids = list.ids().peekable();
        while let Some(&first) = ids.peek() {
            let number = chunk_of(first);
            let mut bits = Bits::new();
            while let Some(id) = ids.next_if(|&id| id <= id_at(number, u16::MAX >> 3)) {
                bits.set(place_of(id), true);
            }
            row.clear();
            bits.write(row);
            self.appender.append(table, RowKey::chunk(head, number).as_bytes(), row)?;
        }
        Ok(())
    }
}
