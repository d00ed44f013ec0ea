//! Sets of entry ids, in ascending order: what posting lists become when they are combined.
//!
//! Invariant: a set of up to [`FEW_IDS_MAX`] ids may be a sorted list, a larger one is compressed
//! bitmaps; which of the two it is shows nowhere but in time.

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::deltas::{PostingChange, merged};
use crate::posting::{CHUNK_BITS, Chunk, id_at};

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
        if !ids.is_sorted() {
            ids.sort_unstable();
        }
        ids.dedup();
        if ids.len() <= FEW_IDS_MAX {
            Self::Few(ids)
        } else {
            Self::Many(ids.into_iter().collect())
        }
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
                    Self::Many(ids.into_iter().collect())
                };
            }
            Self::Few(_) | Self::Many(_) => {
                changes.iter().for_each(|change| self.set(change.id(), change.is_added()));
            }
        }
    }

    /// Keeps the ids that are in `other`, too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Few(ids), other) => ids.retain(|&id| other.contains(id)),
            (Self::Many(ids), Self::Few(few)) => {
                *self = Self::Few(few.iter().copied().filter(|&id| ids.contains(id)).collect());
            }
            (Self::Many(ids), Self::Many(other)) => *ids &= other,
        }
    }

    /// Leaves out the ids that are in `other`.
    #[allow(dead_code, reason = "for the planner")]
    pub(crate) fn subtract(&mut self, other: &Self) {
        match (&mut *self, other) {
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

/// Gathers ids from posting rows; it turns to bitmaps when the ids become many.
#[derive(Debug, Default)]
pub(crate) struct IdGatherer {
    few: Vec<u64>,
    many: RoaringTreemap,
}

impl IdGatherer {
    pub(crate) fn with_capacity(count: u64) -> Self {
        let few = Vec::with_capacity((count as usize).min(FEW_IDS_MAX + 1));
        Self { few, many: RoaringTreemap::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, id: u64) {
        if self.few.len() > 2 * FEW_IDS_MAX {
            self.spill();
        }
        self.few.push(id);
    }

    pub(crate) fn push_chunk(&mut self, number: u64, chunk: Chunk<'_>) {
        match chunk {
            Chunk::List(_) => chunk.for_each(|place| self.push(id_at(number, place))),
            Chunk::Bitmap(bits) => {
                // A bitmap of the treemap has 32 bits of the id, a chunk the lowest 13 of them.
                let chunk_mask = (1 << (32 - CHUNK_BITS)) - 1;
                let offset = ((number & chunk_mask) << CHUNK_BITS) as u32;
                let high = (number >> (32 - CHUNK_BITS)) as u32;
                let bitmap = RoaringBitmap::from_lsb0_bytes(offset, bits);
                self.many |= RoaringTreemap::from_bitmaps([(high, bitmap)]);
            }
            Chunk::Runs(_) => chunk.for_each_run(|first, last| {
                self.many.insert_range(id_at(number, first)..=id_at(number, last));
            }),
        }
    }

    fn spill(&mut self) {
        self.many.extend(self.few.drain(..));
    }

    /// How many ids were gathered so far, some of them perhaps twice.
    pub(crate) fn finish(mut self) -> IdSet {
        if self.many.is_empty() {
            return IdSet::from_unsorted(self.few);
        }
        self.spill();
        if self.many.len() <= FEW_IDS_MAX as u64 {
            return IdSet::Few(self.many.iter().collect());
        }
        IdSet::Many(self.many)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::posting::{Bits, chunk_of, place_of};

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
        let mut chunks: std::collections::BTreeMap<u64, Bits> = Default::default();
        for &id in ids {
            chunks.entry(chunk_of(id)).or_insert_with(Bits::new).set(place_of(id), true);
        }
        let mut gatherer = IdGatherer::with_capacity(ids.len() as u64);
        for (number, bits) in chunks {
            let mut row = Vec::new();
            bits.write(&mut row);
            gatherer.push_chunk(number, Chunk::read(&row).unwrap());
        }
        gatherer.finish()
    }

    fn listed(set: &IdSet) -> BTreeSet<u64> {
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
            prop_assert_eq!(&listed(&set), &one);
            prop_assert_eq!(listed(&set.clone().union(more.clone())), &one | &other);
            let mut both = set.clone();
            both.intersect(&more);
            prop_assert_eq!(listed(&both), &one & &other);
            prop_assert_eq!(both.is_empty(), one.is_disjoint(&other));
            let mut rest = set.clone();
            rest.subtract(&more);
            prop_assert_eq!(listed(&rest), &one - &other);
            let rest: BTreeSet<u64> = set.iter_after(after).collect();
            prop_assert_eq!(rest, one.iter().copied().filter(|&id| id > after).collect());
            prop_assert_eq!(set.contains(after), one.contains(&after));
            let mut set = set;
            set.set(after, true);
            prop_assert!(set.contains(after));
            set.set(after, false);
            let mut one = one;
            one.remove(&after);
            prop_assert_eq!(listed(&set), one.clone());
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
            prop_assert_eq!(listed(&set), one);
        }
    }
}
