//! Any octets as a file of an archive: for tests and for the fuzz target.

use std::sync::Arc;

use environment::Timestamp;
use journal::simulated::SimDisk;
use store::Lsn;

use super::file::{Summary, name};
use super::format::{BlockHeader, FileHeader, FileId};
use super::{Archive, ArchiveOptions};

const STORE: [u8; 16] = *b"any store at all";

/// Reads the octets as a file, and as what a block holds behind a header that is right: what is
/// read are records that follow each other, or there is an error, and reading ends.
///
/// # Panics
/// When that is not so.
pub fn check(octets: &[u8]) {
    let disk = SimDisk::new(1);
    disk.put(&name(1), octets);
    read(&disk);
    let disk = SimDisk::new(1);
    disk.put(&name(1), &with_block(octets));
    read(&disk);
}

/// A file with one block that holds these octets; the first eight say what its header does.
fn with_block(octets: &[u8]) -> Vec<u8> {
    let (said, raw) = octets.split_first_chunk::<8>().unwrap_or((&[0; 8], octets));
    let [first, records, kind, ..] = *said;
    let id = FileId { store: STORE, sequence: 1 };
    let (first, hash) = (Lsn(first.into()), u64::from_be_bytes(*said));
    let header = FileHeader { id, first, first_time: Timestamp(0), hash_before: hash };
    // As it came, so that any octets are decompressed, or as they would be written.
    let payload = match kind % 2 {
        0 => raw.to_vec(),
        _ => zstd::bulk::compress(raw, 1).unwrap_or_default(),
    };
    let block = BlockHeader {
        payload_bytes: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        raw_bytes: u32::try_from(raw.len()).unwrap_or(u32::MAX),
        records: u32::from(records),
        first,
        first_time: Timestamp(0),
        last_time: Timestamp(u64::MAX),
        hash_before: hash,
        hash_after: hash,
    };
    let end = Summary::empty(header).end;
    let mut file = header.encode().to_vec();
    file.resize(usize::try_from(end).unwrap_or(0), 0);
    file.extend_from_slice(&block.encode(id, end, &payload));
    file
}

fn read(disk: &SimDisk) {
    let archive = Archive::open(Arc::new(disk.clone()), STORE, ArchiveOptions::new(0));
    let archive = archive.expect("a directory with any files opens");
    let status = archive.status();
    let _ = archive.first_since(Timestamp(1));
    let mut reader = archive.read(status.first);
    let mut next = status.first;
    while let Ok(Some(record)) = reader.next_record() {
        assert_eq!(record.lsn, next, "records follow each other");
        next.0 += 1;
    }
    assert!(next.0 <= status.last.0.saturating_add(1), "no more than the archive has");
}
