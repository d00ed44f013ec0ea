//! What of an entry can be made before its place in the tree is known, on any thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ldap::dn::{Dn, Rdn};
use rustc_hash::FxHashSet;
use schema::{AttributeDescription, DnKey, Entry, EntryId, EntryRead, InvalidDn, RdnKey};

use super::gather::Gatherer;
use super::names::{NameHash, NameHasher};
use super::packing::SharedCompression;
use super::run::Runs;
use super::{PrepareError, Refusal, RefusalReason, SourceLine};
use crate::base::compress::Compressor;
use crate::error::StoreError;
use crate::index::IndexKind;
use crate::rows::dictionary::Dictionary;
use crate::rows::key::without_end;
use crate::rows::record::{Record, RecordWriter};
use crate::write::apply::own_name;

/// Prepares entries for a [`super::BulkLoader`], and gathers their index keys. There is one for
/// each thread. What it has gathered becomes part of the load when it is dropped.
#[derive(Debug)]
pub struct Preparer {
    shared: Arc<Shared>,
    /// As far as this thread knows it.
    dictionary: Arc<Dictionary>,
    gatherer: Gatherer,
    superior: KnownSuperior,
    scratch: Vec<u8>,
    row: Vec<u8>,
    /// The attributes of the record in `row`, and their ids. What the next one has in the same
    /// place has the same id, as a rule.
    attributes: Vec<(Arc<AttributeDescription>, u32)>,
    /// None until it is known with what to compress.
    compressor: Option<Compressor>,
    packed: Vec<u8>,
}

/// What all preparers of a load share.
#[derive(Debug)]
pub(super) struct Shared {
    /// With every description that any thread has met.
    dictionary: Mutex<Arc<Dictionary>>,
    hasher: NameHasher,
    /// Keys of the naming contexts.
    contexts: FxHashSet<DnKey>,
    pub(super) runs: Arc<Runs>,
    is_check: bool,
    compression: Arc<SharedCompression>,
    /// How many preparers there are.
    preparers: AtomicUsize,
    /// The load has ended: nobody wants what is gathered.
    is_over: AtomicBool,
    /// Why the last run of a preparer could not be written.
    failed: Mutex<Option<StoreError>>,
}

/// The superior of the entry before: most entries share it with the next.
#[derive(Debug, Default)]
struct KnownSuperior {
    /// The RDNs of its name, the leaf first.
    rdns: Vec<Rdn>,
    key: DnKey,
    /// None when it is in no naming context.
    names: Option<Above>,
}

/// What leads to the superior of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Above {
    pub(super) superior: NameHash,
    /// The superior's own superior; the entry of a naming context has none.
    pub(super) above_it: Option<NameHash>,
}

/// An entry ready to be stored; its index keys are gathered.
#[derive(Debug)]
pub struct PreparedEntry {
    pub(super) id: u64,
    pub(super) place: SourceLine,
    pub(super) name: NameHash,
    /// None of the entry of a naming context.
    pub(super) above: Option<Above>,
    pub(super) is_alias: bool,
    /// The RDN key, the record below the root, and the name as text.
    pub(super) octets: Vec<u8>,
    pub(super) rdn_key_length: usize,
    pub(super) row_length: usize,
}

impl PreparedEntry {
    pub(super) fn rdn_key(&self) -> &[u8] {
        self.octets.get(..self.rdn_key_length).unwrap_or_default()
    }

    /// Empty when the load only checks.
    pub(super) fn row(&self) -> &[u8] {
        self.octets
            .get(self.rdn_key_length..self.rdn_key_length + self.row_length)
            .unwrap_or_default()
    }

    pub(super) fn dn(&self) -> String {
        let dn = self.octets.get(self.rdn_key_length + self.row_length..);
        String::from_utf8_lossy(dn.unwrap_or_default()).into_owned()
    }
}

impl Shared {
    pub(super) fn new(
        dictionary: Arc<Dictionary>,
        hasher: NameHasher,
        contexts: FxHashSet<DnKey>,
        runs: Arc<Runs>,
        is_check: bool,
    ) -> Self {
        Self {
            compression: Arc::default(),
            dictionary: Mutex::new(dictionary),
            hasher,
            contexts,
            runs,
            is_check,
            preparers: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            failed: Mutex::default(),
        }
    }

    /// Records are compressed as soon as it is known with what.
    pub(super) fn compressing(self, compression: Arc<SharedCompression>) -> Self {
        Self { compression, ..self }
    }

