//! Compression of records: zstd with dictionaries that are trained from the directory's own data.
//!
//! A directory is compressed when it has a dictionary, a row `compression 0000` of `meta`. Then
//! records are written in version 2 (see `rows/record.rs`) wherever rows go to LMDB, and read as
//! they come: a directory may hold both versions. Rows that are not in LMDB yet are never
//! compressed.
//!
//! Invariants: a dictionary that any record was written with never goes and never changes. Whatever
//! the octets of a frame are, no more memory is taken for it than an entry may have.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use heed::{AnyTls, RoTxn};
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use crate::base::lmdb::{META, Table};
use crate::base::meta;
use crate::error::StoreError;
use crate::rows::record::{self, RECORD_LENGTH_MAX_BYTES, RecordHead};

/// The largest dictionary, in bytes.
pub(crate) const DICTIONARY_MAX_BYTES: usize = 64 << 10;

/// The most dictionaries of one directory.
pub(crate) const DICTIONARY_COUNT_MAX: usize = 64;

/// So many records are enough to train a dictionary from.
pub(crate) const SAMPLE_ROWS_MAX: usize = 10_000;

/// Records to train from take no more memory than this, in bytes.
const SAMPLE_MAX_BYTES: usize = 32 << 20;

/// Fewer records than this make no dictionary that is worth it.
const SAMPLE_ROWS_MIN: usize = 200;

/// Of a longer record only its beginning is trained from, in bytes: large groups are no example.
const SAMPLE_ROW_MAX_BYTES: usize = 4 << 10;

/// zstd's level: see `docs/performance.md` for what others would give and cost.
const LEVEL: i32 = 3;

/// The dictionaries of one directory, by their numbers.
pub(crate) struct Compression {
    dictionaries: Vec<Trained>,
}

/// One dictionary, ready for use.
struct Trained {
    octets: Vec<u8>,
    encoder: CDict<'static>,
    decoder: DDict<'static>,
}

impl Compression {
    /// With these dictionaries; none when one of them is none.
    pub(crate) fn new(dictionaries: Vec<Vec<u8>>) -> Option<Self> {
        Self::with_level(dictionaries, LEVEL)
    }

    fn with_level(dictionaries: Vec<Vec<u8>>, level: i32) -> Option<Self> {
        if dictionaries.is_empty() || dictionaries.len() > DICTIONARY_COUNT_MAX {
            return None;
        }
        let dictionaries = dictionaries.into_iter().map(|octets| {
            if octets.is_empty() || octets.len() > DICTIONARY_MAX_BYTES {
                return None;
            }
            let encoder = CDict::try_create(&octets, level)?;
            let decoder = DDict::try_create(&octets)?;
            Some(Trained { octets, encoder, decoder })
        });
        Some(Self { dictionaries: dictionaries.collect::<Option<Vec<Trained>>>()? })
    }

    /// What `meta` says; none when the directory is not compressed.
    pub(crate) fn read(
        table: Table,
        txn: &RoTxn<'_, AnyTls>,
    ) -> Result<Option<Arc<Self>>, StoreError> {
        let mut dictionaries = Vec::new();
        for row in table.prefix_iter(txn, meta::COMPRESSION.as_bytes())? {
            let (key, octets) = row?;
            if key != meta::compression_key(dictionaries.len()).as_bytes() {
                let key = crate::rows::key::display(key);
                return Err(StoreError::corrupt(META, key, "is not the next dictionary"));
            }
            dictionaries.push(octets.to_vec());
        }
        if dictionaries.is_empty() {
            return Ok(None);
        }
        let compression = Self::new(dictionaries);
        let damaged = || StoreError::corrupt(META, meta::COMPRESSION, "are no dictionaries");
        Ok(Some(Arc::new(compression.ok_or_else(damaged)?)))
    }

    /// Its rows of `meta`.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (String, &[u8])> {
        let dictionaries = self.dictionaries.iter().enumerate();
        dictionaries
            .map(|(number, trained)| (meta::compression_key(number), trained.octets.as_slice()))
    }

    /// Appends what a frame holds to an empty buffer.
    #[inline(never)]
    pub(crate) fn decompress(
        &self,
        number: u64,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        let trained = usize::try_from(number).ok().and_then(|number| self.dictionaries.get(number));
        let trained = trained.ok_or("is compressed with a dictionary that is not there")?;
        CONTEXT.with_borrow_mut(|Inflater { context, whole }| {
            whole.clear();
            whole.extend_from_slice(&FRAME_BEGIN);
            whole.extend_from_slice(frame);
            let length = zstd_safe::get_frame_content_size(whole).ok().flatten();
            let length = length.ok_or("is compressed and does not tell its length")?;
            if length > RECORD_LENGTH_MAX_BYTES as u64 {
                return Err("is compressed and larger than an entry may be");
            }
            out.clear();
            // What a small frame says of its length is believed only so far.
            let ratio_max = frame.len().saturating_mul(FRAME_RATIO_MAX).saturating_add(1 << 20);
            if length > ratio_max as u64 {
                return Err("is compressed and has an impossible length");
            }
            out.reserve(length as usize);
            let context = context.get_or_insert_with(DCtx::create);
            let written = context.decompress_using_ddict(out, whole, &trained.decoder);
            match written {
                Ok(written) if written as u64 == length => Ok(()),
                Ok(_) | Err(_) => Err("is compressed and damaged"),
            }
        })
    }
}

