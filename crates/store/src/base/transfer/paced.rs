//! Copying the base out beside a writer: at a rate, and past the page cache.
//!
//! What is written faster than the disk takes it waits in memory until the file system writes all
//! of it at once; a sync of the journal then waits behind it. So the file gets its room first, and
//! then pieces that are on the disk before the next one is.
//!
//! Invariant: no more than a piece is on its way to the disk at any time.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags};

use super::refuse_without_room;
use crate::base::lmdb::Environment;
use crate::error::StoreError;

/// What is written at a time, in bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Where a file that is written past the page cache wants octets to begin, in bytes.
const ALIGNED_BYTES: usize = 4096;
/// The most that is copied in a second, in bytes.
const RATE_BYTES: u64 = 200 << 20;
/// The longest rest after a piece, for which others have the disk; it rests as long as that took.
const REST_MAX: Duration = Duration::from_millis(100);
/// The room is looked at after so many bytes: the base grows meanwhile.
const LOOK_EVERY_BYTES: u64 = 64 << 20;

/// Writes the base, about `bytes` long, to `file`, which is at `path`.
pub(super) fn copy(
    environment: &Environment,
    file: &File,
    path: &Path,
    bytes: u64,
) -> Result<(), StoreError> {
    let io = |source| StoreError::io(path, source);
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(error) if error == rustix::io::Errno::NOSPC => return Err(StoreError::Full),
        // Where the file system cannot, it is written all the same.
        Ok(()) | Err(_) => {}
    }
    let (pipe, end) = io::pipe().map_err(io)?;
    thread::scope(|scope| {
        let reading = thread::Builder::new().name("base-copy".to_owned());
        let reading = reading
            .spawn_scoped(scope, move || environment.copy_to(&mut File::from(OwnedFd::from(end))));
        let reading = reading.map_err(io)?;
        // It ends when this side does: writing to a pipe that nobody reads fails.
        let written = Writer::open(file, path).and_then(|writer| writer.all(pipe, path));
        let read = reading.join();
        written?;
        read.unwrap_or_else(|_| Err(StoreError::Lmdb("the copy ended".to_owned())))
    })
}

struct Writer<'f> {
    file: &'f File,
    /// The same file, past the page cache, where the file system can.
    direct: Option<File>,
}

impl<'f> Writer<'f> {
    fn open(file: &'f File, path: &Path) -> Result<Self, StoreError> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = OpenOptions::new().write(true).custom_flags(flags).open(path).ok();
        Ok(Self { file, direct })
    }

    #[expect(clippy::disallowed_methods, reason = "a disk is written in real time")]
    fn all(mut self, mut pipe: PipeReader, path: &Path) -> Result<(), StoreError> {
        let io = |source| StoreError::io(path, source);
        let mut room = vec![0; PIECE_BYTES + ALIGNED_BYTES];
        let begin = room.as_ptr().align_offset(ALIGNED_BYTES).min(ALIGNED_BYTES);
        let piece = room.get_mut(begin..begin + PIECE_BYTES).unwrap_or_default();
        let (mut at, mut due) = (0, Instant::now());
        loop {
            let length = fill(&mut pipe, piece).map_err(io)?;
            let octets = piece.get(..length).unwrap_or_default();
            let began = Instant::now();
            self.write(octets, at).map_err(io)?;
            at += length as u64;
            if length < PIECE_BYTES {
                return Ok(());
            }
            if at.is_multiple_of(LOOK_EVERY_BYTES) {
                refuse_without_room(path, 0)?;
            }
            due += Duration::from_micros(length as u64 * 1_000_000 / RATE_BYTES);
            let (now, took) = (Instant::now(), began.elapsed());
            // What was late is not made up for, and a slow disk is left to others half of the time.
            due = due.max(now + took.min(REST_MAX));
            thread::park_timeout(due.saturating_duration_since(now));
        }
    }

    /// Writes a piece; it is on the disk when this returns, or about to be.
    fn write(&mut self, octets: &[u8], at: u64) -> io::Result<()> {
        if let Some(direct) =
            self.direct.as_ref().filter(|_| octets.len().is_multiple_of(ALIGNED_BYTES))
        {
            match direct.write_all_at(octets, at) {
                // Some file systems say it only now.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                written => return written,
            }
        }
        self.file.write_all_at(octets, at)?;
        self.file.sync_data()
    }
}

/// Reads until `into` is full or nothing more comes.
fn fill(pipe: &mut PipeReader, into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = into.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match pipe.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
