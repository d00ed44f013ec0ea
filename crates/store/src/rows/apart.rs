//! Values in rows of their own, where an attribute has very many: the table `values`.
//!
//! A key is the attribute's id, the entry's id, and the value as the equality rule of its attribute
//! prepares it, so a value is found by itself, and all of an attribute lie together in the order
//! of their keys. A row has the value as it is sent, an OCTET STRING.
//!
//! Invariant: keys of values are short enough for LMDB. One that is too long is shortened with a
//! hash; where several have the same hash, which nobody can bring about, the row has all of them.

use ldap::ber::{Reader, Tag, Writer, tlv_len};
use schema::{MatchingRule, Schema};
use sha2::{Digest as _, Sha256};

/// The octets of a key before the value key.
pub(crate) const PREFIX_BYTES: usize = 12;
/// The longest value key that is stored as it is.
const VALUE_KEY_MAX_BYTES: usize = 256;
const HASH_BYTES: usize = 16;
/// What is kept of a value key that is too long. With the hash it is longer than any whole one.
const VALUE_KEY_KEPT_BYTES: usize = VALUE_KEY_MAX_BYTES + 1 - HASH_BYTES;

/// What a value key begins with: whether the rule could prepare the value.
const AS_IT_IS: u8 = 0;
const PREPARED: u8 = 1;

/// The beginning of the keys of an attribute of an entry.
pub(crate) fn prefix(attribute: u32, id: u64) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    let octets = attribute.to_be_bytes().into_iter().chain(id.to_be_bytes());
    prefix.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
    prefix
}

/// The attribute, the entry and the value key of a row.
pub(crate) fn parts(key: &[u8]) -> Option<(u32, u64, &[u8])> {
    let (attribute, rest) = key.split_first_chunk()?;
    let (id, value) = rest.split_first_chunk()?;
    let is_whole = !value.is_empty() && value.len() <= VALUE_KEY_MAX_BYTES + 1;
    is_whole.then_some((u32::from_be_bytes(*attribute), u64::from_be_bytes(*id), value))
}

/// The key of a value that the rule has prepared.
pub(crate) fn prepared_key(attribute: u32, id: u64, prepared: &[u8]) -> Vec<u8> {
    let mut key = prefix(attribute, id).to_vec();
    key.push(PREPARED);
    key.extend_from_slice(prepared);
    shorten(&mut key);
    key
}

/// Writes what values are compared by.
fn value_key(schema: &Schema, rule: &MatchingRule, value: &[u8], key: &mut Vec<u8>) {
    let start = key.len();
    key.push(PREPARED);
    if (rule.prepare)(schema, value, key).is_err() {
        key.truncate(start);
        key.push(AS_IT_IS);
        key.extend_from_slice(value);
    }
}

/// The key of a value behind the prefix of its attribute, whose rule that is.
pub(crate) fn key(
    schema: &Schema,
    rule: &MatchingRule,
    prefix: &[u8; PREFIX_BYTES],
    value: &[u8],
) -> Vec<u8> {
    let mut key = prefix.to_vec();
    value_key(schema, rule, value, &mut key);
    shorten(&mut key);
    key
}

fn shorten(key: &mut Vec<u8>) {
    if key.len() > PREFIX_BYTES + VALUE_KEY_MAX_BYTES {
        let hash = Sha256::digest(key.get(PREFIX_BYTES..).unwrap_or_default());
        key.truncate(PREFIX_BYTES + VALUE_KEY_KEPT_BYTES);
        key.extend_from_slice(hash.get(..HASH_BYTES).unwrap_or_default());
    }
}

/// The values of a row; none when it is none that a writer makes.
pub(crate) fn values(row: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut reader, mut all) = (Reader::new(row), Vec::with_capacity(1));
    while !reader.is_empty() {
        all.push(reader.octets(Tag::OCTET_STRING).ok()?);
    }
    (!all.is_empty()).then_some(all)
}

