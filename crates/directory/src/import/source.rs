//! Where records come from: files and pipes, plain or compressed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A source of LDIF.
pub struct Source<'s> {
    pub(super) name: String,
    pub(super) octets: Box<dyn Read + Send + 's>,
    pub(super) length_bytes: Option<u64>,
}

impl<'s> Source<'s> {
    /// A source that messages call `name`.
    pub fn new(name: impl Into<String>, octets: impl Read + Send + 's) -> Self {
        Self { name: name.into(), octets: Box::new(octets), length_bytes: None }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened, or is a directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let length_bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self { length_bytes, ..Self::new(path.display().to_string(), file) })
    }

    /// Its octets.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn plain(self) -> io::Result<(String, Box<dyn Read + Send + 's>)> {
        Ok((self.name, self.octets))
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .field("length_bytes", &self.length_bytes)
            .finish_non_exhaustive()
    }
}
