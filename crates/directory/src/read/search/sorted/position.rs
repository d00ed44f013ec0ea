//! The position of an entry in a sorted list.

use schema::EntryId;

/// A position in the list: the key of an entry, and its id.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::read::search) struct ListPosition {
    pub(in crate::read::search) key: Vec<u8>,
    pub(in crate::read::search) id: EntryId,
}

impl ListPosition {
    /// The octets it takes.
    pub(in crate::read::search) fn bytes(&self) -> usize {
        self.key.len() + POSITION_BYTES
    }

    /// What it costs to compare it with another one.
    pub(super) fn compare_steps(&self) -> u64 {
        COMPARE_STEPS + (self.key.len() / OCTETS_OF_STEP) as u64
    }
}

/// What a position takes besides its key.
pub(super) const POSITION_BYTES: usize = 64;
/// What it costs to compare a position with another one, besides their keys, in steps of work.
const COMPARE_STEPS: u64 = 50;
/// So many octets of keys are compared in a step.
const OCTETS_OF_STEP: usize = 8;
