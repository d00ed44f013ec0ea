//! The names of all entries, as hashes: where a superior is, and which names are there already.
//!
//! Invariant: the hash of a name is made of that of its superior and its own RDN key, so it depends
//! on the whole name. That two of even a thousand million names share one of 128 bits has odds of 1
//! to 10^20, which nobody can better who does not know the seed of the load. Names are not
//! compared: if it came to that, an entry would be refused as one that is there, or stored below
//! the entry whose name has the hash of its superior's.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::SourceLine;

/// The hash of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NameHash([u64; 2]);

/// Makes the hashes of one load. XXH3 is quick, and no secret: whoever knows the seed can make
/// names that share a hash, so each load has one by chance.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameHasher {
    seed: u64,
}

impl NameHasher {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Of the entry of a naming context; `name` is its RDN key, which is its whole name.
    pub(super) fn of_naming_context(self, name: &[u8]) -> NameHash {
        self.hash(name)
    }

    /// Of an entry below another.
    pub(super) fn below(self, above: NameHash, rdn_key: &[u8]) -> NameHash {
        let mut octets = [0; HASHED_BYTES];
        let [high, low] = above.0;
        let parts = [high.to_le_bytes(), low.to_le_bytes()];
        let length = HASH_BYTES + rdn_key.len();
        match octets.get_mut(..length) {
            Some(octets) => {
                let (hash, rdn) = octets.split_at_mut(HASH_BYTES);
                hash.copy_from_slice(parts.as_flattened());
                rdn.copy_from_slice(rdn_key);
                self.hash(octets)
            }
            None => self.hash(&[parts.as_flattened(), rdn_key].concat()),
        }
    }

    fn hash(self, octets: &[u8]) -> NameHash {
        NameHash::of(xxh3_128_with_seed(octets, self.seed))
    }
}

impl NameHash {
    /// The part of the map that has it; the octets that a part goes by are others.
    #[inline]
    const fn part(self) -> usize {
        let [_, low] = self.0;
        low as usize % PARTS
    }

    const fn of(hash: u128) -> Self {
        Self([(hash >> 64) as u64, hash as u64])
    }

    pub(super) const fn to_octets(self) -> [u8; HASH_BYTES] {
        let [high, low] = self.0;
        (((high as u128) << 64) | low as u128).to_le_bytes()
    }

    pub(super) const fn from_octets(octets: [u8; HASH_BYTES]) -> Self {
        Self::of(u128::from_le_bytes(octets))
    }
}

pub(super) const HASH_BYTES: usize = 16;
/// Names that are not longer are hashed without memory of their own.
const HASHED_BYTES: usize = 256;

impl Hash for NameHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [high, _] = self.0;
        state.write_u64(high);
    }
}

/// What is hashed is a hash.
#[derive(Debug, Default)]
pub(super) struct Unchanged(u64);

impl Hasher for Unchanged {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the hash of a name is a number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Entry ids by names, in parts that grow one after the other: what grows is in memory twice.
#[derive(Debug, Default)]
pub(super) struct NameMap {
    parts: [Part; PARTS],
}

type Part = HashMap<NameHash, u64, BuildHasherDefault<Unchanged>>;

const PARTS: usize = 32;
/// A name, its id and an octet of the hash table.
const PLACE_BYTES: u64 = 25;

impl NameMap {
    #[inline]
    pub(super) fn find(&self, name: NameHash) -> Option<u64> {
        self.parts.get(name.part())?.get(&name).copied()
    }

    /// The memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| table_bytes(part.capacity(), PLACE_BYTES)).sum()
    }

    /// Gives a name to an entry; the entry that has it is an error.
    #[inline]
    pub(super) fn insert(&mut self, name: NameHash, id: u64) -> Result<(), u64> {
        let part = self.parts.get_mut(name.part()).expect("each name has its part");
        match part.entry(name) {
            Entry::Occupied(there) => Err(*there.get()),
            Entry::Vacant(free) => {
                free.insert(id);
                Ok(())
            }
        }
    }
}

/// The memory of a hash table that has room for so many: it has a power of two of places, an eighth
/// of which stay free.
pub(super) const fn table_bytes(capacity: usize, place_bytes: u64) -> u64 {
    match capacity {
        0 => 0,
        _ => (capacity + capacity / 8).next_power_of_two() as u64 * place_bytes,
    }
}

