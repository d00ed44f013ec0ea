//! Chance, as a parameter: UUIDs, salts, cookie keys.

/// A source of unpredictable octets.
pub trait Chance: Send {
    /// Fills `octets`.
    fn fill(&mut self, octets: &mut [u8]);
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsChance;

impl Chance for OsChance {
    fn fill(&mut self, octets: &mut [u8]) {
        getrandom::fill(octets).expect("the operating system hands out random octets at any time");
    }
}

/// A reproducible generator for tests and generated data (SplitMix64). Not for secrets.
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

/// A random UUID in its text form (RFC 9562 §5.4).
pub(crate) fn random_uuid(chance: &mut dyn Chance) -> String {
    let mut octets = [0_u8; 16];
    chance.fill(&mut octets);
    let mut number = u128::from_be_bytes(octets);
    number = (number & !(0xF << 76)) | (0x4 << 76);
    number = (number & !(0x3 << 62)) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let mut text = String::with_capacity(36);
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_states_its_version_and_variant() {
        let mut chance = SeededChance(7);
        for _ in 0..100 {
            let uuid = random_uuid(&mut chance);
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4");
            assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        }
    }
}