    /// That all preparers are gone, and whether each could write its run.
    pub(super) fn all_written(&self) -> Result<(), StoreError> {
        let preparers = self.preparers.load(Ordering::Acquire);
        assert!(preparers == 0, "all preparers are gone before the load is finished");
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), Err)
    }

    /// No preparer need write its run.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The dictionary with every description met so far, and with what records are compressed.
    pub(super) fn dictionary(&self) -> Arc<Dictionary> {
        let dictionary =
            Arc::clone(&self.dictionary.lock().unwrap_or_else(PoisonError::into_inner));
        match self.compression.get() {
            Some(known) if dictionary.compression().is_none() => {
                Arc::new(Arc::unwrap_or_clone(dictionary).with_compression(Some(Arc::clone(known))))
            }
            _ => dictionary,
        }
    }
}

impl Preparer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.preparers.fetch_add(1, Ordering::Relaxed);
        let dictionary = shared.dictionary();
        let gatherer = Gatherer::of_indexes(&dictionary, &shared.runs);
        Self {
            shared,
            dictionary,
            gatherer,
            superior: KnownSuperior::default(),
            scratch: Vec::new(),
            attributes: Vec::new(),
            row: Vec::new(),
            compressor: None,
            packed: Vec::new(),
        }
    }

    /// Prepares an entry, which has all it needs. Its id is that of the load's first and the number
    /// of its record, counted from zero; of one thread they ascend. `place` is for messages. What
    /// was prepared is to be added to the load.
    ///
    /// # Errors
    /// When its name cannot be resolved or is in no naming context, or it is too large: then it is
    /// refused. When there are too many descriptions the load cannot go on.
    pub fn prepare(
        &mut self,
        entry: &Entry,
        place: SourceLine,
        id: u64,
    ) -> Result<PreparedEntry, PrepareError> {
        let refused =
            |reason| PrepareError::Refused(Refusal { place, dn: entry.dn().to_owned(), reason });
        let schema = Arc::clone(self.dictionary.schema());
        let leaf = self.superior.leaf(&schema, entry.name(), &self.shared);
        let leaf = leaf.map_err(|reason| refused(RefusalReason::Name(reason)))?;
        let (rdn_key, above) = leaf.ok_or_else(|| refused(RefusalReason::OutsideContexts))?;
        // Any number but that of the root says that this is not a naming context.
        let parent = if above.is_none() { EntryId::ROOT } else { EntryId(u64::MAX) };
        let rdn = own_name(entry.name(), parent);
        self.write_record(entry, &rdn).map_err(|error| match error {
            StoreError::TooLarge { bytes, limit_bytes, .. } => {
                refused(RefusalReason::TooLarge { bytes, limit_bytes })
            }
            error => error.into(),
        })?;
        let row = if self.shared.is_check {
            &[][..]
        } else {
            self.gather(entry, id)?;
            if self.pack() { self.packed.as_slice() } else { self.row.as_slice() }
        };
        let (rdn_key, hasher) = (rdn_key.as_bytes(), self.shared.hasher);
        let name = match above {
            Some(above) => hasher.below(above.superior, rdn_key),
            None => hasher.of_naming_context(rdn_key),
        };
        let octets = [rdn_key, row, entry.dn().as_bytes()].concat();
        let (rdn_key_length, row_length) = (rdn_key.len(), row.len());
        let is_alias = schema.well_known().is_alias(entry);
        Ok(PreparedEntry { id, place, name, above, is_alias, octets, rdn_key_length, row_length })
    }

    /// Writes the record; descriptions that are new get ids.
    fn write_record(&mut self, entry: &Entry, rdn: &str) -> Result<(), StoreError> {
        let mut record = RecordWriter::begin(EntryId::ROOT.0, rdn, &mut self.row);
        for (place, attribute) in entry.attributes().iter().enumerate() {
            let description = &attribute.description;
            let id = match self.attributes.get(place) {
                Some((known, id)) if Arc::ptr_eq(known, description) => *id,
                _ => {
                    let id = match self.dictionary.id(description) {
                        Some(id) => id,
                        None => meet(&self.shared, &mut self.dictionary, description)?,
                    };
                    self.attributes.truncate(place);
                    self.attributes.push((Arc::clone(description), id));
                    id
                }
            };
            record.attribute(id, attribute.values.iter().map(Vec::as_slice));
        }
        self.attributes.truncate(entry.attributes().len());
        record.finish()
    }

    /// Whether the record that was written got shorter.
    fn pack(&mut self) -> bool {
        let Some(compression) = self.shared.compression.get() else { return false };
        let compressor = self.compressor.get_or_insert_with(|| Compressor::new(compression));
        compressor.compress(&self.row, &mut self.packed)
    }

    /// Gathers the keys of an entry whose record was written.
    fn gather(&mut self, entry: &Entry, id: u64) -> Result<(), StoreError> {
        self.gatherer.make_room(id)?;
        let Self { dictionary, gatherer, scratch, .. } = self;
        for (attribute, (_, attribute_id)) in entry.attributes().iter().zip(&self.attributes) {
            for index in dictionary.indexes_of(*attribute_id) {
                let count = if index.kind == IndexKind::Presence { 1 } else { usize::MAX };
                for value in attribute.values.iter().take(count) {
                    index.keys(dictionary.schema(), value, scratch, |key| {
                        gatherer.push(index.id, key, id);
                    });
                }
            }
        }
        if dictionary.indexes_of_entries().next().is_some() {
            let record = Record::parse(&self.row, dictionary.len());
            let record = record.expect("a record that was just written is whole");
            for index in dictionary.indexes_of_entries() {
                index.entry_keys(dictionary, &record, scratch, |key| {
                    gatherer.push(index.id, key, id);
                });
            }
        }
        Ok(())
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        // What a thread that panics has gathered may be half of what it was to be; the load fails.
        if !self.shared.is_over.load(Ordering::Relaxed)
            && !std::thread::panicking()
            && let Err(error) = self.gatherer.seal()
        {
            *self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        self.shared.preparers.fetch_sub(1, Ordering::Release);
    }
}

