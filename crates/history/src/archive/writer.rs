//! Writing an archive: blocks at the end of the newest file, and the removal of the oldest ones.
//!
//! Invariant: what a reader is told to be there is in the file. After a failed write the same place
//! is written again; after a failed sync the file is cut to what was synced, and what came after it
//! is read from the log again.
//! Invariant: records that do not follow what is there begin a new file, so no reader takes them
//! for its continuation.

use std::io;
use std::sync::Arc;

use environment::Timestamp;
use journal::DiskFile;
use store::Lsn;

use super::file::{ArchiveFile, Summary, name};
use super::format::{BLOCK_RAW_MAX_BYTES, BLOCKS_MAX, BlockHeader, FileHeader, FileId, Trailer};
use super::{Archive, ArchiveError};
use crate::log::EncodedRecord;
use crate::record::RecordHead;

/// Who writes an archive; there is one.
pub(super) struct ArchiveWriter {
    archive: Arc<Archive>,
    /// The file that is written, once there is one.
    file: Option<Box<dyn DiskFile>>,
    /// Up to where the file is synced, and what it held then.
    synced: Option<Summary>,
    /// Records that wait to be a block.
    pending: Pending,
}

#[derive(Default)]
struct Pending {
    raw: Vec<u8>,
    first: Option<RecordHead>,
    last: Option<RecordHead>,
    records: u32,
}

impl ArchiveWriter {
    pub(super) fn new(archive: &Arc<Archive>) -> Self {
        let archive = Arc::clone(archive);
        Self { archive, file: None, synced: None, pending: Pending::default() }
    }

    /// The record that comes next; none where any may begin.
    pub(super) fn next(&self) -> Option<Lsn> {
        let last = self.pending.last.map(|head| head.lsn).or_else(|| self.archive.last());
        last.map(|last| Lsn(last.0 + 1))
    }

    /// Octets that wait.
    pub(super) const fn pending_bytes(&self) -> usize {
        self.pending.raw.len()
    }

    /// Takes a record. One that does not follow those that wait has them written first.
    ///
    /// # Errors
    /// When they cannot be written; then the record was not taken.
    pub(super) fn add(&mut self, record: &EncodedRecord) -> Result<(), ArchiveError> {
        let head = RecordHead::read(&record.bytes)
            .map_err(|error| ArchiveError::Record { lsn: record.lsn, error })?;
        let follows = self
            .pending
            .last
            .is_none_or(|last| head.lsn.0 == last.lsn.0 + 1 && head.prev_hash == last.hash);
        let length = record.bytes.len();
        if !follows || self.pending.raw.len() + length + 4 > BLOCK_RAW_MAX_BYTES {
            self.write()?;
        }
        let pending = &mut self.pending;
        pending.raw.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        pending.raw.extend_from_slice(&record.bytes);
        pending.records += 1;
        pending.first.get_or_insert(head);
        pending.last = Some(head);
        Ok(())
    }

    /// Writes what waits as one block.
    ///
    /// # Errors
    /// When that cannot be done; it waits on.
    pub(super) fn write(&mut self) -> Result<(), ArchiveError> {
        let (Some(first), Some(last)) = (self.pending.first, self.pending.last) else {
            return Ok(());
        };
        let mut newest = self.newest_for(&first)?;
        let id = newest.header.id;
        let payload = zstd::bulk::compress(&self.pending.raw, COMPRESSION_LEVEL)
            .map_err(|error| ArchiveError::io(&name(id.sequence), &error))?;
        let block = BlockHeader {
            payload_bytes: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            raw_bytes: u32::try_from(self.pending.raw.len()).unwrap_or(u32::MAX),
            records: self.pending.records,
            first: first.lsn,
            first_time: first.csn.time,
            last_time: last.csn.time,
            hash_before: first.prev_hash,
            hash_after: last.hash,
        };
        let octets = block.encode(id, newest.end, &payload);
        self.write_at(id, &octets, newest.end)?;
        newest.add(&block);
        self.archive.replace_newest(newest);
        self.pending = Pending { raw: std::mem::take(&mut self.pending.raw), ..Pending::default() };
        self.pending.raw.clear();
        self.pending.raw.shrink_to(KEPT_BYTES);
        Ok(())
    }

