//! Just enough BER to speak LDAP (RFC 4511 §5.1): definite lengths, one-octet tags.
//!
//! Invariant: reading never goes beyond the slice it was given; anything else than the expected
//! form is `None`, because to a test every malformed answer is the same failure.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Appends one element: tag, shortest length, content.
pub(crate) fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let octets: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|o| *o == 0).collect();
        out.push(0x80 | octets.len() as u8);
        out.extend_from_slice(&octets);
    }
    out.extend_from_slice(content);
}

/// Appends an element whose content `fill` writes.
pub(crate) fn put_with(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put(out, tag, &content);
}

/// Appends an integer, or an enumerated value, in the fewest octets.
pub(crate) fn put_number(out: &mut Vec<u8>, tag: u8, value: i64) {
    let octets = value.to_be_bytes();
    let mut content = octets.as_slice();
    while let [first, rest @ ..] = content {
        let redundant = match rest.first() {
            Some(next) => (*first == 0 && *next < 0x80) || (*first == 0xff && *next >= 0x80),
            None => false,
        };
        if !redundant {
            break;
        }
        content = rest;
    }
    put(out, tag, content);
}

/// Appends a boolean; true is 0xFF.
pub(crate) fn put_boolean(out: &mut Vec<u8>, value: bool) {
    put(out, BOOLEAN, &[if value { 0xff } else { 0 }]);
}

/// Reads elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The tag of the next element.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next element, whatever it is: tag and content.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, header, content) = measure(self.rest)?;
        let end = header.checked_add(content)?;
        let body = self.rest.get(header..end)?;
        self.rest = self.rest.get(end..)?;
        Some((tag, body))
    }

    /// The content of the next element, which must have this tag.
    pub(crate) fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.peek()? != tag {
            return None;
        }
        self.any().map(|(_, content)| content)
    }

    /// The content of the next element if it has this tag; nothing is read otherwise.
    pub(crate) fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.peek() == Some(tag) { self.content(tag) } else { None }
    }

    /// A reader of the content of the next element.
    pub(crate) fn inside(&mut self, tag: u8) -> Option<Self> {
        self.content(tag).map(Reader::new)
    }

    /// An integer or an enumerated value.
    pub(crate) fn number(&mut self, tag: u8) -> Option<i64> {
        let octets = self.content(tag)?;
        if octets.is_empty() || octets.len() > 8 {
            return None;
        }
        let start = if octets.first().is_some_and(|o| *o >= 0x80) { -1 } else { 0 };
        Some(octets.iter().fold(start, |sum: i64, octet| (sum << 8) | i64::from(*octet)))
    }

    /// A string that must be UTF-8.
    pub(crate) fn text(&mut self, tag: u8) -> Option<String> {
        String::from_utf8(self.content(tag)?.to_vec()).ok()
    }
}

/// Tag, octets of the header and octets of the content of the first element, as soon as the
/// header is complete.
pub(crate) fn measure(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let tag = *bytes.first()?;
    let first = *bytes.get(1)?;
    if first < 0x80 {
        return Some((tag, 2, usize::from(first)));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > 4 {
        return None;
    }
    let octets = bytes.get(2..2 + count)?;
    let length = octets.iter().fold(0usize, |sum, octet| (sum << 8) | usize::from(*octet));
    Some((tag, 2 + count, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: i64, want: &[u8]) {
        let mut out = Vec::new();
        put_number(&mut out, INTEGER, value);
        assert_eq!(out, want);
        assert_eq!(Reader::new(&out).number(INTEGER), Some(value));
    }

    #[test]
    fn numbers_take_the_fewest_octets() {
        check(0, &[2, 1, 0]);
        check(127, &[2, 1, 127]);
        check(128, &[2, 2, 0, 128]);
        check(-1, &[2, 1, 0xff]);
        check(-129, &[2, 2, 0xff, 0x7f]);
        check(i64::from(i32::MAX), &[2, 4, 0x7f, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn long_contents_get_long_lengths() {
        for length in [0, 127, 128, 255, 256, 70_000] {
            let mut out = Vec::new();
            put(&mut out, OCTET_STRING, &vec![7; length]);
            assert_eq!(measure(&out), Some((OCTET_STRING, out.len() - length, length)));
            assert_eq!(Reader::new(&out).content(OCTET_STRING).map(<[u8]>::len), Some(length));
        }
    }

    #[test]
    fn a_truncated_element_is_none() {
        assert!(Reader::new(&[4, 3, 1, 2]).any().is_none());
        assert!(Reader::new(&[4]).any().is_none());
        assert!(Reader::new(&[4, 0x80, 0, 0]).any().is_none());
    }
}
