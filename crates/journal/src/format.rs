//! The bytes of segments, groups and records; `docs/journal-format.md` explains them.
//!
//! Everything is little-endian. Checksums are CRC-32C. The checksum of a group begins with the
//! store's id, the segment's sequence and the group's offset, so that bytes of another store, of
//! an earlier use of the file or of another place never pass for a group; those of its records
//! begin with the group's, so that no record passes for one of another group.

use crate::JournalPosition;

/// Bytes at the beginning of a segment that belong to its header; and the unit in which
/// groups are laid out after a sync, so that a block that holds synced data is never rewritten.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// The part of the header block that is used.
pub(crate) const SEGMENT_HEADER_BYTES: usize = 64;
/// Bytes before the records of a group.
pub(crate) const GROUP_HEADER_BYTES: usize = 40;
/// Bytes before the payload of a record.
pub(crate) const RECORD_HEADER_BYTES: usize = 28;
/// Groups begin at multiples of this.
pub(crate) const GROUP_ALIGN_BYTES: u64 = 8;
/// The format this release writes, and the highest it reads.
pub(crate) const FORMAT: u32 = 1;

const SEGMENT_MAGIC: [u8; 8] = *b"roster-j";
/// The first bytes of a group.
pub(crate) const GROUP_MAGIC: [u8; 4] = *b"rgrp";

/// What a record is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// An entry of the log.
    Entry = 1,
    /// A saved vote.
    Vote = 2,
    /// How far the log is committed.
    Committed = 3,
    /// Entries behind this place are void.
    Truncate = 4,
    /// Entries up to this place are not needed for recovery.
    Purge = 5,
    /// All that is known at the beginning of a segment.
    State = 6,
    /// The end of a segment; it goes on in the next.
    Seal = 7,
    /// A torn tail was cut here.
    Cut = 8,
    /// All before it was synced.
    Mark = 9,
}

impl Kind {
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Entry,
            2 => Self::Vote,
            3 => Self::Committed,
            4 => Self::Truncate,
            5 => Self::Purge,
            6 => Self::State,
            7 => Self::Seal,
            8 => Self::Cut,
            9 => Self::Mark,
            _ => return None,
        })
    }
}

/// Which segment some bytes are of: what their checksums begin with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stream {
    pub(crate) id: [u8; 16],
    pub(crate) sequence: u64,
}

impl Stream {
    fn seed(self, offset: u64) -> u32 {
        let mut bytes = [0; 32];
        let (id, rest) = bytes.split_at_mut(16);
        let (sequence, at) = rest.split_at_mut(8);
        id.copy_from_slice(&self.id);
        sequence.copy_from_slice(&self.sequence.to_le_bytes());
        at.copy_from_slice(&offset.to_le_bytes());
        crc32c::crc32c(&bytes)
    }
}

/// Why the beginning of a file is no segment header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum HeaderFault {
    /// Other bytes.
    Unknown,
    /// The checksum is wrong.
    Checksum,
    /// A format of a later release.
    Newer(u32),
}

/// The header block of a segment.
pub(crate) fn encode_segment_header(stream: Stream, length: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK_BYTES as usize);
    bytes.extend_from_slice(&SEGMENT_MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&stream.id);
    bytes.extend_from_slice(&stream.sequence.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.resize(SEGMENT_HEADER_BYTES, 0);
    let checksum = segment_checksum(&bytes);
    put(&mut bytes, 12, &checksum.to_le_bytes());
    bytes.resize(BLOCK_BYTES as usize, 0);
    bytes
}

/// What a segment header says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SegmentHeader {
    pub(crate) stream: Stream,
    /// Its checksum, with which the chain of groups begins.
    pub(crate) chain: u32,
    /// How long the file is at least; 0 where a release wrote it that did not say so.
    pub(crate) length: u64,
}

/// Reads a segment header.
pub(crate) fn decode_segment_header(bytes: &[u8]) -> Result<SegmentHeader, HeaderFault> {
    let header = bytes.get(..SEGMENT_HEADER_BYTES).ok_or(HeaderFault::Unknown)?;
    if !header.starts_with(&SEGMENT_MAGIC) {
        return Err(HeaderFault::Unknown);
    }
    let format = u32_at(header, 8).ok_or(HeaderFault::Unknown)?;
    if format > FORMAT {
        return Err(HeaderFault::Newer(format));
    }
    let checksum = u32_at(header, 12).ok_or(HeaderFault::Unknown)?;
    if checksum != segment_checksum(header) || format == 0 {
        return Err(HeaderFault::Checksum);
    }
    let id = header.get(16..32).and_then(|id| id.try_into().ok()).ok_or(HeaderFault::Unknown)?;
    let sequence = u64_at(header, 32).ok_or(HeaderFault::Unknown)?;
    let length = u64_at(header, 40).ok_or(HeaderFault::Unknown)?;
    Ok(SegmentHeader { stream: Stream { id, sequence }, chain: checksum, length })
}

fn segment_checksum(header: &[u8]) -> u32 {
    let first = crc32c::crc32c(header.get(..12).unwrap_or_default());
    crc32c::crc32c_append(first, header.get(16..SEGMENT_HEADER_BYTES).unwrap_or_default())
}

/// What stands before the records of a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct GroupHeader {
    /// Of this header; the records' checksums and the next group's header continue it.
    pub(crate) checksum: u32,
    /// Bytes of the records, with their headers.
    pub(crate) length: u32,
    /// Number of records.
    pub(crate) count: u32,
    /// Everything before this offset of the segment was synced when the group was written.
    pub(crate) synced: u64,
    /// Greater than that of every group written before: openings in the upper half, groups in
    /// the lower.
    pub(crate) stamp: u64,
    /// The checksum of the group before, or of the segment's header.
    pub(crate) previous: u32,
}

