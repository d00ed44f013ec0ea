//! Sorting more records than fit into memory.
//!
//! Records are gathered until the memory is full, sorted, and written to a temporary file as a run;
//! runs are merged when they are read. What fits into memory is never written.
//!
//! Invariant: it holds no more than it was given, except for one record that alone takes more.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io::{self, BufReader, Read};

use super::scratch::{Scratch, Section, Written, failed};
use crate::failure::Failure;

/// A key, and what belongs to it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// Takes records in any order.
#[derive(Debug)]
pub(super) struct Sorter {
    memory_max_bytes: usize,
    chunks: Vec<Vec<u8>>,
    slots: Vec<Slot>,
    held_bytes: usize,
    runs: Runs,
    spilled_bytes: u64,
}

/// Where a record stands in memory.
#[derive(Clone, Copy, Debug)]
struct Slot {
    chunk: u32,
    start: u32,
}

/// Sorted runs in one file.
#[derive(Debug, Default)]
struct Runs {
    file: Option<Scratch>,
    /// Start and end of each.
    ranges: Vec<(u64, u64)>,
}

impl Runs {
    fn file(&mut self) -> Result<&mut Scratch, Failure> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(Scratch::new()?)),
        }
    }

    fn length_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, Scratch::length_bytes)
    }
}

impl Sorter {
    /// One that holds this much.
    pub(super) fn new(memory_max_bytes: usize) -> Self {
        Self {
            memory_max_bytes,
            chunks: Vec::new(),
            slots: Vec::new(),
            held_bytes: 0,
            runs: Runs::default(),
            spilled_bytes: 0,
        }
    }

    /// Takes a record.
    pub(super) fn push(&mut self, key: &[u8], body: &[u8]) -> Result<(), Failure> {
        let [key_length, body_length] = lengths(key, body)?;
        let needed = HEAD_BYTES + key.len() + body.len();
        let chunk_bytes = needed.max(CHUNK_BYTES.min(self.memory_max_bytes / 4));
        let more = |chunks: &[Vec<u8>]| match chunks.last() {
            Some(chunk) if chunk.capacity() - chunk.len() >= needed => SLOT_BYTES,
            Some(_) | None => SLOT_BYTES + chunk_bytes,
        };
        if self.held_bytes + more(&self.chunks) > self.memory_max_bytes {
            self.spill()?;
        }
        let more = more(&self.chunks);
        if more > SLOT_BYTES {
            self.chunks.push(Vec::with_capacity(chunk_bytes));
        }
        self.held_bytes += more;
        let at = self.chunks.len().saturating_sub(1);
        let Some(chunk) = self.chunks.last_mut() else { return Ok(()) };
        let start = u32::try_from(chunk.len()).map_err(|_| too_large())?;
        self.slots.push(Slot { chunk: u32::try_from(at).map_err(|_| too_large())?, start });
        chunk.extend_from_slice(&key_length.to_le_bytes());
        chunk.extend_from_slice(&body_length.to_le_bytes());
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(body);
        Ok(())
    }

    fn sort(&mut self) {
        let chunks = &self.chunks;
        self.slots.sort_unstable_by(|one, other| key(chunks, *one).cmp(key(chunks, *other)));
    }

    fn spill(&mut self) -> Result<(), Failure> {
        if self.slots.is_empty() {
            return Ok(());
        }
        self.sort();
        let file = self.runs.file()?;
        let start = file.length_bytes();
        for slot in &self.slots {
            file.write(record(&self.chunks, *slot))?;
        }
        let end = file.length_bytes();
        self.runs.ranges.push((start, end));
        self.spilled_bytes += end - start;
        self.slots = Vec::new();
        self.chunks.clear();
        self.held_bytes = 0;
        Ok(())
    }

