//! Chance for made-up entries and load: a small generator seeded by (seed, entry number).
//!
//! Invariant: the same seed and entry number give the same draws on every machine and in every
//! version, whatever was generated before. Entries can so be made in any order and in parallel.
//! It is for test data only: nothing secret may come from here.

/// SplitMix64 (Steele, Lea and Flood 2014): one addition and three mixing steps per draw.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// Starts the draws of one entry.
    pub(crate) fn new(seed: u64, entry: u64) -> Self {
        Self { state: mix(seed.wrapping_add(STEP)) ^ mix(entry) }
    }

    /// Draws 64 bits.
    pub(crate) fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Draws a number below `limit`; 0 when `limit` is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.draw()) * u128::from(limit);
        (product >> 64) as u64
    }

    /// Draws from `low..=high`; `low` when the range is empty.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low).saturating_add(1);
        low.saturating_add(self.below(span))
    }
}

/// A bijection of 64 bits that looks random.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// The fractional part of the golden ratio: successive states are spread evenly.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_never_change_between_versions() {
        let mut chance = Chance::new(1, 2);
        let first = chance.draw();
        assert_eq!(first, Chance::new(1, 2).draw());
        // The published first output of SplitMix64 from state 0.
        assert_eq!(Chance { state: 0 }.draw(), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut chance = Chance::new(0, 0);
        for _ in 0..1000 {
            assert!(chance.below(7) < 7);
            assert!((3..=5).contains(&chance.between(3, 5)));
        }
        assert_eq!(chance.below(0), 0);
        assert_eq!(chance.between(9, 9), 9);
        assert_eq!(chance.between(9, 2), 9);
    }

    #[test]
    fn neighbouring_entries_draw_differently() {
        let draws: std::collections::BTreeSet<u64> =
            (0..1000).map(|entry| Chance::new(1, entry).draw()).collect();
        assert_eq!(draws.len(), 1000);
    }
}
