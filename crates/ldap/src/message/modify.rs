//! Modify (RFC 4511 §4.6) with the increment of RFC 4525.

use super::{DecodeLimits, Element, List, ListBuf, PartialAttribute, PartialAttributeElement};
use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// Asks to change attributes of an entry, all or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifyRequest<'a> {
    /// The DN of the entry.
    pub name: &'a str,
    /// The modifications, to be made in this order.
    pub changes: Modifications<'a>,
}

/// One modification of one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modification<'a> {
    /// What to do.
    pub operation: ModifyOperation,
    /// With which attribute and values.
    pub attribute: PartialAttribute<'a>,
}

/// What to do with an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyOperation {
    /// Adds the values.
    Add,
    /// Deletes the values, or all if none are given.
    Delete,
    /// Puts these values in place of all others.
    Replace,
    /// Adds the value, a number, to the values (RFC 4525 §2).
    Increment,
}

impl ModifyOperation {
    /// The operation with this number.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::Add),
            1 => Some(Self::Delete),
            2 => Some(Self::Replace),
            3 => Some(Self::Increment),
            _ => None,
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Add => 0,
            Self::Delete => 1,
            Self::Replace => 2,
            Self::Increment => 3,
        }
    }
}

/// The element of [`Modifications`].
#[derive(Debug)]
pub enum ModificationElement {}

impl Element for ModificationElement {
    type Item<'a> = Modification<'a>;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<Modification<'a>, DecodeError> {
        let mut fields = reader.sequence(Tag::SEQUENCE)?;
        let start = fields;
        let operation = ModifyOperation::from_code(fields.enumerated(Tag::ENUMERATED)?)
            .ok_or(start.error(DecodeReason::OutOfRange))?;
        let attribute = PartialAttributeElement::read(&mut fields)?;
        fields.end_extensible(&[])?;
        Ok(Modification { operation, attribute })
    }

    fn write(modification: &Modification<'_>, writer: &mut Writer<'_>) {
        let mark = writer.begin(Tag::SEQUENCE);
        writer.enumerated(Tag::ENUMERATED, modification.operation.code());
        PartialAttributeElement::write(&modification.attribute, writer);
        writer.end(mark);
    }
}

/// The modifications of a request.
pub type Modifications<'a> = List<'a, ModificationElement>;
/// Builds [`Modifications`].
pub type ModificationsBuf = ListBuf<ModificationElement>;

impl<'a> ModifyRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let name = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let at_changes = fields;
        let changes = Modifications::decode(fields.sequence(Tag::SEQUENCE)?)?;
        if changes.is_longer_than(limits.modifications_max) {
            return Err(at_changes.error(DecodeReason::TooManyModifications));
        }
        fields.end_extensible(&[])?;
        Ok(Self { name, changes })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, self.name.as_bytes());
        writer.octets(Tag::SEQUENCE, self.changes.as_ber());
    }
}
