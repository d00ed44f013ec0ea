//! Sets of entry ids, in ascending order: what posting lists become when they are combined.
//!
//! Invariant: a set of up to [`FEW_IDS_MAX`] ids may be a sorted list, a larger one is compressed
//! bitmaps; which of the two it is shows nowhere but in time.

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::index::posting::{Chunk, Run, Width, set_run};
use crate::overlay::deltas::{PostingChange, merged};

/// Up to this many ids are kept as a list.
pub(crate) const FEW_IDS_MAX: usize = 16_384;

/// Up to this many changes are put into a list one by one.
const CHANGES_FEW_MAX: usize = 8;

/// A set of entry ids.
#[derive(Clone, Debug)]
pub(crate) enum IdSet {
    /// Ascending, each once.
    Few(Vec<u64>),
    Many(RoaringTreemap),
}

impl IdSet {
    pub(crate) const fn empty() -> Self {
        Self::Few(Vec::new())
    }

    /// A set of ids in any order.
    pub(crate) fn from_unsorted(mut ids: Vec<u64>) -> Self {
        if !ids.is_sorted_by(|one, next| one < next) {
            ids.sort_unstable();
            ids.dedup();
        }
        if ids.len() <= FEW_IDS_MAX { Self::Few(ids) } else { Self::Many(bitmaps_of(&ids)) }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Few(ids) => ids.len() as u64,
            Self::Many(ids) => ids.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Few(ids) => ids.is_empty(),
            Self::Many(ids) => ids.is_empty(),
        }
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        match self {
            Self::Few(ids) => ids.binary_search(&id).is_ok(),
            Self::Many(ids) => ids.contains(id),
        }
    }

    /// Adds or removes one id.
    pub(crate) fn set(&mut self, id: u64, is_in: bool) {
        match self {
            Self::Few(ids) => match (ids.binary_search(&id), is_in) {
                (Ok(at), false) => {
                    ids.remove(at);
                }
                (Err(at), true) => ids.insert(at, id),
                (Ok(_), true) | (Err(_), false) => {}
            },
            Self::Many(ids) => {
                if is_in {
                    ids.insert(id);
                } else {
                    ids.remove(id);
                }
            }
        }
    }

    /// Applies changes, which are in the order of their ids, each id once.
    pub(crate) fn change(&mut self, changes: &[PostingChange]) {
        match self {
            Self::Few(ids) if changes.len() > CHANGES_FEW_MAX => {
                let ids = merged(ids, changes);
                *self = if ids.len() <= FEW_IDS_MAX {
                    Self::Few(ids)
                } else {
                    Self::Many(bitmaps_of(&ids))
                };
            }
            Self::Many(ids) if changes.len() > CHANGES_FEW_MAX => {
                let of = |is_added: bool| {
                    let changes = changes.iter().filter(|change| change.is_added() == is_added);
                    bitmaps_of(&changes.map(|change| change.id()).collect::<Vec<u64>>())
                };
                *ids |= of(true);
                *ids -= of(false);
            }
            Self::Few(_) | Self::Many(_) => {
                changes.iter().for_each(|change| self.set(change.id(), change.is_added()));
            }
        }
    }

    /// Keeps the ids that are in `other`, too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Few(ids), Self::Few(other)) => retain_sorted(ids, other, true),
            (Self::Few(ids), other) => ids.retain(|&id| other.contains(id)),
            (Self::Many(ids), Self::Few(few)) => {
                *self = Self::Few(few.iter().copied().filter(|&id| ids.contains(id)).collect());
            }
            (Self::Many(ids), Self::Many(other)) => *ids &= other,
        }
    }

    /// Leaves out the ids that are in `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Few(ids), Self::Few(other)) => retain_sorted(ids, other, false),
            (Self::Few(ids), other) => ids.retain(|&id| !other.contains(id)),
            (Self::Many(ids), Self::Few(few)) => few.iter().for_each(|&id| {
                ids.remove(id);
            }),
            (Self::Many(ids), Self::Many(other)) => *ids -= other,
        }
    }

    /// All ids of both.
    pub(crate) fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Few(mut ids), Self::Few(more)) => {
                ids.extend(more);
                Self::from_unsorted(ids)
            }
            (Self::Few(few), Self::Many(mut ids)) | (Self::Many(mut ids), Self::Few(few)) => {
                ids.extend(few);
                Self::Many(ids)
            }
            (Self::Many(mut ids), Self::Many(more)) => {
                ids |= more;
                Self::Many(ids)
            }
        }
    }

    /// Leaves out the ids up to `after`.
    pub(crate) fn keep_after(&mut self, after: u64) {
        match self {
            Self::Few(ids) => {
                ids.drain(..ids.partition_point(|&id| id <= after));
            }
            Self::Many(ids) => {
                ids.remove_range(..=after);
            }
        }
    }

    /// The ids after `after`, in order.
    pub(crate) fn iter_after(&self, after: u64) -> IdIter<'_> {
        match self {
            Self::Few(ids) => {
                let start = ids.partition_point(|&id| id <= after);
                IdIter::Few(ids.get(start..).unwrap_or_default().iter())
            }
            Self::Many(ids) => {
                let mut iter = ids.iter();
                iter.advance_to(after.saturating_add(1));
                IdIter::Many(Box::new(iter))
            }
        }
    }
}

