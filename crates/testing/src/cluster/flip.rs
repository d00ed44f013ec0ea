//! Bits of files that change while nobody looks: in a group of the journal, in the newest vote, in
//! a page of the database. The form of the journal is that of `docs/journal-format.md`.
//!
//! Invariant: this reads the format by itself, as a tool of another hand would.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::fault::Flip;
use crate::chance::Chance;

/// A bit that is another than it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Flipped {
    pub(super) file: PathBuf,
    pub(super) offset: u64,
    mask: u8,
}

/// Where something is in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Part {
    offset: u64,
    length: u64,
}

/// What a segment of the journal holds.
#[derive(Debug, Default)]
struct Segment {
    file: PathBuf,
    groups: Vec<Part>,
    /// Records with a vote.
    votes: Vec<Part>,
}

/// Changes a bit of a data directory that no process uses.
pub(super) fn flip(data: &Path, flip: Flip, chance: &mut Chance) -> Result<Flipped, String> {
    let (file, part) = match flip {
        Flip::Base => page(&data.join(BASE), chance)?,
        Flip::Middle | Flip::Tail | Flip::Vote => in_journal(data, flip, chance)?,
    };
    let offset = part.offset + chance.below(part.length);
    let flipped = Flipped { file, offset, mask: 1 << chance.below(8) };
    flipped.turn()?;
    Ok(flipped)
}

impl Flipped {
    /// Turns the bit around, once more.
    pub(super) fn turn(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.file.display());
        let file = OpenOptions::new().read(true).write(true).open(&self.file).map_err(failed)?;
        let mut octet = [0];
        file.read_exact_at(&mut octet, self.offset).map_err(failed)?;
        octet[0] ^= self.mask;
        file.write_all_at(&octet, self.offset).and_then(|()| file.sync_all()).map_err(failed)
    }
}

/// A page of a file that is not empty.
fn page(path: &Path, chance: &mut Chance) -> Result<(PathBuf, Part), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(failed)?;
    let pages = file.metadata().map_err(failed)?.len() / PAGE_BYTES;
    let mut octets = vec![0; PAGE_BYTES as usize];
    for _ in 0..PAGES_MAX {
        let offset = chance.below(pages) * PAGE_BYTES;
        file.read_exact_at(&mut octets, offset).map_err(failed)?;
        if octets.iter().any(|octet| *octet != 0) {
            return Ok((path.to_owned(), Part { offset, length: PAGE_BYTES }));
        }
    }
    Err(format!("{}: no page with anything in it was found", path.display()))
}

fn in_journal(data: &Path, flip: Flip, chance: &mut Chance) -> Result<(PathBuf, Part), String> {
    let journal = data.join(JOURNAL);
    let failed = |error: std::io::Error| format!("{}: {error}", journal.display());
    let files = fs::read_dir(&journal).map_err(failed)?.flatten().map(|file| file.path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|name| name == "journal");
    let mut files: Vec<PathBuf> = files.filter(is_segment).collect();
    files.sort();
    for file in files.into_iter().rev() {
        let octets = fs::read(&file).map_err(failed)?;
        let segment = Segment { file, ..look_through(&octets) };
        let Some((last, others)) = segment.groups.split_last() else { continue };
        let part = match flip {
            Flip::Middle => chance.pick(others).unwrap_or(last),
            // A segment begins with the state, which has the vote.
            Flip::Vote => segment.votes.last().or(others.first()).unwrap_or(last),
            Flip::Tail | Flip::Base => last,
        };
        return Ok((segment.file, *part));
    }
    Err(format!("{}: no segment has a group", journal.display()))
}

/// The groups of a segment, and the votes in them.
fn look_through(octets: &[u8]) -> Segment {
    let mut segment = Segment::default();
    let mut before = number(octets, HEADER_CHECKSUM);
    let mut end = HEADER_BYTES;
    loop {
        let next = [end.next_multiple_of(8), end.next_multiple_of(HEADER_BYTES)];
        let follows = |at: &usize| {
            octets.get(*at..*at + MAGIC.len()) == Some(MAGIC)
                && number(octets, *at + GROUP_BEFORE) == before
        };
        let Some(at) = next.into_iter().find(follows) else { return segment };
        let (length, count) = (number(octets, at + GROUP_LENGTH), number(octets, at + GROUP_COUNT));
        let Some((length, count)) = length.zip(count) else { return segment };
        before = number(octets, at + GROUP_CHECKSUM);
        end = at + GROUP_BYTES + length as usize;
        segment.groups.push(part(at, end));
        let mut record = at + GROUP_BYTES;
        for _ in 0..count {
            let Some(length) = number(octets, record + RECORD_LENGTH) else { return segment };
            let behind = record + RECORD_BYTES + length as usize;
            if number(octets, record + RECORD_KIND) == Some(VOTE) {
                segment.votes.push(part(record, behind));
            }
            record = behind;
        }
    }
}

