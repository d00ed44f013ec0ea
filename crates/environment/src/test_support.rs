//! A clock that a test sets, and chance from a seed: the same test goes the same way each time.
//!
//! Invariant: nothing here is in a product; a seed is no secret.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crate::{Chance, Clock, Timestamp};

/// A clock that a test sets.
#[derive(Debug, Default)]
pub struct ManualClock {
    micros: AtomicU64,
    offset_s: AtomicI32,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { micros: AtomicU64::new(now.0), offset_s: AtomicI32::new(0) }
    }

    /// Sets how many seconds local time is ahead of UTC.
    pub fn set_offset_s(&self, offset_s: i32) {
        self.offset_s.store(offset_s, Ordering::Relaxed);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }

    fn offset_s(&self, _at: Timestamp) -> Option<i32> {
        Some(self.offset_s.load(Ordering::Relaxed))
    }
}

/// A reproducible generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct SeededChance(pub u64);

impl SeededChance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

impl Chance for SeededChance {
    fn fill(&mut self, octets: &mut [u8]) {
        for chunk in octets.chunks_mut(8) {
            let random = self.next().to_le_bytes();
            for (octet, fresh) in chunk.iter_mut().zip(random) {
                *octet = fresh;
            }
        }
    }
}
