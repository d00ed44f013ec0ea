//! Controls on the wire (RFC 4511 §4.1.11); their values stay opaque here.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer, tlv_len};
use crate::message::{DecodeLimits, Element, List, ListBuf};

/// A control of a request or response (RFC 4511 §4.1.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// `controlType`: a dotted OID, not checked here.
    pub oid: &'a str,
    /// Whether the operation must be refused by who does not know the control; absent is FALSE.
    pub critical: bool,
    /// `controlValue`, if there is one.
    pub value: Option<&'a [u8]>,
}

/// The element of [`Controls`].
#[derive(Debug)]
pub enum ControlElement {}

impl Element for ControlElement {
    type Item<'a> = Control<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Control<'a>, DecodeError> {
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        let oid = fields.string(Tag::OCTET_STRING)?;
        let critical = fields.peek_tag() == Some(Tag::BOOLEAN) && fields.boolean(Tag::BOOLEAN)?;
        let value = fields.read_optional(Tag::OCTET_STRING)?;
        fields.end_extensible(&[])?;
        Ok(Control { oid, critical, value })
    }

    fn write(control: &Control<'_>, writer: &mut Writer<'_>) {
        // A value may have megabytes, which are written once.
        let critical_len = if control.critical { tlv_len(1) } else { 0 };
        let value_len = control.value.map_or(0, |value| tlv_len(value.len()));
        let content_len = tlv_len(control.oid.len()) + critical_len + value_len;
        writer.reserve(tlv_len(content_len));
        writer.header(Tag::SEQUENCE, content_len);
        writer.octets(Tag::OCTET_STRING, control.oid.as_bytes());
        if control.critical {
            writer.boolean(Tag::BOOLEAN, true);
        }
        if let Some(value) = control.value {
            writer.octets(Tag::OCTET_STRING, value);
        }
    }
}

/// The controls of a message.
pub type Controls<'a> = List<'a, ControlElement>;
/// Builds [`Controls`].
pub type ControlsBuf = ListBuf<ControlElement>;

impl<'a> Controls<'a> {
    /// Reads the controls of a message, if it has any.
    pub(crate) fn read(
        reader: &mut Reader<'a>,
        limits: &DecodeLimits,
    ) -> Result<Self, DecodeError> {
        let Some(list) = reader.sequence_optional(CONTROLS)? else {
            return Ok(Self::EMPTY);
        };
        let mut left = limits.controls_max;
        Self::decode_checked(list, |_| {
            left = left.checked_sub(1).ok_or(DecodeReason::TooManyControls)?;
            Ok(())
        })
    }

    /// How many octets [`Self::write`] writes.
    pub(crate) const fn encoded_len(&self) -> usize {
        if self.is_empty() { 0 } else { tlv_len(self.as_ber().len()) }
    }

    /// Writes the controls of a message, if there are any.
    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        if !self.is_empty() {
            writer.octets(CONTROLS, self.as_ber());
        }
    }
}

/// `[0]` of LDAPMessage (RFC 4511 §4.1.1).
pub(crate) const CONTROLS: Tag = Tag::context(0, true);
