//! Parts with records: entries of the journal in a form of their own, which outlives its segments.
//!
//! | octets | what |
//! |---|---|
//! | 22 | `roster journal part 1` and a line feed |
//! | 4 | length of the payload of an entry |
//! | 8 | term of the entry |
//! | 8 | index of the entry |
//! | 8 | xxh3 of the 20 octets before and of the payload |
//! | … | payload: a record, as in the journal |
//!
//! and so on with the next entry, up to the end of the file. Numbers are big-endian.
//!
//! Invariant: an entry that is handed out has the checksum it was written with.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::Xxh3;

/// An entry of a journal part.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PartEntry {
    /// The term in which it was ordered.
    pub term: u64,
    /// Its number in the log.
    pub index: u64,
    /// The record.
    pub payload: Vec<u8>,
}

/// Writes a part.
#[derive(Debug)]
pub(super) struct PartWriter<W>(W);

impl<W: Write> PartWriter<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(HEAD)?;
        Ok(Self(out))
    }

    pub(super) fn entry(&mut self, term: u64, index: u64, payload: &[u8]) -> io::Result<()> {
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "a record is too long");
        let length = u32::try_from(payload.len()).map_err(too_long)?;
        let head = entry_head(length, term, index);
        self.0.write_all(&head)?;
        self.0.write_all(&checksum(&head, payload).to_be_bytes())?;
        self.0.write_all(payload)
    }

    pub(super) fn into_inner(self) -> W {
        self.0
    }
}

/// Reads a part; the reason of a failure is one clause that follows the file's name.
#[derive(Debug)]
pub struct PartReader<R> {
    source: R,
    entry: PartEntry,
    entries: u64,
}

impl<R: Read> PartReader<R> {
    /// Reads the head of a part; `source` had better be buffered.
    ///
    /// # Errors
    /// When it is no part, or cannot be read.
    pub fn new(mut source: R) -> Result<Self, String> {
        let mut head = [0; HEAD.len()];
        match source.read_exact(&mut head) {
            Ok(()) if head == *HEAD => Ok(Self { source, entry: PartEntry::default(), entries: 0 }),
            Ok(()) => Err("is not a part with records of this release".to_owned()),
            Err(error) => Err(unreadable(&error, "its head")),
        }
    }

    /// What is left of the source.
    pub fn into_inner(self) -> R {
        self.source
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// When an entry is damaged or cut off, or cannot be read.
    pub fn next_entry(&mut self) -> Result<Option<&PartEntry>, String> {
        let number = self.entries + 1;
        let cut = |error: &io::Error| unreadable(error, &format!("entry {number}"));
        let mut head = [0; ENTRY_HEAD_LENGTH];
        match self.source.read(&mut head) {
            Ok(0) => return Ok(None),
            Ok(read) => {
                let rest = head.get_mut(read..).unwrap_or_default();
                self.source.read_exact(rest).map_err(|error| cut(&error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.next_entry(),
            Err(error) => return Err(cut(&error)),
        }
        let mut stored = [0; 8];
        self.source.read_exact(&mut stored).map_err(|error| cut(&error))?;
        let [length @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = head;
        let length = u32::from_be_bytes(length);
        if length > ENTRY_MAX_BYTES {
            return Err(format!("has a damaged entry: number {number}"));
        }
        // The length is not trusted with memory before the octets are there.
        self.entry.payload.clear();
        let mut source = (&mut self.source).take(u64::from(length));
        source.read_to_end(&mut self.entry.payload).map_err(|error| cut(&error))?;
        if self.entry.payload.len() < length as usize {
            return Err(format!("ends within entry {number}"));
        }
        if u64::from_be_bytes(stored) != checksum(&head, &self.entry.payload) {
            return Err(format!("has a damaged entry: number {number}"));
        }
        let [_, _, _, _, numbers @ ..] = head;
        let (numbers, _) = numbers.as_chunks::<8>();
        if let &[term, index] = numbers {
            (self.entry.term, self.entry.index) =
                (u64::from_be_bytes(term), u64::from_be_bytes(index));
        }
        self.entries = number;
        Ok(Some(&self.entry))
    }
}

fn unreadable(error: &io::Error, what: &str) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("ends within {what}"),
        _ => format!("cannot be read: {error}"),
    }
}

fn entry_head(length: u32, term: u64, index: u64) -> [u8; ENTRY_HEAD_LENGTH] {
    let mut head = [0; ENTRY_HEAD_LENGTH];
    let numbers = length.to_be_bytes().into_iter().chain(term.to_be_bytes());
    for (octet, value) in head.iter_mut().zip(numbers.chain(index.to_be_bytes())) {
        *octet = value;
    }
    head
}

fn checksum(head: &[u8; ENTRY_HEAD_LENGTH], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(head);
    hash.update(payload);
    hash.digest()
}

const HEAD: &[u8; 22] = b"roster journal part 1\n";
/// Length, term and index.
const ENTRY_HEAD_LENGTH: usize = 20;
/// The longest entry, in bytes: four times the journal's default for a record.
const ENTRY_MAX_BYTES: u32 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Vec<u8> {
        let mut writer = PartWriter::new(Vec::new()).unwrap();
        for (index, payload) in [(5, &b"first"[..]), (6, b""), (7, &[7; 1000])] {
            writer.entry(1, index, payload).unwrap();
        }
        writer.into_inner()
    }

    fn read(mut octets: &[u8]) -> Result<Vec<PartEntry>, String> {
        let mut reader = PartReader::new(&mut octets)?;
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    #[test]
    fn entries_come_back() {
        let entries = read(&part()).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.index).collect::<Vec<_>>(), [5, 6, 7]);
        assert_eq!(entries[0], PartEntry { term: 1, index: 5, payload: b"first".to_vec() });
        assert_eq!(entries[2].payload, [7; 1000]);
        assert_eq!(read(HEAD), Ok(Vec::new()));
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let mut writer = PartWriter::new(Vec::new()).unwrap();
        writer.entry(2, 3, b"x").unwrap();
        let mut want = b"roster journal part 1\n".to_vec();
        let head = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3];
        want.extend(head);
        let hashed = [&head[..], b"x"].concat();
        want.extend(xxhash_rust::xxh3::xxh3_64(&hashed).to_be_bytes());
        want.push(b'x');
        assert_eq!(writer.into_inner(), want);
    }

    #[test]
    fn each_flipped_bit_and_each_cut_is_noticed() {
        let whole = part();
        let boundaries = [HEAD.len(), HEAD.len() + 33, HEAD.len() + 61, whole.len()];
        for at in 0..whole.len() {
            let mut octets = whole.clone();
            octets[at] ^= 4;
            assert!(read(&octets).is_err(), "octet {at}");
            assert_eq!(read(&whole[..at]).is_ok(), boundaries.contains(&at), "cut at {at}");
        }
    }
}
