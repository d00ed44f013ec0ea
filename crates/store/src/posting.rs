//! Posting lists: the ids of the entries that have one index key.
//!
//! A short list is one row, the *head*, with the ids in it. A longer one has the number of its ids
//! in the head, and its ids in *chunks* of 8,192 numbers, one row each, so that no change rewrites
//! more than about a kilobyte. A chunk has the smallest of three forms: a list, a bitmap, or runs.
//!
//! Invariants: ids are ascending, each once, and none is zero; no list and no chunk is empty.

use crate::varint;

/// Lists of up to this many ids are kept in their head.
pub(crate) const INLINE_IDS_MAX: usize = 64;
/// A list that has shrunk to this many ids is put back into its head. Smaller than
/// [`INLINE_IDS_MAX`], so that a list at the border does not go back and forth.
pub(crate) const INLINE_AGAIN_IDS_MAX: u64 = 32;
/// How many low bits of an id are its place in a chunk.
pub(crate) const CHUNK_BITS: u32 = 13;

/// The largest chunk row.
const CHUNK_LENGTH_MAX_BYTES: usize = 1 + BITMAP_BYTES;
const CHUNK_IDS: usize = 1 << CHUNK_BITS;
const PLACE_MAX: u16 = CHUNK_IDS as u16 - 1;
const BITMAP_WORDS: usize = CHUNK_IDS / 64;
const BITMAP_BYTES: usize = CHUNK_IDS / 8;

/// The chunk an id is in.
#[inline]
pub(crate) const fn chunk_of(id: u64) -> u64 {
    id >> CHUNK_BITS
}

/// The place of an id in its chunk.
#[inline]
pub(crate) const fn place_of(id: u64) -> u16 {
    (id & (CHUNK_IDS as u64 - 1)) as u16
}

/// The id at a place of a chunk.
#[inline]
pub(crate) const fn id_at(chunk: u64, place: u16) -> u64 {
    (chunk << CHUNK_BITS) | place as u64
}

/// What a head row says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Head<'a> {
    /// The ids themselves.
    Inline(InlineIds<'a>),
    /// How many ids the chunks hold.
    Chunked(u64),
}

/// The ids of a head row, in order; ends early at what is not well formed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InlineIds<'a> {
    rest: &'a [u8],
    last: u64,
}

impl Iterator for InlineIds<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let mut rest = self.rest;
        let step = varint::read(&mut rest)?;
        self.last = self.last.checked_add(step).filter(|_| step != 0)?;
        self.rest = rest;
        Some(self.last)
    }
}

const HEAD_INLINE: u8 = 0;
const HEAD_CHUNKED: u8 = 1;

impl<'a> Head<'a> {
    /// Reads a head row; `None` when it is not well formed.
    #[inline]
    pub(crate) fn read(row: &'a [u8]) -> Option<Self> {
        match row.split_first()? {
            (&HEAD_INLINE, rest) if !rest.is_empty() => {
                Some(Self::Inline(InlineIds { rest, last: 0 }))
            }
            (&HEAD_CHUNKED, mut rest) => {
                let count = varint::read(&mut rest)?;
                (rest.is_empty() && count > 0).then_some(Self::Chunked(count))
            }
            _ => None,
        }
    }

    /// How many ids the list has.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Inline(ids) => ids.count() as u64,
            Self::Chunked(count) => *count,
        }
    }

    /// Whether the row is of the one form a writer makes.
    pub(crate) fn is_well_formed(&self) -> bool {
        match self {
            Self::Inline(ids) => {
                let mut walked = *ids;
                let count = walked.by_ref().count();
                walked.rest.is_empty() && (1..=INLINE_IDS_MAX).contains(&count)
            }
            Self::Chunked(count) => *count > INLINE_AGAIN_IDS_MAX,
        }
    }

    /// Writes ids that fit into a head.
    pub(crate) fn write_inline(ids: &[u64], out: &mut Vec<u8>) {
        debug_assert!((1..=INLINE_IDS_MAX).contains(&ids.len()), "{} ids in a head", ids.len());
        out.push(HEAD_INLINE);
        let mut last = 0;
        for &id in ids {
            debug_assert!(id > last, "ids of a list ascend");
            varint::write(id - last, out);
            last = id;
        }
    }

    /// Writes the head of a list in chunks.
    pub(crate) fn write_chunked(count: u64, out: &mut Vec<u8>) {
        out.push(HEAD_CHUNKED);
        varint::write(count, out);
    }
}

const CHUNK_LIST: u8 = 0;
const CHUNK_BITMAP: u8 = 1;
const CHUNK_RUNS: u8 = 2;

