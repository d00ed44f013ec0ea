//! Merging of layers: several that follow each other become one that says the same.
//!
//! Of a plain table the newest row of a key counts, also when it says that the row is gone: the
//! base may still have it. The changes of a posting list come together, of each id the newest.
//!
//! Invariant: what a merged layer says of any key is what the layers say one over the other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;

use crate::base::lmdb::{PLAIN_TABLES, PlainTable};
use crate::base::position::Lsn;
use crate::overlay::deltas::{PostingChange, last_of_each};
use crate::overlay::layer::{ChangedList, Layer, LayerBuilder, LayerSize, Row, RowsFrom};

/// Makes one layer of several, which come from the oldest to the newest; none of none. Calls
/// `pause` now and then.
pub(crate) fn merge(layers: &[Arc<Layer>], pause: &mut dyn FnMut()) -> Option<Layer> {
    let mut count = 0_u32;
    let mut step = || {
        count = count.wrapping_add(1);
        if count.is_multiple_of(PAUSE_STEPS) {
            pause();
        }
    };
    let (first, last) = (layers.first()?, layers.last()?);
    let sizes = layers.iter().map(|layer| LayerSize::of(layer));
    let size = sizes.fold(LayerSize::default(), LayerSize::plus);
    let mut builder = LayerBuilder::new(&size);
    for table in PLAIN_TABLES {
        let mut rows = merged_rows(layers, table);
        while let Some(row) = rows.next_group().last() {
            builder.row(table, *row);
            step();
        }
    }
    let mut lists = merged_lists(layers);
    let mut changes = Vec::new();
    while let [list, ..] = *lists.next_group() {
        step();
        builder.list(list.hash, list.head, together(lists.group(), &mut changes));
    }
    let from: Lsn = first.first();
    let requests = layers.iter().flat_map(|layer| layer.requests()).copied().collect();
    Some(builder.finish(from, last.counters()).with_requests(requests))
}

/// So many rows and lists are merged between two pauses: about a millisecond.
const PAUSE_STEPS: u32 = 4096;

/// The rows of one table in all layers, those of a key together.
pub(crate) fn merged_rows(layers: &[Arc<Layer>], table: PlainTable) -> Merging<RowsFrom<'_>> {
    Merging::new(layers.iter().map(|layer| layer.rows(table).iter()))
}

/// The posting lists in all layers, the changes of a list together.
pub(crate) fn merged_lists(
    layers: &[Arc<Layer>],
) -> Merging<impl Iterator<Item = ChangedList<'_>>> {
    Merging::new(layers.iter().map(|layer| layer.lists().iter()))
}

/// The posting lists with heads from the first key to before the second one, in all layers and in
/// the open one, whose lists are in order.
pub(crate) fn merged_lists_in<'l>(
    layers: &'l [Arc<Layer>],
    open: &'l [(&'l [u8], Vec<PostingChange>)],
    from: &[u8],
    to: &[u8],
) -> Merging<Box<dyn Iterator<Item = ChangedList<'l>> + 'l>> {
    let open = open.iter().map(|(head, changes)| {
        let added = changes.iter().filter(|change| change.is_added()).count() as u32;
        ChangedList { head, hash: 0, changes, added }
    });
    let open: Box<dyn Iterator<Item = ChangedList<'l>> + 'l> = Box::new(open);
    let sealed = layers.iter().map(|layer| -> Box<dyn Iterator<Item = ChangedList<'l>> + 'l> {
        Box::new(layer.lists().range(from, to))
    });
    Merging::new(sealed.chain([open]))
}

/// The changes of one list in several layers, of each id the newest, in the order of the ids.
pub(crate) fn together<'c>(
    lists: &[ChangedList<'c>],
    scratch: &'c mut Vec<PostingChange>,
) -> &'c [PostingChange] {
    if let [only] = lists {
        return only.changes;
    }
    scratch.clear();
    // Entries get higher and higher ids, so mostly the changes follow each other.
    let mut is_ascending = true;
    for list in lists {
        let (before, next) = (scratch.last(), list.changes.first());
        is_ascending &= before.zip(next).is_none_or(|(before, next)| before.id() < next.id());
        scratch.extend_from_slice(list.changes);
    }
    if !is_ascending {
        last_of_each(scratch);
    }
    scratch
}

/// Walks several ordered sources at once: items with the same key come together, in the order of
/// the sources.
pub(crate) struct Merging<I: Iterator> {
    sources: BinaryHeap<Source<I>>,
    group: Vec<I::Item>,
}

/// Something that has a key.
pub(crate) trait Keyed<'l>: Copy {
    fn key(&self) -> &'l [u8];
}

