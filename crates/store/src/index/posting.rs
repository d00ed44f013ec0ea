//! Posting lists: the ids of the entries that have one index key.
//!
//! A short list is one row, the *head*, with the ids in it. A longer one has the number of its ids
//! in the head, and its ids in *chunks*, one row each, so that no change rewrites more than about a
//! kilobyte. All chunks of a list are equally wide: sparse lists have wide chunks, so that reading
//! one takes few rows however large the directory is. A chunk has the smallest of three forms: a
//! list, a bitmap, or runs; only the narrowest may be bitmaps.
//!
//! Invariants: ids are ascending, each once, and none is zero; no list and no chunk is empty; no
//! chunk row is longer than [`CHUNK_LENGTH_MAX_BYTES`].

mod edit;

use crate::rows::varint;

pub(crate) use edit::{Changed, Run, Runs, Span, set_run, write_chunks, write_chunks_of_spans};

/// Lists of up to this many ids are kept in their head.
pub(crate) const INLINE_IDS_MAX: usize = 64;
/// A list that has shrunk to this many ids is put back into its head. Smaller than
/// [`INLINE_IDS_MAX`], so that a list at the border does not go back and forth.
pub(crate) const INLINE_AGAIN_IDS_MAX: u64 = 32;
/// The largest chunk row.
pub(crate) const CHUNK_LENGTH_MAX_BYTES: usize = 1 + BITMAP_BYTES;

/// The places of the narrowest chunks as bits.
const BITMAP_BYTES: usize = 1 << (Width::NARROWEST.bits() - 3);

/// How many low bits of an id are its place in a chunk.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Width(u8);

impl Width {
    pub(crate) const NARROWEST: Self = Self(13);
    pub(crate) const WIDEST: Self = Self(16);

    /// None when no list has chunks of this width.
    #[inline]
    pub(crate) const fn of_bits(bits: u8) -> Option<Self> {
        if Self::NARROWEST.0 <= bits && bits <= Self::WIDEST.0 { Some(Self(bits)) } else { None }
    }

    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Chunks half as wide; none when there are none.
    pub(crate) const fn narrower(self) -> Option<Self> {
        Self::of_bits(self.0 - 1)
    }

    /// The chunk an id is in.
    #[inline]
    pub(crate) const fn chunk_of(self, id: u64) -> u64 {
        id >> self.0
    }

    /// The place of an id in its chunk.
    #[inline]
    pub(crate) const fn place_of(self, id: u64) -> u16 {
        (id & ((1 << self.0) - 1)) as u16
    }

    /// The id at a place of a chunk.
    #[inline]
    pub(crate) const fn id_at(self, chunk: u64, place: u16) -> u64 {
        (chunk << self.0) | place as u64
    }

    /// Where a chunk begins among the ids that one of the widest ones would have.
    #[inline]
    pub(crate) const fn place_of_chunk_in_block(self, chunk: u64) -> usize {
        Self::WIDEST.place_of(self.id_at(chunk, 0)) as usize
    }

    /// The last place of a chunk.
    #[inline]
    pub(crate) const fn last_place(self) -> u16 {
        ((1_u32 << self.0) - 1) as u16
    }
}

/// What a head row says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Head<'a> {
    /// The ids themselves.
    Inline(InlineIds<'a>),
    /// How many ids the chunks hold, and how wide these are.
    Chunked(u64, Width),
}

/// The ids of a head row, in order; ends early at what is not well formed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InlineIds<'a> {
    rest: &'a [u8],
    last: u64,
    /// The id that comes before the others, where it is not read from octets.
    first: Option<u64>,
}

impl Iterator for InlineIds<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
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
    /// The head of a list of one id.
    pub(crate) const fn of_one(id: u64) -> Self {
        Self::Inline(InlineIds { rest: &[], last: 0, first: Some(id) })
    }

    /// Reads a head row; `None` when it is not well formed.
    #[inline]
    pub(crate) fn read(row: &'a [u8]) -> Option<Self> {
        match row.split_first()? {
            (&HEAD_INLINE, rest) if !rest.is_empty() => {
                Some(Self::Inline(InlineIds { rest, last: 0, first: None }))
            }
            (&HEAD_CHUNKED, rest) => {
                let (&bits, mut rest) = rest.split_first()?;
                let width = Width::of_bits(bits)?;
                let count = varint::read(&mut rest)?;
                (rest.is_empty() && count > 0).then_some(Self::Chunked(count, width))
            }
            _ => None,
        }
    }

    /// How many ids the list has.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        match self {
            // Every id ends with an octet whose high bit is not set.
            Self::Inline(ids) => {
                let ends = ids.rest.iter().filter(|&&octet| octet < 0x80).count();
                ends as u64 + u64::from(ids.first.is_some())
            }
            Self::Chunked(count, _) => *count,
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
            Self::Chunked(count, _) => *count > INLINE_AGAIN_IDS_MAX,
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
    pub(crate) fn write_chunked(count: u64, width: Width, out: &mut Vec<u8>) {
        out.extend_from_slice(&[HEAD_CHUNKED, width.0]);
        varint::write(count, out);
    }
}