fn part(from: usize, to: usize) -> Part {
    Part { offset: from as u64, length: (to - from) as u64 }
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    let octets = octets.get(at..at.checked_add(4)?)?;
    octets.try_into().ok().map(u32::from_le_bytes)
}

/// The directory of the journal in a data directory.
const JOURNAL: &str = "journal";
/// The database in a data directory.
pub(super) const BASE: &str = "data.mdb";
/// Size of a page of the database.
const PAGE_BYTES: u64 = 4096;
/// So many pages are looked at to find one that is not empty.
const PAGES_MAX: usize = 1000;
/// A segment's header, and how groups are aligned behind what is synced.
const HEADER_BYTES: usize = 4096;
/// Where its checksum is.
const HEADER_CHECKSUM: usize = 12;
/// What a group begins with.
const MAGIC: &[u8] = b"rgrp";
/// Size of a group's header.
const GROUP_BYTES: usize = 40;
const GROUP_CHECKSUM: usize = 4;
const GROUP_LENGTH: usize = 8;
const GROUP_COUNT: usize = 12;
/// Where a group has the checksum of the one before it.
const GROUP_BEFORE: usize = 32;
/// Size of a record's header.
const RECORD_BYTES: usize = 28;
const RECORD_LENGTH: usize = 4;
const RECORD_KIND: usize = 24;
/// The kind of a record that is a vote.
const VOTE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::server::scratch;

    fn put(octets: &mut Vec<u8>, at: usize, more: &[u8]) {
        octets.resize(octets.len().max(at + more.len()), 0);
        octets[at..at + more.len()].copy_from_slice(more);
    }

    /// A group with one record of this kind, and four octets in it.
    fn group(octets: &mut Vec<u8>, at: usize, checksums: [u32; 2], kind: u32) {
        let length = (RECORD_BYTES + 4) as u32;
        put(octets, at, MAGIC);
        put(octets, at + GROUP_CHECKSUM, &checksums[1].to_le_bytes());
        put(octets, at + GROUP_LENGTH, &length.to_le_bytes());
        put(octets, at + GROUP_COUNT, &1u32.to_le_bytes());
        put(octets, at + GROUP_BEFORE, &checksums[0].to_le_bytes());
        let record = at + GROUP_BYTES;
        put(octets, record + RECORD_LENGTH, &4u32.to_le_bytes());
        put(octets, record + RECORD_KIND, &kind.to_le_bytes());
        put(octets, record + RECORD_BYTES, &[1, 2, 3, 4]);
    }

    #[test]
    fn groups_and_votes_are_found() {
        let mut octets = Vec::new();
        put(&mut octets, HEADER_CHECKSUM, &7u32.to_le_bytes());
        group(&mut octets, 4096, [7, 8], 6);
        group(&mut octets, 4168, [8, 9], VOTE);
        group(&mut octets, 8192, [9, 10], 1);
        // It refers to another one: left from an earlier use.
        group(&mut octets, 12_288, [11, 12], 1);
        let segment = look_through(&octets);
        let offsets: Vec<u64> = segment.groups.iter().map(|group| group.offset).collect();
        assert_eq!(offsets, [4096, 4168, 8192]);
        assert_eq!(segment.votes, [Part { offset: 4208, length: 32 }]);
        assert!(look_through(&[]).groups.is_empty());
    }

    #[test]
    fn a_bit_is_flipped_and_back() {
        let data = scratch("flip");
        fs::create_dir_all(&data).unwrap();
        let whole = vec![0x55; 3 * PAGE_BYTES as usize];
        fs::write(data.join(BASE), &whole).unwrap();
        let flipped = flip(&data, Flip::Base, &mut Chance::new(1, 1)).unwrap();
        let now = fs::read(data.join(BASE)).unwrap();
        let differing: u32 = now.iter().zip(&whole).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(differing, 1);
        flipped.turn().unwrap();
        assert_eq!(fs::read(data.join(BASE)).unwrap(), whole);
        assert!(flip(&data, Flip::Middle, &mut Chance::new(1, 1)).is_err());
        fs::remove_dir_all(&data).unwrap();
    }
}
