//! Checking indexes: fingerprints of what should be there and of what is.

use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Check, FINDINGS_MAX};
use crate::deltas::chunk_number;
use crate::dictionary::Dictionary;
use crate::error::StoreError;
use crate::index::Index;
use crate::key::{INDEX_VALUE_MAX_BYTES, PostingKey, display};
use crate::lmdb::POSTINGS;
use crate::posting::{Bits, CHUNK_LENGTH_MAX_BYTES, Chunk, Head, id_at};
use crate::record::Record;

/// For each index the number of pairs (key, entry) and the sum of their hashes, so that the order
/// in which they come does not matter.
#[derive(Debug)]
pub(super) struct Fingerprint {
    indexes: Vec<(u64, u64)>,
}

impl Fingerprint {
    pub(super) fn new(index_count: usize) -> Self {
        Self { indexes: vec![(0, 0); index_count] }
    }

    pub(super) fn add(&mut self, index: u16, key: &[u8], id: u64) {
        if let Some((count, sum)) = self.indexes.get_mut(usize::from(index)) {
            *count += 1;
            *sum = sum.wrapping_add(xxh3_64_with_seed(key, id));
        }
    }

    pub(super) fn of(&self, index: u16) -> Option<&(u64, u64)> {
        self.indexes.get(usize::from(index))
    }
}

/// The pairs of one record, each once.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    scratch: Vec<u8>,
    keys: Vec<u8>,
    /// Index, start and end in `keys`.
    spans: Vec<(u16, usize, usize)>,
}

impl Pairs {
    pub(super) fn of_record(
        &mut self,
        dictionary: &Dictionary,
        record: &Record<'_>,
        mut visit: impl FnMut(u16, &[u8]),
    ) {
        self.keys.clear();
        self.spans.clear();
        for (attribute, values) in record.attributes() {
            for index in dictionary.indexes_of(attribute) {
                for value in values {
                    index.keys(dictionary.schema(), value, &mut self.scratch, |key| {
                        let start = self.keys.len();
                        self.keys.extend_from_slice(key);
                        self.spans.push((index.id, start, self.keys.len()));
                    });
                }
            }
        }
        let keys = &self.keys;
        let key =
            |span: &(u16, usize, usize)| (span.0, keys.get(span.1..span.2).unwrap_or_default());
        self.spans.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        self.spans.dedup_by(|one, other| key(one) == key(other));
        for span in &self.spans {
            let (index, key) = key(span);
            visit(index, key);
        }
    }
}