/// In a list of more than so many times as many places as ids, each id is searched for.
const SEARCHED_TIMES: usize = 32;

/// One bit for each place of a chunk, made when it is first needed: two lists are compared without
/// a branch that is hard to foresee.
#[derive(Debug, Default)]
pub(crate) struct Marks(Option<Box<[u64; MARK_WORDS]>>);

/// Words for the places of the widest chunks.
const MARK_WORDS: usize = 1 << (Width::WIDEST.bits() - 6);

impl Marks {
    /// Keeps those of the ids whose places are among these, or are not.
    fn retain(
        &mut self,
        places: &[[u8; 2]],
        width: Width,
        ids: &[u64],
        is_in: bool,
        kept: &mut Vec<u64>,
    ) {
        let words = self.0.get_or_insert_with(|| Box::new([0; MARK_WORDS]));
        let word_of = |place: u16| usize::from(place / 64);
        for place in places.iter().map(|&place| u16::from_le_bytes(place)) {
            if let Some(word) = words.get_mut(word_of(place)) {
                *word |= 1 << (place % 64);
            }
        }
        for &id in ids {
            let place = width.place_of(id);
            let is_set =
                words.get(word_of(place)).is_some_and(|word| word >> (place % 64) & 1 == 1);
            if is_set == is_in {
                kept.push(id);
            }
        }
        for place in places.iter().map(|&place| u16::from_le_bytes(place)) {
            if let Some(word) = words.get_mut(word_of(place)) {
                *word = 0;
            }
        }
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
    #[inline]
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

    /// Appends to `kept` those of the ids, which ascend and are all of this chunk, that are in it,
    /// or those that are not.
    pub(crate) fn retain(
        &self,
        width: Width,
        ids: &[u64],
        is_in: bool,
        marks: &mut Marks,
        kept: &mut Vec<u64>,
    ) {
        match self {
            Self::List(places) if ids.len() * SEARCHED_TIMES > places.len() => {
                marks.retain(places, width, ids, is_in, kept);
            }
            _ => {
                let is_kept = |id: &&u64| self.contains(width.place_of(**id)) == is_in;
                kept.extend(ids.iter().filter(is_kept));
            }
        }
    }

    /// How many places are taken.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::List(places) => places.len(),
            Self::Bitmap(bits) => bits.iter().map(|byte| byte.count_ones() as usize).sum(),
            Self::Runs(runs) => runs.iter().map(|run| Run::read(run).length()).sum(),
        }
    }

    /// Whether it is a chunk that a writer makes in a list of this width: its places are in order,
    /// each once, and none is beyond the end.
    pub(crate) fn is_well_formed(&self, width: Width) -> bool {
        let mut next = 0_u32;
        let mut is_well_formed = !matches!(self, Self::Bitmap(_)) || width == Width::NARROWEST;
        self.for_each_run(|run| {
            is_well_formed &= next <= u32::from(run.first) && run.first <= run.last;
            next = u32::from(run.last) + 1;
        });
        is_well_formed && next <= u32::from(width.last_place()) + 1
    }

    /// Whether a place is taken.
    #[inline]
    pub(crate) fn contains(&self, place: u16) -> bool {
        match self {
            Self::List(places) => {
                places.binary_search_by_key(&place, |&place| u16::from_le_bytes(place)).is_ok()
            }
            Self::Bitmap(bits) => {
                bits.get(usize::from(place / 8)).is_some_and(|byte| byte & (1 << (place % 8)) != 0)
            }
            Self::Runs(runs) => {
                let after = runs.partition_point(|run| Run::read(run).first <= place);
                after
                    .checked_sub(1)
                    .and_then(|at| runs.get(at))
                    .is_some_and(|run| place <= Run::read(run).last)
            }
        }
    }

    /// Calls `visit` for each place, in order.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u16)) {
        match self {
            Self::List(places) => places.iter().for_each(|&place| visit(u16::from_le_bytes(place))),
            Self::Bitmap(bits) => each_bit(bits, visit),
            Self::Runs(runs) => {
                for run in runs.iter().map(Run::read) {
                    (run.first..=run.last).for_each(&mut visit);
                }
            }
        }
    }

    /// Calls `visit` for runs that make up the chunk, in order; runs may touch each other.
    pub(crate) fn for_each_run(&self, mut visit: impl FnMut(Run)) {
        match self {
            Self::Runs(runs) => runs.iter().map(Run::read).for_each(visit),
            Self::List(_) | Self::Bitmap(_) => {
                self.for_each(|place| visit(Run { first: place, last: place }));
            }
        }
    }
}

/// Calls `visit` for each bit that is set, the lowest first.
#[inline]
fn each_bit(bits: &[u8; BITMAP_BYTES], mut visit: impl FnMut(u16)) {
    let (words, _) = bits.as_chunks();
    for (at, &word) in words.iter().enumerate() {
        let mut word = u64::from_le_bytes(word);
        while word != 0 {
            visit((at * 64) as u16 + word.trailing_zeros() as u16);
            word &= word - 1;
        }
    }
}

#[cfg(test)]
mod tests;
