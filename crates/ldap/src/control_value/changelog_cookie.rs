//! The cookie of the external change log, as OpenDJ and its relatives have it: where a reader of
//! changes goes on.
//!
//! A request has it in an OCTET STRING of its own, or as it is: servers take both. A response has
//! it in a SEQUENCE.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The OID of the control, of requests and of responses.
pub const OID: &str = "1.3.6.1.4.1.26027.1.5.4";
/// The longest cookie that is read.
pub const COOKIE_MAX_BYTES: usize = 4096;

/// Reads the value of a request; an empty cookie begins with the first change.
///
/// # Errors
/// When it is no text, or too long.
pub fn decode(value: &[u8]) -> Result<&str, DecodeError> {
    let octets = enclosed(value).unwrap_or(value);
    let reader = Reader::new(octets);
    if octets.len() > COOKIE_MAX_BYTES {
        return Err(reader.error(DecodeReason::NameTooLong));
    }
    std::str::from_utf8(octets).map_err(|_| reader.error(DecodeReason::BadUtf8))
}

/// The octets within an OCTET STRING that is all of a value. Text does not begin with its tag.
fn enclosed(value: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(value);
    let octets = reader.octets(Tag::OCTET_STRING).ok()?;
    reader.end().ok().map(|()| octets)
}

/// The value of a response.
pub fn encode(cookie: &str) -> Vec<u8> {
    let mut value = Vec::with_capacity(cookie.len() + 8);
    let mut writer = Writer::new(&mut value);
    let whole = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::OCTET_STRING, cookie.as_bytes());
    writer.end(whole);
    value
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_in_both_forms() {
        for (value, cookie) in [
            (&b""[..], ""),
            (b"\x04\x00", ""),
            (b"\x04\x03abc", "abc"),
            (b"abc", "abc"),
            (b"dc=x:0 1;", "dc=x:0 1;"),
            // Not all of it: as it is.
            (b"\x04\x01ab", "\u{4}\u{1}ab"),
        ] {
            assert_eq!(decode(value).unwrap(), cookie, "{value:?}");
        }
        assert!(decode(b"\x04\x01\xff").is_err());
        assert!(decode(&[b'a'; COOKIE_MAX_BYTES]).is_ok());
        assert!(decode(&[b'a'; COOKIE_MAX_BYTES + 1]).is_err());
    }

    #[test]
    fn a_response_has_it_in_a_sequence() {
        assert_eq!(encode("abc"), b"\x30\x05\x04\x03abc");
        let long = "x".repeat(200);
        let value = encode(&long);
        let mut reader = Reader::new(&value);
        let mut inner = reader.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(inner.octets(Tag::OCTET_STRING).unwrap(), long.as_bytes());
    }
}
