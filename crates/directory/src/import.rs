//! Loading an LDIF file while no server runs: `roster import` and `roster demo`.
//!
//! One thread reads records, one for each core makes entries of them, and the caller's stores these
//! in the order of the file. An entry is completed as an add would complete it: naming values,
//! superior classes, hashed passwords, and the operational attributes that it does not bring.
//!
//! Invariants: all entries of a file become visible together, or, when one is refused, none; the
//! first record of the file that is refused is the one that is reported; what is read ahead is
//! bounded.

mod dialect;
mod load;
mod options;
mod pipeline;
mod prepare;
mod record;
mod source;

use std::fmt;
use std::io::BufReader;
use std::path::Path;

use ldap::ldif::LdifError;
use store::{BulkError, Store, StoreError};

pub use self::dialect::{PasswordUse, RuleUse, Tally, UnknownUse, translated};
use self::load::Load;
pub use self::options::{
    Held, ImportMode, ImportObserver, ImportOptions, ImportPhase, ImportReport, OnRefusal,
    Progress, Refused, Skipped,
};
use self::prepare::Completer;
pub use self::source::Source;
use crate::clock::Clock;
use crate::directory::schema_of;
use crate::error::DirectoryError;
use crate::recovery;

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

/// Loads the entries of LDIF sources, one after the other, into the data directory `data`.
/// `observer` hears of what is being done and of what is not imported.
///
/// The sources may bring the entries of the naming contexts: they take the place of those that
/// were made with the directory, as long as there are no others.
///
/// # Errors
/// When the directory cannot be opened, a source cannot be read, or a record is refused and the
/// options do not say to go on; then nothing was loaded.
pub fn import(
    data: &Path,
    sources: Vec<Source<'_>>,
    options: &ImportOptions,
    clock: &dyn Clock,
    observer: &mut dyn ImportObserver,
) -> Result<ImportReport, ImportError> {
    let begin = clock.elapsed();
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
    let mut entries = 0;
    for source in sources {
        let octets = BufReader::with_capacity(BUFFER_BYTES, source.octets);
        entries += pipeline::run(octets, &mut load, &completer, threads)?;
    }
    load.finish(&mut |_, done, total| {
        observer.progress(&Progress {
            phase: ImportPhase::Index,
            done,
            total: Some(total),
            records: entries,
            rejected: 0,
            skipped: 0,
            elapsed: clock.elapsed() - begin,
        });
    })?;
    let elapsed = clock.elapsed() - begin;
    Ok(ImportReport { processed: entries, imported: entries, elapsed, ..ImportReport::default() })
}

const BUFFER_BYTES: usize = 256 * 1024;

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
