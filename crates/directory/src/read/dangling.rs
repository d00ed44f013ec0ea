//! Values that name entries which are not there, of the attributes that referential integrity
//! keeps.
//!
//! They may be meant: groups may be loaded before the people in them. So they are a finding, and no
//! damage.
//!
//! Invariant: what is held does not grow with the directory: entries are looked at one by one, and
//! no more than [`DANGLING_LISTED_MAX`] values are kept. What is in reference lists is there, so
//! these are not read.

use std::collections::HashMap;
use std::sync::Arc;

use schema::{AttributeDescription, DnKey, EntryId, EntryRead as _, Schema};
use store::{Resolved, StoreError, View};

use crate::write::references;

/// So many values are told of by name; the others are only counted.
pub const DANGLING_LISTED_MAX: usize = 100;

/// Values that name nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Dangling {
    /// How many there are.
    pub values: u64,
    /// How many entries have them.
    pub entries: u64,
    /// The first of them, up to [`DANGLING_LISTED_MAX`].
    pub listed: Vec<DanglingValue>,
}

/// A value that names nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DanglingValue {
    /// The name of the entry that has it.
    pub entry: String,
    /// The attribute.
    pub attribute: String,
    /// The name that is not there.
    pub value: String,
}

impl Dangling {
    /// Looks at every entry of a view. `progress` hears how many entries were looked at, and how
    /// many there are.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn find(view: &View<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<Self, StoreError> {
        let schema = Arc::clone(view.schema());
        let kinds = references::kinds(view, &schema)?;
        let total = view.entry_count()?;
        let mut search = Search { view, schema: &schema, known: HashMap::new() };
        let mut found = Self::default();
        if kinds.is_empty() {
            return Ok(found);
        }
        for (number, stored) in (0..).zip(view.entries_after(EntryId::ROOT)?) {
            if u64::is_multiple_of(number, PROGRESS_ENTRIES) {
                progress(number, total);
            }
            let stored = stored?;
            let before = found.values;
            for (description, values) in stored.record_attributes() {
                if !kinds.iter().any(|kind| kind.covers(description)) {
                    continue;
                }
                for value in values {
                    if search.dangles(description, value)? {
                        found.note(stored.dn(), description, value);
                    }
                }
            }
            found.entries += u64::from(found.values > before);
        }
        progress(total, total);
        Ok(found)
    }

    fn note(&mut self, entry: &str, description: &AttributeDescription, value: &[u8]) {
        self.values += 1;
        if self.listed.len() < DANGLING_LISTED_MAX {
            self.listed.push(DanglingValue {
                entry: entry.to_owned(),
                attribute: description.text().to_owned(),
                value: String::from_utf8_lossy(value).into_owned(),
            });
        }
    }
}

struct Search<'a> {
    view: &'a View<'a>,
    schema: &'a Schema,
    /// Names that were looked up lately, and whether they dangle: one manager has many reports.
    known: HashMap<Vec<u8>, bool>,
}

impl Search<'_> {
    /// Whether a value is a name below a naming context of this server, and no entry has it.
    fn dangles(
        &mut self,
        description: &AttributeDescription,
        value: &[u8],
    ) -> Result<bool, StoreError> {
        if let Some(known) = self.known.get(value) {
            return Ok(*known);
        }
        let dangles = match self.key(description, value) {
            Some(key) => match self.view.resolve(&key)? {
                Resolved::Missing { .. } => true,
                // What is on another server is not known here.
                Resolved::Found(_) | Resolved::NoContext => false,
            },
            None => false,
        };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(value.to_vec(), dangles);
        Ok(dangles)
    }

    /// The name that a value is; none where it says more than a name (a bit string of
    /// `uniqueMember`), or is none.
    fn key(&self, description: &AttributeDescription, value: &[u8]) -> Option<DnKey> {
        let key = DnKey::from_text(self.schema, std::str::from_utf8(value).ok()?).ok()?;
        let rule = description.kind.equality?;
        let mut prepared = Vec::new();
        (rule.prepare)(self.schema, value, &mut prepared).ok()?;
        (prepared == key.as_bytes()).then_some(key)
    }
}

/// Progress is told every so many entries.
const PROGRESS_ENTRIES: u64 = 10_000;
/// So many values are remembered.
const KNOWN_MAX: usize = 4096;
