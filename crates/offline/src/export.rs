//! Writing entries as LDIF: `roster export`, while a server serves the directory or not.
//!
//! A thread finds the entries (`walk.rs`), several make their text (`text.rs`), and the caller's
//! writes it.
//!
//! Invariant: what is written is one point in time, not earlier than the start of the export.
//! Invariant: a superior comes before its subordinates. The entries of the naming contexts, or the
//! base, come first, in the order of their names. All others come in the order of their numbers,
//! which is that of the disk and of an import: so what is exported, imported and exported again is
//! the same to the octet. An entry that is below a younger one, since it was moved there, comes
//! behind all of them, with everything below it.

mod place;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod walk;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use ldap::filter::Filter;
use ldap::ldif::LDIF_FOLD_COLUMNS;
use ldap::message::Scope;
use schema::{DnKey, EntryId, ResolvedFilter, Selection};
use store::{Resolved, Store, StoreError, StoreOptions, View};

use self::place::Moved;
use self::text::{Chosen, TextMaker};
use self::walk::{Region, Task, Walk};
use crate::backup::read_only_store;
use crate::in_order::{Chunk, Chunks, Compression, Take, in_order};
use history::HistoryError;

/// What is exported, and how it is written.
#[derive(Clone, Debug)]
pub struct ExportOptions<'a> {
    /// The DN of an entry: it and all below it; everything without.
    pub base: Option<&'a str>,
    /// How far below the base.
    pub scope: Scope,
    /// Only entries that match this filter (RFC 4515).
    pub filter: Option<&'a str>,
    /// Only these attributes, as in a search: `*`, `+`, `1.1`, descriptions, `@class`; when it is
    /// empty, all that are stored, with operational ones and stored passwords.
    pub attributes: &'a [&'a str],
    /// Leaves operational attributes out, whatever `attributes` says.
    pub is_without_operational: bool,
    /// In the order of names, level by level down, instead of that of the disk: the same entries
    /// give the same text whatever their history.
    pub is_by_name: bool,
    /// Adds what a replica needs, as comments: the place in the history, and each entry's number.
    pub has_replication_state: bool,
    /// The longest line; 0 folds nothing.
    pub fold_columns: usize,
    /// How the text is compressed.
    pub compression: Compression,
    /// Threads that make text; 0 means one for each core.
    pub threads: usize,
    /// How the store is opened.
    pub store: StoreOptions,
}

impl Default for ExportOptions<'_> {
    fn default() -> Self {
        Self {
            base: None,
            scope: Scope::Subtree,
            filter: None,
            attributes: &[],
            is_without_operational: false,
            is_by_name: false,
            has_replication_state: false,
            fold_columns: LDIF_FOLD_COLUMNS,
            compression: Compression::None,
            threads: 0,
            store: StoreOptions::default(),
        }
    }
}

/// What was exported so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExportReport {
    /// Entries written.
    pub entries: u64,
    /// Entries there are to write, about.
    pub expected: u64,
    /// Octets of LDIF.
    pub text_bytes: u64,
    /// Octets written: fewer when they are compressed.
    pub written_bytes: u64,
}

/// Why an export failed.
#[derive(Debug)]
pub enum ExportError {
    /// The data directory cannot be opened, or its store failed.
    Directory(HistoryError),
    /// Base or filter is wrong, in one sentence.
    Asked(String),
    /// The LDIF cannot be written.
    Output(io::Error),
}

/// Writes entries of the data directory `data`. A server may serve the directory: all that it
/// acknowledged before is there.
///
/// # Errors
/// When the directory cannot be opened or read, the base does not exist, or `out` fails.
pub fn export(
    data: &Path,
    options: &ExportOptions<'_>,
    out: &mut dyn Write,
) -> Result<ExportReport, ExportError> {
    export_watched(data, options, out, &mut |_| {})
}

/// Exports as [`export`] does; `progress` hears now and then what was exported so far.
///
/// # Errors
/// As [`export`].
pub fn export_watched(
    data: &Path,
    options: &ExportOptions<'_>,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(&ExportReport),
) -> Result<ExportReport, ExportError> {
    let store = read_only_store(data, &options.store)?;
    let (chosen, region) = resolve(&store, options)?;
    let mut reader = store.reader();
    let view = reader.view()?;
    let mut report = ExportReport { expected: region.expected(view)?, ..ExportReport::default() };
    progress(&report);
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let moved = Moved::default();
    let maker = || {
        let mut maker = TextMaker::new(&store, &chosen, &region, &moved);
        Ok(move |task: Task, chunks: &mut Chunks<ExportError>| maker.make(task, chunks))
    };
    let mut hand_over = |chunk: &Chunk| {
        out.write_all(&chunk.octets)?;
        report.entries += chunk.records;
        report.text_bytes += chunk.text_bytes;
        report.written_bytes += chunk.octets.len() as u64;
        progress(&report);
        Ok(())
    };
    let mut run = |walk: Walk| {
        let feed = |take: Take<'_, Task>| walk.feed(&store, &region, take);
        in_order(threads, options.compression, feed, maker, &mut hand_over)
    };
    let head = options.has_replication_state.then(|| state::head(&store, view));
    run(if options.is_by_name { Walk::ByName(head) } else { Walk::ByNumber(head) })?;
    // The threads that made the text found these, and all of them are done.
    let parents = moved.take();
    if !parents.is_empty() {
        run(Walk::Moved(parents))?;
    }
    Ok(report)
}

/// What is asked for, as the schema and the tree have it.
fn resolve(
    store: &Arc<Store>,
    options: &ExportOptions<'_>,
) -> Result<(Chosen, Region), ExportError> {
    let schema = store.schema();
    let filter = match options.filter {
        None => None,
        Some(text) => {
            let filter = Filter::parse(text).map_err(|error| {
                ExportError::Asked(format!("'{text}' is not a search filter: {error}"))
            })?;
            Some(ResolvedFilter::resolve(&filter, &schema))
        }
    };
    let selection = match options.attributes {
        [] => None,
        names => Some(Selection::resolve(names.iter().copied(), &schema)),
    };
    let base = match options.base {
        None if options.scope != Scope::Subtree => {
            return Err(ExportError::Asked("this scope needs a base".to_owned()));
        }
        None => EntryId::ROOT,
        Some(base) => find(store.reader().view()?, base)?,
    };
    let chosen = Chosen {
        selection,
        is_without_operational: options.is_without_operational,
        has_numbers: options.has_replication_state,
        fold_columns: options.fold_columns,
    };
    Ok((chosen, Region { base, scope: options.scope, filter, schema }))
}

fn find(view: &View<'_>, base: &str) -> Result<EntryId, ExportError> {
    let key = DnKey::from_text(view.schema(), base)
        .map_err(|error| ExportError::Asked(format!("'{base}' is not a base: {error}")))?;
    match view.resolve(&key)? {
        Resolved::Found(id) => Ok(id),
        Resolved::Missing { .. } | Resolved::NoContext => {
            Err(ExportError::Asked(format!("there is no entry '{base}'")))
        }
    }
}

impl From<HistoryError> for ExportError {
    fn from(error: HistoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StoreError> for ExportError {
    fn from(error: StoreError) -> Self {
        Self::Directory(error.into())
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Asked(reason) => f.write_str(reason),
            Self::Output(error) => write!(f, "cannot write the entries: {error}"),
        }
    }
}

impl std::error::Error for ExportError {}
