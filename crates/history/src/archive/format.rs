//! The octets of an archive file; `docs/archive-format.md` explains them.
//!
//! Everything is little-endian. Checksums are CRC-32C; that of a block begins with the store's id,
//! the number of the file and the place in it, so that octets of another store or place never pass
//! for a block.
//!
//! Invariant: no length is believed before it was compared with a limit and with what is there.

use environment::Timestamp;
use store::Lsn;

/// The layout this release writes, and the highest it reads.
const FORMAT: u32 = 1;

const FILE_MAGIC: [u8; 8] = *b"roster-h";
const BLOCK_MAGIC: [u8; 4] = *b"rblk";
const INDEX_MAGIC: [u8; 4] = *b"ridx";
const TRAILER_MAGIC: [u8; 4] = *b"rend";

/// Octets of a header of a file, behind which there are zeros up to the first block.
pub(super) const FILE_HEADER_BYTES: usize = 64;
/// The header, every block and the index begin at multiples of this, so that a part of the disk
/// that holds what is durable is never written again.
const ALIGN_BYTES: u64 = 4_096;
/// Octets before the payload of a block.
pub(super) const BLOCK_HEADER_BYTES: usize = 64;
/// Octets at the end of a file that is complete.
pub(super) const TRAILER_BYTES: usize = 64;
/// Octets of one place in the index of a file.
const PLACE_BYTES: usize = 24;

/// The most octets of records in a block, before they are compressed: one more record fits behind
/// those that fill a block.
pub(super) const BLOCK_RAW_MAX_BYTES: usize = 24 << 20;
/// The most blocks in a file.
pub(super) const BLOCKS_MAX: usize = 1 << 16;

/// Where the next part of a file begins, behind one that ends at `end`.
pub(super) const fn aligned(end: u64) -> u64 {
    end.div_ceil(ALIGN_BYTES).saturating_mul(ALIGN_BYTES)
}

/// Which file some octets are of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FileId {
    /// The store's id.
    pub(super) store: [u8; 16],
    /// The number of the file.
    pub(super) sequence: u64,
}

impl FileId {
    /// What the checksum of octets at `offset` begins with.
    fn seed(self, offset: u64) -> u32 {
        let mut seed = crc32c::crc32c(&self.store);
        seed = crc32c::crc32c_append(seed, &self.sequence.to_le_bytes());
        crc32c::crc32c_append(seed, &offset.to_le_bytes())
    }
}

/// What a file begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FileHeader {
    pub(super) id: FileId,
    /// Its first record.
    pub(super) first: Lsn,
    /// When that was decided.
    pub(super) first_time: Timestamp,
    /// The running hash before it.
    pub(super) hash_before: u64,
}

/// Why octets are not what they should be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// There are too few, or others.
    Damaged(&'static str),
    /// A newer release wrote them.
    Newer(u32),
    /// They are of another store.
    Foreign,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(reason) => f.write_str(reason),
            Self::Newer(format) => {
                write!(
                    f,
                    "a newer release wrote it, with the layout {format}; this one reads {FORMAT}"
                )
            }
            Self::Foreign => f.write_str("it is of another directory"),
        }
    }
}

impl FileHeader {
    pub(super) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut out = Out::new(FILE_HEADER_BYTES);
        out.put(&FILE_MAGIC);
        out.put(&FORMAT.to_le_bytes());
        out.put(&[0; 4]);
        out.put(&self.id.store);
        out.put(&self.id.sequence.to_le_bytes());
        out.put(&self.first.0.to_le_bytes());
        out.put(&self.first_time.0.to_le_bytes());
        out.put(&self.hash_before.to_le_bytes());
        out.sealed(12, 0)
    }

    pub(super) fn decode(octets: &[u8], store: [u8; 16]) -> Result<Self, Fault> {
        let mut read = In(octets);
        let magic = read.array::<8>().ok_or(SHORT)?;
        if magic != FILE_MAGIC {
            return Err(Fault::Damaged("it does not begin as an archive file does"));
        }
        let format = read.u32().ok_or(SHORT)?;
        if format != FORMAT {
            return Err(Fault::Newer(format));
        }
        let checksum = read.u32().ok_or(SHORT)?;
        if octets.get(..FILE_HEADER_BYTES).map(|all| checksum_of(all, 12, 0)) != Some(checksum) {
            return Err(Fault::Damaged("the checksum of its beginning is wrong"));
        }
        let id = FileId { store: read.array().ok_or(SHORT)?, sequence: read.u64().ok_or(SHORT)? };
        if id.store != store {
            return Err(Fault::Foreign);
        }
        Ok(Self {
            id,
            first: Lsn(read.u64().ok_or(SHORT)?),
            first_time: Timestamp(read.u64().ok_or(SHORT)?),
            hash_before: read.u64().ok_or(SHORT)?,
        })
    }
}

