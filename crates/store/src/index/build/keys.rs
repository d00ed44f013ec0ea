//! The keys that a step of a build gathers, and their order.

use crate::error::StoreError;
use crate::overlay::deltas::PostingChange;
use crate::rows::key::RowKey;

/// Keys of entries in indexes, in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Keys {
    octets: Vec<u8>,
    all: Vec<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Key {
    /// Where the head of the list is in `octets`.
    start: usize,
    length: usize,
    id: u64,
}

impl Keys {
    /// The memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.octets.len() + self.all.len() * size_of::<Key>()
    }

    /// One more: `id` has this value key in the index.
    pub(super) fn push(&mut self, index: u16, value: &[u8], id: u64) {
        let head = RowKey::postings(index, value);
        let (start, length) = (self.octets.len(), head.as_bytes().len());
        self.octets.extend_from_slice(head.as_bytes());
        self.all.push(Key { start, length, id });
    }

    /// Calls `visit` with each list's head and the ids that come to it, in the order of the heads
    /// and of the ids.
    pub(super) fn each_list(
        &mut self,
        mut visit: impl FnMut(&[u8], &[PostingChange]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let octets = &self.octets;
        let head = |key: &Key| octets.get(key.start..key.start + key.length).unwrap_or_default();
        self.all
            .sort_unstable_by(|one, other| head(one).cmp(head(other)).then(one.id.cmp(&other.id)));
        // A key may have come more than once for one entry.
        self.all.dedup_by(|one, other| one.id == other.id && head(one) == head(other));
        let mut changes = Vec::new();
        for list in self.all.chunk_by(|one, next| head(one) == head(next)) {
            let Some(first) = list.first() else { continue };
            changes.clear();
            changes.extend(list.iter().map(|key| PostingChange::new(key.id, true)));
            visit(head(first), &changes)?;
        }
        Ok(())
    }
}
