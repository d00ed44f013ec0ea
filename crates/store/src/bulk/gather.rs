//! What a thread gathers until it is a sorted run.
//!
//! Grams, of which an entry has about a hundred, are numbers in a long row for each index. Other
//! keys lie one after the other by their indexes, but for those that came often of late: these have
//! lists that grow.
//!
//! Invariant: what is pushed is in one run, or in the next; a run takes no more memory than it was
//! given, and about as much again while it is sorted.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::run::{Ids, RunWriter, Runs};
use super::sort::{GramOf, RUN_IDS_MAX, ValueOf, sort_grams, sort_values};
use super::spill::SpillFile;
use super::steps::{StepWriter, Steps, each_span, unite};
use crate::error::StoreError;
use crate::index::{BRANCH_LISTS, GRAM_BYTES, LEVEL_LISTS};
use crate::rows::dictionary::Dictionary;

/// Gathers keys and makes runs of them.
#[derive(Debug)]
pub(super) struct Gatherer {
    runs: Arc<Runs>,
    file: Option<SpillFile>,
    ids: Ids,
    /// By index id.
    slots: Vec<Slot>,
    grams: Vec<Grams>,
    /// To sort in; as long as the longest row.
    scratch: Vec<GramOf>,
    values: Vec<Values>,
    /// The first id of this run.
    base: u64,
    is_begun: bool,
    bytes: usize,
    /// Of a part of the budget it has one of so many shares.
    share: usize,
    /// How large that was when the last run was made.
    memory_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    None,
    Grams(u32),
    Values(u32),
}

/// The grams of one index.
#[derive(Debug)]
struct Grams {
    index: u16,
    items: Vec<GramOf>,
}

/// The other keys of one index.
#[derive(Debug)]
struct Values {
    index: u16,
    items: Vec<ValueOf>,
    octets: Vec<u8>,
    popular: Popular,
}

/// Lists of keys that come often.
#[derive(Debug, Default)]
struct Popular {
    lists: FxHashMap<Box<[u8]>, Steps>,
    asked: u32,
    found: u32,
    is_off: bool,
}

impl Gatherer {
    /// For the indexes of a dictionary, whose keys come with ids that ascend.
    pub(super) fn of_indexes(dictionary: &Dictionary, runs: &Arc<Runs>) -> Self {
        let mut made = Self::new(runs, Ids::OfTheLoad, 1);
        for index in dictionary.indexes().iter().filter(|index| index.state.is_written()) {
            if index.is_of_grams() && !index.is_of_entries() {
                made.put_slot(index.id, Slot::Grams(made.grams.len() as u32));
                made.grams.push(Grams { index: index.id, items: Vec::new() });
            } else {
                made.put_values(index.id);
            }
        }
        made
    }

    /// For the lists of the tree.
    pub(super) fn of_tree(runs: &Arc<Runs>) -> Self {
        let mut made = Self::new(runs, Ids::AsTheyAre, TREE_SHARE);
        made.put_values(LEVEL_LISTS);
        made.put_values(BRANCH_LISTS);
        made
    }

    /// For names: all have the number 0.
    pub(super) fn of_names(runs: &Arc<Runs>) -> Self {
        let mut made = Self::new(runs, Ids::AsTheyAre, NAMES_SHARE);
        made.put_values(0);
        for values in &mut made.values {
            values.popular.is_off = true;
        }
        made
    }

    fn new(runs: &Arc<Runs>, ids: Ids, share: usize) -> Self {
        let memory_bytes = runs.budget().part_bytes() / share;
        Self {
            runs: Arc::clone(runs),
            file: None,
            ids,
            slots: Vec::new(),
            grams: Vec::new(),
            scratch: Vec::new(),
            values: Vec::new(),
            base: 0,
            is_begun: false,
            bytes: 0,
            share,
            memory_bytes,
        }
    }

    fn put_slot(&mut self, index: u16, slot: Slot) {
        let place = usize::from(index);
        if self.slots.len() <= place {
            self.slots.resize(place + 1, Slot::None);
        }
        if let Some(place) = self.slots.get_mut(place) {
            *place = slot;
        }
    }

    fn put_values(&mut self, index: u16) {
        self.put_slot(index, Slot::Values(self.values.len() as u32));
        let (items, octets) = (Vec::new(), Vec::new());
        self.values.push(Values { index, items, octets, popular: Popular::default() });
    }

    /// One more key of an entry. Those of the indexes come with ids that ascend.
    #[inline]
    pub(super) fn push(&mut self, index: u16, key: &[u8], id: u64) {
        match self.slots.get(usize::from(index)) {
            Some(Slot::Grams(number)) => {
                let gram: [u8; GRAM_BYTES] =
                    key.try_into().expect("an index of grams cuts values into grams");
                if !self.is_begun {
                    (self.base, self.is_begun) = (id, true);
                }
                let grams = self.grams.get_mut(*number as usize);
                let grams = grams.expect("a slot leads to its grams");
                grams.items.push(GramOf::new(gram, id - self.base));
                self.bytes += size_of::<GramOf>();
            }
            Some(Slot::Values(number)) => {
                let values = self.values.get_mut(*number as usize);
                self.bytes += values.expect("a slot leads to its values").push(key, id);
            }
            Some(Slot::None) | None => {
                unreachable!("keys are made for the indexes of this dictionary")
            }
        }
    }

    /// To be called between entries, and before the next one, whose id this is, is pushed: makes a
    /// run when there is no more room.
    #[inline]
    pub(super) fn make_room(&mut self, id: u64) -> Result<(), StoreError> {
        let is_far = self.is_begun && id - self.base >= RUN_IDS_MAX;
        if self.bytes >= self.memory_bytes || is_far { self.seal() } else { Ok(()) }
    }

