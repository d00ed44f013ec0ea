//! Which partition of a topic a key belongs to: the one that Kafka's own clients choose, so that
//! all that write to a topic agree.

/// The partition of `count` that a key belongs to.
pub(super) fn partition_of(key: &[u8], count: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    usize::try_from(positive).unwrap_or(0) % count.max(1)
}

/// MurmurHash2 with the seed of Kafka's clients.
fn murmur2(octets: &[u8]) -> u32 {
    let length = u32::try_from(octets.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = octets.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(FACTOR);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(FACTOR) ^ mixed.wrapping_mul(FACTOR);
    }
    for (at, octet) in rest.iter().enumerate() {
        hash ^= u32::from(*octet) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 15)
}

const SEED: u32 = 0x9747_b28c;
const FACTOR: u32 = 0x5bd1_e995;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kafkas_own_tests() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
        assert_eq!(partition_of(b"", 1), 0);
        assert!(partition_of(b"foobar", 3) < 3);
    }
}
