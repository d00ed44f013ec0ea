//! Walking through the groups of one segment, and deciding what a fault in it means.

use std::sync::Arc;

use crate::format::{
    BLOCK_BYTES, FORMAT, GROUP_ALIGN_BYTES, GROUP_HEADER_BYTES, GROUP_MAGIC, GroupHeader,
    HeaderFault, Record, RecordFault, SEGMENT_HEADER_BYTES, SegmentHeader, Stream, decode_record,
    decode_segment_header,
};
use crate::{Damage, Disk, DiskFile, JournalError};

/// Bytes read at once; a larger group is read as a whole.
const READ_AHEAD_BYTES: usize = 256 * 1024;
/// Why a group ends that does not begin.
const NO_GROUP: &str = "there is no valid group";
/// What can be done about damage, for the operator.
pub(crate) const HINT: &str = concat!(
    "Nothing was cut or changed. Restore the data from a backup; on a node of a cluster ",
    "remove the node, empty its data directory and let it join again. ",
    "'roster check --accept-loss' continues with what is left, and says what is lost. ",
    "The disk may have lost writes that it had confirmed: check it"
);

/// A segment file with a valid header.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) stream: Stream,
    /// The checksum of the header, with which the chain of groups begins.
    pub(crate) chain: u32,
    pub(crate) len: u64,
    /// How long it was made, as far as its header says.
    made: u64,
}

impl Opened {
    /// Opens the segment `sequence` of the store `id`.
    pub(crate) fn open(disk: &dyn Disk, id: [u8; 16], sequence: u64) -> Result<Self, JournalError> {
        let name = segment_name(sequence);
        let failed = |error: &std::io::Error| JournalError::io(&name, error);
        let file: Arc<dyn DiskFile> =
            Arc::from(disk.open(&name, false).map_err(|error| failed(&error))?);
        let mut header = [0; SEGMENT_HEADER_BYTES];
        let read = file.read_at(&mut header, 0).map_err(|error| failed(&error))?;
        let len = file.len().map_err(|error| failed(&error))?;
        let damaged = |reason: &str| {
            JournalError::Damaged(Damage {
                segment: name.clone(),
                offset: 0,
                index: None,
                reason: reason.to_owned(),
                hint: HINT.to_owned(),
            })
        };
        let header = match decode_segment_header(header.get(..read).unwrap_or_default()) {
            Ok(decoded) => decoded,
            Err(HeaderFault::Newer(found)) => {
                return Err(JournalError::NewerFormat { segment: name, found, known: FORMAT });
            }
            Err(HeaderFault::Unknown) => return Err(damaged("this is not a segment of a journal")),
            Err(HeaderFault::Checksum) => {
                return Err(damaged("the checksum of the segment's header is wrong"));
            }
        };
        let SegmentHeader { stream, chain, length: made } = header;
        if stream.id != id {
            return Err(JournalError::Foreign { segment: name, found: stream.id });
        }
        if stream.sequence != sequence {
            return Err(damaged(&format!("the header is that of segment {}", stream.sequence)));
        }
        Ok(Self { name, file, stream, chain, len, made })
    }

    /// Refuses a file that is shorter than it was made: nothing ever cuts one.
    pub(crate) fn check_length(&self) -> Result<(), JournalError> {
        if self.len >= self.made {
            return Ok(());
        }
        let (len, made) = (self.len, self.made);
        Err(self.damage(
            len,
            None,
            format!("the file ends there, but it was created with {made} bytes"),
        ))
    }

    /// Reads the groups from the first one.
    pub(crate) fn scan(&self) -> Scan {
        Scan::new(Arc::clone(&self.file), self.stream, self.len, self.chain)
    }

    /// An error for damage at `offset`.
    pub(crate) fn damage(&self, offset: u64, index: Option<u64>, reason: String) -> JournalError {
        let segment = self.name.clone();
        JournalError::Damaged(Damage { segment, offset, index, reason, hint: HINT.to_owned() })
    }
}

/// The file of a segment.
pub(crate) fn segment_name(sequence: u64) -> String {
    format!("{sequence:020}.journal")
}

/// The sequence of a segment, from the name of its file.
pub(crate) fn segment_sequence(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".journal")?;
    let sequence = digits.parse().ok()?;
    (segment_name(sequence) == name).then_some(sequence)
}

