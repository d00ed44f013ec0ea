//! Loading an LDIF file while no server runs: `roster import` and `roster demo`.
//!
//! An entry is completed as an add would complete it (naming values, superior classes, hashed
//! passwords, the operational attributes it does not bring itself), checked against the schema, and
//! stored.
//! Invariant: all entries of a file become visible together, or, when one is refused, none.

use std::fmt;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use aci::{Identity, Permitted};
use ldap::dn::Dn;
use ldap::ldif::{LdifEntry, LdifError, LdifLimits, LdifReader};
use schema::{AddChange, Change, DnKey, Entry, EntryError, EntryId, Mode, Schema, validate};
use store::{Batch, BulkError, BulkLoader, Resolved, Store, StoreError, StoreOptions};

use crate::chance::{OsChance, random_uuid};
use crate::clock::Clock;
use crate::directory::{ROOT_DN, schema_of};
use crate::error::DirectoryError;
use crate::ops::add::stamp_new;
use crate::ops::update;
use crate::password::Scheme;
use crate::stamp::Stamper;

/// How a file is imported.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// How clear-text passwords are stored.
    pub password_scheme: Scheme,
    /// How the store is opened.
    pub store: StoreOptions,
}

/// What was imported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ImportReport {
    /// Entries of the file.
    pub entries: u64,
}

/// Why nothing was imported.
#[derive(Debug)]
pub enum ImportError {
    /// The data directory cannot be opened, or its store failed.
    Directory(DirectoryError),
    /// The file is wrong.
    File {
        /// The line at fault, from 1.
        line: u64,
        /// What is wrong, in one sentence.
        reason: String,
    },
}

/// Loads all entries of an LDIF file into the data directory `data`. `progress` hears what is being
/// done, how much of it is done, and how much there is, once the file is read.
///
/// # Errors
/// When the directory cannot be opened or a record is refused; then nothing was loaded.
pub fn import(
    data: &Path,
    source: impl BufRead,
    options: &ImportOptions,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<ImportReport, ImportError> {
    let schema = schema_of(data)?;
    let store = Store::open(data, &options.store, schema)?;
    let mut preparation = Preparation::new(&store.schema(), options.password_scheme, clock)?;
    let mut load = Load::start(&store)?;
    let mut reader = LdifReader::new(source, LdifLimits::default());
    let mut entries = 0;
    while let Some(record) = reader.next_entry()? {
        let line = record.line;
        let entry = preparation.prepare(&record);
        let entry = entry.map_err(|reason| ImportError::File { line, reason })?;
        load.add(entry, line)?;
        entries += 1;
    }
    load.finish(progress)?;
    Ok(ImportReport { entries })
}

/// Makes entries ready to be stored.
struct Preparation<'c> {
    schema: Arc<Schema>,
    scheme: Scheme,
    clock: &'c dyn Clock,
    chance: OsChance,
    stamper: Stamper,
    identity: Identity,
}

impl<'c> Preparation<'c> {
    fn new(
        schema: &Arc<Schema>,
        scheme: Scheme,
        clock: &'c dyn Clock,
    ) -> Result<Self, DirectoryError> {
        let root = Dn::parse(ROOT_DN).map_err(|error| DirectoryError::Name {
            text: ROOT_DN.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            schema: Arc::clone(schema),
            scheme,
            clock,
            chance: OsChance,
            stamper: Stamper::default(),
            identity: Identity::Root(root),
        })
    }

    /// What an add would store; the reason when it would refuse.
    fn prepare(&mut self, record: &LdifEntry<'_>) -> Result<Entry, String> {
        let schema = &self.schema;
        let name = Dn::parse(record.dn)
            .map_err(|error| format!("'{}' is not a distinguished name: {error}", record.dn))?;
        let is_stored = |(description, _): &(&str, &[u8])| {
            !COMPUTED.iter().any(|computed| computed.eq_ignore_ascii_case(description))
        };
        let pairs = record.attributes().filter(is_stored);
        let mut entry = Entry::from_pairs(name, pairs, schema).map_err(text)?;
        entry.add_naming_values(schema).map_err(text)?;
        update::hash_passwords_with(self.scheme, &mut entry, schema, &mut self.chance)
            .map_err(text)?;
        let structure =
            validate(&entry, schema, Mode::Import).map_err(|violation| violation.diagnostic)?;
        let structural = structure.structural.name().to_owned();
        entry.add_superior_classes(schema).map_err(text)?;
        let stamp = self.stamper.stamp(self.clock.now(), &self.identity);
        let uuid = random_uuid(&mut self.chance);
        stamp_new(&mut entry, schema, &stamp, &uuid, &structural).map_err(text)?;
        Ok(entry)
    }
}

