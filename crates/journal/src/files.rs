//! Making segments ahead and giving old ones up: all that creates, renames and removes files.
//!
//! A file gets the name of a segment only when its header is synced. A file that was a segment
//! loses that name, durably, before its header is written anew.

use std::sync::{Arc, Mutex, PoisonError};

use crate::copy::HOLD_FILE;
use crate::format::{BLOCK_BYTES, Stream, encode_segment_header};
use crate::scan::{Opened, segment_name};
use crate::segment::Segment;
use crate::{Disk, DiskFile, JournalError, JournalOptions, LockKind};

/// The end of the name of a file that waits to become a segment.
const SPARE_SUFFIX: &str = ".spare";

/// The files of a journal.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: JournalOptions,
    /// A purged segment to be used again. Held while names are changed.
    spare: Mutex<Option<String>>,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, options: JournalOptions) -> Self {
        Self { disk, options, spare: Mutex::new(None) }
    }

    /// Makes a segment without groups, at least `bytes` long.
    pub(crate) fn prepare(&self, sequence: u64, bytes: u64) -> Result<Opened, JournalError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes.max(self.options.segment_bytes).next_multiple_of(BLOCK_BYTES);
        let fresh = format!("{sequence:020}{SPARE_SUFFIX}");
        let from = spare.take_if(|_| bytes == self.options.segment_bytes).unwrap_or(fresh);
        let opened = self.prepare_from(&from, sequence, bytes);
        if opened.is_err() {
            // What is left of it would take space that may just be what is missing.
            let _ = self.disk.remove(&from);
        }
        opened
    }

    /// Makes the file `from` the segment `sequence`.
    fn prepare_from(&self, from: &str, sequence: u64, bytes: u64) -> Result<Opened, JournalError> {
        let failed = |error: std::io::Error| JournalError::io(from, &error);
        let file: Arc<dyn DiskFile> = Arc::from(self.disk.open(from, true).map_err(failed)?);
        file.allocate(bytes).map_err(failed)?;
        let stream = Stream { id: self.options.id, sequence };
        file.write_at(&encode_segment_header(stream, bytes), 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        let name = segment_name(sequence);
        self.disk.rename(from, &name).map_err(failed)?;
        self.disk.sync_names().map_err(failed)?;
        Opened::open(&*self.disk, self.options.id, sequence)
    }

    /// Gives up segments, unless somebody holds the journal; `take` says which, under the lock,
    /// oldest first. `put_back` gets those that are still there when one cannot be removed.
    pub(crate) fn recycle(
        &self,
        take: impl FnOnce() -> Vec<Arc<Segment>>,
        put_back: impl FnOnce(Vec<Arc<Segment>>),
    ) -> Result<(), JournalError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error: std::io::Error| JournalError::io("removing old segments", &error);
        let Some(_alone) = self.disk.lock(HOLD_FILE, LockKind::Exclusive).map_err(failed)? else {
            return Ok(());
        };
        let mut gone = take();
        let mut kept = spare.clone();
        let mut outcome = Ok(());
        // In order and to the first failure: what is missing before others looks like a loss.
        for (at, segment) in gone.iter().enumerate() {
            outcome = self.remove(segment, &mut kept);
            if outcome.is_err() {
                put_back(gone.split_off(at));
                break;
            }
        }
        if !gone.is_empty() {
            self.disk.sync_names().map_err(failed)?;
        }
        // Not before its old name is gone for good.
        *spare = kept;
        outcome.map_err(failed)
    }

    /// Takes the name of a segment from its file, which is kept to be used again if none is.
    fn remove(&self, segment: &Arc<Segment>, kept: &mut Option<String>) -> std::io::Result<()> {
        let name = &segment.opened.name;
        // Somebody may still be reading it; and an unusually large one is not kept.
        let is_free =
            Arc::strong_count(segment) == 1 && segment.opened.len == self.options.segment_bytes;
        if kept.is_some() || !is_free {
            return self.disk.remove(name);
        }
        let to = format!("{:020}{SPARE_SUFFIX}", segment.sequence());
        self.disk.rename(name, &to)?;
        *kept = Some(to);
        Ok(())
    }

    /// Removes files by name, and spare files of an earlier run; then all names that are there
    /// last, also those of a process that was killed before it had made them durable.
    pub(crate) fn clean(&self, leftovers: &[String]) -> Result<(), JournalError> {
        let failed = |error: std::io::Error| JournalError::io("removing old segments", &error);
        let names = self.disk.list().map_err(failed)?;
        let gone = |name: &&String| name.ends_with(SPARE_SUFFIX) || leftovers.contains(name);
        for name in names.iter().filter(gone) {
            self.disk.remove(name).map_err(failed)?;
        }
        self.disk.sync_names().map_err(failed)
    }
}