/// Where the valid groups end, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct End {
    /// The end of the last valid group, or of the header block.
    pub(crate) offset: u64,
    /// What is wrong with what stands there.
    pub(crate) reason: &'static str,
    /// A record of a later release, in an otherwise valid group.
    pub(crate) unknown_kind: Option<u32>,
}

/// A walk through the groups of a segment.
#[derive(Debug)]
pub(crate) struct Scan {
    file: Arc<dyn DiskFile>,
    stream: Stream,
    /// Nothing at or behind this offset is looked at.
    len: u64,
    at: u64,
    previous: u32,
    stamp: u64,
    header: Option<GroupHeader>,
    start: u64,
    /// The stamp of the group before the present one.
    stamp_before: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl Scan {
    fn new(file: Arc<dyn DiskFile>, stream: Stream, len: u64, chain: u32) -> Self {
        Self {
            file,
            stream,
            len,
            at: BLOCK_BYTES,
            previous: chain,
            stamp: 0,
            header: None,
            start: 0,
            stamp_before: 0,
            buffer: Vec::new(),
            buffer_at: 0,
        }
    }

    /// Goes on at a known group instead of at the first.
    pub(crate) fn skip_to(&mut self, mark: &Mark) {
        self.at = mark.offset;
        self.previous = mark.previous;
        self.stamp = mark.stamp;
    }

    /// Where the next group is looked for: the end of the last.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Where the present group begins.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The place from which the present group can be read again; `index` is its first entry's.
    pub(crate) fn mark(&self, index: u64) -> Mark {
        let previous = self.header.map_or(0, |header| header.previous);
        Mark { index, offset: self.start, previous, stamp: self.stamp_before }
    }

    /// The checksum and the stamp with which the next group goes on.
    pub(crate) fn chain(&self) -> (u32, u64) {
        (self.previous, self.stamp)
    }

    /// Goes to the next group: `None` when it is valid as a whole, else where and why it ends.
    pub(crate) fn advance(&mut self) -> Result<Option<End>, JournalError> {
        let close = self.at.next_multiple_of(GROUP_ALIGN_BYTES);
        let block = self.at.next_multiple_of(BLOCK_BYTES);
        let (previous, stamp) = self.chain();
        let mark = Mark { index: 0, offset: close, previous, stamp };
        let mut end = self.try_at(&mark)?;
        // Behind a sync the next group begins with the next block. What is at `close` then
        // is nothing, or what a power cut left of a group that was being written there.
        if end.is_some() && block != close {
            let second = self.try_at(&Mark { offset: block, ..mark })?;
            let is_nearer =
                |second: &End| second.unknown_kind.is_some() || second.reason != NO_GROUP;
            if second.as_ref().is_none_or(is_nearer) {
                end = second;
            }
        }
        Ok(end)
    }

    fn try_at(&mut self, mark: &Mark) -> Result<Option<End>, JournalError> {
        let start = mark.offset;
        let offset = self.at;
        let end = |reason| Ok(Some(End { offset, reason, unknown_kind: None }));
        self.fill(start, GROUP_HEADER_BYTES)?;
        let bytes = self.bytes(start, GROUP_HEADER_BYTES);
        let Some(header) = GroupHeader::decode(bytes, self.stream, start) else {
            return end(NO_GROUP);
        };
        if header.previous != mark.previous || header.stamp <= mark.stamp {
            return end("the group does not follow the one before");
        }
        let bytes = GROUP_HEADER_BYTES as u64 + u64::from(header.length);
        if start.checked_add(bytes).is_none_or(|end| end > self.len) {
            return end("the group is longer than the file");
        }
        self.fill(start, bytes as usize)?;
        let mut body = self.bytes(start + GROUP_HEADER_BYTES as u64, header.length as usize);
        let mut count = 0;
        while !body.is_empty() {
            match decode_record(body, header.checksum) {
                Ok((_, rest)) => body = rest,
                Err(RecordFault::Length) => return end("a record is longer than its group"),
                Err(RecordFault::Checksum) => return end("the checksum of a record is wrong"),
                Err(RecordFault::Kind(kind)) => {
                    let reason = "a later release wrote a record of a new kind";
                    return Ok(Some(End { offset: start, reason, unknown_kind: Some(kind) }));
                }
            }
            count += 1;
        }
        if count != header.count {
            return end("the group has lost records");
        }
        self.header = Some(header);
        self.stamp_before = self.stamp;
        self.start = start;
        self.at = start + bytes;
        self.previous = header.checksum;
        self.stamp = header.stamp;
        Ok(None)
    }

    /// The records of the present group.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let (checksum, length) =
            self.header.map_or((0, 0), |header| (header.checksum, header.length as usize));
        let mut body = self.bytes(self.start + GROUP_HEADER_BYTES as u64, length);
        std::iter::from_fn(move || {
            let (record, rest) = decode_record(body, checksum).ok()?;
            body = rest;
            Some(record)
        })
    }