    /// Makes a run of what was gathered.
    pub(super) fn seal(&mut self) -> Result<(), StoreError> {
        let mut writer = RunWriter::new(self.runs.budget().block_bytes());
        for slot in &self.slots {
            match slot {
                Slot::None => {}
                Slot::Grams(number) => {
                    if let Some(grams) = self.grams.get_mut(*number as usize) {
                        grams.write(self.base, &mut self.scratch, &mut writer);
                    }
                }
                Slot::Values(number) => {
                    if let Some(values) = self.values.get_mut(*number as usize) {
                        values.write(&mut writer);
                    }
                }
            }
        }
        (self.bytes, self.is_begun) = (0, false);
        self.shrink();
        if writer.is_empty() {
            return Ok(());
        }
        self.runs.add(writer.finish(self.ids), &mut self.file)
    }
}

impl Gatherer {
    /// Names have grown: gives up what is not this thread's any more. It is empty.
    fn shrink(&mut self) {
        let memory_bytes = self.runs.budget().part_bytes() / self.share;
        if memory_bytes < self.memory_bytes {
            self.memory_bytes = memory_bytes;
            self.scratch = Vec::new();
            self.grams.iter_mut().for_each(|grams| grams.items = Vec::new());
            for values in &mut self.values {
                (values.items, values.octets) = (Vec::new(), Vec::new());
            }
        }
    }
}

impl Grams {
    /// Writes the grams in order and forgets them.
    fn write(&mut self, base: u64, scratch: &mut Vec<GramOf>, writer: &mut RunWriter) {
        sort_grams(&mut self.items, scratch);
        let mut list = Vec::new();
        for same in self.items.chunk_by(|one, next| one.gram() == next.gram()) {
            let Some(gram) = same.first() else { continue };
            list.clear();
            let mut steps = StepWriter::default();
            same.iter().for_each(|gram| steps.push(base + gram.id(), &mut list));
            steps.close(&mut list);
            writer.push(self.index, &gram.gram(), &list);
        }
        self.items.clear();
    }
}

impl Values {
    /// Returns the memory that it takes.
    #[inline]
    fn push(&mut self, key: &[u8], id: u64) -> usize {
        if !self.popular.is_off
            && let Some(bytes) = self.popular.push(key, id)
        {
            return bytes;
        }
        let start = u32::try_from(self.octets.len()).expect("a run is below 4 GiB");
        self.octets.extend_from_slice(key);
        self.items.push(ValueOf::new(start, key.len() as u32, id));
        key.len() + size_of::<ValueOf>()
    }

    /// Writes the keys in order and forgets them.
    fn write(&mut self, writer: &mut RunWriter) {
        sort_values(&mut self.items, &self.octets);
        let mut popular = self.popular.take();
        popular.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut popular = popular.into_iter().peekable();
        let octets = &self.octets;
        let mut list = Vec::new();
        for same in self.items.chunk_by(|one, next| one.key(octets) == next.key(octets)) {
            let Some(first) = same.first() else { continue };
            let key = first.key(octets);
            while let Some((before, steps)) = popular.next_if(|(other, _)| **other < *key) {
                writer.push(self.index, &before, &steps.finish());
            }
            list.clear();
            let mut steps = StepWriter::default();
            if let Some((_, other)) = popular.next_if(|(other, _)| **other == *key) {
                // Some came when it was not popular yet, or out of order.
                let mut spans = Vec::new();
                each_span(&other.finish(), |span| spans.push(span));
                spans.extend(same.iter().map(|value| value.span()));
                unite(&mut spans);
                spans.iter().for_each(|span| steps.push_span(*span, &mut list));
            } else {
                same.iter().for_each(|value| steps.push(value.id, &mut list));
            }
            steps.close(&mut list);
            writer.push(self.index, key, &list);
        }
        for (key, steps) in popular {
            writer.push(self.index, &key, &steps.finish());
        }
        self.items.clear();
        self.octets.clear();
    }
}

impl Popular {
    /// Puts the id into the list of a key, if it has one or gets one; returns the memory it takes.
    #[inline]
    fn push(&mut self, key: &[u8], id: u64) -> Option<usize> {
        self.asked += 1;
        if let Some(steps) = self.lists.get_mut(key) {
            self.found += 1;
            let before = steps.bytes();
            return steps.push(id).then(|| steps.bytes() - before);
        }
        if self.lists.len() < POPULAR_KEYS_MAX {
            let mut steps = Steps::default();
            steps.push(id);
            self.lists.insert(key.into(), steps);
            return Some(key.len() + POPULAR_BYTES);
        }
        // Where most are new, looking for them is in vain.
        if self.asked >= POPULAR_SAMPLE && self.found < self.asked / 2 {
            self.is_off = true;
        }
        None
    }

    fn take(&mut self) -> Vec<(Box<[u8]>, Steps)> {
        (self.asked, self.found) = (0, 0);
        self.lists.drain().collect()
    }
}

/// The lists of the tree take little.
const TREE_SHARE: usize = 4;
const NAMES_SHARE: usize = 2;
/// So many keys of an index have lists that grow.
const POPULAR_KEYS_MAX: usize = 1024;
/// After so many keys it is known whether looking for them is worth it.
const POPULAR_SAMPLE: u32 = 8192;
/// About what a list takes beside its key and its octets.
const POPULAR_BYTES: usize = 100;