/// Puts entries into the store, in whichever way it takes them.
enum Load<'s> {
    /// Nothing is there but the entries of the naming contexts.
    Bulk(BulkLoader<'s>),
    /// Added one by one to what is there, in one transaction.
    Batch { batch: Batch<'s>, schema: Arc<Schema>, contexts: Vec<DnKey> },
}

impl<'s> Load<'s> {
    fn start(store: &'s Store) -> Result<Self, ImportError> {
        match store.bulk_load() {
            Ok(loader) => Ok(Self::Bulk(loader)),
            Err(BulkError::NotEmpty { .. }) => {
                let schema = store.schema();
                let contexts = store.naming_contexts().iter();
                let contexts = contexts.filter_map(|dn| DnKey::from_dn(&schema, dn).ok()).collect();
                Ok(Self::Batch { batch: store.begin()?, schema, contexts })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn add(&mut self, entry: Entry, line: u64) -> Result<(), ImportError> {
        let (batch, schema, contexts) = match self {
            Self::Bulk(loader) => return Ok(loader.add(&entry, line)?),
            Self::Batch { batch, schema, contexts } => (batch, schema, contexts),
        };
        let refuse = |reason: String| Err(ImportError::File { line, reason });
        let dn = entry.name().to_string();
        let key = match DnKey::from_dn(schema, entry.name()) {
            Ok(key) => key,
            Err(error) => return refuse(format!("'{dn}': {error}")),
        };
        if let Resolved::Found(_) = batch.view().resolve(&key)? {
            return refuse(format!("an entry '{dn}' exists already"));
        }
        let parent = if contexts.contains(&key) {
            EntryId::ROOT
        } else {
            let above = key.parent().map(|above| batch.view().resolve(&above)).transpose()?;
            match above {
                Some(Resolved::Found(parent)) => parent,
                Some(Resolved::Missing { .. }) => {
                    return refuse(format!("the superior of '{dn}' does not exist"));
                }
                Some(Resolved::NoContext) | None => {
                    return refuse(format!("'{dn}' is in no naming context"));
                }
            }
        };
        let key = update::name_key(&key, parent);
        let add = AddChange { id: batch.next_entry_id(), parent, key, entry };
        Ok(batch.apply(Permitted::internal(Change::Add(add)).get())?)
    }

    fn finish(self, progress: &mut dyn FnMut(&'static str, u64, u64)) -> Result<(), ImportError> {
        match self {
            Self::Bulk(loader) => {
                loader.finish(progress)?;
            }
            Self::Batch { batch, .. } => {
                batch.commit()?;
            }
        }
        Ok(())
    }
}

fn text(error: EntryError) -> String {
    error.to_string()
}

impl From<DirectoryError> for ImportError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Directory(error.into())
    }
}

impl From<BulkError> for ImportError {
    fn from(error: BulkError) -> Self {
        match (error.place(), error) {
            (_, BulkError::Store(error)) => error.into(),
            (line, error) => Self::File { line: line.unwrap_or(0), reason: error.to_string() },
        }
    }
}

impl From<LdifError> for ImportError {
    fn from(error: LdifError) -> Self {
        Self::File { line: error.line, reason: error.reason.to_string() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::File { line, reason } => write!(f, "line {line}: {reason}"),
        }
    }
}

impl std::error::Error for ImportError {}

/// Attributes the server computes: a file that has them was made by a search.
const COMPUTED: &[&str] = &["entryDN", "hasSubordinates", "numSubordinates", "subschemaSubentry"];
