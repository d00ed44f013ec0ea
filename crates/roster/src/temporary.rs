//! A folder for one run of the program.
//!
//! Invariant: only its owner can look into it, and it is deleted when the run ends.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::commands::init::generate_password;
use crate::failure::Failure;

/// The folder; deleted when dropped.
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes it, with what it is for in its name.
    pub(crate) fn new(purpose: &str) -> Result<Self, Failure> {
        let name = format!("roster-{purpose}-{}", generate_password()?);
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::path("make", &path, &error))?;
        Ok(Self(path))
    }

    /// Leaves it where it is, for whoever uses it still.
    pub(crate) fn keep(mut self) {
        self.0 = PathBuf::new();
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if self.0.as_os_str().is_empty() {
            return;
        }
        // What cannot be deleted now is left to the system's cleaning of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