/// Where the entries of a load came from, by their numbers. However far apart these are, a gap
/// takes next to no memory.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Source and line, from the first number on, in pieces.
    pieces: Vec<Option<Box<PiecePlaces>>>,
    bytes: u64,
}

type PiecePlaces = [u64; PIECE_PLACES];

impl Places {
    /// The memory that they take, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True when it takes more memory now: after some thousand of places.
    pub(super) fn put(&mut self, number: u64, place: SourceLine) -> bool {
        let (piece, within) = place_of(number);
        if self.pieces.len() <= piece {
            self.pieces.resize(piece + 1, None);
        }
        let Some(piece) = self.pieces.get_mut(piece) else { return false };
        let is_new = piece.is_none();
        let piece = piece.get_or_insert_with(|| Box::new([0; PIECE_PLACES]));
        if let Some(to) = piece.get_mut(within) {
            *to = u64::from(place.source) << LINE_BITS | place.line;
        }
        if is_new {
            self.bytes += size_of::<PiecePlaces>() as u64;
        }
        is_new
    }

    pub(super) fn find(&self, number: u64) -> Option<SourceLine> {
        let (piece, within) = place_of(number);
        let place = *self.pieces.get(piece)?.as_ref()?.get(within)?;
        let source = (place >> LINE_BITS) as u32;
        Some(SourceLine { source, line: place & ((1 << LINE_BITS) - 1) })
    }
}

fn place_of(number: u64) -> (usize, usize) {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    (number / PIECE_PLACES, number % PIECE_PLACES)
}

/// A piece takes 64 KiB.
const PIECE_PLACES: usize = 8192;
const LINE_BITS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of 16 octets that share the hash below any superior, as long as the seed is 0: what
    /// XXH3 multiplies and adds up of the two halves is the same the other way round.
    fn crafted() -> [[u8; 16]; 2] {
        // The 16 octets of the default secret that such keys are mixed with.
        let secret = [0xdb97_9083_e96d_d4de_u64, 0x1f67_b3b7_a4a4_4072];
        let free = !(secret[0] ^ secret[1]);
        let (one, other) = (0x7777_7777_7777_7777, 0x7777_7777_7777_7777 ^ free);
        let key = |low: u64, high: u64| {
            let halves = [low ^ secret[0], high ^ secret[1]];
            halves.map(u64::to_le_bytes).as_flattened().try_into().unwrap()
        };
        [key(one, other), key(other, one)]
    }

    #[test]
    fn names_made_to_share_a_hash_do_not_when_the_seed_is_by_chance() {
        let [one, other] = crafted();
        assert_ne!(one, other);
        let hashes = |seed| {
            let hasher = NameHasher::new(seed);
            let above = hasher.of_naming_context(b"dc=example");
            [hasher.below(above, &one), hasher.below(above, &other)]
        };
        let [first, second] = hashes(0);
        assert_eq!(first, second, "the keys are well made");
        let [first, second] = hashes(0x1234_5678_9abc_def0);
        assert_ne!(first, second);
    }

    #[test]
    fn a_map_of_names_knows_what_it_takes() {
        let (hasher, mut names) = (NameHasher::new(5), NameMap::default());
        let name = |number: u64| hasher.of_naming_context(&number.to_le_bytes());
        for number in 0..100_000 {
            assert_eq!(names.insert(name(number), number), Ok(()));
        }
        assert_eq!(names.insert(name(7), 1), Err(7));
        assert_eq!((names.find(name(99_999)), names.find(name(100_000))), (Some(99_999), None));
        let places: usize =
            names.parts.iter().map(|part| (part.capacity() * 8 / 7).next_power_of_two()).sum();
        assert_eq!(names.bytes(), places as u64 * 25);
        assert!((2_500_000..6_000_000).contains(&names.bytes()), "{}", names.bytes());
    }

    #[test]
    fn places_far_apart_take_little_memory() {
        let mut places = Places::default();
        let numbers = [0, 1, 8191, 8192, 3_000_000_000, 3_000_000_001];
        for number in numbers {
            places.put(number, SourceLine { source: 7, line: number + 5 });
        }
        for number in numbers {
            assert_eq!(places.find(number), Some(SourceLine { source: 7, line: number + 5 }));
        }
        assert_eq!(places.find(4_000_000_000), None);
        assert_eq!(places.find(1_000_000_000), None);
        let pieces = places.pieces.iter().flatten().count();
        assert_eq!(pieces, 3);
        assert!(places.pieces.capacity() < 1 << 20);
    }
}
