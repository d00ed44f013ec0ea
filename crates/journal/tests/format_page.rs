//! The examples of `docs/journal-format.md` are the bytes that are written. This test reads them
//! with nothing but what the page says, and prints what should be there when it is not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::fmt::Write;
use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};
use journal::simulated::SimDisk;
use journal::{Appended, Disk, Durability, Journal, JournalOptions, JournalPosition};

const ID: [u8; 16] = *b"store of example";

fn entry(term: u64, index: u64, text: &str) -> Appended {
    Appended { place: JournalPosition { term, index }, payload: text.as_bytes().into() }
}

/// The first segment of a small journal.
fn example() -> Vec<u8> {
    let disk = SimDisk::new(1);
    let arc: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = JournalOptions { segment_bytes: 1 << 20, ..JournalOptions::new(ID) };
    let journal = Journal::create(arc, options, 1).unwrap();
    let both = vec![entry(1, 1, "add ada"), entry(1, 2, "add bob")];
    journal.append_wait(both, Durability::Synced).unwrap();
    journal.save_vote(b"2").unwrap();
    journal.truncate_suffix(1).unwrap();
    journal.save_committed(JournalPosition { term: 1, index: 1 }).unwrap();
    journal.append_wait(vec![entry(2, 2, "add eve")], Durability::Written).unwrap();
    journal.append_wait(vec![entry(2, 3, "del ada")], Durability::Synced).unwrap();
    journal.purge(2).unwrap();
    journal.close();
    disk.bytes("00000000000000000001.journal").unwrap()
}

struct Page<'a> {
    bytes: &'a [u8],
    text: String,
}

impl Page<'_> {
    fn number(&self, at: usize, count: usize) -> u64 {
        let octets = &self.bytes[at..at + count];
        octets.iter().rev().fold(0, |number, octet| number << 8 | u64::from(*octet))
    }

    fn line(&mut self, at: usize, count: usize, meaning: &str) -> u64 {
        let octets = &self.bytes[at..at + count];
        let hex: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        let meaning = if count > 8 || !meaning.ends_with('=') {
            meaning.trim_end_matches('=').to_owned()
        } else {
            format!("{meaning}{}", self.number(at, count))
        };
        for (line, hex) in hex.chunks(16).enumerate() {
            let meaning = if line == 0 { meaning.as_str() } else { "" };
            let text = format!("{:06x}  {:47}  {meaning}", at + line * 16, hex.join(" "));
            writeln!(self.text, "{}", text.trim_end()).unwrap();
        }
        self.number(at, count.min(8))
    }

    fn header(&mut self) -> u64 {
        self.line(0, 8, "roster-j");
        self.line(8, 4, "format=");
        let checksum = self.line(12, 4, "checksum");
        self.line(16, 16, "id of the store");
        self.line(32, 8, "sequence=");
        self.line(40, 8, "bytes of the file=");
        self.line(48, 16, "zeros");
        let covered = crc32c_append(crc32c(&self.bytes[..12]), &self.bytes[16..64]);
        assert_eq!(checksum, u64::from(covered));
        checksum
    }

    /// A group at `at` that continues `previous`; its checksum and its end.
    fn group(&mut self, at: usize, previous: u64) -> (u64, usize) {
        writeln!(self.text).unwrap();
        self.line(at, 4, "rgrp");
        let checksum = self.line(at + 4, 4, "checksum");
        let length = self.line(at + 8, 4, "bytes of records=") as usize;
        let count = self.line(at + 12, 4, "records=");
        self.line(at + 16, 8, "synced up to=");
        self.line(at + 24, 8, "stamp");
        assert_eq!(self.line(at + 32, 4, "checksum before"), previous);
        self.line(at + 36, 4, "zeros");
        let mut seed = ID.to_vec();
        seed.extend_from_slice(&1_u64.to_le_bytes());
        seed.extend_from_slice(&(at as u64).to_le_bytes());
        let covered = crc32c_append(crc32c(&seed), &self.bytes[at + 8..at + 40]);
        assert_eq!(checksum, u64::from(covered));
        let mut record = at + 40;
        for _ in 0..count {
            let sum = self.line(record, 4, "  checksum");
            let length = self.line(record + 4, 4, "  bytes of payload=") as usize;
            self.line(record + 8, 8, "  index=");
            self.line(record + 16, 8, "  term=");
            self.line(record + 24, 4, "  kind=");
            self.line(record + 28, length, "  payload");
            let end = record + 28 + length;
            let covered = crc32c_append(checksum as u32, &self.bytes[record + 4..end]);
            assert_eq!(sum, u64::from(covered));
            record = end;
        }
        assert_eq!(record, at + 40 + length);
        (checksum, record)
    }
}

#[test]
fn the_page_shows_the_bytes_that_are_written() {
    let bytes = example();
    let mut page = Page { bytes: &bytes, text: String::new() };
    let mut previous = page.header();
    let mut end = 4096_usize;
    loop {
        let near = end.next_multiple_of(8);
        let block = end.next_multiple_of(4096);
        let Some(at) = [near, block].into_iter().find(|at| bytes[*at..].starts_with(b"rgrp"))
        else {
            break;
        };
        (previous, end) = page.group(at, previous);
    }
    let documented = include_str!("../../../docs/journal-format.md");
    let example = documented.split("\n## Example\n").nth(1).unwrap();
    let shown = example.split("```hex\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(shown == Some(page.text.as_str()), "the page should show:\n{}", page.text);
}
