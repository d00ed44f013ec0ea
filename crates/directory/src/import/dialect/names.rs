//! Which rules are about an attribute, by its name: asked for every value of an import.
//!
//! Invariant: a name that no rule is about is nearly always answered by one bit; letters of either
//! case are alike.

/// Rules by the name of an attribute.
pub(super) struct NameTable {
    /// The bit of each name's hash.
    bits: [u64; BITS / 64],
    /// Names and rules, by the low bits of the hash; few share a place.
    places: Vec<Vec<(&'static str, Vec<usize>)>>,
}

/// What one look at a description tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Scan {
    hash: u64,
    /// Whether there is a semicolon.
    pub(super) has_options: bool,
}

impl Default for NameTable {
    fn default() -> Self {
        Self { bits: [0; BITS / 64], places: vec![Vec::new(); PLACES] }
    }
}

impl NameTable {
    /// Lets rule number `rule` be about `name`.
    pub(super) fn add(&mut self, name: &'static str, rule: usize) {
        let rules = self.entry(name);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }

    /// Lets `name` be found, with no rule of its own.
    pub(super) fn add_plain(&mut self, name: &'static str) {
        self.entry(name);
    }

    /// The rules about `name`, whose scan is `scan`; `None` for a name that was not added.
    pub(super) fn find(&self, scan: Scan, name: &str) -> Option<&[usize]> {
        let (word, bit) = scan.bit();
        if self.bits.get(word).is_none_or(|bits| bits & bit == 0) {
            return None;
        }
        let place = self.places.get(scan.place())?;
        let (_, rules) = place.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(rules)
    }

    fn entry(&mut self, name: &'static str) -> &mut Vec<usize> {
        let scan = Scan::of(name.as_bytes());
        let (word, bit) = scan.bit();
        *self.bits.get_mut(word).expect("a hash has few bits") |= bit;
        let place = self.places.get_mut(scan.place()).expect("a hash has few bits");
        let found = place.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        let at = found.unwrap_or_else(|| {
            place.push((name, Vec::new()));
            place.len() - 1
        });
        let (_, rules) = place.get_mut(at).expect("it was found or pushed");
        rules
    }
}

impl Scan {
    /// Looks at a name once, eight octets at a time.
    pub(super) fn of(name: &[u8]) -> Self {
        let (words, rest) = name.as_chunks::<8>();
        let (mut hash, mut semicolons) = (name.len() as u64, 0);
        for word in words {
            let word = u64::from_le_bytes(*word);
            semicolons |= zero_octets(word ^ SEMICOLONS);
            hash = (hash ^ (word | FOLD)).wrapping_mul(FACTOR).rotate_left(29);
        }
        let last = rest.iter().fold(0, |last, &octet| last << 8 | u64::from(octet));
        semicolons |= zero_octets(last ^ SEMICOLONS);
        hash = (hash ^ (last | FOLD)).wrapping_mul(FACTOR);
        Self { hash, has_options: semicolons != 0 }
    }

    /// The high bits are the well mixed ones.
    fn bit(self) -> (usize, u64) {
        let number = (self.hash >> 52) as usize % BITS;
        (number / 64, 1 << (number % 64))
    }

    fn place(self) -> usize {
        (self.hash >> 44) as usize % PLACES
    }
}

/// Not zero when an octet of `word` is.
const fn zero_octets(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

const SEMICOLONS: u64 = 0x3b3b_3b3b_3b3b_3b3b;
/// Bit 5 is all that tells letters of the cases apart.
const FOLD: u64 = 0x2020_2020_2020_2020;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// One of 4,096 bits for each of some hundred names.
const BITS: usize = 4096;
const PLACES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_no_others() {
        let mut table = NameTable::default();
        for (at, name) in
            ["cn", "nsUniqueId", "authPassword;oid", "ds-sync-hist"].iter().enumerate()
        {
            table.add(name, at);
            table.add(name, at + 10);
        }
        table.add_plain("objectClass");
        let find = |name: &str| table.find(Scan::of(name.as_bytes()), name);
        assert_eq!(find("CN"), Some([0, 10].as_slice()));
        assert_eq!(find("nsuniqueid"), Some([1, 11].as_slice()));
        assert_eq!(find("AUTHPASSWORD;OID"), Some([2, 12].as_slice()));
        assert_eq!(find("objectclass"), Some([].as_slice()));
        for other in ["", "c", "cnn", "c\u{e9}", "authPassword", "nsUniqueId2"] {
            assert_eq!(find(other), None, "{other}");
        }
    }

    #[test]
    fn semicolons_are_seen_wherever_they_stand() {
        for length in 0..30 {
            let plain = "a".repeat(length);
            assert!(!Scan::of(plain.as_bytes()).has_options);
            for at in 0..length {
                let mut text = plain.clone().into_bytes();
                text[at] = b';';
                assert!(Scan::of(&text).has_options, "{length} {at}");
            }
        }
    }
}
