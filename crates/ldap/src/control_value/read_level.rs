//! The value of the read level control: how fresh the data must be that a read returns.
//!
//! ```text
//! ReadLevel ::= SEQUENCE {
//!     level   ENUMERATED { local (0), atLeast (1), bounded (2), linearizable (3) },
//!     bound   [0] INTEGER (1..maxInt) OPTIONAL,   -- milliseconds; with bounded, and only then
//!     wait    [1] INTEGER (0..maxInt) OPTIONAL,   -- milliseconds
//!     cookie  [2] OCTET STRING OPTIONAL,          -- with atLeast, and only then
//!     ... }
//! ```

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The OID of the control.
pub const OID: &str = "2.25.240622864993748405525653984067480598434.4.1";

/// The OID of the position control, with which a response brings a cookie for
/// [`AskedLevel::AtLeast`]; in requests, which have no value, and in responses.
pub const POSITION_OID: &str = "2.25.240622864993748405525653984067480598434.4.2";

const BOUND: Tag = Tag::context(0, false);
const WAIT: Tag = Tag::context(1, false);
const COOKIE: Tag = Tag::context(2, false);

const LOCAL: u32 = 0;
const AT_LEAST: u32 = 1;
const BOUNDED: u32 = 2;
const LINEARIZABLE: u32 = 3;

/// What a read level control asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadLevelRequest<'a> {
    /// How fresh the data must be.
    pub level: AskedLevel<'a>,
    /// How long the request may wait until they are, in milliseconds; none: as long as the server
    /// lets it.
    pub wait_ms: Option<u32>,
}

/// How fresh the data must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AskedLevel<'a> {
    /// As they are on the server that is asked.
    Local,
    /// As new as those that a response told of.
    AtLeast {
        /// What the response carried.
        cookie: &'a [u8],
    },
    /// Not older than this.
    Bounded {
        /// In milliseconds, not 0.
        bound_ms: u32,
    },
    /// With everything that was acknowledged before the request came, anywhere.
    Linearizable,
}

impl<'a> ReadLevelRequest<'a> {
    /// This level, with no limit of the client's on the time that it takes.
    #[must_use]
    pub const fn new(level: AskedLevel<'a>) -> Self {
        Self { level, wait_ms: None }
    }

    /// Reads the value of a control.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let level = fields.enumerated(Tag::ENUMERATED)?;
        let bound_ms = read_number(&mut fields, BOUND)?;
        let wait_ms = read_number(&mut fields, WAIT)?;
        let cookie = fields.read_optional(COOKIE)?;
        fields.end_extensible(&[BOUND, WAIT, COOKIE])?;
        let level = match (level, bound_ms, cookie) {
            (LOCAL, None, None) => AskedLevel::Local,
            (AT_LEAST, None, Some(cookie)) => AskedLevel::AtLeast { cookie },
            (BOUNDED, Some(bound_ms @ 1..), None) => AskedLevel::Bounded { bound_ms },
            (LINEARIZABLE, None, None) => AskedLevel::Linearizable,
            _ => return Err(fields.error(DecodeReason::OutOfRange)),
        };
        Ok(Self { level, wait_ms })
    }

    /// Writes the value of a control. Numbers above maxInt have no place in it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (level, bound_ms, cookie) = match self.level {
            AskedLevel::Local => (LOCAL, None, None),
            AskedLevel::AtLeast { cookie } => (AT_LEAST, None, Some(cookie)),
            AskedLevel::Bounded { bound_ms } => (BOUNDED, Some(bound_ms), None),
            AskedLevel::Linearizable => (LINEARIZABLE, None, None),
        };
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        writer.enumerated(Tag::ENUMERATED, level);
        for (tag, number) in [(BOUND, bound_ms), (WAIT, self.wait_ms)] {
            if let Some(number) = number {
                writer.integer(tag, number.into());
            }
        }
        if let Some(cookie) = cookie {
            writer.octets(COOKIE, cookie);
        }
        writer.end(fields);
        value
    }
}

fn read_number(fields: &mut Reader<'_>, tag: Tag) -> Result<Option<u32>, DecodeError> {
    (fields.peek_tag() == Some(tag)).then(|| fields.unsigned(tag)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_written() {
        let check = |level: AskedLevel<'_>, wait_ms: Option<u32>, want: &[u8]| {
            let request = ReadLevelRequest { level, wait_ms };
            assert_eq!(request.encode(), want, "{request:?}");
            assert_eq!(ReadLevelRequest::decode(want), Ok(request));
        };
        check(AskedLevel::Local, None, b"\x30\x03\x0a\x01\x00");
        check(AskedLevel::Linearizable, None, b"\x30\x03\x0a\x01\x03");
        check(AskedLevel::Linearizable, Some(0), b"\x30\x06\x0a\x01\x03\x81\x01\x00");
        let bounded = AskedLevel::Bounded { bound_ms: 500 };
        check(bounded, None, b"\x30\x07\x0a\x01\x02\x80\x02\x01\xf4");
        let at_least = AskedLevel::AtLeast { cookie: b"ab" };
        check(at_least, Some(9), b"\x30\x0a\x0a\x01\x01\x81\x01\x09\x82\x02ab");
        check(AskedLevel::AtLeast { cookie: b"" }, None, b"\x30\x05\x0a\x01\x01\x82\x00");
    }

    #[test]
    fn what_says_no_level_is_refused() {
        for bad in [
            &b""[..],
            b"\x30\x00",
            b"\x0a\x01\x03",
            // A level that is not known.
            b"\x30\x03\x0a\x01\x04",
            // No bound, one of 0, a negative one, one that is none of the level's.
            b"\x30\x03\x0a\x01\x02",
            b"\x30\x06\x0a\x01\x02\x80\x01\x00",
            b"\x30\x06\x0a\x01\x02\x80\x01\xff",
            b"\x30\x06\x0a\x01\x03\x80\x01\x05",
            // No cookie, or one that is none of the level's.
            b"\x30\x03\x0a\x01\x01",
            b"\x30\x06\x0a\x01\x03\x82\x01a",
            // In another order, twice, and something after it.
            b"\x30\x09\x0a\x01\x02\x81\x01\x05\x80\x01\x05",
            b"\x30\x09\x0a\x01\x03\x81\x01\x05\x81\x01\x05",
            b"\x30\x03\x0a\x01\x03\x00",
        ] {
            assert!(ReadLevelRequest::decode(bad).is_err(), "{bad:02x?}");
        }
        let later = b"\x30\x06\x0a\x01\x03\x84\x01\x07";
        let level = ReadLevelRequest::decode(later).map(|request| request.level);
        assert_eq!(level, Ok(AskedLevel::Linearizable), "there is room for more");
    }
}
