//! Where records come from: files and pipes, plain or compressed.
//!
//! Invariant: what is compressed is only ever decompressed piece by piece, however long it gets.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::dialect;

/// A source of LDIF, plain or compressed by gzip or zstd: its first octets say which.
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

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name, and its text decompressed, as LDIF in UTF-8.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn plain(self) -> io::Result<(String, Box<dyn Read + Send + 's>)> {
        Ok((self.name, dialect::text(plain(self.octets)?)?))
    }

    /// How long it is, before it is decompressed; not known of a pipe.
    #[must_use]
    pub const fn length_bytes(&self) -> Option<u64> {
        self.length_bytes
    }

    /// Counts what is read from it, before it is decompressed.
    #[must_use]
    pub fn counted(self, read_bytes: &Arc<AtomicU64>) -> Self {
        let read_bytes = Arc::clone(read_bytes);
        Self { octets: Box::new(Counted { octets: self.octets, read_bytes }), ..self }
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

struct Counted<R> {
    octets: R,
    read_bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.octets.read(buffer)?;
        self.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Decompresses what begins as a compressed file does.
fn plain<'s>(mut octets: Box<dyn Read + Send + 's>) -> io::Result<Box<dyn Read + Send + 's>> {
    let mut start = Vec::with_capacity(MAGIC_BYTES_MAX);
    octets.by_ref().take(MAGIC_BYTES_MAX as u64).read_to_end(&mut start)?;
    let is_gzip = start.starts_with(GZIP_MAGIC);
    let is_zstd = start.starts_with(ZSTD_MAGIC);
    let whole = Cursor::new(start).chain(octets);
    if is_gzip {
        // Of several members, one after the other, as `cat` and parallel compressors make them.
        let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(buffered)));
    }
    if is_zstd {
        let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
        return Ok(Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?));
    }
    Ok(Box::new(whole))
}

/// RFC 1952 §2.3.1.
const GZIP_MAGIC: &[u8] = b"\x1F\x8B";
/// RFC 8878 §3.1.1.
const ZSTD_MAGIC: &[u8] = b"\x28\xB5\x2F\xFD";
const MAGIC_BYTES_MAX: usize = 4;
const BUFFER_BYTES: usize = 256 << 10;