    /// Ends the taking.
    pub(super) fn sorted(mut self) -> Result<Sorted, Failure> {
        if self.runs.ranges.is_empty() {
            self.sort();
            return Ok(Sorted(Form::Held { chunks: self.chunks, slots: self.slots, next: 0 }, 0));
        }
        self.spill()?;
        let most = (self.memory_max_bytes / 2 / RUN_BUFFER_BYTES).clamp(2, RUNS_MAX);
        let mut spilled = self.spilled_bytes;
        let mut runs = self.runs;
        while runs.ranges.len() > most {
            let (file, ranges) = (std::mem::take(&mut runs.file), std::mem::take(&mut runs.ranges));
            let Some(file) = file else { break };
            let written = file.written()?;
            for group in ranges.chunks(most) {
                let mut merge = Merge::of(&written, group)?;
                let start = runs.length_bytes();
                let mut one = Record::default();
                while merge.next(&mut one)? {
                    let [key_length, body_length] = lengths(&one.key, &one.body)?;
                    let file = runs.file()?;
                    file.write(&key_length.to_le_bytes())?;
                    file.write(&body_length.to_le_bytes())?;
                    file.write(&one.key)?;
                    file.write(&one.body)?;
                }
                let end = runs.length_bytes();
                runs.ranges.push((start, end));
                spilled += end - start;
            }
        }
        let Some(file) = runs.file else { return Ok(Sorted(Form::empty(), spilled)) };
        Ok(Sorted(Form::Merged(Merge::of(&file.written()?, &runs.ranges)?), spilled))
    }
}

/// Records in the order of their keys; and how many octets were written to temporary files for it.
#[derive(Debug)]
pub(super) struct Sorted(Form, u64);

#[derive(Debug)]
enum Form {
    Held { chunks: Vec<Vec<u8>>, slots: Vec<Slot>, next: usize },
    Merged(Merge),
}

impl Form {
    const fn empty() -> Self {
        Self::Held { chunks: Vec::new(), slots: Vec::new(), next: 0 }
    }
}

impl Sorted {
    /// Octets that were written to temporary files.
    pub(super) const fn spilled_bytes(&self) -> u64 {
        self.1
    }

    /// Puts the next record into `into`; false at the end.
    pub(super) fn next(&mut self, into: &mut Record) -> Result<bool, Failure> {
        let (chunks, slots, next) = match &mut self.0 {
            Form::Merged(merge) => return merge.next(into),
            Form::Held { chunks, slots, next } => (chunks, slots, next),
        };
        let Some(slot) = slots.get(*next) else { return Ok(false) };
        *next += 1;
        let key = key(chunks, *slot);
        into.key.clear();
        into.key.extend_from_slice(key);
        into.body.clear();
        let whole = record(chunks, *slot);
        into.body.extend_from_slice(whole.get(HEAD_BYTES + key.len()..).unwrap_or_default());
        Ok(true)
    }
}

/// Several runs, read as one.
#[derive(Debug)]
struct Merge {
    readers: Vec<BufReader<Section>>,
    /// The next record of each run, the smallest key first; of equal ones that of the first run.
    heads: BinaryHeap<Reverse<Head>>,
}

/// The key of a record, whose body is still in the file.
#[derive(Debug, Eq, PartialEq)]
struct Head {
    key: Vec<u8>,
    run: usize,
    body_bytes: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Merge {
    fn of(written: &Written, ranges: &[(u64, u64)]) -> Result<Self, Failure> {
        let reader = |(start, end): &(u64, u64)| {
            BufReader::with_capacity(RUN_BUFFER_BYTES, written.section(*start, *end))
        };
        let readers = ranges.iter().map(reader).collect();
        let mut merge = Self { readers, heads: BinaryHeap::with_capacity(ranges.len()) };
        for run in 0..ranges.len() {
            merge.advance(run, Vec::new())?;
        }
        Ok(merge)
    }

    /// Reads the key of the next record of a run.
    fn advance(&mut self, run: usize, mut key: Vec<u8>) -> Result<(), Failure> {
        let Some(reader) = self.readers.get_mut(run) else { return Ok(()) };
        let mut head = [0; HEAD_BYTES];
        match reader.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed(&error)),
        }
        let [key_bytes, body_bytes] = lengths_of(&head);
        key.resize(key_bytes, 0);
        reader.read_exact(&mut key).map_err(|error| failed(&error))?;
        self.heads.push(Reverse(Head { key, run, body_bytes }));
        Ok(())
    }

    fn next(&mut self, into: &mut Record) -> Result<bool, Failure> {
        let Some(Reverse(head)) = self.heads.pop() else { return Ok(false) };
        let Some(reader) = self.readers.get_mut(head.run) else { return Ok(false) };
        // What one large record took is given back.
        into.body.clear();
        into.body.shrink_to(head.body_bytes.max(BODY_KEPT_BYTES));
        into.body.resize(head.body_bytes, 0);
        reader.read_exact(&mut into.body).map_err(|error| failed(&error))?;
        let old = std::mem::replace(&mut into.key, head.key);
        self.advance(head.run, old)?;
        Ok(true)
    }
}

