//! The files of a load: where they lie, and that they go.
//!
//! Invariant: everything that a load writes before its end is in a directory of its own below
//! `import/` in the data directory. That goes with the load; what a process that died has left
//! there goes when the data directory is opened.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StoreError;

/// The directory of a load.
#[derive(Debug)]
pub(super) struct Workplace {
    path: PathBuf,
    files: AtomicU64,
    spilled_bytes: AtomicU64,
}

/// In the data directory.
pub(crate) const IMPORT_DIRECTORY: &str = "import";

/// Counts the loads of this process: no two have the same directory, see
/// [`crate::store::Store::swap_base`].
static LOADS: AtomicU64 = AtomicU64::new(1);

impl Workplace {
    /// Makes an empty one in the data directory `data`.
    pub(super) fn create(data: &Path) -> Result<Self, StoreError> {
        let number = LOADS.fetch_add(1, Ordering::Relaxed);
        let path = data.join(IMPORT_DIRECTORY).join(number.to_string());
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io(&path, source));
            }
            Ok(()) | Err(_) => {}
        }
        // What lies there has passwords in it.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|source| StoreError::io(&path, source))?;
        Ok(Self { path, files: AtomicU64::new(0), spilled_bytes: AtomicU64::new(0) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How much was spilled, in bytes.
    pub(super) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed now goes when the data directory is opened.
        let _ = fs::remove_dir_all(&self.path);
        if let Some(above) = self.path.parent() {
            // Unless there are others.
            let _ = fs::remove_dir(above);
        }
    }
}

/// Removes what loads that did not come to their end have left in the data directory.
pub(crate) fn remove_remains(data: &Path) -> Result<(), StoreError> {
    let path = data.join(IMPORT_DIRECTORY);
    match fs::remove_dir_all(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io(&path, source))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A file that is written to its end, and read wherever one likes.
#[derive(Clone, Debug)]
pub(super) struct SpillFile {
    file: Arc<File>,
    path: Arc<Path>,
    place: Arc<Workplace>,
    length: u64,
}

impl SpillFile {
    pub(super) fn create(place: &Arc<Workplace>) -> Result<Self, StoreError> {
        let number = place.files.fetch_add(1, Ordering::Relaxed);
        let path = place.path.join(format!("spill-{number}"));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = Arc::new(file.map_err(|source| StoreError::io(&path, source))?);
        // It goes when nobody has it open any more: passes over what waits make many.
        fs::remove_file(&path).map_err(|source| StoreError::io(&path, source))?;
        Ok(Self { file, path: path.into(), place: Arc::clone(place), length: 0 })
    }

    pub(super) const fn len(&self) -> u64 {
        self.length
    }

    /// Writes behind what is there; returns where.
    pub(super) fn append(&mut self, octets: &[u8]) -> Result<u64, StoreError> {
        let at = self.length;
        self.file.write_all_at(octets, at).map_err(|source| StoreError::io(&self.path, source))?;
        self.length += octets.len() as u64;
        self.place.spilled_bytes.fetch_add(octets.len() as u64, Ordering::Relaxed);
        Ok(at)
    }

    /// Reads so many octets.
    pub(super) fn read(
        &self,
        at: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        into.clear();
        into.resize(length, 0);
        self.file.read_exact_at(into, at).map_err(|source| StoreError::io(&self.path, source))
    }
}
