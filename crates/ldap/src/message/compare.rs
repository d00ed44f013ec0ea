//! Compare (RFC 4511 §4.10).

use super::DecodeLimits;
use crate::ber::{DecodeError, Reader, Tag, Writer};

/// Asks whether an entry has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareRequest<'a> {
    /// The DN of the entry.
    pub name: &'a str,
    /// The attribute description.
    pub description: &'a str,
    /// The assertion value.
    pub value: &'a [u8],
}

impl<'a> CompareRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let name = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let mut assertion = fields.sequence(Tag::SEQUENCE)?;
        let description = assertion.string(Tag::OCTET_STRING)?;
        let value = assertion.octets(Tag::OCTET_STRING)?;
        assertion.end_extensible(&[])?;
        fields.end_extensible(&[])?;
        Ok(Self { name, description, value })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, self.name.as_bytes());
        let mark = writer.begin(Tag::SEQUENCE);
        writer.octets(Tag::OCTET_STRING, self.description.as_bytes());
        writer.octets(Tag::OCTET_STRING, self.value);
        writer.end(mark);
    }
}