fn record(chunks: &[Vec<u8>], slot: Slot) -> &[u8] {
    let chunk = chunks.get(slot.chunk as usize).map(Vec::as_slice).unwrap_or_default();
    let rest = chunk.get(slot.start as usize..).unwrap_or_default();
    let head = rest.first_chunk::<HEAD_BYTES>().copied().unwrap_or_default();
    let [key_bytes, body_bytes] = lengths_of(&head);
    rest.get(..HEAD_BYTES + key_bytes + body_bytes).unwrap_or_default()
}

fn key(chunks: &[Vec<u8>], slot: Slot) -> &[u8] {
    let whole = record(chunks, slot);
    let head = whole.first_chunk::<HEAD_BYTES>().copied().unwrap_or_default();
    let [key_bytes, _] = lengths_of(&head);
    whole.get(HEAD_BYTES..HEAD_BYTES + key_bytes).unwrap_or_default()
}

/// The lengths of key and body, as a record begins with them.
fn lengths_of(head: &[u8; HEAD_BYTES]) -> [usize; 2] {
    let [a, b, c, d, e, f, g, h] = *head;
    [u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize]
}

fn lengths(key: &[u8], body: &[u8]) -> Result<[u32; 2], Failure> {
    let length = |octets: &[u8]| {
        u32::try_from(octets.len()).ok().filter(|length| *length <= RECORD_MAX_BYTES)
    };
    match (length(key), length(body)) {
        (Some(key), Some(body)) => Ok([key, body]),
        _ => Err(too_large()),
    }
}

fn too_large() -> Failure {
    Failure::local(format!("an entry is larger than {} MiB", RECORD_MAX_BYTES >> 20))
}

/// Octets before the key: its length, and that of the body.
const HEAD_BYTES: usize = 8;
/// What the place of a record takes, while the list of them grows.
const SLOT_BYTES: usize = 2 * size_of::<Slot>();
/// Records stand together in memory in pieces of this size, unless one alone is larger.
const CHUNK_BYTES: usize = 4 << 20;
/// The largest record: twice what a record of LDIF may take.
const RECORD_MAX_BYTES: u32 = 2 << 30;
/// What is read of a run at a time.
const RUN_BUFFER_BYTES: usize = 64 << 10;
/// Runs that are merged at once.
const RUNS_MAX: usize = 1024;
/// What a buffer for one record keeps.
const BODY_KEPT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(memory_max_bytes: usize, count: u32, is_spilled: bool) {
        let mut sorter = Sorter::new(memory_max_bytes);
        // A permutation: the multiplier and the count have no divisor in common.
        for number in 0..count {
            let mixed = (u64::from(number) * 7_919 % u64::from(count)).to_string();
            let key = format!("{mixed:0>12}");
            sorter.push(key.as_bytes(), &vec![b'x'; number as usize % 700]).unwrap();
            assert!(sorter.held_bytes <= memory_max_bytes, "{}", sorter.held_bytes);
        }
        let mut sorted = sorter.sorted().unwrap();
        assert_eq!(sorted.spilled_bytes() > 0, is_spilled);
        let mut one = Record::default();
        for number in 0..count {
            assert!(sorted.next(&mut one).unwrap());
            assert_eq!(one.key, format!("{number:0>12}").as_bytes());
        }
        assert!(!sorted.next(&mut one).unwrap());
    }

    #[test]
    fn records_are_sorted_in_memory_and_out_of_it() {
        check(64 << 20, 10_000, false);
        check(1 << 20, 30_000, true);
        // Many runs, merged in several passes: two at a time.
        check(64 << 10, 5_000, true);
        check(1 << 20, 0, false);
    }

    #[test]
    fn a_record_may_be_larger_than_the_memory() {
        let mut sorter = Sorter::new(64 << 10);
        sorter.push(b"b", &vec![1; 1 << 20]).unwrap();
        sorter.push(b"c", b"").unwrap();
        sorter.push(b"a", &vec![2; 1 << 20]).unwrap();
        let mut sorted = sorter.sorted().unwrap();
        let mut one = Record::default();
        let mut seen = Vec::new();
        while sorted.next(&mut one).unwrap() {
            seen.push((one.key.clone(), one.body.len(), one.body.first().copied()));
        }
        let want = [(b"a".to_vec(), 1 << 20, Some(2)), (b"b".to_vec(), 1 << 20, Some(1))];
        assert_eq!(seen.split_last().unwrap().1, want);
        assert_eq!(seen.last().unwrap(), &(b"c".to_vec(), 0, None));
    }
}
