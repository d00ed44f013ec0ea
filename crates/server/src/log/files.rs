//! What logs need of a file system; tests put one in its place that fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use environment::Timestamp;

/// How rotated files are kept small.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Compression {
    #[default]
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// What the name of a compressed file ends with.
    pub(super) const fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }
}

/// A file that is appended to.
pub(super) trait Sink: Send {
    fn append(&mut self, octets: &[u8]) -> io::Result<()>;
    /// Cuts what is behind `length` off.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

/// A file that was opened for appending.
pub(super) struct Opened {
    pub(super) sink: Box<dyn Sink>,
    pub(super) length: u64,
    /// Identifies it among all files, as long as either is there.
    pub(super) identity: u64,
    /// When it was made, if the file system knows.
    pub(super) begun: Option<Timestamp>,
}

/// Files in directories.
pub(super) trait Files: Send + Sync {
    /// Opens a file for appending, readable by its owner only; makes it, and its directory.
    fn open(&self, path: &Path) -> io::Result<Opened>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;
    fn free_bytes(&self, directory: &Path) -> io::Result<u64>;
    /// Writes what `from` holds, compressed, to `to`, durably.
    fn compress(&self, from: &Path, to: &Path, compression: Compression) -> io::Result<()>;
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Puts a small file in place of the one of this name, whole or not at all, durably.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()>;
}

/// The file system of the machine.
pub(crate) struct Disk;

struct DiskSink(File);

impl Sink for DiskSink {
    fn append(&mut self, octets: &[u8]) -> io::Result<()> {
        self.0.write_all(octets)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl Files for Disk {
    fn open(&self, path: &Path) -> io::Result<Opened> {
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let found = file.metadata()?;
        let begun = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let begun = begun.and_then(|since| u64::try_from(since.as_micros()).ok()).map(Timestamp);
        let (length, identity) = (found.len(), found.ino());
        Ok(Opened { sink: Box::new(DiskSink(file)), length, identity, begun })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        let system = rustix::fs::statvfs(directory)?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn compress(&self, from: &Path, to: &Path, compression: Compression) -> io::Result<()> {
        let mut input = BufReader::with_capacity(COPY_BYTES, File::open(from)?);
        let output =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
        let output = BufWriter::with_capacity(COPY_BYTES, output);
        let mut output = match compression {
            Compression::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                let mut encoder = flate2::write::GzEncoder::new(output, level);
                io::copy(&mut input, &mut encoder)?;
                encoder.finish()?
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(output, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                io::copy(&mut input, &mut encoder)?;
                encoder.finish()?
            }
            Compression::None => {
                let mut output = output;
                io::copy(&mut input, &mut output)?;
                output
            }
        };
        output.flush()?;
        output.get_ref().sync_data()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, path)
    }
}

const COPY_BYTES: usize = 256 * 1024;

/// Logs are much alike: the fast levels make them ten times smaller already.
const GZIP_LEVEL: u32 = 2;
const ZSTD_LEVEL: i32 = 1;
