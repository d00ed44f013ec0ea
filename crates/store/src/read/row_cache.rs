//! Rows of the base that were found lately: found again with one cache line, not with two trees.
//!
//! A slot holds what one key of `names` or `postings` leads to: a single entry, or none at all; and
//! where the record of that entry lies, once it was read. A reader owns its slots, and hands them
//! from view to view.
//!
//! Invariants: a slot holds its whole key, and the commit of the base it is true of: no answer
//! hangs on a hash, and when the base moves on nothing has to be cleared. Slots know nothing of
//! what lies over the base.

use crate::base::lmdb::{Commit, Place};

/// The most memory that the slots of one reader take; they follow the number of entries up to here.
pub(crate) const REMEMBERED_BYTES_MAX: usize = 32 << 20;

/// So many slots there are for an entry: its name, and what it is searched for by.
const SLOTS_PER_ENTRY: u64 = 2;

/// The longest name or value that is remembered.
const OCTETS_MAX: usize = 32;
const WORDS: usize = OCTETS_MAX / size_of::<u64>();

/// Ids beyond this are not remembered: the other bits of their word say which kind of row it is,
/// and how long its key.
const ID_BITS: u32 = 48;

/// The key of a row, whole, as it is compared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct SlotKey {
    /// The kind of row, and how many octets there are.
    form: u16,
    /// The superior's id, or the number of the index.
    of: u64,
    octets: [u64; WORDS],
}

impl SlotKey {
    /// Of a name; none when it is too long.
    #[inline]
    pub(crate) fn name(parent: u64, rdn_key: &[u8]) -> Option<Self> {
        Self::new(NAME, parent, rdn_key)
    }

    /// Of a posting list; none when its value is too long.
    #[inline]
    pub(crate) fn list(index: u16, value: &[u8]) -> Option<Self> {
        Self::new(LIST, u64::from(index), value)
    }

    #[inline]
    fn new(kind: u16, of: u64, octets: &[u8]) -> Option<Self> {
        let mut padded = [0; OCTETS_MAX];
        padded.get_mut(..octets.len())?.copy_from_slice(octets);
        let (words, _) = padded.as_chunks();
        let mut key = Self { form: kind | octets.len() as u16, of, octets: [0; WORDS] };
        for (word, octets) in key.octets.iter_mut().zip(words) {
            *word = u64::from_ne_bytes(*octets);
        }
        Some(key)
    }

    #[inline]
    fn hash(&self) -> usize {
        // Keys often differ in the last octets of a word alone: a product has them in all its bits.
        let fold = |state: u64, word: u64| {
            let product = u128::from(state ^ word) * u128::from(HASH_FACTOR);
            (product >> u64::BITS) as u64 ^ product as u64
        };
        let first = fold(self.of, u64::from(self.form) << ID_BITS);
        self.octets.iter().fold(first, |state, word| fold(state, *word)) as usize
    }
}

/// An odd number with as many ones as zeros (2^64 by the golden ratio).
const HASH_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

const NAME: u16 = 1 << 8;
const LIST: u16 = 2 << 8;

/// One cache line. All zero: nothing, as there is no such commit.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Slot {
    /// Where the record of the entry lies, if that is known, and of which commit all is true.
    place: Place,
    /// The entry, 0 for none, and the form of the key.
    id_and_form: u64,
    of: u64,
    octets: [u64; WORDS],
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    #[inline]
    fn is(&self, commit: Commit, key: &SlotKey) -> bool {
        self.place.is_of(commit)
            && self.id_and_form as u16 == key.form
            && self.of == key.of
            && self.octets == key.octets
    }

    #[inline]
    const fn id(&self) -> u64 {
        self.id_and_form >> u16::BITS
    }
}

/// What a reader remembers of the rows of the base.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    /// Two by two; a key has its place in one pair. None before the first row is put in.
    slots: Box<[[Slot; 2]]>,
    /// How many pairs there are to be.
    pairs: usize,
    /// The entry that a row led to last, and the pair that says so: its record is read next.
    last: Option<Last>,
    /// How often something was found.
    #[cfg(test)]
    pub(crate) hits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    id: u64,
    pair: usize,
    place: Place,
}