/// Walks an [`IdSet`].
pub(crate) enum IdIter<'a> {
    Few(std::slice::Iter<'a, u64>),
    Many(Box<roaring::treemap::Iter<'a>>),
}

impl Iterator for IdIter<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Few(ids) => ids.next().copied(),
            Self::Many(ids) => ids.next(),
        }
    }
}

/// The set of ids that ascend, each once.
fn bitmaps_of(ids: &[u64]) -> RoaringTreemap {
    let parts = ids.chunk_by(|one, next| one >> 32 == next >> 32);
    RoaringTreemap::from_bitmaps(parts.filter_map(|ids| {
        let low = RoaringBitmap::from_sorted_iter(ids.iter().map(|&id| id as u32));
        Some(((ids.first()? >> 32) as u32, low.expect("ids ascend, each once")))
    }))
}

/// The ids of a set, in order.
fn listed(set: &RoaringTreemap) -> Vec<u64> {
    let mut ids = Vec::with_capacity(set.len() as usize);
    for (high, low) in set.bitmaps() {
        ids.extend(low.iter().map(|low| u64::from(high) << 32 | u64::from(low)));
    }
    ids
}

/// Keeps the ids that are in `other`, or those that are not; both ascend.
pub(crate) fn retain_sorted(ids: &mut Vec<u64>, other: &[u64], is_in: bool) {
    let mut rest = other;
    ids.retain(|&id| {
        rest = rest.get(skipped_below(rest, id)..).unwrap_or_default();
        (rest.first() == Some(&id)) == is_in
    });
}

/// How many of the ids, which ascend, are below `id`: steps that double, then halves.
#[inline]
fn skipped_below(ids: &[u64], id: u64) -> usize {
    let mut step = 1;
    while ids.get(step - 1).is_some_and(|&at| at < id) {
        step *= 2;
    }
    let start = step / 2;
    let within = ids.get(start..ids.len().min(step)).unwrap_or_default();
    start + within.partition_point(|&at| at < id)
}

/// Gathers ids from posting rows, of one list or of several; it turns to bitmaps when they become
/// many.
#[derive(Debug, Default)]
pub(crate) struct IdGatherer {
    /// About as many ids come as a list may have: they are gathered one by one.
    is_few: bool,
    few: Vec<u64>,
    many: RoaringTreemap,
    block: Option<Block>,
}

/// The ids of 2^16 numbers, as many as one bitmap of the treemap has, being gathered as bits.
#[derive(Debug)]
struct Block {
    number: u64,
    words: Box<[u64; BLOCK_WORDS]>,
}

const BLOCK_WORDS: usize = 1 << (BLOCK_BITS - 6);
const BLOCK_BITS: u32 = Width::WIDEST.bits();
/// Of a chunk in runs, up to this many ids are gathered one by one.
const RUN_IDS_FEW_MAX: usize = 512;

impl IdGatherer {
    /// For about so many ids.
    pub(crate) fn with_capacity(count: u64) -> Self {
        let few = Vec::with_capacity((count as usize).min(FEW_IDS_MAX + 1));
        Self { is_few: count <= FEW_IDS_MAX as u64, few, ..Self::default() }
    }

    #[inline]
    pub(crate) fn push(&mut self, id: u64) {
        if self.few.len() > 2 * FEW_IDS_MAX {
            self.spill();
        }
        self.few.push(id);
    }

    /// Puts all ids of a set to the others.
    pub(crate) fn push_set(&mut self, set: IdSet) {
        match set {
            IdSet::Few(ids) => {
                if self.few.len() > 2 * FEW_IDS_MAX {
                    self.spill();
                }
                self.few.extend(ids);
            }
            IdSet::Many(ids) => self.many |= ids,
        }
    }

    /// Puts the ids of a chunk to the others.
    pub(crate) fn push_chunk(&mut self, width: Width, number: u64, chunk: Chunk<'_>) {
        let offset = width.place_of_chunk_in_block(number);
        let block = width.id_at(number, 0) >> BLOCK_BITS;
        match chunk {
            Chunk::List(places) => {
                if self.few.len() > 2 * FEW_IDS_MAX {
                    self.spill();
                }
                let id = |place: &[u8; 2]| width.id_at(number, u16::from_le_bytes(*place));
                self.few.extend(places.iter().map(id));
            }
            Chunk::Bitmap(_) if self.is_few => {
                chunk.for_each(|place| self.push(width.id_at(number, place)));
            }
            Chunk::Bitmap(bits) => {
                let words = self.block(block).iter_mut().skip(offset / 64);
                for (word, octets) in words.zip(bits.as_chunks().0) {
                    *word |= u64::from_le_bytes(*octets);
                }
            }
            Chunk::Runs(_) => {
                if self.is_few || chunk.count() <= RUN_IDS_FEW_MAX {
                    chunk.for_each(|place| self.push(width.id_at(number, place)));
                    return;
                }
                let words = self.block(block);
                chunk.for_each_run(|run| {
                    let (first, last) = (offset as u16 | run.first, offset as u16 | run.last);
                    set_run(words, Run { first, last });
                });
            }
        }
    }

