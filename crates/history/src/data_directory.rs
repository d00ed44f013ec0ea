//! Where schema files and the journal are in a data directory.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::HistoryError;
use journal::{Disk, FileDisk};
use schema::{Schema, SchemaFile};

/// Where the journal of a data directory is.
pub fn journal_disk(data: &Path) -> Result<Arc<dyn Disk>, HistoryError> {
    let path = data.join(JOURNAL_DIRECTORY);
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        // The name is durable before anything under it counts.
        Ok(()) => fs::File::open(data)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| HistoryError::Io { path: data.to_owned(), source })?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(source) => return Err(HistoryError::Io { path, source }),
    }
    Ok(Arc::new(FileDisk::new(path)))
}

/// Where an archive is: a directory that is made where it is missing.
pub fn archive_disk(path: &Path) -> Result<Arc<dyn Disk>, HistoryError> {
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.map_err(|source| HistoryError::Io { path: path.to_owned(), source })?;
    Ok(Arc::new(FileDisk::new(path)))
}

/// The schema of a data directory, without what was changed online.
pub fn schema_of(data: &Path) -> Result<Arc<Schema>, HistoryError> {
    let files = schema_files(data)?;
    Ok(match &files[..] {
        [] => Schema::builtin(),
        files => Arc::new(Schema::builtin().with_files(files)?),
    })
}

/// The user's own schema files, in order of their names.
fn schema_files(data: &Path) -> Result<Vec<SchemaFile>, HistoryError> {
    let directory = data.join(SCHEMA_DIRECTORY);
    let listing = match fs::read_dir(&directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(HistoryError::Io { path: directory, source }),
    };
    let mut paths = listing
        .filter_map(|found| found.ok().map(|found| found.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ldif"))
        .collect::<Vec<_>>();
    paths.sort();
    paths
        .into_iter()
        .map(|path| match fs::read_to_string(&path) {
            Ok(text) => Ok(SchemaFile { name: path.display().to_string(), text }),
            Err(source) => Err(HistoryError::Io { path, source }),
        })
        .collect()
}

/// The file that says that a member of a cluster has other data than the rest of it, and is not to
/// be served.
pub const QUARANTINE_FILE: &str = "quarantine.json";

/// The settings, by the names that the store has for them, that a directory has as one of a cluster
/// and loses with it.
pub const CLUSTER_SETTINGS: [&str; 1] = ["join-tokens"];

/// Where the journal is, in the data directory.
pub const JOURNAL_DIRECTORY: &str = "journal";

/// Where the archive of change records is, in the data directory.
pub const ARCHIVE_DIRECTORY: &str = "archive";

/// Where users put schema files, in the data directory.
pub const SCHEMA_DIRECTORY: &str = "schema";
