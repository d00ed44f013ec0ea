//! Where entries are, by the name of their superior as it is written: which place is above them.
//!
//! Most entries have their superior in common with others, so its name is read once. Only where
//! ACIs are kept directly below a superior is more of an entry's name looked at: its leaf.
//!
//! Invariant: what is known of a superior holds for the set it is kept in, whoever asks.

use schema::{DnKey, Schema};

use super::AciSet;
use super::growing::{Found, Growing, hash_text};

/// The superior of some entries.
pub(crate) struct Superior {
    text: Box<str>,
    /// The key of its name.
    pub(crate) key: DnKey,
    /// The lowest place that is the superior or above it.
    pub(super) place: usize,
    /// Whether there are places directly below it.
    pub(super) has_places: bool,
}

/// The superiors that were asked for.
#[derive(Default)]
pub(super) struct Superiors(Growing<Superior>);

/// A superior that is kept, or was made for one question.
pub(crate) enum Above<'s> {
    Kept(Found, &'s Superior),
    Made(Superior),
}

impl Above<'_> {
    pub(crate) fn superior(&self) -> &Superior {
        match self {
            Self::Kept(_, superior) => superior,
            Self::Made(superior) => superior,
        }
    }
}

impl Superior {
    /// Whether this is its name, as written.
    pub(crate) fn is_written(&self, text: &str) -> bool {
        *self.text == *text
    }

    /// Whether one chain applies to all entries directly below it.
    pub(crate) fn is_even(&self) -> bool {
        !self.has_places
    }

    /// The key of the entry directly below it with this leaf; none if it has none.
    pub(crate) fn below(&self, leaf: &str, schema: &Schema) -> Option<DnKey> {
        let mut key = Vec::with_capacity(self.key.as_bytes().len() + leaf.len() + LEAF_SPARE_BYTES);
        key.extend_from_slice(self.key.as_bytes());
        DnKey::write(schema, leaf, &mut key).ok()?;
        Some(DnKey::from_bytes(key))
    }
}

impl AciSet {
    /// The superior with this name; none if the name has no key.
    pub(crate) fn superior(&self, text: &str) -> Option<Above<'_>> {
        let table = &self.superiors.0;
        let hash = hash_text(text);
        let is_it = |one: &Superior| one.is_written(text);
        if let Some((found, superior)) = table.find(hash, is_it) {
            return Some(Above::Kept(found, superior));
        }
        let key = DnKey::from_text(self.schema(), text).ok()?;
        let superior = Superior {
            text: text.into(),
            place: self.place_above(&key).unwrap_or_default(),
            has_places: self.has_places_directly_below(&key),
            key,
        };
        Some(match table.add(hash, superior, is_it) {
            Ok((found, kept)) => Above::Kept(found, kept),
            Err(made) => Above::Made(made),
        })
    }

    /// What [`Self::superior`] found before.
    pub(crate) fn superior_at(&self, found: Found) -> Option<&Superior> {
        self.superiors.0.at(found)
    }
}

/// What the key of a leaf may take beyond its text.
const LEAF_SPARE_BYTES: usize = 16;
