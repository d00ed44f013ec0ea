//! Chunks being made and changed.
//!
//! Invariant: the places of a chunk have one row only, the smallest; where that would be longer
//! than a row may be, the list's chunks have to be narrower.

use super::{
    BITMAP_BYTES, CHUNK_BITMAP, CHUNK_LENGTH_MAX_BYTES, CHUNK_LIST, CHUNK_RUNS, Chunk, Width,
};

/// Places that follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl Run {
    #[inline]
    pub(super) fn read(run: &[u8; 4]) -> Self {
        let [a, b, c, d] = *run;
        Self { first: u16::from_le_bytes([a, b]), last: u16::from_le_bytes([c, d]) }
    }

    /// How many places it has.
    #[inline]
    pub(crate) fn length(self) -> usize {
        (usize::from(self.last) + 1).saturating_sub(usize::from(self.first))
    }

    /// What of it is in the first or the second half of a chunk, as places of a chunk half as wide,
    /// whose width is `narrower`.
    pub(crate) fn half(self, second: bool, narrower: Width) -> Option<Self> {
        let last_place = narrower.last_place();
        if second {
            let first = self.first.max(last_place + 1);
            let rest = Self { first: first & last_place, last: self.last & last_place };
            (self.last > last_place).then_some(rest)
        } else {
            let rest = Self { first: self.first, last: self.last.min(last_place) };
            (self.first <= last_place).then_some(rest)
        }
    }
}

/// Ids that follow each other.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The places of a chunk being made: runs in order that do not touch each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    count: usize,
}

/// What came of changing a chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Changed {
    /// No place came or went.
    Nothing,
    /// So many places came and went. There is a row, unless none is left.
    Places { added: u64, removed: u64, is_empty: bool },
    /// Nothing was done: the row would be too long for a chunk of this width.
    TooLong,
}

