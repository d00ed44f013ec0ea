//! Entries with very many values, which are sent in parts: nobody holds all of them.
//!
//! A message begins with its length. So the names of a reference list are gone through twice, in
//! one and the same view: once to count their octets, and once to send them. What values take that
//! are rows of their own, their record tells.
//!
//! Invariant: once a part of a message was handed on, all of it is, or the connection ends.
//! Invariant: the view is not held for a client that does not take its answer: the connection ends
//! at the deadline that [`LargeEntry::time_max`] tells.
//! Invariant: a connection is sent one at a time (see `large_turns.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aci::{VisibleAttribute, VisibleEntry};
use ldap::encode::{LongAttribute, LongEntry};
use ldap::message::{AttributesBuf, Controls, MessageId, PartialAttribute, Values};
use schema::{AttributeDescription, EntryId};
use store::{DetachedView, Lsn, OutsideValues, StoreError, StoredEntry, View};

use crate::request::asker_bytes::AskerHeld;
use crate::request::large_turns::LargeTurn;

/// An entry that is to be sent in parts.
pub(crate) struct LargeEntry {
    id: EntryId,
    /// The state that its octets were counted in.
    lsn: Lsn,
    /// The attributes whose values are not all sent, and how many octets of those are left.
    lists: VecDeque<(Arc<AttributeDescription>, u64)>,
    /// What is sent before the names of each, and behind all of them.
    pieces: VecDeque<Vec<u8>>,
    /// Behind what of the first of them it goes on.
    last: Vec<u8>,
    /// The octets of the whole message.
    octets: u64,
    turn: LargeTurn,
    _held: AskerHeld,
}

/// An attribute of an entry whose values are outside of its record.
pub(crate) type LongList<'v> = (&'v Arc<AttributeDescription>, OutsideValues<'v>);

/// What is to be sent of an entry.
pub(crate) struct LargeParts<'a, 'v> {
    pub(crate) stored: &'a StoredEntry<'v>,
    pub(crate) visible: &'a VisibleEntry<'a>,
    pub(crate) controls: Controls<'a>,
    /// The lists that are sent in parts.
    pub(crate) lists: &'a [LongList<'v>],
    pub(crate) lsn: Lsn,
    /// That it is under way.
    pub(crate) held: AskerHeld,
    pub(crate) turn: LargeTurn,
}

impl LargeEntry {
    /// Counts the octets of an entry; `is_stopped` is asked now and then. None when they are more
    /// than fit into a message.
    pub(crate) fn count(
        id: MessageId,
        parts: LargeParts<'_, '_>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let LargeParts { stored, visible, controls, lists, lsn, held, turn } = parts;
        let mut attributes = AttributesBuf::new();
        let mut readable = Vec::new();
        let find = |one: &AttributeDescription| lists.iter().find(|(found, _)| ***found == *one);
        visible.visit_in_parts(&|one| find(one).is_some(), &mut |found| match found {
            VisibleAttribute::Whole(description, values) => {
                attributes.push(PartialAttribute { description, values });
            }
            VisibleAttribute::InParts(description) => readable.extend(find(description)),
        });
        let mut long = Vec::with_capacity(readable.len());
        for (description, list) in readable {
            let mut of_record = stored.record_attributes();
            let first = of_record.find(|(one, _)| *one == *description);
            let first = first.map_or(Values::EMPTY, |(_, values)| values);
            let octets = list.octets(is_stopped)?;
            long.push((*description, first, octets));
        }
        let of_message = long.iter().map(|(description, first, octets)| LongAttribute {
            description: description.text(),
            first: *first,
            octets: *octets,
        });
        let of_message: Vec<_> = of_message.collect();
        let message = LongEntry::new(id, visible.dn(), attributes.as_ref(), &of_message, controls);
        Ok(message.map(|LongEntry { pieces }| {
            let of_lists: u64 = long.iter().map(|(_, _, octets)| *octets).sum();
            let of_pieces: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
            let lists = long.iter().map(|(one, _, octets)| (Arc::clone(one), *octets)).collect();
            let (pieces, octets) = (pieces.into(), of_lists + of_pieces);
            let (id, last) = (stored.id(), Vec::new());
            Self { id, lsn, lists, pieces, last, octets, turn, _held: held }
        }))
    }

