//! Chance for tests: SplitMix64 (Steele, Lea and Flood 2014), seeded so that a run can be told.

/// A source of numbers that look random.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Starts a stream of its own for each pair of numbers.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed.wrapping_add(STEP)) ^ mix(stream) }
    }

    /// Draws 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Draws a number below `limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.draw()) * u128::from(limit);
        (product >> 64) as u64
    }

    /// True once in `count` times.
    pub fn once_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of a list.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len() as u64) as usize)
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// The fractional part of the golden ratio: successive states are spread evenly.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// How many times as long as usual what draws its attacks by chance goes on: `ROSTER_ATTACK_TURNS`,
/// which `cargo xtask attack` sets; 1 without.
pub fn attack_turns() -> u32 {
    let told = std::env::var("ROSTER_ATTACK_TURNS").ok();
    told.and_then(|text| text.parse().ok()).unwrap_or(1)
}
