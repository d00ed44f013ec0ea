//! Which entries a line is about.

use schema::{DnKey, EntryRead, ResolvedFilter, Schema, Truth};

/// `[below DN] [where FILTER]`.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Only entries at and below this one, if not all.
    pub(crate) below: Option<DnKey>,
    /// Only entries that match, if not all.
    pub(crate) filter: Option<ResolvedFilter>,
}

impl Place {
    /// Whether the line is about entries at this place.
    pub(crate) fn holds_at(&self, key: &DnKey) -> bool {
        self.below.as_ref().is_none_or(|base| key.is_within(base))
    }

    /// Whether it is about such an entry, wherever it is.
    pub(crate) fn holds_for(&self, schema: &Schema, entry: &dyn EntryRead) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.matches(schema, entry) == Truth::True)
    }
}
