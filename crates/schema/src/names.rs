//! Case-insensitive lookup of names and OIDs without allocation.
//!
//! Every request looks names up, so the table hashes and compares the text as it came, eight
//! octets at a time: folding a copy first costs more than all the rest.

/// The longest name or OID a definition may have, in octets.
pub const NAME_LENGTH_MAX_BYTES: usize = 128;

/// Maps names and OIDs, whatever the case of their ASCII letters, to elements of the schema.
///
/// Linear probing in a power of two of slots, at most half of them used. Only definitions add
/// names, so nobody who merely asks can make the table slow.
#[derive(Clone, Debug)]
pub(crate) struct NameMap<T> {
    slots: Vec<Option<(Box<str>, T)>>,
    used: usize,
}

impl<T> Default for NameMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), used: 0 }
    }
}

impl<T> NameMap<T> {
    /// Finds what `name` stands for.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let (_, element) = self.slots.get(self.slot(name)?)?.as_ref()?;
        Some(element)
    }

    /// Lets `name` stand for `element`; returns what it stood for before.
    pub(crate) fn insert(&mut self, name: &str, element: T) -> Option<T> {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let slot = self.slot(name).and_then(|at| self.slots.get_mut(at));
        let before = slot.expect("half the slots are free").replace((name.into(), element));
        if before.is_none() {
            self.used += 1;
        }
        before.map(|(_, element)| element)
    }

    /// The slot that holds `name`, or the free one where it belongs; `None` in an empty table.
    fn slot(&self, name: &str) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash(name.as_bytes()) & mask;
        while let Some((known, _)) = self.slots.get(at)? {
            if known.eq_ignore_ascii_case(name) {
                break;
            }
            at = (at + 1) & mask;
        }
        Some(at)
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        let mut slots = Vec::new();
        slots.resize_with(size, || None);
        let old = std::mem::replace(&mut self.slots, slots);
        self.used = 0;
        for (name, element) in old.into_iter().flatten() {
            self.insert(&name, element);
        }
    }
}

/// Hashes names that differ only in case alike: bit 5 is all that tells the letters apart.
fn hash(name: &[u8]) -> usize {
    const FOLD: u64 = 0x2020_2020_2020_2020;
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = name.as_chunks::<8>();
    let mut hash = name.len() as u64;
    for word in words {
        hash = (hash ^ (u64::from_le_bytes(*word) | FOLD)).wrapping_mul(FACTOR).rotate_left(29);
    }
    let last = rest.iter().fold(0, |last, &octet| last << 8 | u64::from(octet));
    hash = (hash ^ (last | FOLD)).wrapping_mul(FACTOR);
    // The high bits are the well mixed ones.
    (hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_ignores_case() {
        let mut map = NameMap::default();
        assert_eq!(map.insert("givenName", 1), None);
        assert_eq!(map.get("GIVENNAME"), Some(&1));
        assert_eq!(map.get("givenname"), Some(&1));
        assert_eq!(map.get("givenNam"), None);
        assert_eq!(map.get("givenName "), None);
        assert_eq!(map.insert("GivenName", 2), Some(1));
    }

    #[test]
    fn every_name_is_found_in_every_case() {
        let names: Vec<String> = (0..2000).map(|n| format!("{}N{n}", "aB".repeat(n % 9))).collect();
        let mut map = NameMap::default();
        for (n, name) in names.iter().enumerate() {
            assert_eq!(map.insert(name, n), None);
        }
        for (n, name) in names.iter().enumerate() {
            assert_eq!(map.get(name), Some(&n));
            assert_eq!(map.get(&name.to_uppercase()), Some(&n));
            assert_eq!(map.get(&name.to_lowercase()), Some(&n));
            assert_eq!(map.get(&format!("{name}x")), None);
        }
    }

    #[test]
    fn only_letters_fold() {
        let mut map = NameMap::default();
        map.insert("a-1.2", ());
        for other in
            ["a\r1.2", "a-1\u{e}2", "a-\u{11}.2", "!-1.2", "a-1.", "a-1.22", "", "\u{e1}-1.2"]
        {
            assert!(map.get(other).is_none(), "{other:?}");
        }
        assert!(map.get("A-1.2").is_some());
        assert!(NameMap::<()>::default().get("a").is_none());
    }

    #[test]
    fn names_of_any_length_are_safe_to_ask_for() {
        let mut map = NameMap::default();
        map.insert("a", ());
        assert!(map.get(&"a".repeat(1_000_000)).is_none());
        assert!(map.get(&"\u{e9}".repeat(10_000)).is_none());
    }
}
