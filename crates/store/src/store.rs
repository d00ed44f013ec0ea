//! The store: a data directory that is open.
//!
//! Invariants: one process has it open, one batch at a time is made, one flush at a time is
//! written; readers are never waited for. A version's dictionary holds every attribute id that its
//! records use.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use ldap::dn::Dn;
use rustc_hash::FxHashMap;
use schema::{Definition, Schema};

use crate::base::compress::Compression;
use crate::base::copy_files;
use crate::base::digest::{self, DigestKey};
use crate::base::format::{self, DataDirectory};
use crate::base::lmdb::{
    ATTRIBUTES, Environment, META, Snapshot, StoreOptions, TABLE_NAMES, Tables,
};
use crate::base::meta::{self, Counters, Mark};
use crate::base::naming_context::NamingContexts;
use crate::base::position::{LogPosition, Lsn};
use crate::error::StoreError;
use crate::index::{IndexConfig, IndexRow};
use crate::overlay::flush::{self, LogSync, Pace};
use crate::overlay::layer::Layer;
use crate::overlay::version::{Version, Versions};
use crate::read::reader::Holds;
use crate::read::view::Memories;
use crate::rows::dictionary::Dictionary;
use crate::rows::key;
use crate::write::batch::{Batch, Seat};
use crate::write::digest::KeptDigests;

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    pub(crate) versions: Versions,
    seat: Mutex<Seat>,
    flushing: Mutex<()>,
    pub(crate) log_sync: LogSync,
    pub(crate) pace: Pace,
    pub(crate) holds: Holds,
    /// Held by whoever waits for one state.
    pub(crate) holding: Mutex<()>,
    /// Indexes that others took the place of, and the last change that may have written to them.
    replaced: Mutex<FxHashMap<u16, Lsn>>,
    pub(crate) digests: KeptDigests,
    /// Last, so that the lock is given back when all else is closed.
    directory: DataDirectory,
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
        let contexts = NamingContexts::resolve(contexts, &schema)?;
        let rows = indexes.rows(&schema)?;
        let dictionary = Dictionary::new(schema, &rows)?.with_first_contexts(contexts);
        let directory = DataDirectory::create(directory)?;
        let environment = Environment::create(directory.path(), options)?;
        write_settings(&environment, &dictionary, &directory.new_key()?)?;
        directory.write_format()?;
        Ok(Self::assemble(directory, environment, dictionary, Counters::FIRST, 0))
    }

    /// Makes what a machine begins with that gets a copy of store `id`: a data directory of that
    /// store, without entries, beside files that are there already. Making it again is nothing.
    ///
    /// # Errors
    /// When it is the directory of another store, or cannot be written.
    pub fn create_for_copy(
        directory: &Path,
        id: [u8; 16],
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<(), StoreError> {
        let (directory, is_made) = DataDirectory::create_of(directory, id)?;
        if is_made {
            return Ok(());
        }
        let rows = IndexConfig::default().rows(&schema)?;
        let dictionary = Dictionary::new(schema, &rows)?;
        let environment = Environment::create(directory.path(), options)?;
        write_settings(&environment, &dictionary, &directory.new_key()?)?;
        directory.write_format()
    }

    /// Opens a data directory. The schema in force is `schema` and the definitions that were
    /// added online, see [`Self::schema`].
    pub fn open(
        directory: &Path,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, StoreError> {
        let directory = DataDirectory::open(directory)?;
        copy_files::finish(directory.path(), options)?;
        Self::open_locked(directory, options, schema)
    }

    /// Refuses what is no data directory of this release; a process may use it meanwhile.
    ///
    /// # Errors
    /// What it is instead.
    pub fn check_data_directory(directory: &Path) -> Result<(), StoreError> {
        DataDirectory::open_to_read(directory).map(drop)
    }

    /// Opens a data directory to read it as it is now, beside a process that may write it. Changes
    /// can be put over it, as after [`Self::open`], but stay in memory.
    ///
    /// It goes on with one point in time of the base however long it is open, and keeps its pages
    /// from being reused.
    ///
    /// # Errors
    /// When it is no data directory of this release, or cannot be read.
    pub fn open_read_only(
        directory: &Path,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, StoreError> {
        let directory = DataDirectory::open_to_read(directory)?;
        let environment = Environment::open_read_only(directory.path(), options)?;
        Self::open_environment(directory, environment, schema)
    }

    pub(crate) fn open_locked(
        directory: DataDirectory,
        options: &StoreOptions,
        schema: Arc<Schema>,
    ) -> Result<Self, StoreError> {
        let environment = Environment::open(directory.path(), options)?;
        Self::open_environment(directory, environment, schema)
    }

    fn open_environment(
        directory: DataDirectory,
        environment: Environment,
        schema: Arc<Schema>,
    ) -> Result<Self, StoreError> {
        let (dictionary, counters) = read_settings(&environment, schema)?;
        let snapshot = environment.snapshot()?;
        let index_epoch = meta::index_epoch(environment.tables.meta, snapshot.txn())?;
        drop(snapshot);
        Ok(Self::assemble(directory, environment, dictionary, counters, index_epoch))
    }

    fn assemble(
        directory: DataDirectory,
        environment: Environment,
        dictionary: Dictionary,
        counters: Counters,
        index_epoch: u64,
    ) -> Self {
        Self {
            directory,
            versions: Versions::new(Version::first(
                Arc::new(environment),
                counters,
                Arc::new(dictionary),
                index_epoch,
            )),
            seat: Mutex::default(),
            flushing: Mutex::default(),
            log_sync: LogSync::default(),
            pace: Pace::default(),
            holds: Holds::default(),
            holding: Mutex::default(),
            replaced: Mutex::default(),
            digests: KeptDigests::default(),
        }
    }

    /// The data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What tells this store from all others: made by chance when the data directory was made.
    #[must_use]
    pub const fn id(&self) -> [u8; 16] {
        self.directory.id()
    }

    /// Whether there must be a journal: one was there when [`Self::note_journal`] was called.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.directory.has_journal()
    }

    /// Notes durably that there is a journal, which is durable: from now on, that none is there is
    /// a loss. To be called before the first change that is in the journal is acknowledged.
    ///
    /// # Errors
    /// When the file `format` cannot be written.
    pub fn note_journal(&self) -> Result<(), StoreError> {
        self.directory.note_journal()
    }

    /// Makes a data directory that was made of a copy one that opens; see [`crate::Adoption`].
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn adopted(&self) -> Result<(), StoreError> {
        self.directory.write_format()
    }

    /// Puts another schema in force. What is stored stays as it is.
    ///
    /// Refuses a schema that lacks the type or rule of an index.
    pub fn set_schema(&self, schema: Arc<Schema>) -> Result<(), StoreError> {
        // A batch has the dictionary it began with, so there must be none.
        let _seat = self.seat();
        self.versions.translate(None, |dictionary| dictionary.under(Arc::clone(&schema)))
    }

    /// The schema in force.
    #[must_use]
    pub fn schema(&self) -> Arc<Schema> {
        self.versions.with(|version| Arc::clone(version.dictionary.schema()))
    }

    /// Attribute ids and descriptions as of the last published change.
    #[must_use]
    pub fn dictionary(&self) -> Arc<Dictionary> {
        self.versions.with(|version| Arc::clone(&version.dictionary))
    }

    /// The naming contexts, as readers see them; none in a store that waits for a copy.
    #[must_use]
    pub fn naming_contexts(&self) -> NamingContexts {
        self.versions.with(|version| version.dictionary.contexts().clone())
    }

    /// Which attribute types are indexed. What is being built is there, what is being dropped is
    /// not.
    #[must_use]
    pub fn indexes(&self) -> IndexConfig {
        let dictionary = self.dictionary();
        let written = dictionary.definitions().filter(|(_, _, state)| state.is_written());
        written
            .fold(IndexConfig::none(), |config, (_, definition, _)| config.and(definition.clone()))
    }

    /// The definitions that were added online, as lines; they are part of [`Self::schema`] when
    /// the store is opened.
    pub fn schema_definitions(&self) -> Result<Vec<String>, StoreError> {
        self.snapshot(Memories::default())?.schema_definitions()
    }

    /// The place of the last change in the base, in the history.
    #[must_use]
    pub fn base(&self) -> Mark {
        self.versions.with(|version| version.base)
    }

    /// The place of the last change that readers see.
    #[must_use]
    pub fn published(&self) -> Mark {
        self.versions.with(|version| version.counters.mark())
    }

    /// The place of the last change that was sealed: the next batch goes on from there.
    #[must_use]
    pub fn tentative(&self) -> Mark {
        self.versions.tentative()
    }

    /// The memory that published changes take which are not in the base yet.
    #[must_use]
    pub fn overlay_bytes(&self) -> usize {
        self.versions.with(|version| version.layers.iter().map(|layer| layer.bytes()).sum())
    }

    /// Makes what was sealed up to `upto` visible to readers, in one step. `position` is where the
    /// log has the last of it.
    pub fn publish(&self, upto: Lsn, position: LogPosition) {
        self.versions.publish(upto, position);
        self.note_published();
    }

    /// As [`Self::publish`], if what was sealed has a batch that ends with the record `upto` of
    /// this running hash; false, and nothing happens, when it has not.
    #[must_use]
    pub fn publish_exactly(&self, upto: Lsn, hash: u64, position: LogPosition) -> bool {
        let is_published = self.versions.publish_exactly(upto, hash, position);
        if is_published {
            self.note_published();
        }
        is_published
    }

    pub(crate) fn note_published(&self) {
        self.pace.note(&self.versions);
        if self.versions.with(|version| version.dictionary.has_index_work()) {
            self.pace.wake_builder();
        }
    }

    /// The last changes of the batches that were sealed and are not published, in order.
    #[must_use]
    pub fn tentative_ends(&self) -> Vec<Mark> {
        self.versions.tentative_ends()
    }

    /// Forgets what was sealed and not published: the log did not take it.
    pub fn drop_tentative(&self) {
        self.versions.drop_tentative();
    }

    /// Begins to write; waits until there is no other batch.
    pub fn begin(&self) -> Result<Batch<'_>, StoreError> {
        Batch::begin(self)
    }

    /// Begins to write on what is published, for [`Batch::publish`]; waits until there is no other
    /// batch. What was sealed and not published is dropped.
    pub fn begin_on_published(&self) -> Result<Batch<'_>, StoreError> {
        Batch::begin_on_published(self)
    }

    /// What there is, and how large it is.
    pub fn statistics(&self) -> Result<Statistics, StoreError> {
        let environment = self.base_environment();
        let txn = environment.read()?;
        let mut tables = Vec::with_capacity(TABLE_NAMES.len());
        let mut entries = 0;
        for (name, table) in TABLE_NAMES.into_iter().zip(environment.tables.all()) {
            let stat = Tables::stat(table, &txn)?;
            let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
            if name == crate::base::lmdb::ENTRIES {
                entries = stat.entries as u64;
            }
            tables.push(TableStatistics {
                name,
                rows: stat.entries as u64,
                bytes: pages as u64 * u64::from(stat.page_size),
            });
        }
        Ok(Statistics { entries, tables, file_bytes: environment.file_bytes()? })
    }

    /// How many entries there are, as readers see them.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.versions.with(|version| version.counters.entry_count)
    }

    /// How many names of superiors readers remember, as of when each last took or gave up a view.
    #[must_use]
    pub fn remembered_names(&self) -> u64 {
        self.holds.names()
    }

    /// How the base is; costs a few looks at pages, however large it is.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn base_status(&self) -> Result<BaseStatus, StoreError> {
        let statistics = self.statistics()?;
        let environment = self.base_environment();
        let snapshot = environment.snapshot()?;
        let page_bytes = Tables::stat(environment.tables.meta, snapshot.txn())?.page_size;
        let usage = environment.usage();
        Ok(BaseStatus {
            map_bytes: usage.map_bytes,
            used_bytes: usage.pages * u64::from(page_bytes),
            table_bytes: statistics.tables.iter().map(|table| table.bytes).sum(),
            file_bytes: statistics.file_bytes,
            commits: usage.last_commit,
            readers: usage.readers,
            readers_max: usage.readers_max,
            oldest_reader: self.holds.oldest(usage.last_commit),
        })
    }

    /// The place of the writer; waits until there is no batch.
    pub(crate) fn seat(&self) -> MutexGuard<'_, Seat> {
        // What a batch that panicked has left there is cleared by the next.
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a batch is being made.
    #[cfg(any(test, feature = "test-support"))]
    #[must_use]
    pub fn is_writing(&self) -> bool {
        matches!(self.seat.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// The last batch's view of the base is of no more use; it would keep pages from being reused.
    pub(crate) fn release_seat(&self) {
        if let Ok(mut seat) = self.seat.try_lock() {
            seat.release();
        }
    }

    /// Held by whoever writes to the base.
    pub(crate) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of the writer and of whoever writes to the base. Batches do not wait meanwhile
    /// for a flush that is being written.
    pub(crate) fn seat_and_flushing(&self) -> (MutexGuard<'_, Seat>, MutexGuard<'_, ()>) {
        loop {
            drop(self.flushing());
            let seat = self.seat();
            match self.flushing.try_lock() {
                Ok(flushing) => return (seat, flushing),
                Err(TryLockError::Poisoned(poisoned)) => return (seat, poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }

    pub(crate) fn replaced(&self) -> MutexGuard<'_, FxHashMap<u16, Lsn>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a layer that was made on all others, and these, to the base, and makes it visible.
    pub(crate) fn settle(
        &self,
        epoch: u64,
        layer: Arc<Layer>,
        dictionary: &Arc<Dictionary>,
    ) -> Result<(), StoreError> {
        let _flushing = self.flushing();
        let footing = self.versions.footing();
        assert!(footing.epoch == epoch, "who commits without a log drops no layers meanwhile");
        let counters = layer.counters();
        let layers: Vec<Arc<Layer>> = footing.layers.iter().cloned().chain([layer]).collect();
        flush::write_layers(&footing.version.environment, &layers, dictionary.compression())?;
        self.versions.settle(counters, Arc::clone(dictionary));
        self.note_published();
        Ok(())
    }

    /// The base as of now.
    pub(crate) fn base_environment(&self) -> Arc<Environment> {
        self.versions.with(|version| Arc::clone(&version.environment))
    }

    pub(crate) const fn data_directory(&self) -> &DataDirectory {
        &self.directory
    }
}

/// How the base is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BaseStatus {
    /// Address space reserved for it.
    pub map_bytes: u64,
    /// Up to where pages of the file were ever used.
    pub used_bytes: u64,
    /// What the tables take of them; the rest is free to be used again.
    pub table_bytes: u64,
    /// What the file takes of the disk.
    pub file_bytes: u64,
    /// The number of the last commit.
    pub commits: u64,
    /// Places of readers that are taken.
    pub readers: u64,
    /// Places of readers that there are.
    pub readers_max: u64,
    /// How long a reader has held pages that later commits gave up; zero when none does.
    pub oldest_reader: Duration,
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

/// Dictionary and counters of a base, under a schema that lacks the definitions
/// that were added online.
pub(crate) fn read_settings(
    environment: &Environment,
    schema: Arc<Schema>,
) -> Result<(Dictionary, Counters), StoreError> {
    let snapshot = environment.snapshot()?;
    let txn = snapshot.txn();
    let table = environment.tables.meta;
    let counters = Counters::read(table, txn)?;
    let schema = with_definitions(schema, &meta::definitions(table, txn)?)?;
    let mut contexts = Vec::new();
    for text in meta::contexts(table, txn)? {
        let dn = Dn::parse(&text);
        contexts.push(dn.map_err(|error| StoreError::corrupt(META, &text, error.to_string()))?);
    }
    let contexts = NamingContexts::resolve(&contexts, &schema)?;
    let indexes = meta::indexes(table, txn)?;
    let rows: Vec<IndexRow> = indexes.iter().map(|(row, _)| row.clone()).collect();
    let dictionary = Dictionary::new(schema, &rows)?;
    for (index, (row, rules)) in dictionary.indexes().iter().zip(&indexes) {
        if index.rules() != *rules || index.definition != row.definition {
            return Err(StoreError::Invalid {
                what: "index",
                text: row.definition.to_string(),
                reason: "a schema file gives an attribute type another matching rule than \
                         the index was made with"
                    .to_owned(),
            });
        }
    }
    let texts = attribute_texts(&snapshot, &environment.tables)?;
    let dictionary = dictionary.with_texts(&texts)?;
    let dictionary = dictionary.with_compression(Compression::read(table, txn)?);
    let dictionary = dictionary.with_listed(meta::listed(table, txn)?);
    let dictionary = dictionary.with_apart(meta::apart(table, txn)?)?;
    let dictionary = dictionary.with_first_contexts(contexts);
    let dictionary = dictionary.with_settings(meta::settings(table, txn)?)?;
    Ok((dictionary, counters))
}

pub(crate) fn write_settings(
    environment: &Environment,
    dictionary: &Dictionary,
    digest_key: &[u8; digest::KEY_BYTES],
) -> Result<(), StoreError> {
    let table = environment.tables.meta;
    let mut txn = environment.write()?;
    Counters::FIRST.write(table, &mut txn)?;
    DigestKey::write(table, &mut txn, digest_key)?;
    for (position, name) in dictionary.contexts().names().enumerate() {
        meta::write_context(table, &mut txn, position, &name.to_string())?;
    }
    for index in dictionary.indexes() {
        meta::write_index(table, &mut txn, index)?;
    }
    txn.commit()?;
    format::sync_directory(environment.path())
}

/// The texts of the table `attributes`, by id.
fn attribute_texts(snapshot: &Snapshot, tables: &Tables) -> Result<Vec<String>, StoreError> {
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
