//! What of an entry can be made before its place in the tree is known, on any thread.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;
use schema::{DnKey, Entry, EntryId, EntryRead};

use super::lists::PostingKeys;
use super::{Place, PrepareError, Refusal, RefusalReason};
use crate::apply::own_name;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::record::{Record, RecordWriter};

/// Prepares entries for a [`super::BulkLoader`]; each thread takes a clone.
#[derive(Clone, Debug)]
pub struct Preparer {
    shared: Arc<Shared>,
    /// As far as this thread knows it.
    dictionary: Arc<Dictionary>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Shared {
    /// With every description that any thread has met.
    dictionary: Mutex<Arc<Dictionary>>,
    /// Keys of the naming contexts.
    contexts: FxHashSet<DnKey>,
}

/// An entry ready to be stored: record and index keys.
#[derive(Debug)]
pub struct PreparedEntry {
    pub(super) id: u64,
    pub(super) place: Place,
    pub(super) dn: String,
    pub(super) key: DnKey,
    /// The record, below the root.
    pub(super) row: Vec<u8>,
    pub(super) keys: PostingKeys,
}

impl Preparer {
    pub(super) fn new(dictionary: Arc<Dictionary>, contexts: FxHashSet<DnKey>) -> Self {
        let shared = Shared { dictionary: Mutex::new(Arc::clone(&dictionary)), contexts };
        Self { shared: Arc::new(shared), dictionary, scratch: Vec::new() }
    }

    /// Prepares an entry, which has all it needs. Its id is that of the load's first and the number
    /// of its record, counted from zero; of one thread they ascend. `place` is for messages.
    ///
    /// # Errors
    /// When its name cannot be resolved or it is too large: then it is refused. When there are too
    /// many descriptions the load cannot go on.
    pub fn prepare(
        &mut self,
        entry: &Entry,
        place: Place,
        id: u64,
    ) -> Result<PreparedEntry, PrepareError> {
        let refused =
            |reason| PrepareError::Refused(Refusal { place, dn: entry.dn().to_owned(), reason });
        let key = DnKey::from_dn(self.dictionary.schema(), entry.name());
        let key = key.map_err(|reason| refused(RefusalReason::Name(reason)))?;
        // Any number but that of the root says that this is not a naming context.
        let parent =
            if self.shared.contexts.contains(&key) { EntryId::ROOT } else { EntryId(u64::MAX) };
        let rdn = own_name(entry.name(), parent);
        let mut row = Vec::new();
        let mut keys = PostingKeys::default();
        let mut record = RecordWriter::begin(EntryId::ROOT.0, &rdn, &mut row);
        for attribute in entry.attributes() {
            let attribute_id = match self.dictionary.id(&attribute.description) {
                Some(id) => id,
                None => meet(&self.shared, &mut self.dictionary, &attribute.description)?,
            };
            let values = attribute.values.iter().map(Vec::as_slice);
            record.attribute(attribute_id, values.clone());
            keys.extend(&self.dictionary, attribute_id, values, &mut self.scratch);
        }
        record.finish().map_err(|error| match error {
            StoreError::TooLarge { bytes, limit_bytes, .. } => {
                refused(RefusalReason::TooLarge { bytes, limit_bytes })
            }
            error => error.into(),
        })?;
        if self.dictionary.indexes_of_entries().next().is_some() {
            let record = Record::parse(&row, self.dictionary.len());
            let record = record.expect("a record that was just written is whole");
            keys.extend_with_record(&self.dictionary, &record, &mut self.scratch);
        }
        Ok(PreparedEntry { id, place, dn: entry.dn().to_owned(), key, row, keys })
    }

    /// The dictionary with every description met so far.
    pub(super) fn dictionary(&self) -> Arc<Dictionary> {
        Arc::clone(&self.shared.dictionary.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Gives a description an id, unless another thread has done so.
fn meet(
    shared: &Shared,
    known: &mut Arc<Dictionary>,
    description: &Arc<schema::AttributeDescription>,
) -> Result<u32, StoreError> {
    let mut dictionary = shared.dictionary.lock().unwrap_or_else(PoisonError::into_inner);
    let id = match dictionary.id(description) {
        Some(id) => id,
        None => Arc::make_mut(&mut dictionary).push(Arc::clone(description))?,
    };
    *known = Arc::clone(&dictionary);
    Ok(id)
}
