//! Which entries have values that name an entry, or one below it: by the equality index of an
//! attribute whose values are names.

use rustc_hash::FxHashSet;
use schema::{AttributeDescription, AttributeType, DnKey, EntryId};

use super::{Resolved, View, source_key};
use crate::error::StoreError;
use crate::index::ids::IdSet;
use crate::index::{IndexKind, SOURCE_LISTS};
use crate::read::interrupt::NEVER;
use crate::read::plan::after_all_with;
use crate::rows::dictionary::compares_names;
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
    /// There are more than are read at once, some million, so these are none of them: whoever asks
    /// asks again for fewer names.
    pub is_too_many: bool,
}

/// The first key, and the one behind the last.
type Between = (Box<[u8]>, Box<[u8]>);

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
        let Some((first, to)) = self.named_between(kind, meant) else {
            return Ok(References::Unindexed);
        };
        // An id counts for each name, so there may be more than `most`, but not very many more.
        let ids_max = most.saturating_mul(IDS_OF_MOST).clamp(IDS_AT_ONCE_MIN, IDS_AT_ONCE_MAX);
        let mut found = FxHashSet::default();
        let (mut from, mut names_max, mut ids_max) = (first, NAMES_AT_ONCE, ids_max);
        loop {
            let part = self.part(&from, &to, names_max, ids_max)?;
            if part.is_too_many {
                if names_max > 1 {
                    names_max /= 2;
                    continue;
                }
                let end = part.next.as_deref().unwrap_or(&to);
                // Names that the base does not have are no ends of parts: they come together.
                let is_one = self.range_count(&from, end, 1, NEVER)?.is_exact;
                if is_one || ids_max == IDS_AT_ONCE_MAX {
                    return Ok(References::TooMany);
                }
                ids_max = IDS_AT_ONCE_MAX;
                continue;
            }
            found.extend(part.ids);
            if found.len() as u64 > most {
                return Ok(References::TooMany);
            }
            let Some(next) = part.next else { break };
            from = next;
        }
        let mut ids: Vec<EntryId> = found.into_iter().collect();
        ids.sort_unstable();
        Ok(References::Found(ids))
    }

    /// The entries that name `name` by a value of exactly this attribute, in a reference list or
    /// not, in the order of their ids: what a plan finds, for whoever has no other question. `id`
    /// is that of the entry with this name, if it is known. None where no complete index tells, or
    /// where there are more than some hundred.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn few_naming(
        &self,
        attribute: &AttributeDescription,
        name: &DnKey,
        id: Option<EntryId>,
    ) -> Result<Option<Vec<EntryId>>, StoreError> {
        let kind = &attribute.kind;
        let key = name.as_bytes();
        let index = self.dictionary().index(kind, IndexKind::Equality);
        let rule = kind.equality.filter(|rule| compares_names(rule));
        let Some(index) = index.filter(|index| rule.is_some() && index.rule == rule) else {
            return Ok(None);
        };
        if !attribute.options().is_empty() || key.len() >= INDEX_VALUE_KEPT_BYTES {
            return Ok(None);
        }
        self.note_index(index.id);
        let Some(mut found) = self.few(index.id, key)? else { return Ok(None) };
        let mut lists = self.dictionary().listed_of(attribute).peekable();
        if lists.peek().is_some() {
            let target = match id {
                Some(id) => id,
                None => match self.resolve(name)? {
                    Resolved::Found(id) => id,
                    Resolved::Missing { .. } | Resolved::NoContext => EntryId::ROOT,
                },
            };
            for listed in lists.filter(|_| target != EntryId::ROOT) {
                let few = self.few(SOURCE_LISTS, &source_key(listed, target.0))?;
                let Some(more) = few else { return Ok(None) };
                found = if found.is_empty() { more } else { found.union(more) };
            }
        }
        Ok(Some(found.iter_after(0).map(EntryId).collect()))
    }

    /// The ids of a list, if they are few.
    fn few(&self, index: u16, key: &[u8]) -> Result<Option<IdSet>, StoreError> {
        let Some(list) = self.list(index, key)? else { return Ok(Some(IdSet::empty())) };
        if list.count_at_most() > FEW_IDS_MAX {
            return Ok(None);
        }
        self.load(&list, NEVER).map(Some)
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
        let Some((first, to)) = self.named_between(kind, meant) else { return Ok(None) };
        self.part(from.unwrap_or(&first), &to, names_max, IDS_AT_ONCE_MAX).map(Some)
    }

    /// Between which keys the names are that are meant; none where no complete index tells.
    fn named_between(&self, kind: &AttributeType, meant: Meant<'_>) -> Option<Between> {
        let index = self.dictionary().index(kind, IndexKind::Equality);
        let index = index.filter(|index| index.rule == kind.equality)?;
        self.note_index(index.id);
        let Meant { name, naming } = meant;
        Some(match naming {
            Naming::Itself => {
                let mut key = name.as_bytes().to_vec();
                shorten(&mut key);
                let head = RowKey::postings(index.id, &key);
                (head.as_bytes().into(), after_all_with(head.as_bytes()))
            }
            Naming::OrBelow => {
                let key = name.as_bytes();
                // Keys that are longer are kept as far as this.
                let kept = key.get(..INDEX_VALUE_KEPT_BYTES.saturating_sub(1)).unwrap_or(key);
                let first = RowKey::postings_from(index.id, kept);
                let to = after_all_with(first.as_bytes());
                (first.as_bytes().into(), to)
            }
        })
    }

    /// What the lists of about `names_max` names between two keys have, if that is not more than
    /// `ids_max`.
    fn part(
        &self,
        from: &[u8],
        to: &[u8],
        names_max: usize,
        ids_max: u64,
    ) -> Result<SomeReferences, StoreError> {
        let next = self.head_after(from, to, names_max)?;
        let found = self.range(from, next.as_deref().unwrap_or(to), ids_max, NEVER)?;
        let is_too_many = found.is_none();
        let ids = found.map_or_else(Vec::new, |ids| ids.iter_after(0).map(EntryId).collect());
        Ok(SomeReferences { ids, next, is_too_many })
    }
}

/// More ids than this are not few.
const FEW_IDS_MAX: u64 = 512;
/// So many names are looked at in a row.
const NAMES_AT_ONCE: usize = 1000;
/// So many ids are read in a row, at most.
const IDS_AT_ONCE_MAX: u64 = 1 << 22;
/// So many ids are read in a row even where few are asked for: names share entries.
const IDS_AT_ONCE_MIN: u64 = 1 << 16;
/// So many ids are read in a row for each that is asked for: lists count ids that went since.
const IDS_OF_MOST: u64 = 8;
