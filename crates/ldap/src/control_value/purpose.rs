//! The value of the operation purpose request control (UnboundID): why a request is sent.
//!
//! ```text
//! OperationPurposeRequest ::= SEQUENCE {
//!     applicationName    [0] OCTET STRING OPTIONAL,
//!     applicationVersion [1] OCTET STRING OPTIONAL,
//!     codeLocation       [2] OCTET STRING OPTIONAL,
//!     requestPurpose     [3] OCTET STRING OPTIONAL,
//!     ... }
//! ```

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// The OID of the control.
pub const OID: &str = "1.3.6.1.4.1.30221.2.5.19";

/// Who asks, from where, and why.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OperationPurpose<'a> {
    /// What the program is called.
    pub application: Option<&'a str>,
    /// Which version of it.
    pub version: Option<&'a str>,
    /// Where in it.
    pub location: Option<&'a str>,
    /// Why.
    pub purpose: Option<&'a str>,
}

impl<'a> OperationPurpose<'a> {
    /// Reads the value of a control.
    pub fn decode(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        reader.end()?;
        let mut texts = [None; 4];
        for (tag, text) in TAGS.into_iter().zip(&mut texts) {
            if let Some(octets) = fields.read_optional(tag)? {
                let read = std::str::from_utf8(octets);
                *text = Some(read.map_err(|_| fields.error(DecodeReason::OutOfRange))?);
            }
        }
        fields.end_extensible(&TAGS)?;
        let [application, version, location, purpose] = texts;
        Ok(Self { application, version, location, purpose })
    }

    /// Writes the value of a control.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let texts = [self.application, self.version, self.location, self.purpose];
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let fields = writer.begin(Tag::SEQUENCE);
        for (tag, text) in TAGS.into_iter().zip(texts) {
            if let Some(text) = text {
                writer.octets(tag, text.as_bytes());
            }
        }
        writer.end(fields);
        value
    }
}

const TAGS: [Tag; 4] = [
    Tag::context(0, false),
    Tag::context(1, false),
    Tag::context(2, false),
    Tag::context(3, false),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_reads_back_as_it_was_written() {
        let purpose = Some("more room for imports");
        for asked in [
            OperationPurpose::default(),
            OperationPurpose { purpose, ..OperationPurpose::default() },
            OperationPurpose {
                application: Some("a"),
                version: Some("1"),
                location: None,
                purpose,
            },
        ] {
            assert_eq!(OperationPurpose::decode(&asked.encode()), Ok(asked));
        }
        // 30 04 83 02 6f 6b: as the UnboundID LDAP SDK writes it.
        let read = OperationPurpose::decode(&[0x30, 4, 0x83, 2, 0x6f, 0x6b]).unwrap();
        assert_eq!(read.purpose, Some("ok"));
        for bad in [&b""[..], &[0x30, 3, 0x83, 1, 0xff], &[0x30, 3, 0x83, 2, 0x6f], &[0x04, 0]] {
            assert!(OperationPurpose::decode(bad).is_err(), "{bad:02x?}");
        }
    }
}