    /// Looks behind `end` for headers of groups: what a power cut or damage left over.
    pub(crate) fn remains(&mut self, end: u64) -> Result<Remains, JournalError> {
        let mut remains = Remains { durable: 0, stamp: self.stamp, end: 0 };
        let finder = memchr::memmem::Finder::new(&GROUP_MAGIC);
        let mut at = end.next_multiple_of(GROUP_ALIGN_BYTES);
        while at + GROUP_HEADER_BYTES as u64 <= self.len {
            self.fill(at, READ_AHEAD_BYTES)?;
            let buffered = self.buffer.len().saturating_sub((at - self.buffer_at) as usize);
            let chunk = self.bytes(at, buffered);
            for found in finder.find_iter(chunk) {
                let here = at + found as u64;
                let bytes = chunk.get(found..).unwrap_or_default();
                if here.is_multiple_of(GROUP_ALIGN_BYTES)
                    && let Some(header) = GroupHeader::decode(bytes, self.stream, here)
                {
                    remains.durable = remains.durable.max(header.synced);
                    remains.stamp = remains.stamp.max(header.stamp);
                    let bytes = GROUP_HEADER_BYTES as u64 + u64::from(header.length);
                    remains.end = remains.end.max(here.saturating_add(bytes).min(self.len));
                }
            }
            // A header may begin in the last bytes of the chunk.
            let step = buffered.saturating_sub(GROUP_HEADER_BYTES - GROUP_ALIGN_BYTES as usize);
            if step == 0 {
                break;
            }
            at += step as u64;
            at -= at % GROUP_ALIGN_BYTES;
        }
        Ok(remains)
    }

    /// Reads anew from the file: another process may have written meanwhile.
    pub(crate) fn forget_buffer(&mut self) {
        self.buffer.clear();
    }

    fn bytes(&self, at: u64, count: usize) -> &[u8] {
        let from = at.saturating_sub(self.buffer_at) as usize;
        self.buffer.get(from..).and_then(|bytes| bytes.get(..count)).unwrap_or_default()
    }

    /// Has `count` bytes at `at` in the buffer, unless the file ends before.
    fn fill(&mut self, at: u64, count: usize) -> Result<(), JournalError> {
        let buffered = self.buffer_at..self.buffer_at + self.buffer.len() as u64;
        if at >= buffered.start && at + count as u64 <= buffered.end {
            return Ok(());
        }
        let left = self.len.saturating_sub(at);
        let wanted = (count.max(READ_AHEAD_BYTES) as u64).min(left) as usize;
        self.buffer.resize(wanted, 0);
        self.buffer_at = at;
        let read = self.file.read_at(&mut self.buffer, at);
        let read = read.map_err(|error| {
            self.buffer.clear();
            JournalError::io(segment_name(self.stream.sequence), &error)
        })?;
        self.buffer.truncate(read);
        Ok(())
    }
}

/// What stands behind the end of the valid groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Remains {
    /// Everything before this offset was synced, say groups that stand behind the end.
    pub(crate) durable: u64,
    /// The greatest stamp seen.
    pub(crate) stamp: u64,
    /// Where the last of them ends, 0 if there is none.
    pub(crate) end: u64,
}

/// A group from which reading can begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mark {
    /// The index of its first entry.
    pub(crate) index: u64,
    pub(crate) offset: u64,
    pub(crate) previous: u32,
    pub(crate) stamp: u64,
}