impl<'l> Keyed<'l> for Row<'l> {
    #[inline]
    fn key(&self) -> &'l [u8] {
        self.key
    }
}

impl<'l> Keyed<'l> for ChangedList<'l> {
    #[inline]
    fn key(&self) -> &'l [u8] {
        self.head
    }
}

struct Source<I: Iterator> {
    /// The beginning of the key, so that most comparisons are of two numbers.
    prefix: u64,
    next: I::Item,
    place: usize,
    rest: I,
}

impl<'l, I> Merging<I>
where
    I: Iterator,
    I::Item: Keyed<'l>,
{
    fn new(sources: impl Iterator<Item = I>) -> Self {
        let sources = sources.enumerate().filter_map(|(place, mut rest)| {
            let next = rest.next()?;
            Some(Source { prefix: prefix_of(next.key()), next, place, rest })
        });
        Self { sources: sources.collect(), group: Vec::new() }
    }

    /// The items of the next key, the oldest first; empty at the end.
    #[inline]
    pub(crate) fn next_group(&mut self) -> &[I::Item] {
        self.group.clear();
        while let Some(mut source) = self.sources.peek_mut() {
            if self.group.first().is_some_and(|first| first.key() != source.next.key()) {
                break;
            }
            self.group.push(source.next);
            match source.rest.next() {
                Some(next) => {
                    debug_assert!(source.next.key() < next.key(), "a source is in order");
                    source.prefix = prefix_of(next.key());
                    source.next = next;
                }
                None => drop(PeekMut::pop(source)),
            }
        }
        &self.group
    }

    /// What the last call of [`Self::next_group`] returned.
    pub(crate) fn group(&self) -> &[I::Item] {
        &self.group
    }
}

#[inline]
fn prefix_of(key: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    for (octet, &of_key) in prefix.iter_mut().zip(key) {
        *octet = of_key;
    }
    u64::from_be_bytes(prefix)
}

// The heap has its greatest on top: that is to be the source with the lowest key, and of one key
// the first source.
impl<'l, I> Ord for Source<I>
where
    I: Iterator,
    I::Item: Keyed<'l>,
{
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_prefix = other.prefix.cmp(&self.prefix);
        by_prefix
            .then_with(|| other.next.key().cmp(self.next.key()))
            .then_with(|| other.place.cmp(&self.place))
    }
}

impl<'l, I> PartialOrd for Source<I>
where
    I: Iterator,
    I::Item: Keyed<'l>,
{
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'l, I> PartialEq for Source<I>
where
    I: Iterator,
    I::Item: Keyed<'l>,
{
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<'l, I> Eq for Source<I>
where
    I: Iterator,
    I::Item: Keyed<'l>,
{
}

/// Which layers are to be merged, as a range, and of which tier they are; none when there are few
/// enough. `bytes` has the sizes of the layers from the oldest to the newest.
///
/// Layers are sorted into tiers by their size, each eight times as large as the one before. Eight
/// layers of a tier, with what smaller ones are between them, become one, which is then mostly of
/// the next tier: so there are few layers, and a change is copied once for each tier. Only tiers
/// below `below` are looked at.
pub(crate) fn due(bytes: &[usize], below: u32) -> Option<(Range<usize>, u32)> {
    let tiers: Vec<u32> = bytes.iter().map(|bytes| tier(*bytes)).collect();
    for of_tier in 0..below {
        let start = tiers.iter().rposition(|tier| *tier > of_tier).map_or(0, |at| at + 1);
        let run = tiers.get(start..).unwrap_or_default();
        let count = run.iter().filter(|tier| **tier == of_tier).count();
        if count >= FAN_OUT {
            let end = run.iter().rposition(|tier| *tier == of_tier).map_or(0, |at| at + 1);
            return Some((start..start + end, of_tier));
        }
    }
    None
}

/// How many layers more there must be at least until some are due.
pub(crate) fn layers_until_due(bytes: &[usize]) -> usize {
    let small = bytes.iter().rev().take_while(|bytes| tier(**bytes) == 0).count();
    FAN_OUT.saturating_sub(small).max(1)
}

fn tier(bytes: usize) -> u32 {
    (0..TIER_MAX).find(|tier| bytes < TIER_BYTES << (FAN_OUT_BITS * tier)).unwrap_or(TIER_MAX)
}

const FAN_OUT_BITS: u32 = 3;
const FAN_OUT: usize = 1 << FAN_OUT_BITS;
/// Layers smaller than this are of the lowest tier.
const TIER_BYTES: usize = 256 << 10;
/// Layers of this tier, 16 MiB and more, are not merged: they are flushed soon.
pub(crate) const TIER_MAX: u32 = 3;

#[cfg(test)]
mod tests;