impl GroupHeader {
    /// Reads a header that stands at `offset`; `None` when it is none.
    pub(crate) fn decode(bytes: &[u8], stream: Stream, offset: u64) -> Option<Self> {
        let bytes = bytes.get(..GROUP_HEADER_BYTES)?;
        if !bytes.starts_with(&GROUP_MAGIC) {
            return None;
        }
        let checksum = u32_at(bytes, 4)?;
        if checksum != group_checksum(bytes, stream, offset) {
            return None;
        }
        Some(Self {
            checksum,
            length: u32_at(bytes, 8)?,
            count: u32_at(bytes, 12)?,
            synced: u64_at(bytes, 16)?,
            stamp: u64_at(bytes, 24)?,
            previous: u32_at(bytes, 32)?,
        })
    }
}

fn group_checksum(header: &[u8], stream: Stream, offset: u64) -> u32 {
    let covered = header.get(8..GROUP_HEADER_BYTES).unwrap_or_default();
    crc32c::crc32c_append(stream.seed(offset), covered)
}

/// One record of a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) place: JournalPosition,
    pub(crate) payload: &'a [u8],
}

/// Why a record could not be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RecordFault {
    /// It is longer than the group, or the group longer than its records.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// The checksum is right, and the kind one of a later release.
    Kind(u32),
}

/// Reads the first record of `body`; `checksum` is the group's. Gives the bytes after it.
pub(crate) fn decode_record(
    body: &[u8],
    checksum: u32,
) -> Result<(Record<'_>, &[u8]), RecordFault> {
    let length = u32_at(body, 4).ok_or(RecordFault::Length)? as usize;
    let end = RECORD_HEADER_BYTES.checked_add(length).ok_or(RecordFault::Length)?;
    let (record, rest) = body.split_at_checked(end).ok_or(RecordFault::Length)?;
    let covered = record.get(4..).ok_or(RecordFault::Length)?;
    let stored = u32_at(record, 0).ok_or(RecordFault::Length)?;
    if crc32c::crc32c_append(checksum, covered) != stored {
        return Err(RecordFault::Checksum);
    }
    let index = u64_at(record, 8).ok_or(RecordFault::Length)?;
    let term = u64_at(record, 16).ok_or(RecordFault::Length)?;
    let code = u32_at(record, 24).ok_or(RecordFault::Length)?;
    let kind = Kind::from_code(code).ok_or(RecordFault::Kind(code))?;
    let payload = record.get(RECORD_HEADER_BYTES..).ok_or(RecordFault::Length)?;
    Ok((Record { kind, place: JournalPosition { term, index }, payload }, rest))
}

/// Bytes of a record with such a payload.
pub(crate) fn record_bytes(payload: usize) -> u64 {
    (RECORD_HEADER_BYTES + payload) as u64
}

/// Where a group is put, and what it is told of those before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) offset: u64,
    pub(crate) synced: u64,
    pub(crate) stamp: u64,
    pub(crate) previous: u32,
}

/// Puts a group together in a buffer that is used again.
#[derive(Debug, Default)]
pub(crate) struct GroupWriter {
    buffer: Vec<u8>,
    count: u32,
}

impl GroupWriter {
    /// Begins a group.
    pub(crate) fn begin(&mut self) {
        self.buffer.clear();
        self.buffer.resize(GROUP_HEADER_BYTES, 0);
        self.count = 0;
    }

    /// Adds a record.
    pub(crate) fn record(&mut self, kind: Kind, place: JournalPosition, payload: &[u8]) {
        self.buffer.extend_from_slice(&[0; 4]);
        self.buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&place.index.to_le_bytes());
        self.buffer.extend_from_slice(&place.term.to_le_bytes());
        self.buffer.extend_from_slice(&(kind as u32).to_le_bytes());
        self.buffer.extend_from_slice(payload);
        self.count += 1;
    }

    /// Bytes so far, with the header.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Completes the group: its checksum, and its bytes with zeros up to the end of the block.
    pub(crate) fn finish(&mut self, stream: Stream, frame: Frame) -> (u32, &[u8]) {
        let length = (self.buffer.len() - GROUP_HEADER_BYTES) as u32;
        let buffer = &mut self.buffer;
        put(buffer, 0, &GROUP_MAGIC);
        put(buffer, 8, &length.to_le_bytes());
        put(buffer, 12, &self.count.to_le_bytes());
        put(buffer, 16, &frame.synced.to_le_bytes());
        put(buffer, 24, &frame.stamp.to_le_bytes());
        put(buffer, 32, &frame.previous.to_le_bytes());
        let checksum = group_checksum(buffer, stream, frame.offset);
        put(buffer, 4, &checksum.to_le_bytes());
        let mut rest = buffer.get_mut(GROUP_HEADER_BYTES..).unwrap_or_default();
        while let Some(payload) = u32_at(rest, 4)
            && let Some((record, behind)) = std::mem::take(&mut rest)
                .split_at_mut_checked(RECORD_HEADER_BYTES + payload as usize)
        {
            let covered = record.get(4..).unwrap_or_default();
            let sum = crc32c::crc32c_append(checksum, covered);
            put(record, 0, &sum.to_le_bytes());
            rest = behind;
        }
        // Whole blocks: the system need not read the rest of a page of a reused file first.
        let end = frame.offset + self.buffer.len() as u64;
        let padding = end.next_multiple_of(BLOCK_BYTES) - end;
        self.buffer.resize(self.buffer.len() + padding as usize, 0);
        (checksum, &self.buffer)
    }

    /// Gives memory of an unusually large group back.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        self.buffer.clear();
        self.buffer.shrink_to(bytes);
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let octets = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*octets))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let octets = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*octets))
}
