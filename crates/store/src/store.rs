//! The store: a data directory that is open.
//!
//! Invariants: one process has it open, one batch at a time writes; readers are never waited for.
//! The dictionary in memory holds at least every attribute id that a committed record uses: it is
//! published before the commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ldap::dn::Dn;
use schema::{Definition, DnKey, Schema};

use crate::apply::Batch;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::format::{self, DataDirectory};
use crate::index::{INDEX_COUNT_MAX, IndexConfig, IndexKind};
use crate::key;
use crate::lmdb::{ATTRIBUTES, Environment, META, Snapshot, StoreOptions, TABLE_NAMES, Tables};
use crate::meta::{self, Counters};
use crate::names::NameCache;
use crate::view::{View, ViewParts};

/// The most naming contexts of one store.
pub const CONTEXT_COUNT_MAX: usize = 1000;

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    pub(crate) environment: Environment,
    contexts: Arc<[Context]>,
    context_names: Vec<Dn>,
    dictionary: ArcSwap<Dictionary>,
    /// Counts what makes a reader take a new view: commits and schema changes.
    version: AtomicU64,
    /// Last, so that the lock is given back when all else is closed.
    directory: DataDirectory,
}

/// A naming context.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
}

impl Store {
    /// Makes a data directory, without entries, and opens it.
    ///
    /// Refuses a directory that holds anything else, naming contexts that lie within each other,
    /// and indexes that the schema has no rule for.
    pub fn create(
        directory: &Path,
        options: &StoreOptions,
        schema: Arc<Schema>,
        indexes: IndexConfig,
        contexts: &[Dn],
    ) -> Result<Self, StoreError> {
        let contexts = resolve_contexts(contexts, &schema)?;
        let rows: Vec<(String, IndexKind)> =
            indexes.rows().map(|(attribute, kind)| (attribute.to_owned(), kind)).collect();
        if rows.len() > INDEX_COUNT_MAX {
            return Err(StoreError::TooMany { what: "indexes", limit: INDEX_COUNT_MAX });
        }
        let dictionary = Dictionary::new(schema, &rows)?;
        let directory = DataDirectory::create(directory)?;
        let environment = Environment::open(directory.path(), options)?;
        write_settings(&environment, &contexts, &dictionary)?;
        directory.write_format()?;
        Ok(Self::assemble(directory, environment, contexts, dictionary))
    }

