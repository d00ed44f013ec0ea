//! The value of the dereference control (draft-masarati-ldap-deref-00): attributes of the entries
//! that values of an entry name come with the entry.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::message::{Attributes, Strings};

/// The OID of the control, of requests and of responses, which is OpenLDAP's.
pub const OID: &str = "1.3.6.1.4.1.4203.666.5.16";
/// How many attributes a request may ask to follow.
pub const SPECIFICATIONS_MAX: usize = 16;

/// Of which attribute values are to be followed, and what of the entries is wanted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DereferenceSpecification<'a> {
    /// The attribute whose values name entries.
    pub attribute: &'a str,
    /// The attributes of those, as a search names them.
    pub attributes: Strings<'a>,
}

/// Reads the value of a request control.
///
/// # Errors
/// When it is malformed, asks for nothing, or for more than [`SPECIFICATIONS_MAX`].
pub fn decode(value: &[u8]) -> Result<Vec<DereferenceSpecification<'_>>, DecodeError> {
    let mut reader = Reader::new(value);
    let mut list = reader.sequence(Tag::SEQUENCE)?;
    reader.end()?;
    let mut all = Vec::new();
    while list.peek_tag().is_some() {
        if all.len() >= SPECIFICATIONS_MAX {
            return Err(list.error(DecodeReason::TooManyTerms));
        }
        let mut fields = list.sequence(Tag::SEQUENCE)?;
        let attribute = fields.string(Tag::OCTET_STRING)?;
        let attributes = Strings::decode(fields.sequence(Tag::SEQUENCE)?)?;
        fields.end()?;
        all.push(DereferenceSpecification { attribute, attributes });
    }
    match all.is_empty() {
        true => Err(list.error(DecodeReason::EmptyList)),
        false => Ok(all),
    }
}

/// Writes the value of a response control, one value that was followed after the other.
#[derive(Debug, Default)]
pub struct DereferenceResponse {
    results: Vec<u8>,
}

impl DereferenceResponse {
    /// Adds what a value of an attribute names: the attributes of the entry that have values, none
    /// where there is no such entry or nothing of it may be read.
    pub fn push(&mut self, attribute: &str, name: &[u8], found: Attributes<'_>) {
        let mut writer = Writer::new(&mut self.results);
        let result = writer.begin_long(Tag::SEQUENCE);
        writer.octets(Tag::OCTET_STRING, attribute.as_bytes());
        writer.octets(Tag::OCTET_STRING, name);
        if !found.is_empty() {
            writer.octets(ATTRIBUTES, found.as_ber());
        }
        writer.end(result);
    }

    /// Whether no value was followed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// How many octets it has by now.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.results.len()
    }

    /// The value of the control.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.results.len() + 8);
        Writer::new(&mut value).octets(Tag::SEQUENCE, &self.results);
        value
    }
}

/// `attrVals [0] PartialAttributeList OPTIONAL`.
const ATTRIBUTES: Tag = Tag::context(0, true);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AttributesBuf, PartialAttribute, ValuesBuf};

    /// `{ { member, { cn, uid } } }`
    const REQUEST: &[u8] = b"\x30\x15\x30\x13\x04\x06member\x30\x09\x04\x02cn\x04\x03uid";

    #[test]
    fn a_request_is_read() {
        let read = decode(REQUEST).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].attribute, "member");
        assert_eq!(read[0].attributes.iter().collect::<Vec<_>>(), ["cn", "uid"]);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for value in [&b""[..], b"\x30\x00", b"\x30\x02\x30\x00", b"\x30\x03\x04\x01a"] {
            assert!(decode(value).is_err(), "{value:?}");
        }
        let trailing = [REQUEST, b"\0"].concat();
        assert!(decode(&trailing).is_err());
        for at in 0..REQUEST.len() {
            assert!(decode(&REQUEST[..at]).is_err(), "{at}");
        }
        let one = &REQUEST[2..];
        let many = one.repeat(SPECIFICATIONS_MAX + 1);
        let mut value = Vec::new();
        Writer::new(&mut value).octets(Tag::SEQUENCE, &many);
        assert!(decode(&value).is_err());
    }

    #[test]
    fn a_response_is_written() {
        let mut response = DereferenceResponse::default();
        let mut values = ValuesBuf::new();
        values.push(b"b");
        let mut found = AttributesBuf::new();
        found.push(PartialAttribute { description: "cn", values: values.as_ref() });
        response.push("m", b"cn=a", found.as_ref());
        response.push("m", b"cn=c", Attributes::EMPTY);
        let value = response.finish();
        let mut reader = Reader::new(&value);
        let mut list = reader.sequence(Tag::SEQUENCE).unwrap();
        let mut first = list.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(first.string(Tag::OCTET_STRING), Ok("m"));
        assert_eq!(first.string(Tag::OCTET_STRING), Ok("cn=a"));
        let mut attributes = first.sequence(ATTRIBUTES).unwrap();
        let mut attribute = attributes.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(attribute.string(Tag::OCTET_STRING), Ok("cn"));
        let mut second = list.sequence(Tag::SEQUENCE).unwrap();
        assert_eq!(second.string(Tag::OCTET_STRING), Ok("m"));
        assert_eq!(second.string(Tag::OCTET_STRING), Ok("cn=c"));
        assert!(second.end().is_ok() && list.end().is_ok());
    }
}
