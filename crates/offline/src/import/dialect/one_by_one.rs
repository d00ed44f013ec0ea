//! Entries of a server that is read while it serves, translated one by one.
//!
//! Invariant: each meets what an import of a file would do with it.

use std::borrow::Cow;
use std::sync::Arc;

use schema::Schema;

use super::{RawRecord, Tally, Translator, Verdict};

/// Translates entries as an import does, and counts what it did.
pub struct EntryTranslator {
    translator: Translator,
    tally: Tally,
}

/// An entry: its name, and a description for each value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlainEntry {
    /// Its name, as text.
    pub dn: String,
    /// A pair for each value; those of one attribute need not stand together.
    pub values: Vec<(String, Vec<u8>)>,
}

impl EntryTranslator {
    /// For a directory with this schema.
    #[must_use]
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { translator: Translator::new(schema), tally: Tally::default() }
    }

    /// Translates an entry.
    ///
    /// # Errors
    /// Why it is left out.
    pub fn translate(&mut self, entry: PlainEntry) -> Result<PlainEntry, &'static str> {
        let owned = |(name, value): (String, Vec<u8>)| (Cow::Owned(name), Cow::Owned(value));
        let attributes = entry.values.into_iter().map(owned).collect();
        let mut raw = RawRecord { dn: Cow::Owned(entry.dn), attributes };
        match self.translator.translate(&mut raw, &mut self.tally) {
            Verdict::Skip(reason) => Err(reason),
            Verdict::Keep => {
                let plain =
                    |(name, value): (Cow<'_, str>, Cow<'_, [u8]>)| (name.into(), value.into());
                let values = raw.attributes.into_iter().map(plain).collect();
                Ok(PlainEntry { dn: raw.dn.into_owned(), values })
            }
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}
