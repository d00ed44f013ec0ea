//! Changes of posting lists.
//!
//! Invariant: for one key and one id, the last change counts. Adding an id that is there, or
//! removing one that is not, changes nothing.

use crate::base::lmdb::POSTINGS;
use crate::error::StoreError;
use crate::rows::key::display;

/// One id comes or goes, in eight octets: an overlay holds millions of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PostingChange(u64);

impl PostingChange {
    /// `id` is below [`ENTRY_ID_LIMIT`].
    #[inline]
    pub(crate) const fn new(id: u64, is_added: bool) -> Self {
        Self((id << 1) | is_added as u64)
    }

    #[inline]
    pub(crate) const fn id(self) -> u64 {
        self.0 >> 1
    }

    #[inline]
    pub(crate) const fn is_added(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Ids are below this; it would take longer than anything lasts to use them up.
pub(crate) const ENTRY_ID_LIMIT: u64 = 1 << 63;

/// Keeps the last change of each id, in the order of the ids.
pub(crate) fn last_of_each(changes: &mut Vec<PostingChange>) {
    // Stable: changes of one id stay in the order they were made.
    changes.sort_by_key(|change| change.id());
    changes.dedup_by(|later, kept| {
        let is_same = later.id() == kept.id();
        if is_same {
            *kept = *later;
        }
        is_same
    });
}

/// The number of the chunk that `key` is the row of, in the list with this head.
#[inline]
pub(crate) fn chunk_number(head: &[u8], key: &[u8]) -> Option<u64> {
    let number: [u8; 7] = key.strip_prefix(head)?.try_into().ok()?;
    let [a, b, c, d, e, f, g] = number;
    Some(u64::from_be_bytes([0, a, b, c, d, e, f, g]))
}

pub(crate) fn damaged(key: &[u8]) -> StoreError {
    StoreError::corrupt(POSTINGS, display(key), "is not well formed")
}

/// `ids` with the changes; both are in the order of the ids.
pub(crate) fn merged(ids: &[u64], changes: &[PostingChange]) -> Vec<u64> {
    let mut merged = Vec::with_capacity(ids.len() + changes.len());
    merge_ids(ids, changes, &mut merged);
    merged
}

/// `ids` with the changes; all are in the order of the ids.
pub(crate) fn merge_ids(ids: &[u64], changes: &[PostingChange], merged: &mut Vec<u64>) {
    merged.clear();
    let mut rest = ids;
    for change in changes {
        let at = rest.partition_point(|&id| id < change.id());
        let (before, after) = rest.split_at(at);
        merged.extend_from_slice(before);
        rest = match after {
            [same, after @ ..] if *same == change.id() => after,
            _ => after,
        };
        if change.is_added() {
            merged.push(change.id());
        }
    }
    merged.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_change_of_an_id_counts(
            ids in prop::collection::btree_set(1_u64..40, 0..30),
            changes in prop::collection::vec((1_u64..40, any::<bool>()), 0..60),
        ) {
            let mut want: BTreeSet<u64> = ids.clone();
            let mut changes: Vec<PostingChange> = changes
                .into_iter()
                .map(|(id, is_added)| PostingChange::new(id, is_added))
                .collect();
            for change in &changes {
                if change.is_added() {
                    want.insert(change.id());
                } else {
                    want.remove(&change.id());
                }
            }
            let ids: Vec<u64> = ids.into_iter().collect();
            last_of_each(&mut changes);
            let got = merged(&ids, &changes);
            prop_assert_eq!(got, want.into_iter().collect::<Vec<_>>());
        }
    }
}
