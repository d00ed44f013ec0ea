//! Temporary files that have no name: they are gone when the program ends, however it ends.
//!
//! Invariant: nobody else can open one. It is removed before anything is written to it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use crate::commands::init::generate_password;
use crate::failure::Failure;

/// A file that is written once, from its start to its end, and then read.
#[derive(Debug)]
pub(super) struct Scratch {
    out: BufWriter<File>,
    length_bytes: u64,
}

/// What was written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    file: Arc<File>,
    pub(super) length_bytes: u64,
}

/// A part of what was written, from one position to another.
#[derive(Debug)]
pub(super) struct Section {
    file: Arc<File>,
    position: u64,
    end: u64,
}

impl Scratch {
    /// Makes one where the system has temporary files.
    pub(super) fn new() -> Result<Self, Failure> {
        let name = format!("roster-diff-{}", generate_password()?);
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(|error| failed(&error))?;
        std::fs::remove_file(&path).map_err(|error| failed(&error))?;
        Ok(Self { out: BufWriter::with_capacity(BUFFER_BYTES, file), length_bytes: 0 })
    }

    /// Appends octets.
    pub(super) fn write(&mut self, octets: &[u8]) -> Result<(), Failure> {
        self.out.write_all(octets).map_err(|error| failed(&error))?;
        self.length_bytes += octets.len() as u64;
        Ok(())
    }

    /// How much was written.
    pub(super) const fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Ends the writing.
    pub(super) fn written(self) -> Result<Written, Failure> {
        let file = self.out.into_inner().map_err(|error| failed(error.error()))?;
        Ok(Written { file: Arc::new(file), length_bytes: self.length_bytes })
    }
}

impl Written {
    /// What stands from `start` up to `end`.
    pub(super) fn section(&self, start: u64, end: u64) -> Section {
        Section { file: Arc::clone(&self.file), position: start, end }
    }

    /// Fills `buffer` from what stands at `position`.
    pub(super) fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.file.read_exact_at(buffer, position).map_err(|error| failed(&error))
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        let read =
            self.file.read_at(buffer.get_mut(..length).unwrap_or_default(), self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// Why temporary files cannot be used.
pub(super) fn failed(error: &io::Error) -> Failure {
    let folder: PathBuf = std::env::temp_dir();
    let failure = Failure::path("use temporary files in", &folder, error);
    match failure.hint {
        Some(_) => failure.hint("make room there, or name another directory in TMPDIR"),
        None => failure.hint("TMPDIR names another directory for them"),
    }
}

const BUFFER_BYTES: usize = 256 << 10;
