//! Keys of rows: numbers in big-endian order, names, and postings.
//!
//! Invariants: a key is at most [`KEY_LENGTH_MAX_BYTES`] long. In `postings`, no head key is a
//! prefix of another one, and head keys are in the order of (index, value key); so a list's chunks
//! follow its head and nothing comes between.

use xxhash_rust::xxh3::xxh3_128;

/// LMDB's limit.
pub(crate) const KEY_LENGTH_MAX_BYTES: usize = 511;
/// The longest RDN key that is stored as it is; longer ones are shortened with a hash.
pub(crate) const NAME_KEY_MAX_BYTES: usize = 480;
/// The longest value key that is stored as it is; escaped it takes up to twice that.
pub(crate) const INDEX_VALUE_MAX_BYTES: usize = 220;

const HASH_BYTES: usize = 16;
/// What is kept of an RDN key that is too long. With the hash it is longer than any whole one.
const NAME_KEY_KEPT_BYTES: usize = NAME_KEY_MAX_BYTES + 1 - HASH_BYTES;
/// What is kept of a value key that is too long. With the hash it is longer than any whole one.
pub(crate) const INDEX_VALUE_KEPT_BYTES: usize = INDEX_VALUE_MAX_BYTES + 1 - HASH_BYTES;
/// A chunk number in a row key: ids have 64 bits, a chunk takes the lowest 13 at least.
const CHUNK_NUMBER_BYTES: usize = 7;

const _: () = assert!(8 + NAME_KEY_MAX_BYTES < KEY_LENGTH_MAX_BYTES);
const _: () =
    assert!(2 + 2 * (INDEX_VALUE_MAX_BYTES + 1) + 2 + CHUNK_NUMBER_BYTES <= KEY_LENGTH_MAX_BYTES);

/// A key under construction, on the stack.
#[derive(Clone)]
pub(crate) struct RowKey {
    bytes: [u8; KEY_LENGTH_MAX_BYTES],
    length: usize,
}

impl RowKey {
    const fn new() -> Self {
        Self { bytes: [0; KEY_LENGTH_MAX_BYTES], length: 0 }
    }

    /// The key.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).expect("the length never passes the array's end")
    }

    fn push(&mut self, more: &[u8]) {
        let end = self.length + more.len();
        let free = self.bytes.get_mut(self.length..end);
        free.expect("the limits above leave room for every part of a key").copy_from_slice(more);
        self.length = end;
    }

    /// The row of the name `rdn_key` below `parent`, and whether it had to be shortened.
    pub(crate) fn name(parent: u64, rdn_key: &[u8]) -> (Self, bool) {
        let mut key = Self::new();
        key.push(&parent.to_be_bytes());
        let shortened = rdn_key.len() > NAME_KEY_MAX_BYTES;
        if shortened {
            key.push(rdn_key.get(..NAME_KEY_KEPT_BYTES).unwrap_or_default());
            key.push(&xxh3_128(rdn_key).to_be_bytes());
        } else {
            key.push(rdn_key);
        }
        (key, shortened)
    }

    /// The head row of a posting list. `value` is at most as long as [`shorten`] makes it.
    pub(crate) fn postings(index: u16, value: &[u8]) -> Self {
        let mut key = Self::postings_from(index, value);
        key.push(&TERMINATOR);
        key
    }

    /// Where the head rows of values that start with `value` begin.
    pub(crate) fn postings_from(index: u16, value: &[u8]) -> Self {
        let mut key = Self::new();
        key.push(&index.to_be_bytes());
        if !value.contains(&0) {
            key.push(value);
            return key;
        }
        for &byte in value {
            key.push(&[byte]);
            if byte == 0 {
                key.push(&[ESCAPED_ZERO]);
            }
        }
        key
    }

    /// A chunk row of the list with this head.
    pub(crate) fn chunk(head: &[u8], chunk: u64) -> Self {
        let mut key = Self::new();
        key.push(head);
        key.push(chunk.to_be_bytes().get(1..).unwrap_or_default());
        key
    }
}

/// Appends the key of a posting list's head row, as [`RowKey::postings`] makes it.
#[inline]
pub(crate) fn append_postings(index: u16, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&index.to_be_bytes());
    if value.contains(&0) {
        for &byte in value {
            out.push(byte);
            if byte == 0 {
                out.push(ESCAPED_ZERO);
            }
        }
    } else {
        out.extend_from_slice(value);
    }
    out.extend_from_slice(&TERMINATOR);
}

/// Ends a value key. A zero inside one is followed by [`ESCAPED_ZERO`], so this is in none.
const TERMINATOR: [u8; 2] = [0, 0];
const ESCAPED_ZERO: u8 = 0xff;

/// Shortens a value key that is too long for a row, in place; says whether it did. Other values may
/// get the same shortened key, whole keys never do.
pub(crate) fn shorten(value: &mut Vec<u8>) -> bool {
    if value.len() <= INDEX_VALUE_MAX_BYTES {
        return false;
    }
    let hash = xxh3_128(value);
    value.truncate(INDEX_VALUE_KEPT_BYTES);
    value.extend_from_slice(&hash.to_be_bytes());
    true
}

