//! Keys of names that one request after the other is about, remembered by a thread.
//!
//! Searches begin at the same few entries, and what is compared, read or bound as lies below the
//! same few. So the key of the base that was asked for last is remembered, and that of the name
//! above the one that was.
//!
//! Invariant: a key is what [`DnKey::from_text`] makes of the name, and so are refusals.

use std::sync::Arc;

use schema::{DnKey, InvalidDn, Schema};

/// The names that were remembered, and the schema they were resolved by.
#[derive(Default)]
pub(crate) struct NameMemo {
    schema: Option<Arc<Schema>>,
    base: Remembered,
    above: Remembered,
}

/// A name as it was written, and its key.
#[derive(Default)]
struct Remembered {
    text: String,
    key: DnKey,
}

impl Remembered {
    fn put(&mut self, text: &str, key: DnKey) {
        if text.len() <= TEXT_MAX_BYTES {
            self.text.clear();
            self.text.push_str(text);
            self.key = key;
        }
    }
}

impl NameMemo {
    /// The key of a name that others like it will follow.
    pub(crate) fn base(&mut self, schema: &Arc<Schema>, text: &str) -> Result<DnKey, InvalidDn> {
        if self.is_of(schema) && self.base.text == text {
            return Ok(self.base.key.clone());
        }
        let key = self.key(schema, text)?;
        self.base.put(text, key.clone());
        Ok(key)
    }

    /// The key of a name.
    pub(crate) fn key(&mut self, schema: &Arc<Schema>, text: &str) -> Result<DnKey, InvalidDn> {
        if !self.is_of(schema) {
            *self = Self { schema: Some(Arc::clone(schema)), ..Self::default() };
        }
        let Some((leaf, above)) = split(text) else { return DnKey::from_text(schema, text) };
        if above == self.above.text {
            let mut octets = Vec::with_capacity(text.len() + KEY_RESERVE_BYTES);
            octets.extend_from_slice(self.above.key.as_bytes());
            // What is wrong with it the whole name tells.
            if DnKey::write(schema, leaf, &mut octets).is_ok() {
                return Ok(DnKey::from_bytes(octets));
            }
        }
        let key = DnKey::from_text(schema, text)?;
        if let Some(parent) = key.parent().filter(|parent| parent.depth() <= DEPTH_MAX) {
            self.above.put(above, parent);
        }
        Ok(key)
    }

    fn is_of(&self, schema: &Arc<Schema>) -> bool {
        self.schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, schema))
    }
}

/// The leaf of a name and what is above it, where that is beyond doubt without reading the name by
/// its grammar.
fn split(text: &str) -> Option<(&str, &str)> {
    let (leaf, above) = text.split_once(',')?;
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-' | b'_');
    let (kind, value) = leaf.split_once('=')?;
    let is_beyond_doubt = kind.bytes().chain(value.bytes()).all(is_plain)
        && !value.is_empty()
        && above.bytes().next().is_some_and(|octet| octet.is_ascii_alphanumeric());
    is_beyond_doubt.then_some((leaf, above))
}

/// Longer names are not remembered.
const TEXT_MAX_BYTES: usize = 1024;

/// Deeper ones neither: below them is room for one RDN more, whatever the limit of a name is.
const DEPTH_MAX: usize = 64;

/// What the key of a name may take more than its text.
const KEY_RESERVE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// In every order, names have the keys and refusals they have alone.
    #[test]
    fn what_was_asked_before_makes_no_difference() {
        let schema = Schema::builtin();
        let deep = format!("uid=a{}", ",dc=x".repeat(DEPTH_MAX));
        let too_deep = format!("uid=a{}", ",dc=x".repeat(300));
        let deepest = &too_deep[..5 + 5 * 255];
        let long = format!("uid=a,o={}", "x".repeat(TEXT_MAX_BYTES + 1));
        let names = [
            "",
            "dc=org",
            "dc=example,dc=org",
            "DC=Example,dc=org",
            "uid=a,dc=example,dc=org",
            "uid=B-1_2.x,dc=example,dc=org",
            "UserID=a,dc=example,dc=org",
            "uid= a,dc=example,dc=org",
            "uid=a ,dc=example,dc=org",
            "uid=a, dc=example,dc=org",
            "uid=a+cn=b,dc=example,dc=org",
            "uid=a\\,dc=example,dc=org",
            "uid=a\\,b,dc=example,dc=org",
            "uid=#0401,dc=example,dc=org",
            "uid=\"a,b\",dc=example,dc=org",
            "uid=,dc=example,dc=org",
            "uid,dc=example,dc=org",
            "=a,dc=example,dc=org",
            "uid=a=b,dc=example,dc=org",
            "uid=\u{e9},dc=example,dc=org",
            "1.2.3=a,dc=example,dc=org",
            "1.2..3=a,dc=example,dc=org",
            "-x=a,dc=example,dc=org",
            "cn=a,uid=a,dc=example,dc=org",
            "uid=a,",
            "uid=a,,dc=org",
            "uid=a,x",
            "dc=M\u{fc}ller,uid=a",
            deep.as_str(),
            deepest,
            too_deep.as_str(),
            long.as_str(),
        ];
        let mut memo = NameMemo::default();
        for first in names {
            for second in names {
                for name in [first, second, second] {
                    let want = DnKey::from_text(&schema, name);
                    assert_eq!(memo.key(&schema, name), want, "{name} after {first}");
                    assert_eq!(memo.base(&schema, name), want, "{name} after {first}");
                }
            }
        }
    }

    #[test]
    fn another_schema_makes_other_keys() {
        let mut memo = NameMemo::default();
        let one = Schema::builtin();
        let other = Arc::new(one.with_files(&[]).unwrap());
        let first = memo.base(&one, "uid=a,dc=org").unwrap();
        assert!(memo.is_of(&one) && !memo.is_of(&other));
        assert_eq!(memo.base(&other, "uid=a,dc=org").unwrap(), first);
        assert!(memo.is_of(&other));
    }
}