/// What a block begins with: records that follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct BlockHeader {
    /// Octets of the payload, which is compressed.
    pub(super) payload_bytes: u32,
    /// Octets of the records, each with its length.
    pub(super) raw_bytes: u32,
    pub(super) records: u32,
    pub(super) first: Lsn,
    pub(super) first_time: Timestamp,
    pub(super) last_time: Timestamp,
    /// The running hashes before the first and after the last.
    pub(super) hash_before: u64,
    pub(super) hash_after: u64,
}

impl BlockHeader {
    /// The number of its last record.
    pub(super) const fn last(&self) -> Lsn {
        Lsn(self.first.0 + self.records as u64 - 1)
    }

    /// Octets of the whole block.
    pub(super) const fn block_bytes(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + self.payload_bytes as u64
    }

    /// The header and the payload behind it, as a file has them at `offset`.
    pub(super) fn encode(&self, id: FileId, offset: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Out::new(BLOCK_HEADER_BYTES);
        out.put(&BLOCK_MAGIC);
        out.put(&[0; 4]);
        out.put(&self.payload_bytes.to_le_bytes());
        out.put(&self.raw_bytes.to_le_bytes());
        out.put(&self.records.to_le_bytes());
        out.put(&[0; 4]);
        out.put(&self.first.0.to_le_bytes());
        out.put(&self.first_time.0.to_le_bytes());
        out.put(&self.last_time.0.to_le_bytes());
        out.put(&self.hash_before.to_le_bytes());
        out.put(&self.hash_after.to_le_bytes());
        let mut whole = out.octets;
        whole.extend_from_slice(payload);
        let checksum = checksum_of(&whole, 4, id.seed(offset));
        if let Some(place) = whole.get_mut(4..8) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        whole
    }

    /// Reads a header; whether the block is whole, only [`is_whole`] says.
    ///
    /// # Errors
    /// When it is none, or says what cannot be.
    pub(super) fn decode(octets: &[u8]) -> Result<Self, Fault> {
        let mut read = In(octets);
        if read.array::<4>().ok_or(SHORT)? != BLOCK_MAGIC {
            return Err(Fault::Damaged("no block begins there"));
        }
        let _checksum = read.u32().ok_or(SHORT)?;
        let (payload_bytes, raw_bytes) = (read.u32().ok_or(SHORT)?, read.u32().ok_or(SHORT)?);
        let records = read.u32().ok_or(SHORT)?;
        let _zeros = read.u32().ok_or(SHORT)?;
        let header = Self {
            payload_bytes,
            raw_bytes,
            records,
            first: Lsn(read.u64().ok_or(SHORT)?),
            first_time: Timestamp(read.u64().ok_or(SHORT)?),
            last_time: Timestamp(read.u64().ok_or(SHORT)?),
            hash_before: read.u64().ok_or(SHORT)?,
            hash_after: read.u64().ok_or(SHORT)?,
        };
        let is_possible = raw_bytes as usize <= BLOCK_RAW_MAX_BYTES
            && payload_bytes as usize <= zstd::zstd_safe::compress_bound(BLOCK_RAW_MAX_BYTES)
            && records > 0
            && records <= raw_bytes / 4
            && header.first.0.checked_add(u64::from(records)).is_some();
        if is_possible { Ok(header) } else { Err(Fault::Damaged("a block says impossible sizes")) }
    }

    /// Whether `block`, header and payload, is at `offset` of its file as it was written.
    pub(super) fn is_whole(id: FileId, offset: u64, block: &[u8]) -> bool {
        In(block.get(4..).unwrap_or_default()).u32() == Some(checksum_of(block, 4, id.seed(offset)))
    }
}

/// Where a block is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) first: Lsn,
    pub(super) first_time: Timestamp,
}

/// What a file ends with when it is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Trailer {
    /// Where its index begins: the places of all blocks.
    pub(super) index: u64,
    pub(super) blocks: u32,
    pub(super) last: Lsn,
    pub(super) last_time: Timestamp,
    pub(super) hash_after: u64,
    /// Octets of all records.
    pub(super) raw_bytes: u64,
}