impl fmt::Debug for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compression").field("dictionaries", &self.dictionaries.len()).finish()
    }
}

/// What each thread decompresses with.
struct Inflater {
    context: Option<DCtx<'static>>,
    /// The frame with the octets that all frames begin with.
    whole: Vec<u8>,
}

thread_local! {
    static CONTEXT: RefCell<Inflater> = const {
        RefCell::new(Inflater { context: None, whole: Vec::new() })
    };
}

/// Compresses records; each thread has its own.
pub(crate) struct Compressor {
    compression: Arc<Compression>,
    context: CCtx<'static>,
    frame: Vec<u8>,
}

impl Compressor {
    /// With the last dictionary.
    pub(crate) fn new(compression: &Arc<Compression>) -> Self {
        let compression = Arc::clone(compression);
        Self { compression, context: CCtx::create(), frame: Vec::new() }
    }

    /// Writes a record of version 1 as one of version 2 into an empty buffer. False when it is to
    /// be stored as it is: it is compressed already, has reference lists, or would not get shorter.
    pub(crate) fn compress(&mut self, row: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(head) = RecordHead::parse(row) else { return false };
        let Some(attributes) = head.plain_attributes().filter(|_| !head.has_outside()) else {
            return false;
        };
        let Some(last) = self.compression.dictionaries.len().checked_sub(1) else { return false };
        let Some(trained) = self.compression.dictionaries.get(last) else { return false };
        self.frame.clear();
        self.frame.reserve(zstd_safe::compress_bound(attributes.len()));
        let written =
            self.context.compress_using_cdict(&mut self.frame, attributes, &trained.encoder);
        let frame = self.frame.strip_prefix(&FRAME_BEGIN);
        let (Ok(_), Some(frame)) = (written, frame) else { return false };
        record::write_compressed(&head, last as u64, frame, out);
        out.len() < row.len()
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Gathers records to train a dictionary from.
#[derive(Debug, Default)]
pub(crate) struct Trainer {
    octets: Vec<u8>,
    lengths: Vec<usize>,
}

impl Trainer {
    /// Without records.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes a record as an example, unless there are enough.
    pub(crate) fn sample(&mut self, row: &[u8]) {
        if self.is_full() {
            return;
        }
        let attributes = RecordHead::parse(row).ok().and_then(|head| head.plain_attributes());
        let attributes = attributes.unwrap_or_default();
        let sample = attributes.get(..SAMPLE_ROW_MAX_BYTES).unwrap_or(attributes);
        if !sample.is_empty() {
            self.octets.extend_from_slice(sample);
            self.lengths.push(sample.len());
        }
    }

    /// Whether there are enough.
    pub(crate) const fn is_full(&self) -> bool {
        self.lengths.len() >= SAMPLE_ROWS_MAX || self.octets.len() >= SAMPLE_MAX_BYTES
    }

    /// Trains a dictionary, which takes about a second; none when there are too few records, or
    /// they have nothing in common.
    pub(crate) fn train(self) -> Option<Arc<Compression>> {
        self.train_with(DICTIONARY_MAX_BYTES, LEVEL).map(Arc::new)
    }

    fn train_with(self, length_max: usize, level: i32) -> Option<Compression> {
        if self.lengths.len() < SAMPLE_ROWS_MIN {
            return None;
        }
        // zstd wants a hundredfold of the dictionary to train from.
        let length_max = length_max.min(self.octets.len() / SAMPLE_RATIO);
        let trained = zstd::dict::from_continuous(&self.octets, &self.lengths, length_max);
        let mut octets = trained.ok()?;
        // Frames would name a dictionary that has a number; ours is in the record.
        octets.get_mut(DICTIONARY_NUMBER)?.fill(0);
        Compression::with_level(vec![octets], level)
    }
}

/// What every frame begins with, and is not stored.
const FRAME_BEGIN: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Where a trained dictionary has its number.
const DICTIONARY_NUMBER: std::ops::Range<usize> = 4..8;

/// A dictionary is at most this part of what it is trained from.
const SAMPLE_RATIO: usize = 10;

/// One octet of a frame makes at most about so many: a block of 128 KiB takes four octets.
const FRAME_RATIO_MAX: usize = 64 << 10;

#[cfg(test)]
mod measure;
#[cfg(test)]
mod tests;
