//! Reading an archive, in the order of the numbers.
//!
//! Invariant: holds one block, whatever its reader does meanwhile; no file is kept for a reader.

use std::collections::VecDeque;
use std::sync::Arc;

use environment::Timestamp;
use store::Lsn;

use super::file::{ArchiveFile, Summary, name};
use super::{Archive, ArchiveError};
use crate::log::EncodedRecord;
use crate::record::RecordHead;

/// Reads the records of the newest run from one on.
#[derive(Debug)]
pub struct ArchiveReader {
    archive: Arc<Archive>,
    next: Lsn,
    /// The block in which the last record was, from the next one on.
    records: VecDeque<EncodedRecord>,
    /// The file that was read last, and where the next block of it begins.
    open: Option<(ArchiveFile, u64, u64)>,
}

impl Archive {
    /// A reader that begins with the record `from`.
    pub fn read(self: &Arc<Self>, from: Lsn) -> ArchiveReader {
        let archive = Arc::clone(self);
        ArchiveReader { archive, next: from, records: VecDeque::new(), open: None }
    }

    /// The first record that was not decided before `time`, in the newest run; none if all were.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn first_since(self: &Arc<Self>, time: Timestamp) -> Result<Option<Lsn>, ArchiveError> {
        let Some(summary) = self.file_since(time) else { return Ok(None) };
        let file = self.file(&summary)?;
        let places = places(&file, &summary)?;
        let at = places.partition_point(|place| place.first_time < time).saturating_sub(1);
        let blocks = places.get(at..).unwrap_or_default();
        for place in blocks {
            for record in file.records(place.offset)?.0 {
                let head = RecordHead::read(&record.bytes);
                let head = head.map_err(|error| ArchiveError::Record { lsn: record.lsn, error })?;
                if head.csn.time >= time {
                    return Ok(Some(record.lsn));
                }
            }
        }
        Ok(None)
    }

    fn file(&self, summary: &Summary) -> Result<ArchiveFile, ArchiveError> {
        let id = summary.header.id;
        ArchiveFile::at(&*self.disk, id)
            .map_err(|error| ArchiveError::io(&name(id.sequence), &error))
    }
}

/// Where the blocks of a file are.
fn places(
    file: &ArchiveFile,
    summary: &Summary,
) -> Result<Vec<super::format::Place>, ArchiveError> {
    match &summary.places {
        Some(places) => Ok(places.clone()),
        None => file.places(),
    }
}

impl ArchiveReader {
    /// The record that comes next.
    pub const fn position(&self) -> Lsn {
        self.next
    }

    /// The next record; none if the archive has not got it, or not any more.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn next_record(&mut self) -> Result<Option<EncodedRecord>, ArchiveError> {
        if self.records.is_empty() && !self.read_block()? {
            return Ok(None);
        }
        let record = self.records.pop_front();
        if let Some(record) = &record {
            self.next = Lsn(record.lsn.0 + 1);
        }
        Ok(record)
    }

    /// Reads the block with the next record; whether there is one.
    fn read_block(&mut self) -> Result<bool, ArchiveError> {
        let Some(summary) = self.archive.file_of(self.next) else { return Ok(false) };
        let sequence = summary.header.id.sequence;
        let (file, offset) = match self.open.take() {
            Some((file, of, offset)) if of == sequence => (file, offset),
            _ => {
                let file = match self.archive.file(&summary) {
                    // It went a moment ago, to make room.
                    Err(_) if !self.archive.has(sequence) => return Ok(false),
                    opened => opened?,
                };
                let places = places(&file, &summary)?;
                let at = places.partition_point(|place| place.first <= self.next);
                let Some(place) = at.checked_sub(1).and_then(|at| places.get(at)) else {
                    return Ok(false);
                };
                (file, place.offset)
            }
        };
        let (records, behind) = file.records(offset)?;
        self.records = records.into_iter().skip_while(|one| one.lsn < self.next).collect();
        let is_there = self.records.front().is_some_and(|one| one.lsn == self.next);
        if !is_there {
            self.records.clear();
        }
        self.open = is_there.then_some((file, sequence, behind));
        Ok(is_there)
    }
}
