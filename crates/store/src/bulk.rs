//! The bulk load: fills a data directory from a stream of entries.
//!
//! It writes into a database of its own, in the directory `load` beside the data, in the order of
//! the keys and without reading back, and puts it in the place of the data at the end. So it
//! replaces all entries there were; whoever wants to keep them asks [`Store::statistics`] first.
//!
//! Invariant: until the end the data are as they were; a load that fails, is dropped or is killed
//! leaves nothing but files that the next one removes.

mod gather;
mod write;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use schema::{DnKey, Entry, EntryId};
use xxhash_rust::xxh3::xxh3_128;

use crate::apply::own_name;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::format::{DATA_FILE, DataDirectory, LOAD_DIRECTORY, remove_file, sync_directory};
use crate::index::IndexKind;
use crate::lmdb::{Environment, StoreOptions};
use crate::meta::{self, Counters};
use crate::record::RecordWriter;
use crate::store::{Context, Store, write_settings};

use gather::Postings;
use write::{NameRow, Records};

/// How much memory index keys may take before they are written out, in bytes.
pub const LOAD_MEMORY_DEFAULT_BYTES: usize = 2 << 30;

/// Loads entries, superiors first.
#[derive(Debug)]
pub struct BulkLoader {
    target: Target,
    contexts: Arc<[Context]>,
    dictionary: Arc<Dictionary>,
    counters: Counters,
    records: Records,
    postings: Postings,
    names: Vec<NameRow>,
    children: FxHashMap<u64, u64>,
    /// Entries by the hash of their DN keys, with the place they came from.
    places: FxHashMap<u128, (u64, u64)>,
    last_parent: (Vec<u8>, u64),
    memory_max_bytes: usize,
    row: Vec<u8>,
}

/// Where the data are, and where they are being loaded.
#[derive(Debug)]
struct Target {
    directory: DataDirectory,
    options: StoreOptions,
    /// Nobody can write to the old data meanwhile.
    old: Environment,
    new: Environment,
    load: PathBuf,
}

/// Why an entry cannot be loaded. Places are what the caller gave: line numbers, say.
#[derive(Debug)]
pub enum LoadError {
    /// An entry of this name was loaded before.
    Duplicate {
        /// Its name.
        dn: String,
        /// Where the first one was.
        first: u64,
    },
    /// Its superior was not loaded before it.
    Orphan {
        /// Its name.
        dn: String,
    },
    /// It is in none of the naming contexts.
    NoContext {
        /// Its name.
        dn: String,
    },
    /// Its name breaks a rule of the schema.
    Name {
        /// Its name.
        dn: String,
        /// Which one.
        reason: String,
    },
    /// The store failed.
    Store(StoreError),
}

impl Store {
    /// Begins to load; what is in the store now is replaced when the load is finished.
    pub fn bulk_load(self, memory_max_bytes: usize) -> Result<BulkLoader, StoreError> {
        let txn = self.environment.read()?;
        let counters = Counters::read(self.environment.tables.meta, &txn)?;
        drop(txn);
        let definitions = self.schema_definitions()?;
        let rows: Vec<(String, IndexKind)> =
            self.indexes().rows().map(|(attribute, kind)| (attribute.to_owned(), kind)).collect();
        let dictionary = Dictionary::new(self.schema(), &rows)?;
        let contexts = self.shared_contexts();
        let Self { environment: old, options, directory, .. } = self;
        let load = directory.path().join(LOAD_DIRECTORY);
        remove_load(directory.path())?;
        fs::create_dir(&load).map_err(|source| StoreError::io(&load, source))?;
        let new = Environment::open(&load, &options)?;
        write_settings(&new, &contexts, &dictionary)?;
        let mut txn = new.write()?;
        for line in definitions {
            meta::put_definition(new.tables.meta, &mut txn, &line)?;
        }
        txn.commit()?;
        let counters = Counters {
            lsn: counters.lsn + 1,
            next_entry_id: Counters::FIRST.next_entry_id,
            names_moved: counters.names_moved + 1,
        };
        Ok(BulkLoader {
            target: Target { directory, options, old, new, load },
            contexts,
            postings: Postings::new(dictionary.indexes()),
            dictionary: Arc::new(dictionary),
            counters,
            records: Records::default(),
            names: Vec::new(),
            children: FxHashMap::default(),
            places: FxHashMap::default(),
            last_parent: (Vec::new(), 0),
            memory_max_bytes,
            row: Vec::new(),
        })
    }
}

impl BulkLoader {
    /// The dictionary's schema, by which entries are to be resolved.
    #[must_use]
    pub fn schema(&self) -> &Arc<schema::Schema> {
        self.dictionary.schema()
    }