impl Trailer {
    /// The index and the trailer, as they stand at the end of the file.
    pub(super) fn encode(&self, id: FileId, places: &[Place]) -> Vec<u8> {
        let mut octets = Vec::with_capacity(8 + places.len() * PLACE_BYTES + TRAILER_BYTES);
        octets.extend_from_slice(&INDEX_MAGIC);
        octets.extend_from_slice(&[0; 4]);
        for place in places {
            octets.extend_from_slice(&place.offset.to_le_bytes());
            octets.extend_from_slice(&place.first.0.to_le_bytes());
            octets.extend_from_slice(&place.first_time.0.to_le_bytes());
        }
        let checksum = checksum_of(&octets, 4, id.seed(self.index));
        if let Some(place) = octets.get_mut(4..8) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        let mut out = Out::new(TRAILER_BYTES);
        out.put(&TRAILER_MAGIC);
        out.put(&[0; 4]);
        out.put(&self.index.to_le_bytes());
        out.put(&self.blocks.to_le_bytes());
        out.put(&[0; 4]);
        out.put(&self.last.0.to_le_bytes());
        out.put(&self.last_time.0.to_le_bytes());
        out.put(&self.hash_after.to_le_bytes());
        out.put(&self.raw_bytes.to_le_bytes());
        octets.extend_from_slice(&out.sealed::<TRAILER_BYTES>(4, id.seed(self.index)));
        octets
    }

    /// Reads the last octets of a file of `file_bytes`; none where it is not complete.
    pub(super) fn decode(octets: &[u8], id: FileId, file_bytes: u64) -> Option<Self> {
        let mut read = In(octets);
        if read.array::<4>()? != TRAILER_MAGIC {
            return None;
        }
        let checksum = read.u32()?;
        let index = read.u64()?;
        let blocks = read.u32()?;
        let _zeros = read.u32()?;
        let trailer = Self {
            index,
            blocks,
            last: Lsn(read.u64()?),
            last_time: Timestamp(read.u64()?),
            hash_after: read.u64()?,
            raw_bytes: read.u64()?,
        };
        let is_whole = octets.len() == TRAILER_BYTES
            && checksum_of(octets, 4, id.seed(index)) == checksum
            && blocks as usize <= BLOCKS_MAX
            && index.checked_add(trailer.index_bytes() + TRAILER_BYTES as u64) == Some(file_bytes);
        is_whole.then_some(trailer)
    }

    /// Octets of the index.
    pub(super) const fn index_bytes(&self) -> u64 {
        8 + self.blocks as u64 * PLACE_BYTES as u64
    }

    /// The places of the blocks, from the octets of the index; none if those are damaged.
    pub(super) fn places(&self, id: FileId, octets: &[u8]) -> Option<Vec<Place>> {
        let mut read = In(octets);
        if read.array::<4>()? != INDEX_MAGIC {
            return None;
        }
        let is_whole = read.u32()? == checksum_of(octets, 4, id.seed(self.index))
            && octets.len() as u64 == self.index_bytes();
        if !is_whole {
            return None;
        }
        let mut places = Vec::with_capacity(self.blocks as usize);
        for _ in 0..self.blocks {
            places.push(Place {
                offset: read.u64()?,
                first: Lsn(read.u64()?),
                first_time: Timestamp(read.u64()?),
            });
        }
        Some(places)
    }
}

/// The checksum of octets, without the four at `at` that hold it.
fn checksum_of(octets: &[u8], at: usize, seed: u32) -> u32 {
    let before = crc32c::crc32c_append(seed, octets.get(..at).unwrap_or_default());
    crc32c::crc32c_append(before, octets.get(at + 4..).unwrap_or_default())
}

const SHORT: Fault = Fault::Damaged("it ends too early");

/// Octets that are made.
struct Out {
    octets: Vec<u8>,
    length: usize,
}

impl Out {
    fn new(length: usize) -> Self {
        Self { octets: Vec::with_capacity(length), length }
    }

    fn put(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// Zeros up to the length, and the checksum at `at`.
    fn sealed<const N: usize>(mut self, at: usize, seed: u32) -> [u8; N] {
        self.octets.resize(self.length, 0);
        let checksum = checksum_of(&self.octets, at, seed);
        let mut sealed = [0; N];
        for (to, from) in sealed.iter_mut().zip(&self.octets) {
            *to = *from;
        }
        if let Some(place) = sealed.get_mut(at..at + 4) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        sealed
    }
}

/// Octets that are read.
struct In<'a>(&'a [u8]);

impl In<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