/// A chunk row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Chunk<'a> {
    /// Places in order.
    List(&'a [[u8; 2]]),
    /// One bit a place, the lowest first.
    Bitmap(&'a [u8; BITMAP_BYTES]),
    /// The first and the last place of each run.
    Runs(&'a [[u8; 4]]),
}

impl<'a> Chunk<'a> {
    /// Reads a chunk row; `None` when it is not well formed.
    pub(crate) fn read(row: &'a [u8]) -> Option<Self> {
        match row.split_first()? {
            (&CHUNK_LIST, rest) => match rest.as_chunks() {
                ([], _) => None,
                (places, []) => Some(Self::List(places)),
                _ => None,
            },
            (&CHUNK_BITMAP, rest) => Some(Self::Bitmap(rest.try_into().ok()?)),
            (&CHUNK_RUNS, rest) => match rest.as_chunks() {
                ([], _) => None,
                (runs, []) => Some(Self::Runs(runs)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a place is taken.
    pub(crate) fn contains(&self, place: u16) -> bool {
        match self {
            Self::List(places) => {
                places.binary_search_by_key(&place, |&place| u16::from_le_bytes(place)).is_ok()
            }
            Self::Bitmap(bits) => {
                bits.get(usize::from(place / 8)).is_some_and(|byte| byte & (1 << (place % 8)) != 0)
            }
            Self::Runs(runs) => {
                let after = runs.partition_point(|run| run_of(run).0 <= place);
                after
                    .checked_sub(1)
                    .and_then(|at| runs.get(at))
                    .is_some_and(|run| place <= run_of(run).1)
            }
        }
    }

    /// Calls `visit` for each place, in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u16)) {
        match self {
            Self::List(places) => places.iter().for_each(|&place| visit(u16::from_le_bytes(place))),
            Self::Bitmap(bits) => {
                let (words, _) = bits.as_chunks();
                for (at, &word) in words.iter().enumerate() {
                    let mut word = u64::from_le_bytes(word);
                    while word != 0 {
                        visit((at * 64) as u16 + word.trailing_zeros() as u16);
                        word &= word - 1;
                    }
                }
            }
            Self::Runs(_) => self.for_each_run(|first, last| (first..=last).for_each(&mut visit)),
        }
    }

    /// Calls `visit` for the first and the last place of each run; other forms have none.
    pub(crate) fn for_each_run(&self, mut visit: impl FnMut(u16, u16)) {
        if let Self::Runs(runs) = self {
            for (first, last) in runs.iter().map(run_of) {
                visit(first, last.min(PLACE_MAX));
            }
        }
    }
}

fn run_of(run: &[u8; 4]) -> (u16, u16) {
    let [a, b, c, d] = *run;
    (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
}

/// A chunk being changed.
#[derive(Clone)]
pub(crate) struct Bits {
    words: [u64; BITMAP_WORDS],
}

impl Bits {
    /// A chunk without ids.
    pub(crate) const fn new() -> Self {
        Self { words: [0; BITMAP_WORDS] }
    }

    /// The ids of a row.
    pub(crate) fn of(chunk: Chunk<'_>) -> Self {
        let mut bits = Self::new();
        if let Chunk::Bitmap(octets) = chunk {
            let (words, _) = octets.as_chunks();
            for (word, octets) in bits.words.iter_mut().zip(words) {
                *word = u64::from_le_bytes(*octets);
            }
        } else {
            chunk.for_each(|place| {
                bits.set(place, true);
            });
        }
        bits
    }

    /// Takes or frees a place; says whether that changed anything.
    #[inline]
    pub(crate) fn set(&mut self, place: u16, taken: bool) -> bool {
        let word = self.words.get_mut(usize::from(place) / 64);
        let word = word.expect("a place has CHUNK_BITS bits");
        let bit = 1 << (place % 64);
        let before = *word & bit != 0;
        if taken {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        before != taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Calls `visit` for each place, in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u16)) {
        for (at, &word) in self.words.iter().enumerate() {
            let mut word = word;
            while word != 0 {
                visit((at * 64) as u16 + word.trailing_zeros() as u16);
                word &= word - 1;
            }
        }
    }

    /// Appends the row, in the smallest form: at most [`CHUNK_LENGTH_MAX_BYTES`].
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        debug_assert!(!self.is_empty(), "an empty chunk has no row");
        let start = out.len();
        let list_bytes = 2 * self.count() as usize;
        let runs_bytes = 4 * self.runs();
        if runs_bytes < list_bytes && runs_bytes < BITMAP_BYTES {
            out.push(CHUNK_RUNS);
            self.write_runs(out);
        } else if list_bytes < BITMAP_BYTES {
            out.push(CHUNK_LIST);
            self.for_each(|place| out.extend_from_slice(&place.to_le_bytes()));
        } else {
            out.push(CHUNK_BITMAP);
            self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        debug_assert!(out.len() - start <= CHUNK_LENGTH_MAX_BYTES, "a change rewrites little");
    }

    /// How many runs of taken places there are.
    fn runs(&self) -> usize {
        let mut carry = 0;
        let mut runs = 0;
        for &word in &self.words {
            // A run starts where a bit is set and the one before it is not.
            runs += (word & !((word << 1) | carry)).count_ones();
            carry = word >> 63;
        }
        runs as usize
    }

    fn write_runs(&self, out: &mut Vec<u8>) {
        let mut run: Option<(u16, u16)> = None;
        let mut put = |(first, last): (u16, u16)| {
            out.extend_from_slice(&first.to_le_bytes());
            out.extend_from_slice(&last.to_le_bytes());
        };
        self.for_each(|place| match &mut run {
            Some((_, last)) if *last + 1 == place => *last = place,
            Some(whole) => {
                put(*whole);
                *whole = (place, place);
            }
            None => run = Some((place, place)),
        });
        run.into_iter().for_each(put);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn places() -> impl Strategy<Value = BTreeSet<u16>> {
        let place = 0..CHUNK_IDS as u16;
        let run = (0..CHUNK_IDS as u16, 1_u16..900)
            .prop_map(|(first, length)| first..(first + length).min(CHUNK_IDS as u16));
        prop_oneof![
            prop::collection::btree_set(place.clone(), 1..40),
            prop::collection::btree_set(place, 500..3000),
            prop::collection::vec(run, 1..12).prop_map(|runs| runs.into_iter().flatten().collect()),
        ]
    }

    proptest! {
        #[test]
        fn chunks_hold_what_was_put_in(places in places(), removed in places()) {
            let mut bits = Bits::new();
            for &place in &places {
                prop_assert!(bits.set(place, true));
                prop_assert!(!bits.set(place, true));
            }
            let mut row = Vec::new();
            bits.write(&mut row);
            prop_assert!(row.len() <= CHUNK_LENGTH_MAX_BYTES);
            let chunk = Chunk::read(&row).unwrap();
            let mut seen = Vec::new();
            chunk.for_each(|place| seen.push(place));
            prop_assert_eq!(&seen, &places.iter().copied().collect::<Vec<_>>());
            for place in 0..CHUNK_IDS as u16 {
                prop_assert_eq!(chunk.contains(place), places.contains(&place));
            }
            let mut bits = Bits::of(chunk);
            prop_assert_eq!(bits.count() as usize, places.len());
            for &place in &removed {
                prop_assert_eq!(bits.set(place, false), places.contains(&place));
            }
            let mut left = Vec::new();
            bits.for_each(|place| left.push(place));
            prop_assert_eq!(left, places.difference(&removed).copied().collect::<Vec<_>>());
        }

        #[test]
        fn heads_hold_what_was_put_in(ids in prop::collection::btree_set(1_u64.., 1..=64)) {
            let ids: Vec<u64> = ids.into_iter().collect();
            let mut row = Vec::new();
            Head::write_inline(&ids, &mut row);
            let head = Head::read(&row).unwrap();
            prop_assert!(head.is_well_formed());
            prop_assert_eq!(head.count(), ids.len() as u64);
            let Head::Inline(read) = head else { panic!("{head:?}") };
            prop_assert_eq!(read.collect::<Vec<_>>(), ids);
        }

        #[test]
        fn ids_come_apart_and_together(id: u64) {
            prop_assert_eq!(id_at(chunk_of(id), place_of(id)), id);
        }
    }

    #[test]
    fn a_full_chunk_takes_five_bytes() {
        let mut bits = Bits::new();
        for place in 0..CHUNK_IDS as u16 {
            bits.set(place, true);
        }
        let mut row = Vec::new();
        bits.write(&mut row);
        assert_eq!(row, [CHUNK_RUNS, 0, 0, 0xff, 0x1f]);
    }

    #[test]
    fn damaged_rows_are_refused() {
        for row in [&[][..], &[0], &[1], &[1, 0], &[1, 40, 0], &[2, 1]] {
            assert_eq!(Head::read(row), None, "{row:?}");
        }
        for row in [&[0, 5, 0][..], &[0, 0x80], &[1, 5]] {
            assert!(Head::read(row).is_none_or(|head| !head.is_well_formed()), "{row:?}");
        }
        for row in [&[][..], &[0], &[0, 1], &[1, 0], &[2, 1, 2], &[3]] {
            assert_eq!(Chunk::read(row), None, "{row:?}");
        }
    }
}
