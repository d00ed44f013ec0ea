//! Which rules are about an attribute, by its name: asked for every value of an import.
//!
//! Invariant: a name that no rule is about is nearly always answered by one bit; letters of either
//! case are alike.

use super::convert::Convert;

/// Rules by the name of an attribute.
pub(super) struct NameTable {
    /// The bit of each name's hash.
    bits: [u64; BITS / 64],
    /// Positions in `known` plus one, by the low bits of the hash; 0 is free. At most a quarter is
    /// taken.
    places: Vec<u16>,
    known: Vec<Known>,
}

/// A name that some rule is about, or that is looked at for another reason.
pub(super) struct Known {
    name: &'static str,
    hash: u64,
    /// The numbers of the rules.
    pub(super) rules: Vec<usize>,
    pub(super) interest: Interest,
}

/// Which values of an attribute call for a second look.
#[derive(Clone, Copy)]
pub(super) enum Interest {
    /// None: only the name is needed.
    None,
    /// All.
    All,
    /// Object classes that a rule is about.
    Classes,
    /// Passwords, which are counted.
    Passwords,
    /// Those that have another form.
    Forms(Convert),
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
        Self { bits: [0; BITS / 64], places: vec![0; PLACES], known: Vec::new() }
    }
}

impl NameTable {
    /// Lets rule number `rule` be about `name`, with values of this interest.
    pub(super) fn add(&mut self, name: &'static str, rule: usize, interest: Interest) {
        let known = self.entry(name);
        if !known.rules.contains(&rule) {
            known.rules.push(rule);
        }
        known.interest = match (known.interest, interest) {
            (Interest::None, interest) => interest,
            (special @ (Interest::Classes | Interest::Passwords), _) => special,
            _ => Interest::All,
        };
    }

    /// Lets `name` be looked at for values of this interest alone.
    pub(super) fn look_at(&mut self, name: &'static str, interest: Interest) {
        self.entry(name).interest = interest;
    }

    /// What is known of `name`, whose scan is `scan`; `None` for a name that was not added.
    #[inline]
    pub(super) fn find(&self, scan: Scan, name: &str) -> Option<&Known> {
        let (word, bit) = scan.bit();
        match self.bits.get(word) {
            Some(bits) if bits & bit != 0 => self.find_known(scan, name),
            Some(_) | None => None,
        }
    }

    fn find_known(&self, scan: Scan, name: &str) -> Option<&Known> {
        let mut place = scan.place();
        loop {
            let position = usize::from(*self.places.get(place)?).checked_sub(1)?;
            let known = self.known.get(position)?;
            // Most are written as they are defined, and compared at once.
            let is_same = || known.name == name || known.name.eq_ignore_ascii_case(name);
            if known.hash == scan.hash && is_same() {
                return Some(known);
            }
            place = (place + 1) % PLACES;
        }
    }

    fn entry(&mut self, name: &'static str) -> &mut Known {
        let scan = Scan::of(name.as_bytes());
        let mut place = scan.place();
        let position = loop {
            let taken = self.places.get_mut(place).expect("a hash has few bits");
            let Some(position) = usize::from(*taken).checked_sub(1) else {
                self.known.push(Known {
                    name,
                    hash: scan.hash,
                    rules: Vec::new(),
                    interest: Interest::None,
                });
                assert!(self.known.len() <= PLACES / 4, "the table of names is too small");
                *taken = u16::try_from(self.known.len()).expect("it is small");
                let (word, bit) = scan.bit();
                *self.bits.get_mut(word).expect("a hash has few bits") |= bit;
                break self.known.len() - 1;
            };
            let known = self.known.get(position).expect("places hold positions");
            if known.name.eq_ignore_ascii_case(name) {
                break position;
            }
            place = (place + 1) % PLACES;
        };
        self.known.get_mut(position).expect("it was found or pushed")
    }
}

impl Scan {
    /// Looks at a name once, eight octets at a time.
    #[inline]
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
const PLACES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_no_others() {
        let mut table = NameTable::default();
        for (at, name) in
            ["cn", "nsUniqueId", "authPassword;oid", "ds-sync-hist"].iter().enumerate()
        {
            table.add(name, at, Interest::All);
            table.add(name, at + 10, Interest::All);
        }
        table.look_at("objectClass", Interest::Classes);
        let find = |name: &str| {
            table.find(Scan::of(name.as_bytes()), name).map(|known| known.rules.as_slice())
        };
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
