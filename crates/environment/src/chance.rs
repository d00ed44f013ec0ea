//! Chance, as a parameter: UUIDs, salts, cookie keys.

/// A source of unpredictable octets.
pub trait Chance: Send {
    /// Fills `octets`.
    fn fill(&mut self, octets: &mut [u8]);
}

/// Makes a source of chance for each thread that needs one.
pub type MakeChance = fn() -> Box<dyn Chance>;

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsChance;

/// Hands out the operating system's generator.
pub fn os_chance() -> Box<dyn Chance> {
    Box::new(OsChance)
}

/// The operating system's generator, asked for many octets at a time: for those who need few, but
/// very often. No octet is handed out twice.
pub struct BufferedChance {
    octets: Box<[u8; BUFFER_BYTES]>,
    used: usize,
}

impl Default for BufferedChance {
    fn default() -> Self {
        Self { octets: Box::new([0; BUFFER_BYTES]), used: BUFFER_BYTES }
    }
}

impl Chance for BufferedChance {
    fn fill(&mut self, octets: &mut [u8]) {
        if octets.len() > BUFFER_BYTES {
            return OsChance.fill(octets);
        }
        if self.used + octets.len() > BUFFER_BYTES {
            OsChance.fill(&mut *self.octets);
            self.used = 0;
        }
        let fresh = self.octets.get(self.used..self.used + octets.len());
        octets.copy_from_slice(fresh.expect("there are enough now"));
        self.used += octets.len();
    }
}

/// Octets asked for at a time.
const BUFFER_BYTES: usize = 4096;

impl Chance for OsChance {
    fn fill(&mut self, octets: &mut [u8]) {
        getrandom::fill(octets).expect("the operating system hands out random octets at any time");
    }
}

/// A random UUID in its text form (RFC 9562 §5.4).
pub fn random_uuid(chance: &mut dyn Chance) -> String {
    let mut octets = [0_u8; 16];
    chance.fill(&mut octets);
    let mut number = u128::from_be_bytes(octets);
    number = (number & !(0xF << 76)) | (0x4 << 76);
    number = (number & !(0x3 << 62)) | (0x2 << 62);
    let mut text = String::with_capacity(36);
    for index in 0..32 {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        let digit = (number >> (4 * (31 - index))) as u32 & 0xF;
        text.push(char::from_digit(digit, 16).expect("four bits are a hexadecimal digit"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededChance;

    #[test]
    fn buffered_chance_hands_nothing_out_twice() {
        let mut chance = BufferedChance::default();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..2000 {
            let mut octets = [0; 12];
            chance.fill(&mut octets);
            assert!(seen.insert(octets));
        }
        let mut many = vec![0; 2 * BUFFER_BYTES];
        chance.fill(&mut many);
        assert!(many.iter().any(|octet| *octet != 0));
    }

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