    /// How long a client may take for all of it.
    pub(crate) fn time_max(&self) -> Duration {
        TIME_MIN + Duration::from_secs(self.octets / BYTES_PER_SECOND_MIN)
    }

    fn fill(
        &mut self,
        view: &View<'_>,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<bool, LargeFailure> {
        loop {
            if self.pieces.len() > self.lists.len() {
                out.extend(self.pieces.pop_front().unwrap_or_default());
            }
            let Some((description, left)) = self.lists.front_mut() else { return Ok(false) };
            let before = out.len();
            let last = write(view, self.id, description, &self.last, out, bytes_max)?;
            let written = (out.len() - before) as u64;
            *left = left.checked_sub(written).ok_or(LargeFailure::Differs)?;
            if let Some(last) = last {
                self.last = last;
                return Ok(true);
            }
            if *left > 0 {
                return Err(LargeFailure::Differs);
            }
            self.last.clear();
            self.lists.pop_front();
        }
    }

    /// Begins to send it, from the view that it was counted in; none when this is another one.
    pub(crate) fn begin(self, view: DetachedView) -> Option<LargeMessage> {
        (view.lsn() == Some(self.lsn)).then_some(LargeMessage { entry: self, view })
    }
}

/// An entry that is being sent in parts.
pub(crate) struct LargeMessage {
    entry: LargeEntry,
    view: DetachedView,
}

impl LargeMessage {
    /// Appends to `out` until that has `bytes_max` octets, about. Whether there is more.
    ///
    /// # Errors
    /// When the store cannot be read, or does not have what it had.
    pub(crate) fn fill(
        &mut self,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<bool, LargeFailure> {
        let Self { entry, view } = self;
        let filled = view.read(|view| entry.fill(view, out, bytes_max));
        filled.unwrap_or(Err(LargeFailure::Differs))
    }

    /// All parts are on their way: gives up the view, not the turn.
    pub(crate) fn into_turn(self) -> LargeTurn {
        self.entry.turn
    }
}

/// Appends values behind `after`, until there are so many octets. Behind what it goes on.
fn write(
    view: &View<'_>,
    id: EntryId,
    description: &AttributeDescription,
    after: &[u8],
    out: &mut Vec<u8>,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, LargeFailure> {
    let stored = view.entry(id)?.ok_or(LargeFailure::Differs)?;
    let list = stored.outside()?.into_iter().find(|(one, _)| ***one == *description);
    let (_, list) = list.ok_or(LargeFailure::Differs)?;
    Ok(list.write_after(after, out, bytes_max)?)
}

/// Why an entry cannot be sent to its end.
#[derive(Debug)]
pub(crate) enum LargeFailure {
    /// The store cannot be read.
    Store(StoreError),
    /// One view has told two things of it.
    Differs,
}

impl From<StoreError> for LargeFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for LargeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Differs => f.write_str("its values are not those that were counted"),
        }
    }
}

impl fmt::Debug for LargeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeMessage").field("octets", &self.entry.octets).finish_non_exhaustive()
    }
}

/// What an entry that is sent in parts counts for, in octets: parts on their way, and the records
/// and rows that are read.
pub(crate) const LARGE_ENTRY_BYTES: usize = 1 << 20;
/// How long a client may take for one, at least.
const TIME_MIN: Duration = Duration::from_secs(60);
/// How many octets a client takes in a second, if the whole is not to take longer than that.
const BYTES_PER_SECOND_MIN: u64 = 512 << 10;
