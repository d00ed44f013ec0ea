//! Sorted runs: the keys of some entries, in order, with the ids that have them.
//!
//! A run is a row of blocks. In a block each key is what it does not share with the one before it,
//! then its list follows, see `steps.rs`. The first key of each block is kept in memory, so that a
//! reader can begin anywhere.
//!
//! Invariant: keys ascend, each once; a key is the number of its index in two octets, and the
//! value.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::Budget;
use super::spill::{SpillFile, Workplace};
use super::steps::each_span;
use crate::error::StoreError;
use crate::index::posting::Span;
use crate::rows::varint;

/// Which ids of a run are not as they were pushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ids {
    /// They are.
    AsTheyAre,
    /// Of entries of the load: some were refused, some take the places of others.
    OfTheLoad,
    /// Of entries that the store held: some were replaced.
    OfTheStore,
}

/// A run that is written.
#[derive(Debug)]
pub(super) struct Run {
    octets: RunOctets,
    blocks: Vec<Block>,
    length: u64,
    pub(super) ids: Ids,
}

#[derive(Debug)]
enum RunOctets {
    Memory(Vec<u8>),
    File(SpillFile, u64),
}

#[derive(Debug)]
struct Block {
    start: u64,
    first: Box<[u8]>,
}

/// Writes a run into memory.
#[derive(Debug)]
pub(super) struct RunWriter {
    octets: Vec<u8>,
    blocks: Vec<Block>,
    block_start: usize,
    last: Vec<u8>,
    /// A block ends when it has so many octets.
    block_bytes: usize,
}

impl RunWriter {
    pub(super) fn new(block_bytes: usize) -> Self {
        let (octets, blocks, last) = (Vec::new(), Vec::new(), Vec::new());
        Self { octets, blocks, block_start: 0, last, block_bytes }
    }

    /// Appends a key, which comes after all others, and its list.
    #[inline]
    pub(super) fn push(&mut self, index: u16, value: &[u8], list: &[u8]) {
        let [a, b] = index.to_be_bytes();
        let is_new =
            self.blocks.is_empty() || self.octets.len() - self.block_start >= self.block_bytes;
        let shared = if is_new {
            self.block_start = self.octets.len();
            let first: Vec<u8> = [a, b].into_iter().chain(value.iter().copied()).collect();
            self.blocks.push(Block { start: self.block_start as u64, first: first.into() });
            0
        } else {
            match self.last.split_first_chunk() {
                Some(([c, d], last)) if [a, b] == [*c, *d] => 2 + common(last, value),
                _ => 0,
            }
        };
        self.last.truncate(shared);
        if shared == 0 {
            self.last.extend_from_slice(&[a, b]);
        }
        let rest = value.get(self.last.len() - 2..).unwrap_or_default();
        self.last.extend_from_slice(rest);
        let own = self.last.get(shared..).unwrap_or_default();
        varint::write(shared as u64, &mut self.octets);
        varint::write(own.len() as u64, &mut self.octets);
        self.octets.extend_from_slice(own);
        varint::write(list.len() as u64, &mut self.octets);
        self.octets.extend_from_slice(list);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    pub(super) fn finish(self, ids: Ids) -> Run {
        let length = self.octets.len() as u64;
        Run { octets: RunOctets::Memory(self.octets), blocks: self.blocks, length, ids }
    }
}

#[inline]
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

impl Run {
    /// How many octets it has.
    pub(super) const fn len(&self) -> u64 {
        self.length
    }

    /// The memory that it takes.
    const fn kept_bytes(&self) -> u64 {
        match &self.octets {
            RunOctets::Memory(octets) => octets.capacity() as u64,
            RunOctets::File(..) => 0,
        }
    }

    /// What a reader has of it in memory at a time, about.
    pub(super) fn block_bytes(&self) -> u64 {
        self.length / self.blocks.len().max(1) as u64
    }