    /// The bits of a block.
    fn block(&mut self, number: u64) -> &mut [u64; BLOCK_WORDS] {
        if self.block.as_ref().is_none_or(|block| block.number != number) {
            self.finish_block();
        }
        let empty = || Block { number, words: Box::new([0; BLOCK_WORDS]) };
        &mut self.block.get_or_insert_with(empty).words
    }

    fn finish_block(&mut self) {
        let Some(block) = self.block.take() else { return };
        let octets: Vec<u8> = block.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let id = block.number << BLOCK_BITS;
        let bitmap = RoaringBitmap::from_lsb0_bytes(id as u32, &octets);
        self.many |= RoaringTreemap::from_bitmaps([((id >> 32) as u32, bitmap)]);
    }

    fn spill(&mut self) {
        if !self.few.is_sorted() {
            self.few.sort_unstable();
        }
        self.few.dedup();
        self.many |= bitmaps_of(&self.few);
        self.few.clear();
    }

    /// The set of what was gathered; an id may have come twice.
    pub(crate) fn finish(mut self) -> IdSet {
        self.finish_block();
        if self.many.is_empty() {
            return IdSet::from_unsorted(self.few);
        }
        self.spill();
        if self.many.len() <= FEW_IDS_MAX as u64 {
            return IdSet::Few(listed(&self.many));
        }
        IdSet::Many(self.many)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::index::posting::write_chunks;

    /// Ids over several chunks and over the border of 32 bits.
    fn ids() -> impl Strategy<Value = BTreeSet<u64>> {
        let near = prop::sample::select(vec![1_u64, 8000, (1 << 32) - 5000, 1 << 40]);
        let run = (near, 0_u64..20_000, 1_u64..6_000)
            .prop_map(|(base, start, length)| (base + start)..(base + start + length));
        prop_oneof![
            prop::collection::btree_set(1_u64..100_000, 0..200),
            prop::collection::vec(run, 1..8).prop_map(|runs| runs.into_iter().flatten().collect()),
        ]
    }

    /// The set by way of rows, as lists come from the store.
    fn gathered(ids: &BTreeSet<u64>) -> IdSet {
        let ids: Vec<u64> = ids.iter().copied().collect();
        let mut gatherer = IdGatherer::with_capacity(ids.len() as u64);
        let put = |width, number, row: &[u8]| {
            gatherer.push_chunk(width, number, Chunk::read(row).unwrap());
            Ok::<_, ()>(())
        };
        write_chunks(&ids, put).unwrap();
        gatherer.finish()
    }

    fn ids_of(set: &IdSet) -> BTreeSet<u64> {
        let ids: Vec<u64> = set.iter_after(0).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids.len() as u64, set.len());
        ids.into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sets_agree_with_btree_sets(one in ids(), other in ids(), after in 0_u64..120_000) {
            let (set, more) = (gathered(&one), gathered(&other));
            prop_assert_eq!(&ids_of(&set), &one);
            prop_assert_eq!(ids_of(&set.clone().union(more.clone())), &one | &other);
            let mut both = set.clone();
            both.intersect(&more);
            prop_assert_eq!(ids_of(&both), &one & &other);
            prop_assert_eq!(both.is_empty(), one.is_disjoint(&other));
            let mut rest = set.clone();
            rest.subtract(&more);
            prop_assert_eq!(ids_of(&rest), &one - &other);
            let rest: BTreeSet<u64> = set.iter_after(after).collect();
            let want: BTreeSet<u64> = one.iter().copied().filter(|&id| id > after).collect();
            prop_assert_eq!(&rest, &want);
            let mut kept = set.clone();
            kept.keep_after(after);
            prop_assert_eq!(ids_of(&kept), rest);
            prop_assert_eq!(set.contains(after), one.contains(&after));
            let mut gatherer = IdGatherer::default();
            gatherer.push_set(set.clone());
            one.iter().rev().for_each(|&id| gatherer.push(id));
            gatherer.push_set(more.clone());
            prop_assert_eq!(ids_of(&gatherer.finish()), &one | &other);
            let mut set = set;
            set.set(after, true);
            prop_assert!(set.contains(after));
            set.set(after, false);
            let mut one = one;
            one.remove(&after);
            prop_assert_eq!(ids_of(&set), one.clone());
            let is_added = |id: &u64| !id.is_multiple_of(3);
            let changes: Vec<PostingChange> =
                other.iter().map(|id| PostingChange::new(*id, is_added(id))).collect();
            set.change(&changes);
            for id in other {
                if is_added(&id) {
                    one.insert(id);
                } else {
                    one.remove(&id);
                }
            }
            prop_assert_eq!(ids_of(&set), one);
        }
    }
}
