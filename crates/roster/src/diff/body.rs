//! An entry as octets: what is sorted and compared.
//!
//! Invariant: what [`BodyWriter`] wrote, [`Body`] reads; the same entry read twice from the same
//! place gives the same octets.

use std::ops::Range;

use crate::failure::Failure;

/// Writes an entry.
#[derive(Debug)]
pub(crate) struct BodyWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Where the description of the current attribute stands, and how many values it has.
    description: Range<usize>,
    count: u32,
}

impl<'o> BodyWriter<'o> {
    /// Begins an entry of this name. `identity` is what it may be found by under another name.
    pub(crate) fn new(out: &'o mut Vec<u8>, identity: &[u8], dn: &str) -> Self {
        out.clear();
        push(out, identity);
        push(out, dn.as_bytes());
        Self { out, description: 0..0, count: 0 }
    }

    /// Writes one value; those of one attribute one after the other.
    pub(crate) fn value(&mut self, description: &str, value: &[u8]) {
        if self.out.get(self.description.clone()) != Some(description.as_bytes()) {
            push(self.out, description.as_bytes());
            self.description = self.out.len() - description.len()..self.out.len();
            self.count = 0;
            self.out.extend_from_slice(&[0; LENGTH_BYTES]);
        }
        self.count += 1;
        let at = self.description.end;
        if let Some(count) = self.out.get_mut(at..at + LENGTH_BYTES) {
            count.copy_from_slice(&self.count.to_le_bytes());
        }
        push(self.out, value);
    }
}

/// A length, and the octets. What is longer than a length can say is refused by the sorter, which
/// takes no record of that size.
fn push(out: &mut Vec<u8>, octets: &[u8]) {
    let length = u32::try_from(octets.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(octets);
}

/// An entry that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    /// What it may be found by under another name; empty if there is nothing.
    pub(crate) identity: &'a [u8],
    pub(crate) dn: &'a str,
    attributes: &'a [u8],
}

impl<'a> Body<'a> {
    /// Reads what was written.
    pub(crate) fn read(octets: &'a [u8]) -> Result<Self, Failure> {
        let mut rest = octets;
        let mut part = || pull(&mut rest).ok_or_else(damaged);
        let (identity, dn) = (part()?, part()?);
        let dn = std::str::from_utf8(dn).map_err(|_| damaged())?;
        Ok(Self { identity, dn, attributes: rest })
    }

    /// Whether both hold the same octets, whatever their names are.
    pub(crate) fn has_same_octets(&self, other: &Self) -> bool {
        self.attributes == other.attributes
    }

    /// Each value with its description.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut rest = self.attributes;
        let (mut description, mut left) = ("", 0);
        std::iter::from_fn(move || {
            while left == 0 {
                description = std::str::from_utf8(pull(&mut rest)?).ok()?;
                left = pull_length(&mut rest)?;
            }
            left -= 1;
            Some((description, pull(&mut rest)?))
        })
    }

    /// The same entry under another name, as octets.
    pub(crate) fn renamed(&self, dn: &str, out: &mut Vec<u8>) {
        out.clear();
        push(out, self.identity);
        push(out, dn.as_bytes());
        out.extend_from_slice(self.attributes);
    }
}

fn pull_length(rest: &mut &[u8]) -> Option<u32> {
    let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    *rest = after;
    Some(u32::from_le_bytes(*length))
}

fn pull<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = pull_length(rest)? as usize;
    let (octets, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(octets)
}

/// A temporary file does not hold what was written to it.
pub(crate) fn damaged() -> Failure {
    Failure::local("a temporary file does not hold what was written to it")
        .hint("look at the disk, or name another directory in TMPDIR")
}

const LENGTH_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut octets = Vec::new();
        let mut writer = BodyWriter::new(&mut octets, b"\x00id", "cn=a,dc=x");
        let values: [(&str, &[u8]); 4] = [("cn", b"a"), ("cn", b""), ("l", b"\xFF"), ("cn", b"b")];
        for (description, value) in values {
            writer.value(description, value);
        }
        let body = Body::read(&octets).unwrap();
        assert_eq!((body.identity, body.dn), (&b"\x00id"[..], "cn=a,dc=x"));
        assert_eq!(body.values().collect::<Vec<_>>(), values);
        let mut other = Vec::new();
        body.renamed("cn=b,dc=x", &mut other);
        let other = Body::read(&other).unwrap();
        assert_eq!((other.identity, other.dn), (body.identity, "cn=b,dc=x"));
        assert!(other.has_same_octets(&body));
        assert!(Body::read(b"\x05\x00\x00\x00ab").is_err());
    }
}
