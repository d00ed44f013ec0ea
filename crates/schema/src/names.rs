//! Case-insensitive lookup of names and OIDs without allocation.
//!
//! Every request looks names up, so a lookup folds into a buffer on the stack and hashes that.
//! Names and OIDs are ASCII (RFC 4512 §1.4); a text that is not, or is too long, is in no map.

use rustc_hash::FxHashMap;

/// The longest name or OID a definition may have, in octets.
pub const NAME_LENGTH_MAX_BYTES: usize = 128;

/// Maps names and OIDs, whatever their case, to elements of the schema.
#[derive(Clone, Debug)]
pub(crate) struct NameMap<T>(FxHashMap<Box<[u8]>, T>);

impl<T> Default for NameMap<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T> NameMap<T> {
    /// Finds what `name` stands for.
    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        let mut buffer = [0; NAME_LENGTH_MAX_BYTES];
        self.0.get(fold(name, &mut buffer)?)
    }

    /// Lets `name` stand for `element`; returns what it stood for before.
    pub(crate) fn insert(&mut self, name: &str, element: T) -> Option<T> {
        self.0.insert(name.to_ascii_lowercase().into_bytes().into(), element)
    }
}

/// Folds ASCII letters to lower case; `None` when `name` is longer than any name may be.
fn fold<'b>(name: &str, buffer: &'b mut [u8; NAME_LENGTH_MAX_BYTES]) -> Option<&'b [u8]> {
    let folded = buffer.get_mut(..name.len())?;
    for (to, from) in folded.iter_mut().zip(name.bytes()) {
        *to = from.to_ascii_lowercase();
    }
    Some(folded)
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
    fn names_of_any_length_are_safe_to_ask_for() {
        let mut map = NameMap::default();
        let longest = "a".repeat(NAME_LENGTH_MAX_BYTES);
        map.insert(&longest, ());
        assert!(map.get(&longest).is_some());
        assert!(map.get(&format!("{longest}a")).is_none());
        assert!(map.get("").is_none());
        assert!(map.get(&"\u{e9}".repeat(10_000)).is_none());
    }
}