/// Parts of a row key of `postings`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PostingKey {
    pub(crate) index: u16,
    pub(crate) value: Vec<u8>,
    /// The length of the head's key; the whole key when `chunk` is `None`.
    pub(crate) head_length: usize,
    pub(crate) chunk: Option<u64>,
}

impl PostingKey {
    /// Takes a row key apart; `None` when no writer makes such a key.
    pub(crate) fn parse(row: &[u8]) -> Option<Self> {
        let (index, rest) = row.split_first_chunk::<2>()?;
        let mut value = Vec::new();
        let mut at = 0;
        loop {
            match (rest.get(at)?, rest.get(at + 1)) {
                (0, Some(0)) => break,
                (0, Some(&ESCAPED_ZERO)) => {
                    value.push(0);
                    at += 2;
                }
                (0, _) => return None,
                (&byte, _) => {
                    value.push(byte);
                    at += 1;
                }
            }
        }
        let chunk = match rest.get(at + 2..)? {
            [] => None,
            number => {
                let number: [u8; CHUNK_NUMBER_BYTES] = number.try_into().ok()?;
                let [a, b, c, d, e, f, g] = number;
                Some(u64::from_be_bytes([0, a, b, c, d, e, f, g]))
            }
        };
        let index = u16::from_be_bytes(*index);
        Some(Self { index, value, head_length: 2 + at + 2, chunk })
    }
}

/// The octets of a DN key without the one that ends its last RDN.
pub(crate) fn without_end(dn_key: &[u8]) -> &[u8] {
    dn_key.split_last().map_or(&[], |(_, rest)| rest)
}

/// The id in a key or value of eight bytes.
#[inline]
pub(crate) fn id(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// A key for messages: text where it is text, hexadecimal where not.
pub(crate) fn display(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0_u8), Just(1), Just(0xff), any::<u8>()];
        prop::collection::vec(byte, 0..INDEX_VALUE_MAX_BYTES)
    }

    proptest! {
        #[test]
        fn posting_keys_keep_order_and_none_is_a_prefix(
            one in (0_u16..3, value()),
            other in (0_u16..3, value()),
        ) {
            let key = |(index, value): &(u16, Vec<u8>)| RowKey::postings(*index, value);
            let (one_key, other_key) = (key(&one), key(&other));
            prop_assert_eq!(one_key.as_bytes().cmp(other_key.as_bytes()), one.cmp(&other));
            if one != other {
                prop_assert!(!one_key.as_bytes().starts_with(other_key.as_bytes()));
            }
        }

        #[test]
        fn posting_keys_come_apart(index: u16, value in value(), chunk in 0_u64..1 << 51) {
            let head = RowKey::postings(index, &value);
            let mut appended = vec![7];
            append_postings(index, &value, &mut appended);
            prop_assert_eq!(&appended[1..], head.as_bytes());
            let head_length = head.as_bytes().len();
            let parsed = PostingKey::parse(head.as_bytes());
            let want = PostingKey { index, value, head_length, chunk: None };
            prop_assert_eq!(parsed.as_ref(), Some(&want));
            let row = RowKey::chunk(head.as_bytes(), chunk);
            prop_assert!(row.as_bytes() > head.as_bytes());
            let parsed = PostingKey::parse(row.as_bytes());
            prop_assert_eq!(parsed, Some(PostingKey { chunk: Some(chunk), ..want }));
        }
    }

    #[test]
    fn long_keys_are_shortened_and_stay_apart() {
        let key = |length: usize, last: u8| {
            let mut key = vec![b'x'; length];
            key.push(last);
            key
        };
        for length in [INDEX_VALUE_MAX_BYTES, 100_000] {
            let mut one = key(length, 1);
            let mut other = key(length, 2);
            assert!(shorten(&mut one) && shorten(&mut other));
            assert_ne!(one, other);
            assert_eq!(one.len(), INDEX_VALUE_MAX_BYTES + 1);
            assert_eq!(RowKey::postings(1, &vec![0; one.len()]).as_bytes().len(), 446);
        }
        let mut whole = vec![0; INDEX_VALUE_MAX_BYTES];
        assert!(!shorten(&mut whole));
        for (length, shortened) in [(NAME_KEY_MAX_BYTES - 1, false), (NAME_KEY_MAX_BYTES, true)] {
            let (one, one_shortened) = RowKey::name(7, &key(length, 1));
            let (other, _) = RowKey::name(7, &key(length, 2));
            assert_ne!(one.as_bytes(), other.as_bytes());
            assert_eq!(one_shortened, shortened);
            assert!(one.as_bytes().len() <= KEY_LENGTH_MAX_BYTES);
        }
    }

    #[test]
    fn what_no_writer_makes_does_not_come_apart() {
        for row in [&[][..], &[0], &[0, 1], &[0, 1, 0], &[0, 1, b'a', 0, 1], &[0, 1, 0, 0, 9]] {
            assert_eq!(PostingKey::parse(row), None, "{row:?}");
        }
    }
}