impl Check<'_> {
    /// Reads every posting list; returns the pairs that are there.
    pub(super) fn postings(&mut self) -> Result<Fingerprint, StoreError> {
        let view = self.view;
        let mut fingerprint = Fingerprint::new(view.dictionary().indexes().len());
        let total = view.tables().postings.len(view.txn())?;
        // The list whose chunks are being read: key of the head, parts, and ids yet to come.
        let mut open: Option<(&[u8], PostingKey, u64)> = None;
        let mut done = 0;
        for row in view.tables().postings.iter(view.txn())? {
            let (row_key, row) = row?;
            done += 1;
            self.progress(POSTINGS, done, total);
            if let Some((head, parts, left)) = &mut open
                && let Some(number) = chunk_number(head, row_key)
            {
                let mut count = 0;
                if self.chunk(row_key, row) {
                    Bits::of(Chunk::read(row).unwrap_or(Chunk::List(&[]))).for_each(|place| {
                        count += 1;
                        fingerprint.add(parts.index, &parts.value, id_at(number, place));
                    });
                }
                *left = left.wrapping_sub(count);
                continue;
            }
            self.end_of_list(open.take());
            let Some(parts) = self.head_key(row_key) else { continue };
            match Head::read(row).filter(Head::is_well_formed) {
                Some(Head::Inline(ids)) => {
                    ids.for_each(|id| fingerprint.add(parts.index, &parts.value, id));
                }
                Some(Head::Chunked(count)) => open = Some((row_key, parts, count)),
                None => self.report.add(POSTINGS, display(row_key), "is not well formed"),
            }
        }
        self.end_of_list(open);
        Ok(fingerprint)
    }

    fn end_of_list(&mut self, list: Option<(&[u8], PostingKey, u64)>) {
        if let Some((head, _, left)) = list
            && left != 0
        {
            self.report.add(POSTINGS, display(head), "has another number of ids than it counts");
        }
    }

    fn head_key(&mut self, row_key: &[u8]) -> Option<PostingKey> {
        let parts = PostingKey::parse(row_key).filter(|parts| {
            parts.chunk.is_none()
                && usize::from(parts.index) < self.view.dictionary().indexes().len()
                && parts.value.len() <= INDEX_VALUE_MAX_BYTES + 1
        });
        if parts.is_none() {
            self.report.add(POSTINGS, display(row_key), "is no key of a list");
        }
        parts
    }

    /// Whether a chunk row is one that a writer makes.
    fn chunk(&mut self, row_key: &[u8], row: &[u8]) -> bool {
        let is_good = row.len() <= CHUNK_LENGTH_MAX_BYTES
            && Chunk::read(row).is_some_and(|chunk| {
                let mut again = Vec::new();
                let bits = Bits::of(chunk);
                if !bits.is_empty() {
                    bits.write(&mut again);
                }
                again == row
            });
        if !is_good {
            self.report.add(POSTINGS, display(row_key), "is not well formed");
        }
        is_good
    }

    /// Goes through an index pair by pair, both ways.
    pub(super) fn compare_index(&mut self, index: &Index) -> Result<(), StoreError> {
        let before = self.report.finding_count;
        self.missing_pairs(index)?;
        self.unjustified_pairs(index)?;
        if self.report.finding_count == before {
            let key = format!("{} {}", index.kind.name(), index.attribute);
            self.report.add(POSTINGS, key, "is not what the entries say");
        }
        Ok(())
    }

    fn missing_pairs(&mut self, index: &Index) -> Result<(), StoreError> {
        let view = self.view;
        let mut pairs = Pairs::default();
        for entry in view.scan(0)? {
            let Ok(entry) = entry else { continue };
            let mut keys: Vec<Vec<u8>> = Vec::new();
            pairs.of_record(view.dictionary(), &entry.record(), |other, key| {
                if other == index.id {
                    keys.push(key.to_vec());
                }
            });
            for key in keys {
                let id = entry.id().0;
                let Ok(list) = view.list(index.id, &key) else { continue };
                let is_there = match list {
                    Some(list) => view.holds(&list, id).unwrap_or(false),
                    None => false,
                };
                if !is_there {
                    let reason = format!("lacks entry {id} in '{}'", display(&key));
                    self.report.add(POSTINGS, index_name(index), reason);
                }
            }
            if self.report.findings.len() >= FINDINGS_MAX {
                break;
            }
        }
        Ok(())
    }

    fn unjustified_pairs(&mut self, index: &Index) -> Result<(), StoreError> {
        let view = self.view;
        let prefix = index.id.to_be_bytes();
        let mut pairs = Pairs::default();
        for row in view.tables().postings.prefix_iter(view.txn(), &prefix)? {
            let (row_key, _) = row?;
            let Some(parts) = PostingKey::parse(row_key).filter(|parts| parts.chunk.is_none())
            else {
                continue;
            };
            let list = view.list(index.id, &parts.value);
            let ids = list.and_then(|list| list.map(|list| view.load(&list)).transpose());
            let Some(Some(ids)) = self.report.note(ids)? else { continue };
            for id in ids.iter_after(0) {
                let entry = view.entry(schema::EntryId(id)).ok().flatten();
                let mut keys: FxHashSet<Vec<u8>> = FxHashSet::default();
                if let Some(entry) = &entry {
                    pairs.of_record(view.dictionary(), &entry.record(), |other, key| {
                        if other == index.id {
                            keys.insert(key.to_vec());
                        }
                    });
                }
                if !keys.contains(&parts.value) {
                    let reason =
                        format!("has entry {id} in '{}', which lacks it", display(&parts.value));
                    self.report.add(POSTINGS, index_name(index), reason);
                }
            }
            if self.report.findings.len() >= FINDINGS_MAX {
                break;
            }
        }
        Ok(())
    }
}

fn index_name(index: &Index) -> String {
    format!("{} {}", index.kind.name(), index.attribute)
}
