//! Numbers and texts in the octets that nodes send each other: little-endian, with limits.
//!
//! Invariant: no length is believed before it was compared with what is there and with a limit.

use std::fmt;

/// Why octets are not what they should be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unreadable(pub &'static str);

impl Unreadable {
    /// The other side speaks another version.
    pub const OTHER_VERSION: Self = Self("of another version");
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Reads from the front of octets.
pub(super) struct OctetReader<'o>(&'o [u8]);

impl<'o> OctetReader<'o> {
    /// All of these are to be read.
    pub(super) fn new(octets: &'o [u8]) -> Self {
        Self(octets)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'o [u8], Unreadable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unreadable("it ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        self.take(N)?.try_into().map_err(|_| Unreadable("it ends early"))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Unreadable> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Unreadable> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Unreadable> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Unreadable> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// One of two values.
    pub(super) fn bool(&mut self) -> Result<bool, Unreadable> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Unreadable("a choice that is neither yes nor no")),
        }
    }

    /// How many things follow, each of which has `each_min` octets at least.
    pub(super) fn count(&mut self, max: usize, each_min: usize) -> Result<usize, Unreadable> {
        let count = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        match count <= max && count.saturating_mul(each_min) <= self.0.len() {
            true => Ok(count),
            false => Err(Unreadable("more than there is, or than may be")),
        }
    }

    /// Octets behind their length.
    pub(super) fn octets(&mut self, max: usize) -> Result<&'o [u8], Unreadable> {
        let length = self.count(max, 1)?;
        self.take(length)
    }

    /// A text behind its length in octets.
    pub(super) fn text(&mut self, max: usize) -> Result<&'o str, Unreadable> {
        str::from_utf8(self.octets(max)?).map_err(|_| Unreadable("a text that is not UTF-8"))
    }

    /// Nothing is left.
    pub(super) fn end(&self) -> Result<(), Unreadable> {
        if self.0.is_empty() { Ok(()) } else { Err(Unreadable("more than there should be")) }
    }
}

/// Appends octets behind their length.
pub(super) fn put_octets(out: &mut Vec<u8>, octets: &[u8]) {
    put_count(out, octets.len());
    out.extend_from_slice(octets);
}

/// Appends how many things follow. What is longer than the limits say is refused by its reader.
pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}