    /// The newest file if `first` follows what it holds and it has room; else a new one.
    fn newest_for(&mut self, first: &RecordHead) -> Result<Summary, ArchiveError> {
        let options = &self.archive.options;
        let newest = self.archive.newest();
        if let Some(newest) = newest {
            let follows = newest.last.0 + 1 == first.lsn.0 && newest.hash_after == first.prev_hash;
            let blocks = newest.places.as_ref().map_or(BLOCKS_MAX, Vec::len);
            let has_room = newest.end < options.file_bytes && blocks < BLOCKS_MAX;
            let age_us = first.csn.time.0.saturating_sub(newest.header.first_time.0);
            let is_old = u128::from(age_us) > options.keep_age.as_micros() / FILES_OF_AN_AGE;
            if follows && has_room && !is_old {
                if self.file.is_none() {
                    self.go_on_with(&newest)?;
                }
                return Ok(newest);
            }
            self.complete()?;
        }
        self.begin(first)
    }

    /// Opens the file that was the newest when the archive was opened, and cuts off what is no
    /// whole block.
    fn go_on_with(&mut self, newest: &Summary) -> Result<(), ArchiveError> {
        let name = name(newest.header.id.sequence);
        let failed = |error: io::Error| ArchiveError::io(&name, &error);
        let file = self.archive.disk.open(&name, false).map_err(failed)?;
        file.truncate(newest.end).map_err(failed)?;
        // What was written before the process ended may not be on the medium yet.
        file.sync().map_err(failed)?;
        self.file = Some(file);
        self.synced = Some(newest.clone());
        Ok(())
    }

    /// Begins a file.
    fn begin(&mut self, first: &RecordHead) -> Result<Summary, ArchiveError> {
        let archive = &self.archive;
        let sequence = archive.next_sequence();
        let header = FileHeader {
            id: FileId { store: archive.store, sequence },
            first: first.lsn,
            first_time: first.csn.time,
            hash_before: first.prev_hash,
        };
        let name = name(sequence);
        let failed = |error: io::Error| ArchiveError::io(&name, &error);
        let file = archive.disk.open(&name, true).map_err(failed)?;
        let begun = file
            .truncate(0)
            .and_then(|()| file.write_at(&header.encode(), 0))
            .and_then(|()| file.sync())
            .and_then(|()| archive.disk.sync_names());
        if let Err(error) = begun {
            // Without a name it is in nobody's way.
            let _ = archive.disk.remove(&name);
            return Err(failed(error));
        }
        let summary = Summary::empty(header);
        archive.push(summary.clone());
        self.file = Some(file);
        self.synced = Some(summary.clone());
        Ok(summary)
    }

    fn write_at(&self, id: FileId, octets: &[u8], at: u64) -> Result<(), ArchiveError> {
        let name = name(id.sequence);
        let file = self.file.as_ref().ok_or_else(|| ArchiveError::Closed(name.clone()))?;
        file.write_at(octets, at).map_err(|error| ArchiveError::io(&name, &error))
    }

