//! Reading one file of an archive.
//!
//! Invariant: memory is that of one block, and of the index of the file.

use std::io;
use std::sync::Arc;

use environment::Timestamp;
use journal::{Disk, DiskFile};
use store::Lsn;

use super::ArchiveError;
use super::format::{
    BLOCK_HEADER_BYTES, BLOCK_RAW_MAX_BYTES, BLOCKS_MAX, BlockHeader, FILE_HEADER_BYTES, Fault,
    FileHeader, FileId, Place, TRAILER_BYTES, Trailer, aligned,
};
use crate::log::EncodedRecord;
use crate::record::RecordHead;

/// What is known of a file without reading its records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Summary {
    pub(super) header: FileHeader,
    pub(super) last: Lsn,
    pub(super) last_time: Timestamp,
    pub(super) hash_after: u64,
    /// Where the next block begins, and how many octets there are.
    pub(super) end: u64,
    pub(super) file_bytes: u64,
    pub(super) raw_bytes: u64,
    /// Where its blocks are; none while that is in the file.
    pub(super) places: Option<Vec<Place>>,
}

impl Summary {
    /// A file without a record.
    pub(super) fn empty(header: FileHeader) -> Self {
        let end = aligned(FILE_HEADER_BYTES as u64);
        Self {
            header,
            last: Lsn(header.first.0.saturating_sub(1)),
            last_time: header.first_time,
            hash_after: header.hash_before,
            end,
            file_bytes: end,
            raw_bytes: 0,
            places: Some(Vec::new()),
        }
    }

    /// A block is at its end.
    pub(super) fn add(&mut self, block: &BlockHeader) {
        let place = Place { offset: self.end, first: block.first, first_time: block.first_time };
        self.places.get_or_insert_default().push(place);
        self.last = block.last();
        self.last_time = block.last_time;
        self.hash_after = block.hash_after;
        let end = self.end + block.block_bytes();
        self.file_bytes = self.file_bytes.max(end);
        self.end = aligned(end);
        self.raw_bytes += u64::from(block.raw_bytes);
    }

    /// Whether the records of this file follow those of `before` at once.
    pub(super) fn follows(&self, before: &Self) -> bool {
        self.header.first.0 == before.last.0 + 1 && self.header.hash_before == before.hash_after
    }
}

/// The name of the file with this number.
pub(super) fn name(sequence: u64) -> String {
    format!("{sequence:010}.changes")
}

/// The number of a file; none for other files.
pub(super) fn sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".changes")?;
    (digits.len() == 10).then(|| digits.parse().ok()).flatten()
}

/// An open file.
#[derive(Debug)]
pub(super) struct ArchiveFile {
    file: Box<dyn DiskFile>,
    id: FileId,
}

impl ArchiveFile {
    /// Opens a file that is there.
    pub(super) fn at(disk: &dyn Disk, id: FileId) -> io::Result<Self> {
        Ok(Self { file: disk.open(&name(id.sequence), false)?, id })
    }

    /// What the file holds: as its end says, or as its blocks say as far as they are whole.
    pub(super) fn summary(&self) -> Result<Summary, ArchiveError> {
        let file_bytes = self.file.len().map_err(|error| self.io(&error))?;
        let mut octets = [0; FILE_HEADER_BYTES];
        self.read(&mut octets, 0)?;
        let header = FileHeader::decode(&octets, self.id.store);
        let header = header.map_err(|fault| self.fault(0, &fault))?;
        if header.id != self.id {
            return Err(self.fault(0, &Fault::Damaged("it has the name of another file")));
        }
        if let Some(trailer) = self.trailer(file_bytes)? {
            return Ok(Summary {
                header,
                last: trailer.last,
                last_time: trailer.last_time,
                hash_after: trailer.hash_after,
                end: trailer.index,
                file_bytes,
                raw_bytes: trailer.raw_bytes,
                places: None,
            });
        }
        let mut summary = Summary::empty(header);
        summary.file_bytes = file_bytes;
        while let Some(block) = self.whole_block(&summary, file_bytes)? {
            summary.add(&block);
        }
        Ok(summary)
    }

    /// The places of all blocks of a complete file.
    pub(super) fn places(&self) -> Result<Vec<Place>, ArchiveError> {
        let file_bytes = self.file.len().map_err(|error| self.io(&error))?;
        let Some(trailer) = self.trailer(file_bytes)? else {
            return Err(self.fault(file_bytes, &Fault::Damaged("its end is missing")));
        };
        let mut octets = vec![0; usize::try_from(trailer.index_bytes()).unwrap_or(0)];
        self.read(&mut octets, trailer.index)?;
        let damaged = || self.fault(trailer.index, &Fault::Damaged("its index is damaged"));
        trailer.places(self.id, &octets).ok_or_else(damaged)
    }

