//! Loading an LDIF file while no server runs: `roster import` and `roster demo`.
//!
//! One thread reads records, one for each core makes entries of them, and the caller's stores these
//! in the order of the file. An entry is completed as an add would complete it: naming values,
//! superior classes, hashed passwords, and the operational attributes that it does not bring.
//!
//! Invariants: all entries of a file become visible together, or, when one is refused, none; the
//! first record of the file that is refused is the one that is reported; what is read ahead is
//! bounded.

mod load;
mod pipeline;
mod prepare;

use std::fmt;
use std::io::BufRead;
use std::path::Path;

use ldap::ldif::LdifError;
use store::{BulkError, Store, StoreError, StoreOptions};

use self::load::Load;
use self::prepare::Completer;
use crate::clock::Clock;
use crate::directory::schema_of;
use crate::error::DirectoryError;
use crate::password::Scheme;
use crate::recovery;

/// How a file is imported.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// How clear-text passwords are stored.
    pub password_scheme: Scheme,
    /// How the store is opened.
    pub store: StoreOptions,
    /// Threads that make entries; 0 means one for each core.
    pub threads: usize,
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

/// Loads all entries of an LDIF file into the data directory `data`, superiors first. `progress`
/// hears what is being done, how much of it is done, and how much there is, once the file is read.
///
/// The file may bring the entries of the naming contexts: they take the place of those that were
/// made with the directory, as long as there are no others.
///
/// # Errors
/// When the directory cannot be opened or a record is refused; then nothing was loaded.
pub fn import(
    data: &Path,
    source: impl BufRead + Send,
    options: &ImportOptions,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(&'static str, u64, u64),
) -> Result<ImportReport, ImportError> {
    let store = Store::open(data, &options.store, schema_of(data)?)?;
    // What is acknowledged and lies in the journal alone comes first; the journal begins anew when
    // the directory is opened and the data are ahead of it.
    recovery::settle(&store, data)?;
    let completer = Completer::new(store.schema(), options.password_scheme, clock.now());
    let mut load = Load::start(&store)?;
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let entries = pipeline::run(source, &mut load, &completer, threads)?;
    load.finish(progress)?;
    Ok(ImportReport { entries })
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
        match error {
            BulkError::Store(error) => error.into(),
            BulkError::Refused(refusal) => {
                Self::File { line: refusal.place.line, reason: refusal.to_string() }
            }
            error => Self::File { line: 0, reason: error.to_string() },
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

#[cfg(test)]
mod tests;