impl KnownSuperior {
    /// The RDN key of an entry and what leads to its superior, which the entry of a naming context
    /// has none of; none when the name is in no naming context.
    fn leaf(
        &mut self,
        schema: &schema::Schema,
        name: &Dn,
        shared: &Shared,
    ) -> Result<Option<(RdnKey, Option<Above>)>, InvalidDn> {
        let Some((leaf, above)) = name.rdns().split_first() else { return Ok(None) };
        if self.rdns != above || self.rdns.is_empty() {
            // So that what is known is not half of this name and half of the last, should it fail.
            self.rdns.clear();
            self.key = DnKey::from_dn(schema, &name.parent().unwrap_or_else(Dn::root))?;
            self.names = above_of(&self.key, shared);
            self.rdns = above.to_vec();
        }
        let rdn_key = RdnKey::from_rdn(schema, leaf)?;
        if self.names.is_some() {
            return Ok(Some((rdn_key, self.names)));
        }
        let mut key = self.key.clone();
        key.push(&rdn_key);
        let is_context = shared.contexts.contains(&key);
        Ok(is_context.then(|| (RdnKey::of_naming_context(&key), None)))
    }
}

/// What leads to the entry with this name; none when it is in no naming context.
fn above_of(key: &DnKey, shared: &Shared) -> Option<Above> {
    let Shared { contexts, hasher, .. } = shared;
    // No naming context lies within another: the first that is met is the only one.
    let mut prefix = DnKey::root();
    let mut found: Option<Above> = None;
    for rdn in key.rdns() {
        found = match found {
            Some(Above { superior, .. }) => {
                let above_it = Some(superior);
                Some(Above { superior: hasher.below(superior, rdn), above_it })
            }
            None => {
                let octets = [prefix.as_bytes(), rdn, &[0]].concat();
                prefix = DnKey::from_bytes(octets);
                contexts.contains(&prefix).then(|| {
                    let superior = hasher.of_naming_context(without_end(prefix.as_bytes()));
                    Above { superior, above_it: None }
                })
            }
        };
    }
    found
}

/// Gives a description an id, unless another thread has done so.
fn meet(
    shared: &Shared,
    known: &mut Arc<Dictionary>,
    description: &Arc<AttributeDescription>,
) -> Result<u32, StoreError> {
    let mut dictionary = shared.dictionary.lock().unwrap_or_else(PoisonError::into_inner);
    let id = match dictionary.id(description) {
        Some(id) => id,
        None => Arc::make_mut(&mut dictionary).push(Arc::clone(description))?,
    };
    *known = Arc::clone(&dictionary);
    Ok(id)
}