    /// Adds an entry as it is: validation and stamps are the caller's. An entry that is refused
    /// leaves nothing, and the load can go on.
    pub fn add(&mut self, entry: &Entry, place: u64) -> Result<EntryId, LoadError> {
        let named = |reason: String| LoadError::Name { dn: entry.name().to_string(), reason };
        let key = DnKey::from_dn(self.dictionary.schema(), entry.name());
        let key = key.map_err(|error| named(error.to_string()))?;
        let bytes = key.as_bytes();
        let hash = xxh3_128(bytes);
        if let Some((_, first)) = self.places.get(&hash) {
            return Err(LoadError::Duplicate { dn: entry.name().to_string(), first: *first });
        }
        let parent = self.parent_of(&key, entry)?;
        let id = self.counters.next_entry_id;
        let leaf_start = if parent == 0 { 0 } else { self.last_parent.0.len() };
        let leaf = bytes.get(leaf_start..bytes.len().saturating_sub(1)).unwrap_or_default();
        self.write_record(id, parent, entry)?;
        self.names.push(NameRow { parent, key: leaf.into(), id });
        *self.children.entry(parent).or_default() += 1;
        self.places.insert(hash, (id, place));
        self.counters.next_entry_id += 1;
        if self.postings.memory_bytes() > self.memory_max_bytes {
            self.postings.flush(&self.target.new, self.dictionary.indexes())?;
        }
        Ok(EntryId(id))
    }

    /// How many entries were added so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.counters.next_entry_id - 1
    }

    /// Writes what is left, puts the new data in the place of the old, and opens them.
    pub fn finish(mut self) -> Result<Store, StoreError> {
        let new = &self.target.new;
        self.records.flush(new)?;
        write::names(new, std::mem::take(&mut self.names))?;
        write::children(new, &self.children)?;
        self.postings.flush(new, self.dictionary.indexes())?;
        write::dictionary_and_counters(new, &self.dictionary, &self.counters)?;
        let schema = Arc::clone(self.dictionary.schema());
        let Target { directory, options, old, new, load } = self.target;
        new.close();
        old.close();
        let (from, to) = (load.join(DATA_FILE), directory.path().join(DATA_FILE));
        fs::rename(&from, &to).map_err(|source| StoreError::io(&to, source))?;
        sync_directory(directory.path())?;
        Store::open_loaded(directory, &options, schema)
    }

    /// The superior's id; remembers its key.
    fn parent_of(&mut self, key: &DnKey, entry: &Entry) -> Result<u64, LoadError> {
        let dn = || entry.name().to_string();
        let Some(context) = self.contexts.iter().find(|context| key.is_within(&context.key)) else {
            return Err(LoadError::NoContext { dn: dn() });
        };
        if *key == context.key {
            return Ok(0);
        }
        let bytes = key.as_bytes();
        let (known, id) = &self.last_parent;
        let is_child = bytes.strip_prefix(known.as_slice()).is_some_and(|leaf| {
            leaf.iter().position(|&byte| byte == 0) == Some(leaf.len().saturating_sub(1))
        });
        if *id != 0 && is_child {
            return Ok(*id);
        }
        let parent = key.parent().unwrap_or_default();
        match self.places.get(&xxh3_128(parent.as_bytes())) {
            Some(&(id, _)) => {
                self.last_parent = (parent.as_bytes().to_vec(), id);
                Ok(id)
            }
            None => Err(LoadError::Orphan { dn: dn() }),
        }
    }

    fn write_record(&mut self, id: u64, parent: u64, entry: &Entry) -> Result<(), StoreError> {
        let rdn = own_name(entry.name(), EntryId(parent));
        let mut record = RecordWriter::begin(parent, &rdn, &mut self.row);
        let mut ids = Vec::with_capacity(entry.attributes().len());
        for attribute in entry.attributes() {
            let attribute_id = match self.dictionary.id(&attribute.description) {
                Some(attribute_id) => attribute_id,
                None => {
                    let dictionary = Arc::make_mut(&mut self.dictionary);
                    dictionary.push(Arc::clone(&attribute.description))?
                }
            };
            ids.push(attribute_id);
            record.attribute(attribute_id, attribute.values.iter().map(Vec::as_slice));
        }
        record.finish()?;
        self.records.push(id, &self.row, &self.target.new)?;
        for (attribute, attribute_id) in entry.attributes().iter().zip(ids) {
            for index in self.dictionary.indexes_of(attribute_id) {
                for value in &attribute.values {
                    self.postings.push(index, self.dictionary.schema(), value, id);
                }
            }
        }
        Ok(())
    }
}

/// Removes what a load that was killed has left.
pub(crate) fn remove_load(directory: &Path) -> Result<(), StoreError> {
    let load = directory.join(LOAD_DIRECTORY);
    if !load.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(&load).map_err(|source| StoreError::io(&load, source))? {
        remove_file(&entry.map_err(|source| StoreError::io(&load, source))?.path())?;
    }
    fs::remove_dir(&load).map_err(|source| StoreError::io(&load, source))
}

impl From<StoreError> for LoadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { dn, first } => {
                write!(f, "entry '{dn}' is there already, from line {first}")
            }
            Self::Orphan { dn } => {
                write!(f, "the superior of entry '{dn}' does not come before it")
            }
            Self::NoContext { dn } => write!(f, "entry '{dn}' is in none of the naming contexts"),
            Self::Name { dn, reason } => write!(f, "the name of entry '{dn}': {reason}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Duplicate { .. }
            | Self::Orphan { .. }
            | Self::NoContext { .. }
            | Self::Name { .. } => None,
        }
    }
}
