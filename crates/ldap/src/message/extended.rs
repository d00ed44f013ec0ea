//! The extended operation (RFC 4511 §4.12); its value stays opaque here.

use std::fmt;

use crate::ber::{DecodeError, Reader, Tag, Writer};

/// Asks for the operation an OID names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExtendedRequest<'a> {
    /// `requestName`: a dotted OID, not checked here.
    pub oid: &'a str,
    /// `requestValue`, if there is one.
    pub value: Option<&'a [u8]>,
}

/// The value may hold a password (RFC 3062): only its length is shown.
impl fmt::Debug for ExtendedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtendedRequest")
            .field("oid", &self.oid)
            .field("value_octets", &self.value.map(<[u8]>::len))
            .finish()
    }
}

impl<'a> ExtendedRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>) -> Result<Self, DecodeError> {
        let oid = fields.string(REQUEST_NAME)?;
        let value = fields.read_optional(REQUEST_VALUE)?;
        fields.end_extensible(&[REQUEST_NAME, REQUEST_VALUE])?;
        Ok(Self { oid, value })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.octets(REQUEST_NAME, self.oid.as_bytes());
        if let Some(value) = self.value {
            writer.octets(REQUEST_VALUE, value);
        }
    }
}

const REQUEST_NAME: Tag = Tag::context(0, false);
const REQUEST_VALUE: Tag = Tag::context(1, false);
