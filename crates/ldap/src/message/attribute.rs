//! PartialAttribute and lists of it (RFC 4511 §4.1.7).

use super::{Element, List, ListBuf, Values};
use crate::ber::{DecodeError, Reader, Tag, Writer, tlv_len};

/// An attribute description and its values; there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialAttribute<'a> {
    /// The attribute description, as in `cn;lang-de`; its syntax is not looked at.
    pub description: &'a str,
    /// The values, in the order they came.
    pub values: Values<'a>,
}

/// The element of [`Attributes`].
#[derive(Debug)]
pub enum PartialAttributeElement {}

impl Element for PartialAttributeElement {
    type Item<'a> = PartialAttribute<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<PartialAttribute<'a>, DecodeError> {
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        let description = fields.string(Tag::OCTET_STRING)?;
        let values = Values::decode(fields.sequence(Tag::SET)?)?;
        fields.end_extensible(&[])?;
        Ok(PartialAttribute { description, values })
    }

    #[inline]
    fn write(attribute: &PartialAttribute<'_>, writer: &mut Writer<'_>) {
        let description = attribute.description.as_bytes();
        let values = attribute.values.as_ber();
        let content_len = tlv_len(description.len()) + tlv_len(values.len());
        // Nearly all of them: every length is one octet.
        if content_len < 0x80 {
            let (head, kind) = (Tag::SEQUENCE.0, Tag::OCTET_STRING.0);
            writer.reserve(2 + content_len);
            writer.raw(&[head, content_len as u8, kind, description.len() as u8]);
            writer.raw(description);
            writer.raw(&[Tag::SET.0, values.len() as u8]);
            return writer.raw(values);
        }
        writer.reserve(tlv_len(content_len));
        writer.header(Tag::SEQUENCE, content_len);
        writer.octets(Tag::OCTET_STRING, description);
        writer.octets(Tag::SET, values);
    }
}

/// Attributes of an entry.
pub type Attributes<'a> = List<'a, PartialAttributeElement>;
/// Builds [`Attributes`].
pub type AttributesBuf = ListBuf<PartialAttributeElement>;
