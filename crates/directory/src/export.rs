//! Writing entries as LDIF: `roster export`, while a server serves the directory or not.
//!
//! Invariant: what is written is one point in time, not earlier than the start of the export.
//! Invariant: a superior comes before its subordinates, and siblings come in the order of their
//! names, so that the same entries give the same file whatever their history.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use ldap::filter::Filter;
use ldap::ldif::LdifWriter;
use schema::{DnKey, EntryId, EntryRead, ResolvedFilter, Truth};
use store::{Resolved, StoreError, StoreOptions, StoredEntry, View};

use crate::backup::read_only_store;
use crate::error::DirectoryError;
use crate::live_entry::LiveEntry;

/// What is exported.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions<'a> {
    /// The DN of an entry: it and all below it; everything without.
    pub base: Option<&'a str>,
    /// Only entries that match this filter (RFC 4515).
    pub filter: Option<&'a str>,
    /// How the store is opened.
    pub store: StoreOptions,
}

/// Why an export failed.
#[derive(Debug)]
pub enum ExportError {
    /// The data directory cannot be opened, or its store failed.
    Directory(DirectoryError),
    /// Base or filter is wrong, in one sentence.
    Asked(String),
    /// The LDIF cannot be written.
    Output(io::Error),
}

/// Writes entries of the data directory `data`, with operational attributes and stored passwords;
/// returns how many. A server may serve the directory: all that it acknowledged before is there.
///
/// # Errors
/// When the directory cannot be opened or read, the base does not exist, or `out` fails.
pub fn export(
    data: &Path,
    options: &ExportOptions<'_>,
    out: &mut dyn Write,
) -> Result<u64, ExportError> {
    let store = read_only_store(data, &options.store)?;
    let schema = store.schema();
    let mut reader = store.reader();
    let view = reader.view()?;
    let filter = match options.filter {
        None => None,
        Some(text) => {
            let filter = Filter::parse(text).map_err(|error| {
                ExportError::Asked(format!("'{text}' is not a search filter: {error}"))
            })?;
            Some(ResolvedFilter::resolve(&filter, &schema))
        }
    };
    let mut writer = LdifWriter::new(out, ldap::ldif::LDIF_FOLD_COLUMNS);
    let mut entries = 0;
    // The entries to write and, last, the next one: a list for each level of the tree.
    let mut open = Vec::new();
    match options.base {
        None => open.push(children(view, EntryId::ROOT)?),
        Some(base) => open.push(vec![find(view, base)?]),
    }
    while let Some(level) = open.last_mut() {
        let Some(id) = level.pop() else {
            open.pop();
            continue;
        };
        let Some(entry) = view.entry(id)? else { continue };
        let live = LiveEntry::new(view, &entry, schema.well_known(), false);
        if filter.as_ref().is_none_or(|filter| filter.matches(&schema, &live) == Truth::True) {
            write(&entry, &mut writer)?;
            entries += 1;
        }
        if view.child_count(id)? > 0 {
            open.push(children(view, id)?);
        }
    }
    Ok(entries)
}

/// The subordinates of an entry, the first one last.
fn children(view: &View<'_>, parent: EntryId) -> Result<Vec<EntryId>, StoreError> {
    let mut ids = view.children(parent)?.collect::<Result<Vec<_>, _>>()?;
    ids.reverse();
    Ok(ids)
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

fn write(
    entry: &StoredEntry<'_>,
    writer: &mut LdifWriter<&mut dyn Write>,
) -> Result<(), ExportError> {
    writer.dn(entry.dn())?;
    for (description, values) in entry.attributes() {
        for value in values {
            writer.attribute(description.text(), value)?;
        }
    }
    Ok(writer.end_record()?)
}

impl From<DirectoryError> for ExportError {
    fn from(error: DirectoryError) -> Self {
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