impl Remembered {
    /// Makes itself ready for a base of so many entries.
    pub(crate) fn fit(&mut self, entries: u64) {
        let pairs_max = REMEMBERED_BYTES_MAX / size_of::<[Slot; 2]>();
        let pairs = (entries * SLOTS_PER_ENTRY / 2).clamp(PAIRS_MIN, pairs_max as u64);
        self.pairs = (pairs as usize).next_power_of_two();
        if !self.slots.is_empty() && self.slots.len() < self.pairs {
            self.slots = Box::default();
        }
    }

    /// What a row leads to, if that is known: an entry, or nothing.
    #[inline]
    pub(crate) fn find(&mut self, commit: Commit, key: &SlotKey) -> Option<Found> {
        let pair = self.pair_of(key);
        let slot = self.slots.get(pair)?.iter().find(|slot| slot.is(commit, key))?;
        let (id, place) = (slot.id(), slot.place);
        #[cfg(test)]
        {
            self.hits += 1;
        }
        self.last = Some(Last { id, pair, place });
        Some(Found { id: (id != 0).then_some(id), place })
    }

    /// Notes what a row of this commit leads to, in the place of the older one of two.
    pub(crate) fn put(&mut self, commit: Commit, key: &SlotKey, id: Option<u64>) {
        let id = id.unwrap_or(0);
        if id >> ID_BITS != 0 {
            return;
        }
        if self.slots.is_empty() {
            self.slots = empty_slots(self.pairs);
        }
        let pair = self.pair_of(key);
        let Some([newer, older]) = self.slots.get_mut(pair) else { return };
        *older = *newer;
        let id_and_form = (id << u16::BITS) | u64::from(key.form);
        let place = Place::unknown(commit);
        *newer = Slot { place, id_and_form, of: key.of, octets: key.octets };
        self.last = Some(Last { id, pair, place });
    }

    /// Where the record of an entry lies, if that is the one a row led to last.
    #[inline]
    pub(crate) fn place(&self, id: u64) -> Option<Place> {
        self.last.filter(|last| last.id == id).map(|last| last.place)
    }

    /// Notes where the record of an entry lies, if that is the one a row led to last.
    pub(crate) fn put_place(&mut self, id: u64, place: Place) {
        let Some(last) = self.last.as_mut().filter(|last| last.id == id) else { return };
        last.place = place;
        // Whatever their keys: slots of one commit that lead to one entry have one record.
        for slot in self.slots.get_mut(last.pair).into_iter().flatten() {
            if slot.id() == id && slot.place.is_beside(place) {
                slot.place = place;
            }
        }
    }

    #[inline]
    fn pair_of(&self, key: &SlotKey) -> usize {
        key.hash() & self.slots.len().wrapping_sub(1)
    }
}

/// What a row leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The entry; none when there is no row.
    pub(crate) id: Option<u64>,
    pub(crate) place: Place,
}

/// A reader of the smallest directory has so many pairs. Tests have so few that keys push each
/// other out.
const PAIRS_MIN: u64 = if cfg!(test) { 4 } else { 64 };

/// Slots that hold nothing. The system gives memory to them when they are first written, in large
/// pages where it may: a look-up then seldom walks through tables of pages.
#[expect(unsafe_code, reason = "what is to be zero, and not touched, is asked of the allocator so")]
fn empty_slots(pairs: usize) -> Box<[[Slot; 2]]> {
    // SAFETY: a slot is made of numbers alone, and zero is one.
    unsafe { Box::new_zeroed_slice(pairs).assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that differ in a few digits, as those of people do.
    #[test]
    fn most_of_the_keys_there_is_room_for_are_found_again() {
        let people = 20_000;
        let commit = Commit::new(1, 1).unwrap();
        let mut remembered = Remembered::default();
        remembered.fit(people);
        let key = |number: u64| SlotKey::list(7, format!("user.{number}").as_bytes()).unwrap();
        for number in 1..=people {
            remembered.put(commit, &key(number), Some(number));
        }
        let mut found = 0;
        for number in 1..=people {
            let again = remembered.find(commit, &key(number));
            assert!(again.is_none_or(|again| again.id == Some(number)));
            found += u64::from(again.is_some());
        }
        assert!(found > people * 8 / 10, "{found} of {people}");
    }
}
