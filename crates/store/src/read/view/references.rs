//! Which entries have values that name an entry, or one below it: by the equality index of an
//! attribute whose values are names.

use rustc_hash::FxHashSet;
use schema::{AttributeType, DnKey, EntryId};

use super::View;
use crate::error::StoreError;
use crate::index::IndexKind;
use crate::read::interrupt::NEVER;
use crate::read::plan::after_all_with;
use crate::rows::key::{INDEX_VALUE_KEPT_BYTES, RowKey, shorten};

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

/// Which names are meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Naming {
    /// That of one entry.
    Itself,
    /// That, and those of what is below it.
    OrBelow,
}

/// What is named.
#[derive(Clone, Copy, Debug)]
pub struct Meant<'n> {
    /// The name of an entry, or one that an entry had.
    pub name: &'n DnKey,
    /// Whether names below it are meant, too.
    pub naming: Naming,
}

/// A part of the entries that name others.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SomeReferences {
    /// As in [`References::Found`], in no order, and perhaps twice.
    pub ids: Vec<EntryId>,
    /// Where the next part begins; none when this is the last.
    pub next: Option<Box<[u8]>>,
    /// There are more than are read at once, some million, so these are none of them.
    pub is_too_many: bool,
}

impl View<'_> {
    /// The entries with a value of `kind` that names what is meant, up to `most`.
    /// Those are not asked about whose value is in a reference list.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn references(
        &self,
        kind: &AttributeType,
        meant: Meant<'_>,
        most: u64,
    ) -> Result<References, StoreError> {
        let mut found = FxHashSet::default();
        let mut from = None;
        loop {
            let part = self.some_references(kind, meant, from.as_deref(), NAMES_AT_ONCE)?;
            let Some(SomeReferences { ids, next, is_too_many }) = part else {
                return Ok(References::Unindexed);
            };
            found.extend(ids);
            if is_too_many || found.len() as u64 > most {
                return Ok(References::TooMany);
            }
            let Some(next) = next else { break };
            from = Some(next);
        }
        let mut ids: Vec<EntryId> = found.into_iter().collect();
        ids.sort_unstable();
        Ok(References::Found(ids))
    }

    /// As [`Self::references`], those of about `names_max` names from `from` on, which is what the
    /// part before has told; none where no complete index tells.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn some_references(
        &self,
        kind: &AttributeType,
        meant: Meant<'_>,
        from: Option<&[u8]>,
        names_max: usize,
    ) -> Result<Option<SomeReferences>, StoreError> {
        let index = self.dictionary().index(kind, IndexKind::Equality);
        let Some(index) = index.filter(|index| index.rule == kind.equality) else {
            return Ok(None);
        };
        self.note_index(index.id);
        let Meant { name, naming } = meant;
        let (first, to) = match naming {
            Naming::Itself => {
                let mut key = name.as_bytes().to_vec();
                shorten(&mut key);
                let head = RowKey::postings(index.id, &key);
                (head.clone(), after_all_with(head.as_bytes()))
            }
            Naming::OrBelow => {
                let key = name.as_bytes();
                // Keys that are longer are kept as far as this.
                let kept = key.get(..INDEX_VALUE_KEPT_BYTES.saturating_sub(1)).unwrap_or(key);
                let first = RowKey::postings_from(index.id, kept);
                let to = after_all_with(first.as_bytes());
                (first, to)
            }
        };
        let from = from.unwrap_or_else(|| first.as_bytes());
        let next = self.head_after(from, &to, names_max)?;
        let found = self.range(from, next.as_deref().unwrap_or(&to), IDS_AT_ONCE_MAX, NEVER)?;
        let is_too_many = found.is_none();
        let ids = found.map_or_else(Vec::new, |ids| ids.iter_after(0).map(EntryId).collect());
        Ok(Some(SomeReferences { ids, next, is_too_many }))
    }
}

/// So many names are looked at in a row.
const NAMES_AT_ONCE: usize = 1000;
/// So many ids are read in a row, at most.
const IDS_AT_ONCE_MAX: u64 = 1 << 22;