    /// Opens a data directory. The schema in force is `schema` and the definitions that were
    /// added online, see [`Self::schema`].
    pub fn open(
        directory: &Path,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, StoreError> {
        Self::open_locked(DataDirectory::open(directory)?, options, schema)
    }

    pub(crate) fn open_locked(
        directory: DataDirectory,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, StoreError> {
        let environment = Environment::open(directory.path(), options)?;
        let snapshot = Snapshot::Read(environment.read()?);
        let txn = snapshot.txn();
        let table = environment.tables.meta;
        Counters::read(table, txn)?;
        let schema = with_definitions(schema, &meta::definitions(table, txn)?)?;
        let mut contexts = Vec::new();
        for text in meta::contexts(table, txn)? {
            let dn = Dn::parse(&text);
            contexts.push(dn.map_err(|error| StoreError::corrupt(META, &text, error.to_string()))?);
        }
        let contexts = resolve_contexts(&contexts, &schema)?;
        let indexes = meta::indexes(table, txn)?;
        let rows: Vec<(String, IndexKind)> =
            indexes.iter().map(|(attribute, kind, _)| (attribute.clone(), *kind)).collect();
        let dictionary = Dictionary::new(schema, &rows)?;
        for (index, (attribute, kind, rule)) in dictionary.indexes().iter().zip(&indexes) {
            if meta::rule_of(index) != rule {
                return Err(StoreError::Invalid {
                    what: "index",
                    text: format!("{} {attribute}", kind.name()),
                    reason: "a schema file gives the attribute type another matching rule than \
                             the index was made with"
                        .to_owned(),
                });
            }
        }
        let texts = attribute_texts(&snapshot, &environment.tables)?;
        let dictionary = dictionary.with_texts(&texts)?;
        drop(snapshot);
        Ok(Self::assemble(directory, environment, contexts, dictionary))
    }

    fn assemble(
        directory: DataDirectory,
        environment: Environment,
        contexts: Vec<Context>,
        dictionary: Dictionary,
    ) -> Self {
        Self {
            directory,
            environment,
            context_names: contexts.iter().map(|context| context.dn.clone()).collect(),
            contexts: contexts.into(),
            dictionary: ArcSwap::from_pointee(dictionary),
            version: AtomicU64::new(0),
        }
    }

    /// What tells this store from all others: made by chance when the data directory was made.
    #[must_use]
    pub const fn id(&self) -> [u8; 16] {
        self.directory.id()
    }

    /// Puts another schema in force. What is stored stays as it is.
    ///
    /// Refuses a schema that lacks the type or rule of an index.
    pub fn set_schema(&self, schema: Arc<Schema>) -> Result<(), StoreError> {
        let dictionary = self.dictionary.load().under(schema)?;
        self.announce(Arc::new(dictionary));
        self.committed();
        Ok(())
    }

    /// The schema in force.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(self.dictionary.load().schema())
    }

    /// Attribute ids and descriptions as of the last commit.
    #[must_use]
    pub fn dictionary(&self) -> Arc<Dictionary> {
        self.dictionary.load_full()
    }

    /// The naming contexts, in the order they were given.
    #[must_use]
    pub fn naming_contexts(&self) -> &[Dn] {
        &self.context_names
    }

    /// Which attribute types are indexed.
    #[must_use]
    pub fn indexes(&self) -> IndexConfig {
        let dictionary = self.dictionary.load();
        dictionary.indexes().iter().fold(IndexConfig::none(), |config, index| {
            config.with(index.attribute.text(), &[index.kind])
        })
    }

    /// The definitions that were added online, as lines; they are part of [`Self::schema`] when
    /// the store is opened.
    pub fn schema_definitions(&self) -> Result<Vec<String>, StoreError> {
        let txn = self.environment.read()?;
        meta::definitions(self.environment.tables.meta, &txn)
    }

    /// What a thread reads with.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Reader {
        Reader { store: Arc::clone(self), version: 0, view: None, names: NameCache::default() }
    }

    /// Begins to write; waits until there is no other batch.
    pub fn begin(&self) -> Result<Batch<'_>, StoreError> {
        Batch::begin(self)
    }

    /// What there is, and how large it is.
    pub fn statistics(&self) -> Result<Statistics, StoreError> {
        let txn = self.environment.read()?;
        let mut tables = Vec::with_capacity(TABLE_NAMES.len());
        let mut entries = 0;
        for (name, table) in TABLE_NAMES.into_iter().zip(self.environment.tables.all()) {
            let stat = Tables::stat(table, &txn)?;
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            if name == crate::lmdb::ENTRIES {
                entries = stat.entries as u64;
            }
            tables.push(TableStatistics {
                name,
                rows: stat.entries as u64,
                bytes: pages as u64 * u64::from(stat.page_size),
            });
        }
        Ok(Statistics { entries, tables, file_bytes: self.environment.file_bytes()? })
    }

    pub(crate) fn view_parts(&self) -> ViewParts {
        ViewParts {
            tables: self.environment.tables,
            contexts: Arc::clone(&self.contexts),
            dictionary: self.dictionary.load_full(),
        }
    }

    pub(crate) fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    pub(crate) fn snapshot(&self, names: NameCache) -> Result<View<'static>, StoreError> {
        let snapshot = self.environment.snapshot()?;
        // The dictionary is read after the snapshot is taken, so it knows all its ids.
        let parts = self.view_parts();
        let counters = Counters::read(parts.tables.meta, snapshot.txn())?;
        Ok(View::of_reader(snapshot, parts, counters, names))
    }

    /// Puts a dictionary in the place of the last one, which it returns.
    pub(crate) fn announce(&self, dictionary: Arc<Dictionary>) -> Arc<Dictionary> {
        self.dictionary.swap(dictionary)
    }

    /// Why a commit failed.
    pub(crate) fn commit_failed(&self, error: heed::Error) -> StoreError {
        self.environment.commit_failed(error)
    }

    /// Makes readers see what was committed.
    pub(crate) fn committed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}

/// What there is in a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Statistics {
    /// How many entries.
    pub entries: u64,
    /// Each table.
    pub tables: Vec<TableStatistics>,
    /// The size of the data file, free pages included.
    pub file_bytes: u64,
}

