//! A ring of records from one thread to another: bounded, and neither of them ever waits.
//!
//! Invariant: a record is there whole or not at all; one that finds no room is counted.
//! Invariant: putting a record takes no lock and no system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What both ends share.
struct Ring {
    /// Words rather than octets, so that plain loads and stores carry them.
    words: Box<[AtomicU64]>,
    /// Words taken since the start; written by the consumer alone.
    head: CachePadded,
    /// Words put since the start; written by the producer alone.
    tail: CachePadded,
    /// Records that found no room.
    dropped: CachePadded,
}

/// A number on a cache line of its own: both threads write theirs all the time.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded(AtomicU64);

/// The end that records are put in.
pub(crate) struct Producer {
    ring: Arc<Ring>,
    tail: u64,
    /// The consumer was here when it was looked at last.
    head_seen: u64,
}

/// The end that records are taken from.
pub(crate) struct Consumer {
    ring: Arc<Ring>,
    head: u64,
}

/// A ring of about `bytes` octets.
pub(crate) fn ring(bytes: usize) -> (Producer, Consumer) {
    let count = (bytes / WORD_BYTES).max(WORDS_MIN).next_power_of_two();
    let words = (0..count).map(|_| AtomicU64::new(0)).collect();
    let (head, tail, dropped) =
        (CachePadded::default(), CachePadded::default(), CachePadded::default());
    let ring = Arc::new(Ring { words, head, tail, dropped });
    let producer = Producer { ring: Arc::clone(&ring), tail: 0, head_seen: 0 };
    (producer, Consumer { ring, head: 0 })
}

impl Ring {
    fn word(&self, position: u64) -> &AtomicU64 {
        let length = self.words.len() as u64;
        // The length is a power of two.
        let index = (position & (length - 1)) as usize;
        self.words.get(index).expect("the mask keeps it below the length")
    }

    /// So many words from there on: up to the end of the ring, and those that follow.
    fn slots(&self, position: u64, count: u64) -> (&[AtomicU64], &[AtomicU64]) {
        let index = (position & (self.words.len() as u64 - 1)) as usize;
        let (before, after) = self.words.split_at(index);
        let first = (count as usize).min(after.len());
        let second = (count as usize - first).min(before.len());
        (after.get(..first).unwrap_or(after), before.get(..second).unwrap_or(before))
    }
}

impl Producer {
    /// Puts a record, or counts it as dropped; says whether it was put.
    pub(crate) fn put(&mut self, record: &[u8]) -> bool {
        let is_put = self.try_put(record);
        if !is_put {
            self.ring.dropped.0.fetch_add(1, Ordering::Relaxed);
        }
        is_put
    }

    /// Puts a record if there is room.
    pub(crate) fn try_put(&mut self, record: &[u8]) -> bool {
        let capacity = self.ring.words.len() as u64;
        let words = 1 + record.len().div_ceil(WORD_BYTES) as u64;
        if self.tail - self.head_seen + words > capacity {
            self.head_seen = self.ring.head.0.load(Ordering::Acquire);
            if self.tail - self.head_seen + words > capacity {
                return false;
            }
        }
        let (first, second) = self.ring.slots(self.tail, words);
        let mut slots = first.iter().chain(second);
        let mut put = |word: u64| {
            if let Some(slot) = slots.next() {
                slot.store(word, Ordering::Relaxed);
            }
        };
        put(record.len() as u64);
        let (whole, rest) = record.as_chunks::<WORD_BYTES>();
        whole.iter().for_each(|word| put(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; WORD_BYTES];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            put(u64::from_le_bytes(word));
        }
        self.tail += words;
        self.ring.tail.0.store(self.tail, Ordering::Release);
        true
    }

    /// Whether the consumer should come soon, as far as is known without asking.
    pub(crate) fn is_half_full(&self) -> bool {
        self.tail - self.head_seen > self.ring.words.len() as u64 / 2
    }

    /// Looks where the consumer is.
    pub(crate) fn look(&mut self) {
        self.head_seen = self.ring.head.0.load(Ordering::Acquire);
    }
}

impl Consumer {
    /// Takes the oldest record into `record`; says whether there was one.
    pub(crate) fn take(&mut self, record: &mut Vec<u8>) -> bool {
        if self.ring.tail.0.load(Ordering::Acquire) == self.head {
            return false;
        }
        let length = self.ring.word(self.head).load(Ordering::Relaxed) as usize;
        let words = length.div_ceil(WORD_BYTES) as u64;
        record.resize(words as usize * WORD_BYTES, 0);
        let (first, second) = self.ring.slots(self.head + 1, words);
        let (before, after) = record.as_chunks_mut::<WORD_BYTES>().0.split_at_mut(first.len());
        for (slots, octets) in [(first, before), (second, after)] {
            for (slot, octets) in slots.iter().zip(octets) {
                *octets = slot.load(Ordering::Relaxed).to_le_bytes();
            }
        }
        record.truncate(length);
        self.head += 1 + words;
        self.ring.head.0.store(self.head, Ordering::Release);
        true
    }

    /// Records that found no room since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.ring.dropped.0.load(Ordering::Relaxed)
    }
}

const WORD_BYTES: usize = size_of::<u64>();

/// A ring that holds less would not hold one long record.
const WORDS_MIN: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of `length` octets that its number determines.
    fn record(number: u64) -> Vec<u8> {
        let length = (number * 7919 % 301) as usize;
        (0..length).map(|at| (number as usize + at) as u8).collect()
    }

    #[test]
    fn records_come_out_as_they_went_in_while_both_ends_work() {
        let (mut producer, mut consumer) = ring(0);
        let count = 200_000;
        let thread = std::thread::spawn(move || {
            for number in 0..count {
                while !producer.try_put(&record(number)) {
                    std::thread::yield_now();
                }
            }
        });
        let mut taken = Vec::new();
        for number in 0..count {
            while !consumer.take(&mut taken) {
                std::thread::yield_now();
            }
            assert_eq!(taken, record(number), "record {number}");
        }
        thread.join().unwrap();
        assert!(!consumer.take(&mut taken));
        assert_eq!(consumer.dropped(), 0);
    }

    #[test]
    fn a_record_without_room_is_counted_and_the_others_stay() {
        let (mut producer, mut consumer) = ring(0);
        let large = vec![7; WORDS_MIN * WORD_BYTES / 2 - WORD_BYTES];
        assert!(producer.put(&large));
        assert!(!producer.is_half_full());
        assert!(producer.put(&large));
        assert!(producer.is_half_full());
        assert!(!producer.put(b""));
        assert!(!producer.put(&large));
        assert_eq!(consumer.dropped(), 2);
        let mut taken = Vec::new();
        assert!(consumer.take(&mut taken));
        assert_eq!(taken, large);
        assert!(producer.put(b"again"));
        assert!(consumer.take(&mut taken) && consumer.take(&mut taken));
        assert_eq!(taken, b"again");
        assert!(!consumer.take(&mut taken));
    }
}
