//! What the records say, one after the other: the state of the log.
//!
//! Pure: writing, opening, copying and checking all apply the same records to the same state.

use crate::format::{Kind, Record, u32_at, u64_at};
use crate::{JournalPosition, VOTE_MAX_BYTES};

/// Where a group begins.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Position {
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
}

/// Entries that follow each other in the files.
///
/// A truncated suffix ends one run and begins the next; a log never truncated is one run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    /// The index of the first entry of the run; it ends before the first of the next.
    pub(crate) first: u64,
    /// The entries of the run are behind this position, and before that of the next run.
    pub(crate) from: Position,
}

/// All the journal knows besides where the entries are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Log {
    /// The index of the next entry.
    pub(crate) next: u64,
    pub(crate) last: Option<JournalPosition>,
    /// Never empty.
    pub(crate) runs: Vec<Run>,
    pub(crate) purged: Option<JournalPosition>,
    pub(crate) committed: Option<JournalPosition>,
    pub(crate) vote: Option<Vec<u8>>,
    /// Segments before this one are of a history that a reset ended.
    pub(crate) origin: u64,
}

impl Log {
    /// An empty log that begins in the segment `sequence` with the entry `first`.
    pub(crate) fn new(first: u64, sequence: u64) -> Self {
        let from = Position { sequence, offset: 0 };
        Self { next: first, runs: vec![Run { first, from }], origin: sequence, ..Self::default() }
    }

    /// The first entry that recovery needs.
    pub(crate) fn needed(&self) -> u64 {
        let first = self.runs.first().map_or(self.next, |run| run.first);
        self.purged.map_or(first, |purged| purged.index.saturating_add(1).max(first))
    }

    /// Applies a record of the group at `from`; an error says what contradicts what.
    pub(crate) fn apply(&mut self, record: &Record<'_>, from: Position) -> Result<(), String> {
        let place = record.place;
        match record.kind {
            Kind::Entry => {
                if place.index != self.next {
                    return Err(format!("entry {} where {} was due", place.index, self.next));
                }
                let term = self.last.map_or(0, |last| last.term);
                if place.term < term {
                    return Err(format!("term {} after term {term}", place.term));
                }
                self.next = place.index.checked_add(1).ok_or("no index is left")?;
                self.last = Some(place);
            }
            Kind::Vote => self.vote = Some(record.payload.to_vec()),
            Kind::Committed => self.committed = Some(place),
            Kind::Truncate => {
                if place.index >= self.next {
                    return Err(format!(
                        "truncation to {}, and {} is next",
                        place.index, self.next
                    ));
                }
                self.next = place.index + 1;
                self.last = (!record.payload.is_empty()).then_some(place);
                self.runs.retain(|run| run.first <= place.index);
                self.runs.push(Run { first: self.next, from });
            }
            Kind::Purge => self.purged = Some(place),
            Kind::State => {
                let state = Self::decode(record).ok_or("the state cannot be read")?;
                let is_first = self.runs.is_empty() || state.origin == from.sequence;
                if !is_first && !state.continues(self) {
                    return Err("the segment does not continue the one before".to_owned());
                }
                *self = state;
            }
            Kind::Seal | Kind::Cut | Kind::Mark => {}
        }
        Ok(())
    }

    /// Whether this state, read from a segment, is that in which the one before ended.
    pub(crate) fn continues(&self, before: &Self) -> bool {
        // Runs that can no longer be read are not carried over.
        let same = (self.next, self.last, self.purged, self.committed, self.origin)
            == (before.next, before.last, before.purged, before.committed, before.origin);
        same && self.vote == before.vote && before.runs.ends_with(&self.runs)
    }

    /// The payload of the record with which a segment begins; its place is [`Log::state_place`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.origin.to_le_bytes());
        for place in [self.last, self.purged, self.committed] {
            let place_or_zero = place.unwrap_or_default();
            bytes.extend_from_slice(&u64::from(place.is_some()).to_le_bytes());
            bytes.extend_from_slice(&place_or_zero.index.to_le_bytes());
            bytes.extend_from_slice(&place_or_zero.term.to_le_bytes());
        }
        let vote = self.vote.as_deref();
        bytes.extend_from_slice(&u32::from(vote.is_some()).to_le_bytes());
        bytes.extend_from_slice(&(vote.map_or(0, <[u8]>::len) as u32).to_le_bytes());
        bytes.extend_from_slice(vote.unwrap_or_default());
        for run in &self.runs {
            bytes.extend_from_slice(&run.first.to_le_bytes());
            bytes.extend_from_slice(&run.from.sequence.to_le_bytes());
            bytes.extend_from_slice(&run.from.offset.to_le_bytes());
        }
        bytes
    }

    /// The place of the state record: the next index, and the term of the last entry.
    pub(crate) fn state_place(&self) -> JournalPosition {
        JournalPosition { term: self.last.map_or(0, |last| last.term), index: self.next }
    }

    /// Reads the state with which a segment begins.
    pub(crate) fn decode(record: &Record<'_>) -> Option<Self> {
        let bytes = record.payload;
        let place = |at: usize| {
            let place =
                JournalPosition { index: u64_at(bytes, at + 8)?, term: u64_at(bytes, at + 16)? };
            Some((u64_at(bytes, at)? != 0).then_some(place))
        };
        let length = u32_at(bytes, 84)? as usize;
        let vote = bytes.get(88..)?.get(..length)?;
        let runs = bytes.get(88 + length..)?;
        if length > VOTE_MAX_BYTES || runs.is_empty() || runs.len() % 24 != 0 {
            return None;
        }
        let run = |run: &[u8]| {
            let from = Position { sequence: u64_at(run, 8)?, offset: u64_at(run, 16)? };
            Some(Run { first: u64_at(run, 0)?, from })
        };
        let runs: Vec<Run> = runs.chunks_exact(24).map(run).collect::<Option<_>>()?;
        if !runs.is_sorted_by(|one, other| one.first < other.first && one.from < other.from) {
            return None;
        }
        let state = Self {
            next: record.place.index,
            last: place(8)?,
            runs,
            purged: place(32)?,
            committed: place(56)?,
            vote: (u32_at(bytes, 80)? != 0).then(|| vote.to_vec()),
            origin: u64_at(bytes, 0)?,
        };
        let follows =
            |place: Option<JournalPosition>| place.map(|place| place.index.checked_add(1));
        let is_possible = follows(state.last).is_none_or(|next| next == Some(state.next))
            && state.last.map_or(0, |last| last.term) == record.place.term
            && follows(state.purged).is_none_or(|next| next.is_some_and(|next| next <= state.next))
            && state.runs.last().is_some_and(|run| run.first <= state.next);
        is_possible.then_some(state)
    }

    /// Forgets runs that end before `first`, the first index that can be read.
    pub(crate) fn forget_runs_before(&mut self, first: u64) {
        let gone = self.runs.iter().skip(1).take_while(|run| run.first <= first).count();
        self.runs.drain(..gone);
    }

    /// The run that holds `index`, and the one that ends it.
    pub(crate) fn run(&self, index: u64) -> Option<(Run, Option<Run>)> {
        let behind = self.runs.partition_point(|run| run.first <= index);
        let run = *self.runs.get(behind.checked_sub(1)?)?;
        Some((run, self.runs.get(behind).copied()))
    }
}