/// The size of one table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableStatistics {
    /// Its name.
    pub name: &'static str,
    /// How many rows.
    pub rows: u64,
    /// The pages it takes, in bytes.
    pub bytes: u64,
}

/// What one thread reads with; it keeps its view while nothing is committed.
#[derive(Debug)]
pub struct Reader {
    store: Arc<Store>,
    version: u64,
    view: Option<View<'static>>,
    /// Kept here while there is no view.
    names: NameCache,
}

impl Reader {
    /// The view of the last commit.
    #[inline]
    pub fn view(&mut self) -> Result<&View<'static>, StoreError> {
        let version = self.store.version.load(Ordering::Acquire);
        if self.version != version {
            self.release();
            self.version = version;
        }
        let view = match self.view.take() {
            Some(view) => view,
            None => self.store.snapshot(std::mem::take(&mut self.names))?,
        };
        Ok(self.view.insert(view))
    }

    /// Gives the view up, so that its pages can be used again. Call it before waiting for long.
    pub fn release(&mut self) {
        if let Some(view) = self.view.take() {
            self.names = view.into_names();
        }
    }
}

fn resolve_contexts(contexts: &[Dn], schema: &Schema) -> Result<Vec<Context>, StoreError> {
    if contexts.len() > CONTEXT_COUNT_MAX {
        return Err(StoreError::TooMany { what: "naming contexts", limit: CONTEXT_COUNT_MAX });
    }
    let mut resolved: Vec<Context> = Vec::with_capacity(contexts.len());
    for dn in contexts {
        let invalid =
            |reason| StoreError::Invalid { what: "naming context", text: dn.to_string(), reason };
        let key = DnKey::from_dn(schema, dn).map_err(|error| invalid(error.to_string()))?;
        if key.is_root() {
            return Err(invalid("it needs a name".to_owned()));
        }
        for other in &resolved {
            let overlap = |inner: &Dn, outer: &Dn| StoreError::ContextsOverlap {
                inner: inner.to_string(),
                outer: outer.to_string(),
            };
            if key.is_within(&other.key) {
                return Err(overlap(dn, &other.dn));
            }
            if other.key.is_within(&key) {
                return Err(overlap(&other.dn, dn));
            }
        }
        resolved.push(Context { dn: dn.clone(), key });
    }
    Ok(resolved)
}

pub(crate) fn write_settings(
    environment: &Environment,
    contexts: &[Context],
    dictionary: &Dictionary,
) -> Result<(), StoreError> {
    let table = environment.tables.meta;
    let mut txn = environment.write()?;
    Counters::FIRST.write(table, &mut txn)?;
    for (position, context) in contexts.iter().enumerate() {
        meta::write_context(table, &mut txn, position, &context.dn.to_string())?;
    }
    for index in dictionary.indexes() {
        meta::write_index(table, &mut txn, index)?;
    }
    txn.commit()?;
    format::sync_directory(environment.path())
}

/// The texts of the table `attributes`, by id.
fn attribute_texts(snapshot: &Snapshot<'_>, tables: &Tables) -> Result<Vec<String>, StoreError> {
    let mut texts = Vec::new();
    for row in tables.attributes.iter(snapshot.txn())? {
        let (row_key, text) = row?;
        let damaged = |reason| StoreError::corrupt(ATTRIBUTES, key::display(row_key), reason);
        if row_key != (texts.len() as u32).to_be_bytes() {
            return Err(damaged("is not the next id"));
        }
        let text = std::str::from_utf8(text).map_err(|_| damaged("is not text"))?;
        texts.push(text.to_owned());
    }
    Ok(texts)
}

fn with_definitions(schema: Arc<Schema>, lines: &[String]) -> Result<Arc<Schema>, StoreError> {
    if lines.is_empty() {
        return Ok(schema);
    }
    let mut definitions = Vec::with_capacity(lines.len());
    for line in lines {
        let definition = Definition::parse_line(line);
        definitions
            .push(definition.map_err(|error| StoreError::corrupt(META, line, error.to_string()))?);
    }
    let with = schema.with_change(&definitions, &[]).map_err(|error| StoreError::Invalid {
        what: "schema",
        text: "of the schema files".to_owned(),
        reason: format!("definitions that were added online do not fit to it: {error}"),
    })?;
    Ok(Arc::new(with))
}
