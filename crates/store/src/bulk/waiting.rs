//! Entries whose superiors are not there yet, in a file.

use std::sync::Arc;

use super::SourceLine;
use super::names::{HASH_BYTES, NameHash};
use super::prepare::{Above, PreparedEntry};
use super::spill::{SpillFile, Workplace};
use crate::error::StoreError;
use crate::rows::varint;

/// Entries that wait, in the order in which they came.
#[derive(Debug)]
pub(super) struct Waiting {
    file: SpillFile,
    buffer: Vec<u8>,
    count: u64,
}

impl Waiting {
    pub(super) fn new(place: &Arc<Workplace>) -> Result<Self, StoreError> {
        Ok(Self { file: SpillFile::create(place)?, buffer: Vec::new(), count: 0 })
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn push(&mut self, entry: &PreparedEntry) -> Result<(), StoreError> {
        self.count += 1;
        write(entry, &mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        // What is read needs to know how long the piece is.
        let length = (self.buffer.len() as u64).to_le_bytes();
        self.file.append(&length)?;
        self.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Hands all entries to `visit`, in their order.
    pub(super) fn each<E: From<StoreError>>(
        mut self,
        mut visit: impl FnMut(PreparedEntry) -> Result<(), E>,
    ) -> Result<(), E> {
        self.flush()?;
        let mut at = 0;
        let mut piece = Vec::new();
        while at < self.file.len() {
            self.file.read(at, size_of::<u64>(), &mut piece)?;
            let length = piece.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            at += size_of::<u64>() as u64;
            self.file.read(at, usize::try_from(length).unwrap_or(usize::MAX), &mut piece)?;
            at += length;
            let mut rest = piece.as_slice();
            while !rest.is_empty() {
                let damaged = || StoreError::Lmdb("a file of the load is damaged".to_owned());
                visit(read(&mut rest).ok_or_else(damaged)?)?;
            }
        }
        Ok(())
    }
}

/// Entries are written in pieces of about so many octets.
const BUFFER_BYTES: usize = 1 << 20;

fn write(entry: &PreparedEntry, out: &mut Vec<u8>) {
    let numbers = [
        entry.id,
        u64::from(entry.place.source),
        entry.place.line,
        entry.rdn_key_length as u64,
        entry.row_length as u64,
        entry.octets.len() as u64,
        u64::from(entry.is_alias),
    ];
    numbers.into_iter().for_each(|number| varint::write(number, out));
    let above = entry.above.map(|above| (Some(above.superior), above.above_it));
    let (superior, above_it) = above.unwrap_or((None, None));
    for hash in [Some(entry.name), superior, above_it] {
        out.push(u8::from(hash.is_some()));
        if let Some(hash) = hash {
            out.extend_from_slice(&hash.to_octets());
        }
    }
    out.extend_from_slice(&entry.octets);
}

fn read(rest: &mut &[u8]) -> Option<PreparedEntry> {
    let mut number = || varint::read(rest);
    let (id, source, line) = (number()?, number()?, number()?);
    let (rdn_key_length, row_length, length) = (number()?, number()?, number()?);
    let is_alias = number()? != 0;
    let name = read_hash(rest)??;
    let superior = read_hash(rest)?;
    let above_it = read_hash(rest)?;
    let above = superior.map(|superior| Above { superior, above_it });
    let (octets, after) = rest.split_at_checked(length as usize)?;
    *rest = after;
    Some(PreparedEntry {
        id,
        place: SourceLine { source: source as u32, line },
        name,
        above,
        is_alias,
        octets: octets.to_vec(),
        rdn_key_length: rdn_key_length as usize,
        row_length: row_length as usize,
    })
}

fn read_hash(rest: &mut &[u8]) -> Option<Option<NameHash>> {
    let (&is_there, after) = rest.split_first()?;
    *rest = after;
    if is_there == 0 {
        return Some(None);
    }
    let (octets, after) = rest.split_first_chunk::<HASH_BYTES>()?;
    *rest = after;
    Some(Some(NameHash::from_octets(*octets)))
}