impl Runs {
    pub(crate) const fn new() -> Self {
        Self { runs: Vec::new(), count: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.count = 0;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a run; it begins after the last one.
    #[inline]
    pub(crate) fn push(&mut self, run: Run) {
        debug_assert!(run.first <= run.last, "a run is not empty");
        self.count += run.length();
        if let Some(last) = self.runs.last_mut() {
            debug_assert!(last.last < run.first, "runs ascend");
            if last.last + 1 == run.first {
                last.last = run.last;
                return;
            }
        }
        self.runs.push(run);
    }

    /// Appends the row of a chunk with changes, which are in the order of their places, each once:
    /// a place and whether it is taken.
    pub(crate) fn change(
        &mut self,
        width: Width,
        before: Option<Chunk<'_>>,
        changes: impl Iterator<Item = (u16, bool)> + Clone,
        out: &mut Vec<u8>,
    ) -> Changed {
        if let Some(Chunk::Bitmap(bits)) = before
            && let Some(changed) = change_bitmap(bits, changes.clone(), out)
        {
            return changed;
        }
        let (added, removed) = self.merge(before, changes);
        if added + removed == 0 {
            return Changed::Nothing;
        }
        let is_empty = self.is_empty();
        if !is_empty && !self.write(width, out) {
            return Changed::TooLong;
        }
        Changed::Places { added, removed, is_empty }
    }

    /// Becomes the places of a row with changes; returns how many came and how many went.
    fn merge(
        &mut self,
        before: Option<Chunk<'_>>,
        changes: impl Iterator<Item = (u16, bool)>,
    ) -> (u64, u64) {
        self.clear();
        let (mut added, mut removed) = (0, 0);
        let mut changes = changes.peekable();
        let mut apply = |runs: &mut Self, place: u16, was_taken: bool, is_taken: bool| {
            if is_taken {
                runs.push(Run { first: place, last: place });
            }
            added += u64::from(is_taken && !was_taken);
            removed += u64::from(was_taken && !is_taken);
        };
        if let Some(before) = before {
            before.for_each_run(|run| {
                let Run { mut first, last } = run;
                while let Some((place, is_taken)) = changes.next_if(|(place, _)| *place <= last) {
                    if place < first {
                        apply(self, place, false, is_taken);
                        continue;
                    }
                    if first < place {
                        self.push(Run { first, last: place - 1 });
                    }
                    apply(self, place, true, is_taken);
                    if place == last {
                        // Nothing of the run is left.
                        return;
                    }
                    first = place + 1;
                }
                self.push(Run { first, last });
            });
        }
        changes.for_each(|(place, is_taken)| apply(self, place, false, is_taken));
        (added, removed)
    }

    /// Appends the row; false, and nothing, when that is too long for chunks of this width.
    #[must_use]
    pub(crate) fn write(&self, width: Width, out: &mut Vec<u8>) -> bool {
        debug_assert!(!self.is_empty(), "an empty chunk has no row");
        let start = out.len();
        let list_bytes = 2 * self.count;
        let runs_bytes = 4 * self.runs.len();
        if runs_bytes < list_bytes && runs_bytes < BITMAP_BYTES {
            out.push(CHUNK_RUNS);
            for run in &self.runs {
                out.extend_from_slice(&run.first.to_le_bytes());
                out.extend_from_slice(&run.last.to_le_bytes());
            }
        } else if list_bytes < BITMAP_BYTES {
            out.push(CHUNK_LIST);
            let places = self.runs.iter().flat_map(|run| run.first..=run.last);
            places.for_each(|place| out.extend_from_slice(&place.to_le_bytes()));
        } else if width == Width::NARROWEST {
            out.push(CHUNK_BITMAP);
            self.write_bitmap(out);
        } else {
            return false;
        }
        debug_assert!(out.len() - start <= CHUNK_LENGTH_MAX_BYTES, "a change rewrites little");
        true
    }

    fn write_bitmap(&self, out: &mut Vec<u8>) {
        let mut words = [0_u64; BITMAP_BYTES / 8];
        for run in &self.runs {
            set_run(&mut words, *run);
        }
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// Appends a bitmap with changes; none, and nothing, when another form is smaller then.
fn change_bitmap(
    bits: &[u8; BITMAP_BYTES],
    changes: impl Iterator<Item = (u16, bool)>,
    out: &mut Vec<u8>,
) -> Option<Changed> {
    let mut words = [0_u64; BITMAP_BYTES / 8];
    for (word, octets) in words.iter_mut().zip(bits.as_chunks().0) {
        *word = u64::from_le_bytes(*octets);
    }
    let (mut added, mut removed) = (0, 0);
    for (place, is_taken) in changes {
        let word = words.get_mut(usize::from(place) / 64)?;
        let bit = 1 << (place % 64);
        let was_taken = *word & bit != 0;
        *word = if is_taken { *word | bit } else { *word & !bit };
        added += u64::from(is_taken && !was_taken);
        removed += u64::from(was_taken && !is_taken);
    }
    if added + removed == 0 {
        return Some(Changed::Nothing);
    }
    let (mut count, mut runs, mut carry) = (0, 0, 0);
    for &word in &words {
        count += word.count_ones() as usize;
        // A run starts where a bit is set and the one before it is not.
        runs += (word & !((word << 1) | carry)).count_ones() as usize;
        carry = word >> 63;
    }
    if 2 * count < BITMAP_BYTES || 4 * runs < BITMAP_BYTES {
        return None;
    }
    out.push(CHUNK_BITMAP);
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    Some(Changed::Places { added, removed, is_empty: false })
}

/// Sets the bits of a run; those beyond the end are left out.
#[inline]
pub(crate) fn set_run(words: &mut [u64], run: Run) {
    let (first, last) = (usize::from(run.first), usize::from(run.last));
    let from = u64::MAX << (first % 64);
    let to = u64::MAX >> (63 - last % 64);
    let Some(words) = words.get_mut(first / 64..=last / 64) else { return };
    match words {
        [] => {}
        [only] => *only |= from & to,
        [one, between @ .., other] => {
            *one |= from;
            between.fill(u64::MAX);
            *other |= to;
        }
    }
}

/// Calls `put` with the number and the row of each chunk of a list of these ids, which ascend, in
/// chunks as wide as they can be; returns the width.
pub(crate) fn write_chunks<E>(
    ids: &[u64],
    put: impl FnMut(Width, u64, &[u8]) -> Result<(), E>,
) -> Result<Width, E> {
    write_chunks_of_spans(ids.iter().map(|&id| Span { first: id, last: id }), put)
}

/// Calls `put` with the number and the row of each chunk of a list of these spans, which ascend and
/// do not overlap, in chunks as wide as they can be; returns the width.
pub(crate) fn write_chunks_of_spans<E>(
    spans: impl Iterator<Item = Span> + Clone,
    mut put: impl FnMut(Width, u64, &[u8]) -> Result<(), E>,
) -> Result<Width, E> {
    let mut runs = Runs::default();
    let mut row = Vec::new();
    let mut width = Width::WIDEST;
    let fits = |width: Width, runs: &mut Runs| {
        let fits = |_, runs: &Runs| if runs.fits(width) { Ok(()) } else { Err(()) };
        each_chunk(width, spans.clone(), runs, fits).is_ok()
    };
    while !fits(width, &mut runs) {
        width = width.narrower().expect("every chunk fits into a bitmap");
    }
    each_chunk(width, spans, &mut runs, |number, runs| {
        row.clear();
        let fits = runs.write(width, &mut row);
        debug_assert!(fits, "the width was chosen so that all fit");
        put(width, number, &row)
    })?;
    Ok(width)
}

/// Calls `visit` with the number and the places of each chunk.
fn each_chunk<E>(
    width: Width,
    spans: impl Iterator<Item = Span>,
    runs: &mut Runs,
    mut visit: impl FnMut(u64, &Runs) -> Result<(), E>,
) -> Result<(), E> {
    runs.clear();
    let mut number = 0;
    for Span { mut first, last } in spans {
        loop {
            let chunk = width.chunk_of(first);
            if chunk != number {
                if !runs.is_empty() {
                    visit(number, runs)?;
                }
                runs.clear();
                number = chunk;
            }
            let end = width.id_at(chunk, width.last_place()).min(last);
            runs.push(Run { first: width.place_of(first), last: width.place_of(end) });
            if end == last {
                break;
            }
            first = end + 1;
        }
    }
    if runs.is_empty() { Ok(()) } else { visit(number, runs) }
}

impl Runs {
    fn fits(&self, width: Width) -> bool {
        let bytes = (2 * self.count).min(4 * self.runs.len());
        width == Width::NARROWEST || bytes < BITMAP_BYTES
    }
}
