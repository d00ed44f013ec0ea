//! Compressing the records of a load.
//!
//! A directory that is not compressed yet has no dictionary: the first records of the load are kept
//! back until one is trained from them. From then on each preparer compresses its own.
//!
//! Invariant: records leave in the order in which they came.

use std::sync::{Arc, OnceLock};

use super::target::Piece;
use crate::base::compress::{Compression, Compressor, Trainer};

/// With what the records of a load are compressed, as soon as that is known.
pub(super) type SharedCompression = OnceLock<Arc<Compression>>;

/// Compresses what the preparers have not.
#[derive(Debug)]
pub(super) struct Packing {
    shared: Arc<SharedCompression>,
    /// None when nothing is compressed, or there is a dictionary.
    trainer: Option<Trainer>,
    /// What waits for it: ids and records.
    kept: Vec<(u64, Vec<u8>)>,
    kept_bytes: usize,
    compressor: Option<Compressor>,
    packed: Vec<u8>,
}

impl Packing {
    /// `is_wanted` where a dictionary is to be trained unless there is one.
    pub(super) fn new(
        shared: &Arc<SharedCompression>,
        known: Option<&Arc<Compression>>,
        is_wanted: bool,
    ) -> Self {
        let trainer = (is_wanted && known.is_none()).then(Trainer::new);
        if let Some(known) = known {
            let _ = shared.set(Arc::clone(known));
        }
        let (kept, packed) = (Vec::new(), Vec::new());
        Self { shared: Arc::clone(shared), trainer, kept, kept_bytes: 0, compressor: None, packed }
    }

    /// Puts a record into the piece, or keeps it back. It has its superior.
    #[inline]
    pub(super) fn push(&mut self, id: u64, row: &[u8], piece: &mut Piece) {
        match &mut self.trainer {
            None => self.put(id, row, piece),
            Some(trainer) => {
                trainer.sample(row);
                self.kept_bytes += row.len();
                let is_full = trainer.is_full() || self.kept_bytes >= KEPT_MAX_BYTES;
                self.kept.push((id, row.to_vec()));
                if is_full {
                    self.train(piece);
                }
            }
        }
    }

    /// Puts a record into a piece whose records may come in any order.
    pub(super) fn push_anywhere(&mut self, id: u64, row: &[u8], piece: &mut Piece) {
        self.put(id, row, piece);
    }

    /// No more records come: trains on what there is.
    pub(super) fn finish(&mut self, piece: &mut Piece) {
        self.train(piece);
    }

    fn train(&mut self, piece: &mut Piece) {
        let Some(trainer) = self.trainer.take() else { return };
        if let Some(compression) = trainer.train() {
            let _ = self.shared.set(compression);
        }
        for (id, row) in std::mem::take(&mut self.kept) {
            self.put(id, &row, piece);
        }
    }

    #[inline]
    fn put(&mut self, id: u64, row: &[u8], piece: &mut Piece) {
        let is_packed = self.shared.get().is_some_and(|compression| {
            let compressor = self.compressor.get_or_insert_with(|| Compressor::new(compression));
            compressor.compress(row, &mut self.packed)
        });
        piece.push(&id.to_be_bytes(), if is_packed { &self.packed } else { row });
    }
}

/// When so many octets wait, a dictionary is trained from what there is.
const KEPT_MAX_BYTES: usize = 64 << 20;