    /// Where ranges of about so many octets may begin.
    pub(super) fn first_keys(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let ends = self.blocks.iter().skip(1).map(|block| block.start).chain([self.length]);
        self.blocks.iter().zip(ends).map(|(block, end)| (&*block.first, end - block.start))
    }
}

/// The runs of a load, of all threads.
#[derive(Debug)]
pub(super) struct Runs {
    place: Arc<Workplace>,
    budget: Arc<Budget>,
    of: RunsOf,
    kept_bytes: AtomicU64,
    /// Has what was kept until there was less memory.
    given_up: Mutex<Option<SpillFile>>,
    runs: Mutex<Vec<Run>>,
}

/// What runs are of.
#[derive(Clone, Copy, Debug)]
pub(super) enum RunsOf {
    Indexes,
    Names,
}

impl Runs {
    pub(super) fn new(place: &Arc<Workplace>, budget: &Arc<Budget>, of: RunsOf) -> Self {
        let (place, budget) = (Arc::clone(place), Arc::clone(budget));
        let (kept_bytes, given_up, runs) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        Self { place, budget, of, kept_bytes, given_up, runs }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Runs may take so much memory, in bytes; all others are spilled.
    fn max_bytes(&self) -> u64 {
        match self.of {
            RunsOf::Indexes => self.budget.runs_bytes(),
            RunsOf::Names => self.budget.runs_bytes() / NAME_RUNS_PART,
        }
    }

    /// Spills what there is no longer memory for.
    pub(super) fn fit(&self) -> Result<(), StoreError> {
        let max_bytes = self.max_bytes();
        if self.kept_bytes.load(Ordering::Relaxed) <= max_bytes {
            return Ok(());
        }
        let mut file = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        for run in self.runs.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if self.kept_bytes.load(Ordering::Relaxed) <= max_bytes {
                break;
            }
            let kept = run.kept_bytes();
            self.spill(run, &mut file)?;
            self.kept_bytes.fetch_sub(kept, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes a run to the end of `file`, unless it is in a file already.
    fn spill(&self, run: &mut Run, file: &mut Option<SpillFile>) -> Result<(), StoreError> {
        let RunOctets::Memory(octets) = &run.octets else { return Ok(()) };
        let file = match file {
            Some(file) => file,
            None => file.insert(SpillFile::create(&self.place)?),
        };
        let start = file.append(octets)?;
        run.octets = RunOctets::File(file.clone(), start);
        Ok(())
    }

    /// Takes a run, and writes it to the end of `file` where memory is short.
    pub(super) fn add(&self, mut run: Run, file: &mut Option<SpillFile>) -> Result<(), StoreError> {
        let kept = run.kept_bytes();
        let before = self.kept_bytes.fetch_add(kept, Ordering::Relaxed);
        if before + kept > self.max_bytes() {
            self.kept_bytes.fetch_sub(kept, Ordering::Relaxed);
            self.spill(&mut run, file)?;
        }
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
        Ok(())
    }

    /// All runs.
    pub(super) fn take(&self) -> Vec<Run> {
        std::mem::take(&mut self.runs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs of names may take this part of what runs of indexes may.
const NAME_RUNS_PART: u64 = 8;

/// Reads the keys of a run that are in a range.
#[derive(Debug)]
pub(super) struct RunReader<'r> {
    run: &'r Run,
    /// The block to be read next.
    next_block: usize,
    /// Of a run in a file: the block that is read.
    buffer: Vec<u8>,
    /// Where the rest of the block is, in the buffer or in the run's memory.
    at: usize,
    end: usize,
    key: Vec<u8>,
    list: std::ops::Range<usize>,
}

impl<'r> RunReader<'r> {
    /// Begins before the first key that is not below `from`.
    pub(super) fn new(run: &'r Run, from: &[u8]) -> Self {
        let after = run.blocks.partition_point(|block| *block.first <= *from);
        let next_block = after.saturating_sub(1);
        let (key, buffer) = (Vec::new(), Vec::new());
        Self { run, next_block, buffer, at: 0, end: 0, key, list: 0..0 }
    }

    pub(super) const fn ids(&self) -> Ids {
        self.run.ids
    }

    /// Goes to the next key; false when there is none.
    pub(super) fn advance(&mut self) -> Result<bool, StoreError> {
        if self.at == self.end && !self.next_block()? {
            return Ok(false);
        }
        let read = self.read();
        read.ok_or_else(|| StoreError::Lmdb("a run of the load is damaged".to_owned()))?;
        Ok(true)
    }

    fn next_block(&mut self) -> Result<bool, StoreError> {
        let Some(block) = self.run.blocks.get(self.next_block) else { return Ok(false) };
        let end = self.run.blocks.get(self.next_block + 1);
        let end = end.map_or(self.run.length, |next| next.start);
        self.next_block += 1;
        match &self.run.octets {
            RunOctets::Memory(_) => (self.at, self.end) = (block.start as usize, end as usize),
            RunOctets::File(file, start) => {
                let length = (end - block.start) as usize;
                file.read(start + block.start, length, &mut self.buffer)?;
                (self.at, self.end) = (0, length);
            }
        }
        Ok(true)
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        match &self.run.octets {
            RunOctets::Memory(octets) => octets,
            RunOctets::File(..) => &self.buffer,
        }
    }

    #[inline]
    fn read(&mut self) -> Option<()> {
        let octets = match &self.run.octets {
            RunOctets::Memory(octets) => octets.as_slice(),
            RunOctets::File(..) => self.buffer.as_slice(),
        };
        let mut rest = octets.get(self.at..self.end)?;
        let shared = varint::read(&mut rest)? as usize;
        let own = varint::read(&mut rest)? as usize;
        let (own, after) = rest.split_at_checked(own)?;
        rest = after;
        self.key.truncate(shared);
        self.key.extend_from_slice(own);
        let list = varint::read(&mut rest)? as usize;
        let start = self.end - rest.len();
        self.list = start..start.checked_add(list).filter(|end| *end <= self.end)?;
        self.at = self.list.end;
        Some(())
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The ids that have the key.
    #[inline]
    pub(super) fn each_span(&self, visit: impl FnMut(Span)) -> Result<(), StoreError> {
        let list = self.octets().get(self.list.clone()).unwrap_or_default();
        if each_span(list, visit) {
            Ok(())
        } else {
            Err(StoreError::Lmdb("a run of the load is damaged".to_owned()))
        }
    }
}
