//! Files that are written whole and checked when they are read.
//!
//! Invariant: a file that is named in a manifest was synced before, under its final name.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::manifest::BackupPart;

/// A SHA-256 checksum, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Hex([u8; 32]);

impl Sha256Hex {
    /// The checksum of some octets.
    pub fn of(octets: &[u8]) -> Self {
        Self(Sha256::digest(octets).into())
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Sha256Hex> for String {
    fn from(checksum: Sha256Hex) -> Self {
        checksum.to_string()
    }
}

impl TryFrom<String> for Sha256Hex {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let octets = octets_of_hex(&text).and_then(|octets| octets.try_into().ok());
        octets.map(Self).ok_or("not 64 hexadecimal digits")
    }
}

/// The octets that hexadecimal digits, in lower case, stand for.
pub(super) fn octets_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |octet: u8| match octet {
        b'0'..=b'9' => Some(octet - b'0'),
        b'a'..=b'f' => Some(octet - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// A number as 16 hexadecimal digits: JSON's own numbers lose the last bits in many programs.
pub(super) mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(in super::super) fn serialize<S: Serializer>(
        number: &u64,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{number:016x}"))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let octets = super::octets_of_hex(&text).and_then(|octets| octets.try_into().ok());
        octets.map(u64::from_be_bytes).ok_or_else(|| de::Error::custom("not 16 hexadecimal digits"))
    }
}

/// A new part in the making; readable by its owner only.
#[derive(Debug)]
pub(super) struct NewPart {
    name: String,
    file: File,
    bytes: u64,
    hash: Sha256,
}

impl NewPart {
    pub(super) fn create(directory: &Path, name: String) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(directory.join(&name))?;
        Ok(Self { name, file, bytes: 0, hash: Sha256::new() })
    }

    /// Makes the part durable; its name is not until the directory is synced.
    pub(super) fn finish(self) -> io::Result<BackupPart> {
        self.file.sync_all()?;
        let sha256 = Sha256Hex(self.hash.finalize().into());
        Ok(BackupPart { name: self.name, bytes: self.bytes, sha256 })
    }
}

impl Write for NewPart {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let written = self.file.write(octets)?;
        self.hash.update(octets.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Passes on what is read, and keeps count of it.
#[derive(Debug)]
pub(super) struct Hashing<R> {
    source: R,
    pub(super) bytes: u64,
    hash: Sha256,
}

impl<R> Hashing<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, bytes: 0, hash: Sha256::new() }
    }

    pub(super) fn checksum(&self) -> Sha256Hex {
        Sha256Hex(self.hash.clone().finalize().into())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.hash.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Passes all octets on; `progress` hears how many.
pub(super) fn copy(
    source: &mut impl Read,
    to: &mut impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(), CopyError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                to.write_all(buffer.get(..read).unwrap_or_default()).map_err(CopyError::Write)?;
                progress(read as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyError::Read(error)),
        }
    }
}

/// Which side of a copy failed.
#[derive(Debug)]
pub(super) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Reads a file that is not large.
pub(super) fn read_small(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > max_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    Ok(octets)
}

/// Puts `octets` in the place of the file at `path`, durable and in one step.
pub(super) fn write_whole(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(octets)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_names)
}

/// Makes the names in a directory durable.
pub(super) fn sync_names(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Octets that are copied at a time.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_checksum_of_what_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut part = NewPart::create(dir.path(), "base-1".to_owned()).unwrap();
        part.write_all(b"abc").unwrap();
        let part = part.finish().unwrap();
        // FIPS 180-2, the first example.
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((part.bytes, part.sha256.to_string().as_str()), (3, want));
        assert_eq!(Sha256Hex::try_from(want.to_owned()), Ok(part.sha256));
        let mut source = Hashing::new(File::open(dir.path().join("base-1")).unwrap());
        let mut counted = 0;
        copy(&mut source, &mut io::sink(), &mut |read| counted += read).unwrap();
        assert_eq!((source.checksum(), source.bytes, counted), (part.sha256, 3, 3));
        assert!(NewPart::create(dir.path(), "base-1".to_owned()).is_err());
    }

    #[test]
    fn hexadecimal_digits_are_pairs_in_lower_case() {
        assert_eq!(octets_of_hex("00ff7a"), Some(vec![0, 255, 0x7a]));
        for text in ["0", "0g", "FF", "é"] {
            assert_eq!(octets_of_hex(text), None, "{text}");
        }
    }
}
