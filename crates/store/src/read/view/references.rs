//! Which entries have values that name an entry, or one below it: by the equality index of an
//! attribute whose values are names.

use schema::{AttributeType, DnKey, EntryId};

use super::View;
use crate::error::StoreError;
use crate::index::IndexKind;
use crate::read::interrupt::NEVER;
use crate::read::plan::after_all_with;
use crate::rows::key::{INDEX_VALUE_KEPT_BYTES, RowKey};

/// Entries that name others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum References {
    /// No complete index tells.
    Unindexed,
    /// They are more than was asked for.
    TooMany,
    /// These, in the order of their ids, and perhaps some that have no such value: whoever asks
    /// looks at the values.
    Found(Vec<EntryId>),
}

impl View<'_> {
    /// The entries with a value of `kind` that names `name` or something below it, up to `most`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn references(
        &self,
        kind: &AttributeType,
        name: &DnKey,
        most: u64,
    ) -> Result<References, StoreError> {
        let index = self.dictionary().index(kind, IndexKind::Equality);
        let Some(index) = index.filter(|index| index.rule == kind.equality) else {
            return Ok(References::Unindexed);
        };
        self.note_index(index.id);
        let key = name.as_bytes();
        // Keys that are longer are kept as far as this.
        let kept = key.get(..INDEX_VALUE_KEPT_BYTES.saturating_sub(1)).unwrap_or(key);
        let from = RowKey::postings_from(index.id, kept);
        let to = after_all_with(from.as_bytes());
        let found = self.range(from.as_bytes(), &to, most, NEVER)?;
        Ok(found.map_or(References::TooMany, |ids| {
            References::Found(ids.iter_after(0).map(EntryId).collect())
        }))
    }
}
