//! Segments of arbitrary bytes, and of arbitrary records under right checksums; whatever they
//! hold, opening, checking and reading them ends, and never with a panic. The fuzz target
//! `journal` and the property test share it.

use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};
use journal::simulated::SimDisk;
use journal::{
    Appended, Disk, Durability, Journal, JournalError, JournalOptions, JournalPosition, copy,
};

const ID: [u8; 16] = *b"store of example";
const SEGMENT_BYTES: usize = 16 * 4096;

/// Opens what the octets describe: the first says how.
pub(crate) fn check(octets: &[u8]) {
    let Some((how, octets)) = octets.split_first() else {
        return;
    };
    let disk = SimDisk::new(u64::from(*how));
    match how % 4 {
        0 => disk.put(&name(1), octets),
        1 => disk.put(&name(1), &[&header(1)[..], octets].concat()),
        2 => disk.put(&name(1), &segment(1, octets)),
        _ => {
            let half = octets.len() / 2;
            disk.put(&name(1), &segment(1, &octets[..half]));
            disk.put(&name(2), &segment(2, &octets[half..]));
        }
    }
    let options = JournalOptions {
        segment_bytes: SEGMENT_BYTES as u64,
        keep_bytes: 0,
        ..JournalOptions::new(ID)
    };
    let report = Journal::verify(&disk, &options, &mut |_, _| ());
    let source = copy::open(&disk, ID);
    if let Ok(source) = &source {
        let last = source.last().map_or(0, |last| last.index);
        for from in [0, source.first(), source.purged().map_or(1, |purged| purged.index), last] {
            if let Ok(entries) = source.read(from) {
                let bound = SEGMENT_BYTES * 2;
                assert!(entries.take(bound + 1).count() <= bound);
            }
        }
    }
    // Starting threads is slow: only what can be opened.
    if source.is_ok() {
        let arc: Arc<dyn Disk> = Arc::new(disk);
        let (journal, _) = Journal::open(arc, options).expect("what can be read can be opened");
        // Whatever it holds, it goes on from there, unless no index is left.
        let place = |index| JournalPosition { term: u64::MAX, index };
        let entry = |index| Appended { place: place(index), payload: Arc::from(&b"x"[..]) };
        let append = |index| journal.append_wait(vec![entry(index)], Durability::Synced);
        let mut next = 0;
        if let Err(JournalError::OutOfOrder { expected, .. }) = append(u64::MAX) {
            next = expected;
            let appended = append(expected);
            assert!(
                appended == Ok(place(expected)) || next == u64::MAX,
                "{appended:?}, {report:?}"
            );
        }
        let _ = journal.truncate_suffix(next.saturating_sub(1));
        let _ = journal.purge(next);
    }
}

fn name(sequence: u64) -> String {
    format!("{sequence:020}.journal")
}

fn header(sequence: u64) -> Vec<u8> {
    let mut bytes = b"roster-j\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&ID);
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.resize(64, 0);
    let checksum = crc32c_append(crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes.resize(4096, 0);
    bytes
}

/// A segment whose groups and records are right, but say what the octets say.
fn segment(sequence: u64, octets: &[u8]) -> Vec<u8> {
    let mut bytes = header(sequence);
    let mut previous = bytes[12..16].to_vec();
    let mut octets = octets.iter().copied();
    let mut stamp = 1_u64 << 32;
    while let Some(count) = octets.next() {
        let count = u32::from(count % 4) + 1;
        let at = if count == 2 { bytes.len().next_multiple_of(4096) } else { bytes.len() };
        bytes.resize(at.next_multiple_of(8), 0);
        let at = bytes.len();
        let records: Vec<_> = (0..count).map_while(|_| record(&mut octets)).collect();
        let length: usize = records.iter().map(Vec::len).sum();
        stamp += 1;
        let mut group = b"rgrp\0\0\0\0".to_vec();
        group.extend_from_slice(&(length as u32).to_le_bytes());
        group.extend_from_slice(&(records.len() as u32).to_le_bytes());
        group.extend_from_slice(&(at as u64).to_le_bytes());
        group.extend_from_slice(&stamp.to_le_bytes());
        group.extend_from_slice(&previous);
        group.extend_from_slice(&[0; 4]);
        let mut seed = ID.to_vec();
        seed.extend_from_slice(&sequence.to_le_bytes());
        seed.extend_from_slice(&(at as u64).to_le_bytes());
        let checksum = crc32c_append(crc32c(&seed), &group[8..40]);
        previous = checksum.to_le_bytes().to_vec();
        group[4..8].copy_from_slice(&previous);
        for mut record in records {
            let sum = crc32c_append(checksum, &record[4..]);
            record[..4].copy_from_slice(&sum.to_le_bytes());
            group.extend_from_slice(&record);
        }
        bytes.extend_from_slice(&group);
    }
    bytes.resize(bytes.len().max(SEGMENT_BYTES), 0);
    bytes
}

/// Small numbers mostly, so that something fits together.
fn number(octets: &mut impl Iterator<Item = u8>) -> Option<u64> {
    Some(match octets.next()? {
        255 => u64::MAX,
        254 => u64::MAX - 1,
        253 => 4096,
        small => u64::from(small % 16),
    })
}

fn record(octets: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let kind = u32::from(octets.next()?) % 12;
    let (index, term) = (number(octets)?, number(octets)?);
    let payload = match kind {
        6 => {
            // Origin, three places, no vote, and runs.
            let mut payload = Vec::new();
            for _ in 0..10 {
                payload.extend_from_slice(&number(octets)?.to_le_bytes());
            }
            payload.extend_from_slice(&[0; 8]);
            for _ in 0..octets.next()? % 3 * 3 + 3 {
                payload.extend_from_slice(&number(octets)?.to_le_bytes());
            }
            payload
        }
        _ => octets.by_ref().take(3).collect(),
    };
    let mut record = vec![0; 4];
    record.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    record.extend_from_slice(&index.to_le_bytes());
    record.extend_from_slice(&term.to_le_bytes());
    record.extend_from_slice(&kind.to_le_bytes());
    record.extend_from_slice(&payload);
    Some(record)
}
