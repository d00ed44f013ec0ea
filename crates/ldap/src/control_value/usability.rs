//! The value of the account usability response control (Sun's "account usable"): whether the
//! account of an entry can sign in, and if not, why.

use crate::ber::{DecodeError, Reader, Tag, Writer};

/// The OID of the request control, which has no value, and of the response control.
pub const OID: &str = "1.3.6.1.4.1.42.2.27.9.5.8";

/// Whether an account can sign in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Usability {
    /// It can; its password expires after so many seconds, if ever.
    Usable {
        /// None: never.
        expires_s: Option<u32>,
    },
    /// It cannot.
    Unusable(Unusable),
}

/// Why an account cannot sign in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unusable {
    /// It is disabled, has expired, or is not good yet.
    pub inactive: bool,
    /// The password was reset and has to be changed first.
    pub reset: bool,
    /// The password has expired.
    pub expired: bool,
    /// How often the expired password may still be used.
    pub grace: Option<u32>,
    /// The account is locked; after so many seconds it is not any more, if ever (-1).
    pub unlock_s: Option<i32>,
}

impl Usability {
    /// Writes the value of a response control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let number = |number: u32| i64::from(i32::try_from(number).unwrap_or(i32::MAX));
        match self {
            Self::Usable { expires_s } => writer.integer(USABLE, expires_s.map_or(-1, number)),
            Self::Unusable(Unusable { inactive, reset, expired, grace, unlock_s }) => {
                let info = writer.begin(UNUSABLE);
                // All three always: Mozilla's and Solaris' libraries read what is there by its tag,
                // OpenDJ's older tools by its place.
                writer.boolean(Tag::context(0, false), *inactive);
                writer.boolean(Tag::context(1, false), *reset);
                writer.boolean(Tag::context(2, false), *expired);
                if let Some(grace) = grace {
                    writer.integer(Tag::context(3, false), number(*grace));
                }
                if let Some(seconds) = unlock_s {
                    writer.integer(Tag::context(4, false), i64::from(*seconds));
                }
                writer.end(info);
            }
        }
        value
    }

    /// Reads the value of a response control.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        if reader.peek_tag() == Some(USABLE) {
            let seconds = reader.integer_i32(USABLE)?;
            reader.end()?;
            return Ok(Self::Usable { expires_s: u32::try_from(seconds).ok() });
        }
        let mut info = reader.sequence(UNUSABLE)?;
        reader.end()?;
        let mut said = Unusable::default();
        for (number, field) in
            [(0, &mut said.inactive), (1, &mut said.reset), (2, &mut said.expired)]
        {
            let tag = Tag::context(number, false);
            if info.peek_tag() == Some(tag) {
                *field = info.boolean(tag)?;
            }
        }
        if info.peek_tag() == Some(Tag::context(3, false)) {
            said.grace = Some(info.unsigned(Tag::context(3, false))?);
        }
        if info.peek_tag() == Some(Tag::context(4, false)) {
            said.unlock_s = Some(info.integer_i32(Tag::context(4, false))?);
        }
        info.end()?;
        Ok(Self::Unusable(said))
    }
}

const USABLE: Tag = Tag::context(0, false);
const UNUSABLE: Tag = Tag::context(1, true);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_sun_has_them() {
        let unusable = Usability::Unusable;
        let locked = Unusable { unlock_s: Some(60), ..Unusable::default() };
        let all = Unusable {
            inactive: true,
            reset: true,
            expired: true,
            grace: Some(3),
            unlock_s: Some(-1),
        };
        for (value, want) in [
            (Usability::Usable { expires_s: None }, b"\x80\x01\xff".as_slice()),
            (Usability::Usable { expires_s: Some(3_600) }, b"\x80\x02\x0e\x10"),
            (unusable(locked), b"\xa1\x0c\x80\x01\x00\x81\x01\x00\x82\x01\x00\x84\x01\x3c"),
            (
                unusable(all),
                b"\xa1\x0f\x80\x01\xff\x81\x01\xff\x82\x01\xff\x83\x01\x03\x84\x01\xff",
            ),
        ] {
            assert_eq!(value.encode(), want);
            assert_eq!(Usability::decode(want), Ok(value));
        }
        assert_eq!(Usability::decode(b"\xa1\x00"), Ok(unusable(Unusable::default())));
        for bad in [b"".as_slice(), b"\x30\x00", b"\xa1\x03\x85\x01\x00", b"\x80\x01\x00\x00"] {
            assert!(Usability::decode(bad).is_err(), "{bad:02x?}");
        }
    }
}
