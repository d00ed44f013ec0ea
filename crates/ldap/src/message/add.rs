//! Add (RFC 4511 §4.7).

use super::{Attributes, DecodeLimits};
use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// Asks to add an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRequest<'a> {
    /// The DN of the new entry.
    pub name: &'a str,
    /// Its attributes, each with at least one value.
    pub attributes: Attributes<'a>,
}

impl<'a> AddRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let name = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let list = fields.sequence(Tag::SEQUENCE)?;
        let attributes = Attributes::decode_checked(list, |attribute| {
            if attribute.values.is_empty() { Err(DecodeReason::EmptyList) } else { Ok(()) }
        })?;
        fields.end_extensible(&[])?;
        Ok(Self { name, attributes })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, self.name.as_bytes());
        writer.octets(Tag::SEQUENCE, self.attributes.as_ber());
    }
}