    /// Makes what is there durable: what was written before the process ended may not be on the
    /// medium.
    ///
    /// # Errors
    /// When that cannot be done.
    pub(super) fn settle(&mut self) -> Result<(), ArchiveError> {
        let Some(newest) = self.archive.newest() else { return Ok(()) };
        if newest.places.is_some() {
            self.go_on_with(&newest)?;
        }
        self.archive.synced(newest.last);
        Ok(())
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// When that fails: what was written since the last time is given up, to be read from the log
    /// again.
    pub(super) fn sync(&mut self) -> Result<(), ArchiveError> {
        let (Some(file), Some(newest)) = (self.file.as_ref(), self.archive.newest()) else {
            return Ok(());
        };
        if self.synced.as_ref().is_some_and(|synced| synced.end == newest.end) {
            return Ok(());
        }
        if let Err(error) = file.sync() {
            let error = ArchiveError::io(&name(newest.header.id.sequence), &error);
            self.give_up();
            return Err(error);
        }
        self.archive.synced(newest.last);
        self.synced = Some(newest);
        Ok(())
    }

    /// After a failed sync nobody knows what the medium has of what came after the last good one.
    fn give_up(&mut self) {
        if let (Some(file), Some(synced)) = (self.file.take(), self.synced.take()) {
            // If this fails, too, what is behind it does not follow, or is found to be damaged.
            let _ = file.truncate(synced.end);
            self.archive.replace_newest(synced);
        }
        self.pending = Pending::default();
    }

    /// Writes the index of the newest file, behind which nothing comes any more.
    fn complete(&mut self) -> Result<(), ArchiveError> {
        let Some(newest) = self.archive.newest() else { return Ok(()) };
        let Some(places) = &newest.places else {
            self.file = None;
            return Ok(());
        };
        if self.file.is_none() {
            self.go_on_with(&newest)?;
        }
        let trailer = Trailer {
            index: newest.end,
            blocks: u32::try_from(places.len()).unwrap_or(u32::MAX),
            last: newest.last,
            last_time: newest.last_time,
            hash_after: newest.hash_after,
            raw_bytes: newest.raw_bytes,
        };
        let octets = trailer.encode(newest.header.id, places);
        self.write_at(newest.header.id, &octets, newest.end)?;
        self.sync_completed(&newest)?;
        let file_bytes = newest.end + octets.len() as u64;
        self.archive.replace_newest(Summary { file_bytes, places: None, ..newest });
        (self.file, self.synced) = (None, None);
        Ok(())
    }

    fn sync_completed(&mut self, newest: &Summary) -> Result<(), ArchiveError> {
        let synced = self.file.as_ref().map_or(Ok(()), |file| file.sync());
        if let Err(error) = synced {
            let error = ArchiveError::io(&name(newest.header.id.sequence), &error);
            self.give_up();
            return Err(error);
        }
        self.archive.synced(newest.last);
        Ok(())
    }

    /// Removes the oldest files that are too old, or beyond the bytes that may be kept.
    pub(super) fn retire(&mut self, now: Timestamp) -> Result<(), ArchiveError> {
        while let Some(sequence) = self.archive.oldest_to_go(now) {
            self.archive.remove(sequence)?;
        }
        Ok(())
    }

    /// Removes the oldest file, whatever may be kept, if there is another; whether it did.
    pub(super) fn make_room(&mut self) -> bool {
        let Some(oldest) = self.archive.oldest_of_several() else { return false };
        self.archive.remove(oldest).is_ok()
    }

    /// Records after `last` are not those of this directory, which does not have them: it was
    /// restored, or lost what was never durable.
    ///
    /// # Errors
    /// When files cannot be read or written.
    pub(super) fn cut_after(&mut self, last: Lsn) -> Result<(), ArchiveError> {
        if let Some(archived) = self.archive.last().filter(|archived| *archived > last) {
            let (from, to) = (last.0 + 1, archived.0);
            tracing::warn!(
                "the directory does not have changes {from} to {to}: it was restored, or lost \
                 them; they are removed from the archive"
            );
        }
        while let Some(newest) = self.archive.newest().filter(|newest| newest.last > last) {
            if newest.header.first > last {
                self.archive.remove(newest.header.id.sequence)?;
                continue;
            }
            let file = ArchiveFile::at(&*self.archive.disk, newest.header.id)
                .map_err(|error| ArchiveError::io(&name(newest.header.id.sequence), &error))?;
            let places = match &newest.places {
                Some(places) => places.clone(),
                None => file.places()?,
            };
            let mut kept = Summary::empty(newest.header);
            let mut rest = Vec::new();
            for place in places {
                let (records, _) = file.records(place.offset)?;
                let Some(end) = records.last() else { break };
                if end.lsn > last {
                    rest = records.into_iter().filter(|record| record.lsn <= last).collect();
                    break;
                }
                kept.add(&file.header(place.offset)?);
            }
            self.archive.replace_newest(kept.clone());
            self.go_on_with(&kept)?;
            for record in &rest {
                self.add(record)?;
            }
            self.write()?;
            self.sync()?;
        }
        Ok(())
    }
}

/// Between speed and size; twice the level takes twice the time for a tenth of the size.
const COMPRESSION_LEVEL: i32 = 1;

/// What is kept of the memory that a block took.
const KEPT_BYTES: usize = 1 << 20;

/// So many files hold the records of the age that is kept, at least: whole files are removed.
const FILES_OF_AN_AGE: u128 = 14;
