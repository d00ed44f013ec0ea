//! What a hash costs, and how much of it is accepted.
//!
//! A stored value brings its own cost, and whoever can write one could keep a core busy for hours
//! with each bind. So the cost is known before anything is computed, and has a limit.

/// What computing one hash takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HashCost {
    /// Blocks that are hashed one after the other, a microsecond of a core each at the most:
    /// iterations of PBKDF2, rounds of crypt(3), KiB times passes of Argon2, N·r·p of scrypt,
    /// 128 for each of the 2^cost steps of bcrypt.
    pub blocks: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Lanes that could be computed side by side.
    pub lanes: u32,
}

/// Up to which cost a stored hash is computed at all; one above matches nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HashCostMax {
    /// Blocks hashed.
    pub blocks: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Lanes.
    pub lanes: u32,
}

impl Default for HashCostMax {
    fn default() -> Self {
        Self { blocks: 5_000_000, memory_bytes: 256 << 20, lanes: 16 }
    }
}

impl HashCostMax {
    /// What is computed on any thread.
    pub(super) const FAST: Self = Self { blocks: FAST_BLOCKS_MAX, memory_bytes: 0, lanes: 1 };
}

impl HashCost {
    /// One hash of a short text.
    pub(super) const FAST: Self = Self { blocks: 1, memory_bytes: 0, lanes: 1 };

    /// A number of iterations that take no memory worth mentioning.
    pub(super) fn iterations(blocks: u64) -> Self {
        Self { blocks, ..Self::FAST }
    }

    /// Whether it is within the limit.
    pub(super) fn is_within(&self, max: &HashCostMax) -> bool {
        self.blocks <= max.blocks
            && self.memory_bytes <= max.memory_bytes
            && self.lanes <= max.lanes
    }

    /// Whether it takes so long that it must not delay other requests.
    pub(super) fn is_slow(&self) -> bool {
        self.blocks > FAST_BLOCKS_MAX
    }
}

/// Blocks that are hashed on the thread that reads requests; more go to the hash pool.
const FAST_BLOCKS_MAX: u64 = 16;
