//! A ring of records from one thread to another: bounded, and neither of them ever waits.
//!
//! Invariant: a record is there whole or not at all; one that finds no room is counted.
//! Invariant: putting a record takes no lock and no system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The end that records are put in.
pub(crate) struct Producer {
    octets: rtrb::Producer<u8>,
    dropped: Arc<AtomicU64>,
}

/// The end that records are taken from.
pub(crate) struct Consumer {
    octets: rtrb::Consumer<u8>,
    /// Of a record whose octets were not there yet.
    length: Option<usize>,
    /// Records that found no room.
    dropped: Arc<AtomicU64>,
}

/// A ring of `bytes` octets, or of [`BYTES_MIN`].
pub(crate) fn ring(bytes: usize) -> (Producer, Consumer) {
    let (producer, consumer) = rtrb::RingBuffer::new(bytes.max(BYTES_MIN));
    let dropped = Arc::new(AtomicU64::new(0));
    let producer = Producer { octets: producer, dropped: Arc::clone(&dropped) };
    (producer, Consumer { octets: consumer, length: None, dropped })
}

impl Producer {
    /// Puts a record, or counts it as dropped; says whether it was put.
    pub(crate) fn put(&mut self, record: &[u8]) -> bool {
        let is_put = self.try_put(record);
        if !is_put {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        is_put
    }

    /// Puts a record if there is room.
    pub(crate) fn try_put(&mut self, record: &[u8]) -> bool {
        let bytes = LENGTH_BYTES + record.len();
        // The consumer's line of the cache is looked at only when it has to be.
        if self.octets.cached_slots() < bytes && self.octets.slots() < bytes {
            return false;
        }
        // There is room for both. The consumer may see the length first, and waits for the rest.
        self.octets.push_entire_slice(&record.len().to_ne_bytes()).is_ok()
            && self.octets.push_entire_slice(record).is_ok()
    }

    /// Whether the consumer should come soon, as far as is known without asking.
    pub(crate) fn is_half_full(&self) -> bool {
        self.octets.cached_slots() < self.octets.buffer().capacity() / 2
    }

    /// Looks where the consumer is.
    pub(crate) fn look(&mut self) {
        let _ = self.octets.slots();
    }
}

impl Consumer {
    /// Takes the oldest record into `record`; says whether there was one.
    pub(crate) fn take(&mut self, record: &mut Vec<u8>) -> bool {
        if self.length.is_none() {
            let mut length = [0; LENGTH_BYTES];
            if self.octets.pop_entire_slice(&mut length).is_err() {
                return false;
            }
            self.length = Some(usize::from_ne_bytes(length));
        }
        record.resize(self.length.unwrap_or_default(), 0);
        let is_taken = self.octets.pop_entire_slice(record).is_ok();
        if is_taken {
            self.length = None;
        }
        is_taken
    }

    /// Records that found no room since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What stands before each record.
const LENGTH_BYTES: usize = size_of::<usize>();

/// A ring that holds less would not hold one long record.
const BYTES_MIN: usize = 32 * 1024;

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
        let large = vec![7; BYTES_MIN / 2 - LENGTH_BYTES];
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

    #[test]
    fn a_record_is_taken_when_all_of_it_is_there() {
        let (mut producer, mut consumer) = ring(0);
        assert!(!producer.put(&[0; BYTES_MIN]), "it is never there");
        let mut taken = Vec::new();
        for record in [&b"three"[..], b"", b"four"] {
            producer.octets.push_entire_slice(&record.len().to_ne_bytes()).unwrap();
            assert_eq!(consumer.take(&mut taken), record.is_empty());
            assert!(!consumer.take(&mut taken));
            producer.octets.push_entire_slice(record).unwrap();
            assert_eq!(consumer.take(&mut taken), !record.is_empty());
            assert!(record.is_empty() || taken == record);
        }
        assert_eq!(consumer.dropped(), 1);
    }
}