    fn trailer(&self, file_bytes: u64) -> Result<Option<Trailer>, ArchiveError> {
        let Some(at) = file_bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
        let mut octets = [0; TRAILER_BYTES];
        self.read(&mut octets, at)?;
        Ok(Trailer::decode(&octets, self.id, file_bytes))
    }

    /// The block behind what is known, if one is there, whole, and follows.
    fn whole_block(
        &self,
        known: &Summary,
        file_bytes: u64,
    ) -> Result<Option<BlockHeader>, ArchiveError> {
        let is_full = known.places.as_ref().is_some_and(|places| places.len() >= BLOCKS_MAX);
        if is_full || file_bytes.saturating_sub(known.end) < BLOCK_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let Ok((header, _)) = self.block(known.end) else { return Ok(None) };
        let follows = header.first.0 == known.last.0 + 1 && header.hash_before == known.hash_after;
        Ok(follows.then_some(header))
    }

    /// The block at `offset`, whose octets are as they were written.
    fn block(&self, offset: u64) -> Result<(BlockHeader, Vec<u8>), ArchiveError> {
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.read(&mut head, offset)?;
        let header = BlockHeader::decode(&head).map_err(|fault| self.fault(offset, &fault))?;
        let mut block = vec![0; BLOCK_HEADER_BYTES + header.payload_bytes as usize];
        self.read(&mut block, offset)?;
        if BlockHeader::is_whole(self.id, offset, &block) {
            return Ok((header, block));
        }
        Err(self.fault(offset, &Fault::Damaged("the checksum of a block is wrong")))
    }

    /// What the block at `offset` begins with.
    pub(super) fn header(&self, offset: u64) -> Result<BlockHeader, ArchiveError> {
        self.block(offset).map(|(header, _)| header)
    }

    /// The records of the block at `offset`, in order, and the place behind it.
    ///
    /// # Errors
    /// When it cannot be read, or what it holds is no record.
    pub(super) fn records(&self, offset: u64) -> Result<(Vec<EncodedRecord>, u64), ArchiveError> {
        let (header, block) = self.block(offset)?;
        let damaged = |reason| self.fault(offset, &Fault::Damaged(reason));
        let payload = block.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        let raw_bytes = header.raw_bytes as usize;
        debug_assert!(raw_bytes <= BLOCK_RAW_MAX_BYTES);
        let raw = zstd::bulk::decompress(payload, raw_bytes)
            .map_err(|_| damaged("a block cannot be decompressed"))?;
        if raw.len() != raw_bytes {
            return Err(damaged("a block is shorter than it says"));
        }
        let mut records = Vec::with_capacity(header.records as usize);
        let (mut rest, mut next) = (raw.as_slice(), header.first);
        let mut hash = header.hash_before;
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let octets = behind.get(..length).ok_or_else(|| damaged("a record ends too early"))?;
            rest = behind.get(length..).unwrap_or_default();
            let head = RecordHead::read(octets);
            let head = head.map_err(|error| ArchiveError::Record { lsn: next, error })?;
            if head.lsn != next || head.prev_hash != hash {
                return Err(damaged("a record does not follow the one before"));
            }
            (next, hash) = (Lsn(next.0 + 1), head.hash);
            records.push(EncodedRecord {
                lsn: head.lsn,
                hash: head.hash,
                bytes: Arc::from(octets),
            });
        }
        let is_all = rest.is_empty()
            && records.len() == header.records as usize
            && hash == header.hash_after;
        if is_all {
            Ok((records, aligned(offset + header.block_bytes())))
        } else {
            Err(damaged("a block does not hold what it says"))
        }
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<(), ArchiveError> {
        match self.file.read_at(into, at) {
            Ok(read) if read == into.len() => Ok(()),
            Ok(_) => Err(self.fault(at, &Fault::Damaged("it ends too early"))),
            Err(error) => Err(self.io(&error)),
        }
    }

    fn io(&self, error: &io::Error) -> ArchiveError {
        ArchiveError::io(&name(self.id.sequence), error)
    }

    /// Whether nothing was ever written to it.
    pub(super) fn is_blank(&self) -> bool {
        let begin = aligned(FILE_HEADER_BYTES as u64);
        let Ok(bytes) = self.file.len() else { return false };
        let mut octets = vec![0; usize::try_from(bytes.min(begin)).unwrap_or(0)];
        bytes <= begin
            && self.read(&mut octets, 0).is_ok()
            && octets.iter().all(|octet| *octet == 0)
    }

    fn fault(&self, offset: u64, fault: &Fault) -> ArchiveError {
        let file = name(self.id.sequence);
        if *fault == Fault::Foreign {
            return ArchiveError::Foreign(file);
        }
        ArchiveError::Damaged { file, offset, reason: fault.to_string() }
    }
}