/// Whether a row is one that a writer makes.
pub(crate) fn is_well_formed(row: &[u8]) -> bool {
    let mut reader = Reader::new(row);
    while !reader.is_empty() {
        if reader.octets(Tag::OCTET_STRING).is_err() {
            return false;
        }
    }
    !row.is_empty()
}

/// Of the values of a row the one that is equal to `value`.
pub(crate) fn find<'r>(
    schema: &Schema,
    rule: &MatchingRule,
    row: &'r [u8],
    value: &[u8],
) -> Option<&'r [u8]> {
    let keyed = |value: &[u8]| {
        let mut key = Vec::new();
        value_key(schema, rule, value, &mut key);
        key
    };
    let mut all = values(row)?.into_iter();
    match all.len() {
        // It had the same key.
        1 => {
            all.next().filter(|one| one.len() < VALUE_KEY_KEPT_BYTES || keyed(one) == keyed(value))
        }
        _ => {
            let wanted = keyed(value);
            all.find(|one| keyed(one) == wanted)
        }
    }
}

/// Of the values of a row the one that the rule prepares like this.
pub(crate) fn find_prepared<'r>(
    schema: &Schema,
    rule: &MatchingRule,
    row: &'r [u8],
    prepared: &[u8],
) -> Option<&'r [u8]> {
    let is_it = |one: &&[u8]| {
        let mut key = Vec::new();
        (rule.prepare)(schema, one, &mut key).is_ok() && key == prepared
    };
    values(row)?.into_iter().find(is_it)
}

/// Appends a value to a row.
pub(crate) fn push(row: &mut Vec<u8>, value: &[u8]) {
    Writer::new(row).octets(Tag::OCTET_STRING, value);
}

/// The octets that a value takes as it is sent.
pub(crate) fn octets(value: &[u8]) -> u64 {
    tlv_len(value.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> &'static MatchingRule {
        schema::MATCHING_RULES.iter().find(|rule| rule.name == "caseIgnoreMatch").unwrap()
    }

    #[test]
    fn equal_values_have_one_key_and_the_order_is_that_of_the_keys() {
        let schema = Schema::builtin();
        let of = |value: &str| key(&schema, rule(), &prefix(7, 9), value.as_bytes());
        assert_eq!(of("Anna  B"), of("anna b"));
        assert!(of("anna") < of("annb") && of("annb") < of("b"));
        assert_eq!(parts(&of("x")), Some((7, 9, &of("x")[PREFIX_BYTES..])));
        assert_eq!(
            prepared_key(7, 9, b"anna"),
            prefix(7, 9).iter().chain(b"\x01anna").copied().collect::<Vec<u8>>()
        );
        let (long, other) = ("l".repeat(300), format!("{}m", "l".repeat(299)));
        assert_ne!(of(&long), of(&other));
        assert_eq!(of(&long).len(), PREFIX_BYTES + VALUE_KEY_MAX_BYTES + 1);
        assert_eq!(parts(&[0; 12]), None);
    }

    #[test]
    fn of_several_values_in_a_row_the_equal_one_is_found() {
        let schema = Schema::builtin();
        let (mut row, long) = (Vec::new(), "l".repeat(300));
        push(&mut row, long.as_bytes());
        assert_eq!(
            find(&schema, rule(), &row, long.to_uppercase().as_bytes()),
            Some(long.as_bytes())
        );
        assert_eq!(find(&schema, rule(), &row, b"other"), None);
        push(&mut row, b"Other");
        assert_eq!(find(&schema, rule(), &row, b"other"), Some(&b"Other"[..]));
        assert_eq!(
            find_prepared(&schema, rule(), &row, b"other"),
            find(&schema, rule(), &row, b"OTHER")
        );
        assert_eq!(values(&row).unwrap().len(), 2);
        assert_eq!(values(b"\x04\x05x"), None);
        assert_eq!(values(b""), None);
    }
}
