//! A table that only grows, up to a bound: what was worked out once is found again by all threads.
//!
//! Invariants: what is in it stays as it is and where it is. Looking something up takes no lock and
//! writes to no memory, so that threads which share a table do not wait for each other. An entry is
//! never behind a free slot of its own row of slots.

use std::sync::OnceLock;

/// A table of what can be told apart by a hash and a comparison.
pub(crate) struct Growing<T> {
    levels: [OnceLock<Box<[Slot<T>]>>; LEVEL_SLOTS.len()],
}

type Slot<T> = OnceLock<Box<T>>;

/// Where something is in its table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Found {
    level: usize,
    slot: usize,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { levels: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl<T> Growing<T> {
    /// What has this hash and is the one.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<(Found, &T)> {
        for (level, slots) in self.levels.iter().enumerate() {
            let slots = slots.get()?;
            for slot in row(hash, slots.len()) {
                let found = slots.get(slot)?.get()?;
                if is_it(found) {
                    return Some((Found { level, slot }, found));
                }
            }
        }
        None
    }

    /// Puts in what is not there, unless it has come meanwhile; it is given back when there is no
    /// room.
    pub(crate) fn add(
        &self,
        hash: u64,
        item: T,
        is_it: impl Fn(&T) -> bool,
    ) -> Result<(Found, &T), T> {
        let mut item = Box::new(item);
        for (level, (slots, &count)) in self.levels.iter().zip(&LEVEL_SLOTS).enumerate() {
            let empty = || std::iter::repeat_with(OnceLock::new).take(count).collect();
            let slots = slots.get_or_init(empty);
            for slot in row(hash, slots.len()) {
                let Some(cell) = slots.get(slot) else { continue };
                if let Err(back) = cell.set(item) {
                    item = back;
                } else {
                    let added = cell.get().expect("the cell was set");
                    return Ok((Found { level, slot }, added));
                }
                if let Some(there) = cell.get().filter(|there| is_it(there)) {
                    return Ok((Found { level, slot }, there));
                }
            }
        }
        Err(*item)
    }

    /// What was found before.
    pub(crate) fn at(&self, Found { level, slot }: Found) -> Option<&T> {
        Some(self.levels.get(level)?.get()?.get(slot)?.get()?)
    }
}

/// The slots in which something may be, in the order in which they are taken.
fn row(hash: u64, slots: usize) -> impl Iterator<Item = usize> {
    // The number of slots is a power of two, so this keeps low bits.
    let mask = slots - 1;
    let first = usize::try_from(hash & (mask as u64)).unwrap_or_default();
    (0..ROW_SLOTS).map(move |step| (first + step) & mask)
}

/// A hash of a text: the names of superiors are short, and differ where they begin.
pub(crate) fn hash_text(text: &str) -> u64 {
    let mut hash = text.len() as u64;
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    for byte in rest {
        hash = hash.rotate_left(8) ^ u64::from(*byte);
    }
    mix(hash)
}

/// A hash of a number: all bits of it count in the low ones.
pub(crate) fn mix(hash: u64) -> u64 {
    let mixed = hash.wrapping_mul(MULTIPLIER);
    mixed ^ mixed >> 32
}

/// Odd, with bits all over: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Slots of each level; a level is made when there is no room in those before it.
const LEVEL_SLOTS: [usize; 4] = [8, 64, 512, 4096];
/// Slots of a level in which one thing may be.
const ROW_SLOTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_until_there_is_no_room() {
        let table: Growing<u64> = Growing::default();
        let mut kept = Vec::new();
        for number in 0..20_000_u64 {
            let is_it = |one: &u64| *one == number;
            assert!(table.find(mix(number), is_it).is_none(), "{number}");
            match table.add(mix(number), number, is_it) {
                Ok((place, added)) => {
                    assert_eq!((*added, table.at(place)), (number, Some(added)));
                    kept.push((number, place));
                }
                Err(back) => assert_eq!(back, number),
            }
        }
        let all: usize = LEVEL_SLOTS.iter().sum();
        assert!(kept.len() > all * 9 / 10 && kept.len() <= all, "{}", kept.len());
        for (number, place) in kept {
            let is_it = |one: &u64| *one == number;
            assert_eq!(table.find(mix(number), is_it), Some((place, &number)));
            assert_eq!(table.add(mix(number), number, is_it), Ok((place, &number)));
        }
    }

    #[test]
    fn what_several_threads_add_is_there_once() {
        let table: Growing<(u64, usize)> = Growing::default();
        // All of one hash, so that they meet.
        let add = |thread: usize| {
            let put = |number: u64| {
                let added = table.add(0, (number, thread), |one| one.0 == number);
                added.map(|(place, one)| (place, one.0, one.1)).ok()
            };
            (0..(ROW_SLOTS * LEVEL_SLOTS.len()) as u64).map(put).collect::<Vec<_>>()
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || add(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for of_thread in &all {
            assert!(of_thread.iter().all(Option::is_some));
            assert_eq!(*of_thread, all[0]);
        }
    }

    #[test]
    fn texts_have_hashes_of_their_own() {
        let texts = ["", "a", "b", "dc=x", "dc=y", "ou=a,dc=x", "ou=b,dc=x", "ou=a,dc=y"];
        let hashes: std::collections::BTreeSet<u64> = texts.into_iter().map(hash_text).collect();
        assert_eq!(hashes.len(), texts.len());
    }
}
