//! ModifyDN (RFC 4511 §4.9).

use super::DecodeLimits;
use crate::ber::{DecodeError, Reader, Tag, Writer};

/// Asks to rename an entry, or to move it with all below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyDnRequest<'a> {
    /// The DN of the entry.
    pub name: &'a str,
    /// Its RDN to be.
    pub new_rdn: &'a str,
    /// Whether the values of the old RDN are removed from the entry.
    pub delete_old_rdn: bool,
    /// The DN of its superior to be; absent: the superior stays.
    pub new_superior: Option<&'a str>,
}

impl<'a> ModifyDnRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let name = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let new_rdn = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let delete_old_rdn = fields.boolean(Tag::BOOLEAN)?;
        let new_superior = match fields.peek_tag() {
            Some(NEW_SUPERIOR) => Some(limits.read_name(&mut fields, NEW_SUPERIOR)?),
            Some(_) | None => None,
        };
        fields.end_extensible(&[NEW_SUPERIOR])?;
        Ok(Self { name, new_rdn, delete_old_rdn, new_superior })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, self.name.as_bytes());
        writer.octets(Tag::OCTET_STRING, self.new_rdn.as_bytes());
        writer.boolean(Tag::BOOLEAN, self.delete_old_rdn);
        if let Some(new_superior) = self.new_superior {
            writer.octets(NEW_SUPERIOR, new_superior.as_bytes());
        }
    }
}

const NEW_SUPERIOR: Tag = Tag::context(0, false);
