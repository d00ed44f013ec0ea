//! The server's fast path: answers written straight into an output buffer.
//!
//! Invariants: nothing is built first and nothing is allocated but the growth of the buffer itself;
//! values go from the store into the buffer with one copy; lengths are minimal.

use crate::ber::{LENGTH_MAX, OpenElement, Tag, Writer, integer_len, tlv_len};
use crate::message::{
    Attributes, Controls, Element, LdapResult, Message, MessageId, PartialAttribute,
    PartialAttributeElement, Response, ResponseKind, SEARCH_ENTRY, Values,
};
use crate::result::ResultCode;

/// Streams one SearchResultEntry (RFC 4511 §4.5.2) into a buffer.
///
/// Ends with [`Self::finish`]; without it the buffer holds half a message, which the caller cuts
/// off again.
#[derive(Debug)]
#[must_use = "an entry is a message only after finish()"]
pub struct EntryWriter<'b> {
    writer: Writer<'b>,
    message: OpenElement,
    entry: OpenElement,
    attributes: OpenElement,
}

impl<'b> EntryWriter<'b> {
    /// Begins an entry with this DN.
    pub fn begin(out: &'b mut Vec<u8>, id: MessageId, dn: &str) -> Self {
        let mut writer = Writer::new(out);
        let message = writer.begin_long(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, i64::from(id.0));
        let entry = writer.begin_long(SEARCH_ENTRY);
        writer.octets(Tag::OCTET_STRING, dn.as_bytes());
        let attributes = writer.begin_long(Tag::SEQUENCE);
        Self { writer, message, entry, attributes }
    }

    /// Writes an attribute with its values.
    #[inline]
    pub fn attribute(&mut self, description: &str, values: Values<'_>) {
        let attribute = PartialAttribute { description, values };
        PartialAttributeElement::write(&attribute, &mut self.writer);
    }

    /// Writes an attribute without values, for `typesOnly`.
    pub fn attribute_types_only(&mut self, description: &str) {
        self.attribute(description, Values::EMPTY);
    }

    /// Completes the message.
    pub fn finish(mut self, controls: Controls<'_>) {
        self.writer.end(self.attributes);
        self.writer.end(self.entry);
        controls.write(&mut self.writer);
        self.writer.end(self.message);
    }
}

/// A SearchResultEntry (RFC 4511 §4.5.2) without values that are sent in parts, since they are too
/// many to be held at once: its last attributes.
#[derive(Debug, Default)]
pub struct LongEntry {
    /// What comes before each of these attributes' values, and what comes behind all of them.
    pub pieces: Vec<Vec<u8>>,
}

/// An attribute whose values are sent in parts.
#[derive(Clone, Copy, Debug)]
pub struct LongAttribute<'a> {
    /// Its description.
    pub description: &'a str,
    /// Values that are at hand.
    pub first: Values<'a>,
    /// How many octets all others take: OCTET STRING after OCTET STRING.
    pub octets: u64,
}

impl LongEntry {
    /// The entry with this DN, these attributes, and those that have very many values; none when it
    /// has more octets than a message may have.
    #[must_use]
    pub fn new(
        id: MessageId,
        dn: &str,
        attributes: Attributes<'_>,
        long: &[LongAttribute<'_>],
        controls: Controls<'_>,
    ) -> Option<Self> {
        let fits = |length: usize| (length <= LENGTH_MAX).then_some(length);
        let mut values = Vec::with_capacity(long.len());
        let mut attributes_len = attributes.as_ber().len();
        for one in long {
            let octets = usize::try_from(one.octets).ok()?;
            let values_len = fits(one.first.as_ber().len().checked_add(octets)?)?;
            let content_len = fits(tlv_len(one.description.len()) + tlv_len(values_len))?;
            attributes_len = fits(attributes_len + tlv_len(content_len))?;
            values.push((one, content_len, values_len));
        }
        let entry_len = fits(tlv_len(dn.len()) + tlv_len(attributes_len))?;
        let id_len = tlv_len(integer_len(i64::from(id.0)));
        let message_len = fits(id_len + tlv_len(entry_len) + controls.encoded_len())?;
        let mut piece = Vec::new();
        let mut writer = Writer::new(&mut piece);
        writer.header(Tag::SEQUENCE, message_len);
        writer.integer(Tag::INTEGER, i64::from(id.0));
        writer.header(SEARCH_ENTRY, entry_len);
        writer.octets(Tag::OCTET_STRING, dn.as_bytes());
        writer.header(Tag::SEQUENCE, attributes_len);
        writer.raw(attributes.as_ber());
        let mut pieces = Vec::with_capacity(long.len() + 1);
        for (one, content_len, values_len) in values {
            let mut writer = Writer::new(&mut piece);
            writer.header(Tag::SEQUENCE, content_len);
            writer.octets(Tag::OCTET_STRING, one.description.as_bytes());
            writer.header(Tag::SET, values_len);
            writer.raw(one.first.as_ber());
            pieces.push(std::mem::take(&mut piece));
        }
        controls.write(&mut Writer::new(&mut piece));
        pieces.push(piece);
        Some(Self { pieces })
    }
}

/// Writes the notice that the server gave a transaction up (RFC 5805 §2.3), and why.
pub fn aborted_transaction(
    out: &mut Vec<u8>,
    identifier: &[u8],
    code: ResultCode,
    diagnostic: &str,
) {
    let result = LdapResult { diagnostic, ..LdapResult::new(code) };
    let (oid, value) = (Some(ABORTED_TRANSACTION), Some(identifier));
    let op = Response::Extended { result, oid, value };
    Message { id: MessageId::UNSOLICITED, op, controls: Controls::EMPTY }.encode(out);
}

/// Writes the response that ends an operation.
pub fn result(
    out: &mut Vec<u8>,
    id: MessageId,
    kind: ResponseKind,
    result: &LdapResult<'_>,
    controls: Controls<'_>,
) {
    let result_len = result.encoded_len();
    let controls_len = controls.encoded_len();
    let content_len = tlv_len(integer_len(i64::from(id.0))) + tlv_len(result_len) + controls_len;
    let mut writer = Writer::new(out);
    writer.reserve(tlv_len(content_len));
    writer.header(Tag::SEQUENCE, content_len);
    writer.integer(Tag::INTEGER, i64::from(id.0));
    writer.header(kind.tag(), result_len);
    result.write(&mut writer);
    controls.write(&mut writer);
}

/// Writes the notice of disconnection (RFC 4511 §4.4.1), the last thing a session sends.
pub fn notice_of_disconnection(out: &mut Vec<u8>, code: ResultCode, diagnostic: &str) {
    let result = LdapResult { diagnostic, ..LdapResult::new(code) };
    let op = Response::Extended { result, oid: Some(NOTICE_OF_DISCONNECTION), value: None };
    Message { id: MessageId::UNSOLICITED, op, controls: Controls::EMPTY }.encode(out);
}

/// The OID of the aborted transaction notice (RFC 5805 §2.3).
pub const ABORTED_TRANSACTION: &str = "1.3.6.1.1.21.4";

/// The OID of the notice of disconnection (RFC 4511 §4.4.1).
pub const NOTICE_OF_DISCONNECTION: &str = "1.3.6.1.4.1.1466.20036";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::LENGTH_MAX;
    use crate::message::{AttributesBuf, Control, ControlsBuf, ValuesBuf};

    fn values(count: usize, length: usize) -> ValuesBuf {
        (0..count).map(|number| vec![number as u8; length]).collect::<Vec<_>>().iter().fold(
            ValuesBuf::new(),
            |mut values, value| {
                values.push(value);
                values
            },
        )
    }

    #[test]
    fn an_entry_in_parts_is_the_entry() {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.2.3", critical: false, value: Some(b"x") });
        for (count, length) in [(0, 0), (1, 3), (3, 40), (40, 3), (7, 9_000), (2_000, 50)] {
            for controls in [Controls::EMPTY, controls.as_ref()] {
                let (few, first, others) =
                    (values(2, 5), values(count / 3, 4), values(count, length));
                let mut whole = Vec::new();
                let mut writer = EntryWriter::begin(&mut whole, MessageId(300), "cn=a");
                let mut attributes = AttributesBuf::new();
                attributes.push(PartialAttribute { description: "cn", values: few.as_ref() });
                writer.attribute("cn", few.as_ref());
                for description in ["member", "owner"] {
                    let both = [first.as_ref().as_ber(), others.as_ref().as_ber()].concat();
                    writer.attribute(description, Values::from_ber_trusted(&both));
                }
                writer.finish(controls);
                let octets = others.as_ref().as_ber().len() as u64;
                let long = ["member", "owner"].map(|description| LongAttribute {
                    description,
                    first: first.as_ref(),
                    octets,
                });
                let attributes = attributes.as_ref();
                let parts = LongEntry::new(MessageId(300), "cn=a", attributes, &long, controls);
                let pieces = parts.unwrap().pieces;
                assert_eq!(pieces.len(), 3);
                let parts = pieces.join(others.as_ref().as_ber());
                assert!(parts == whole, "{count} {length}");
            }
        }
    }

    #[test]
    fn what_fits_into_no_message_is_none() {
        let entry = |octets| {
            let long = [LongAttribute { description: "member", first: Values::EMPTY, octets }];
            let (id, attributes) = (MessageId(1), AttributesBuf::new());
            LongEntry::new(id, "cn=a", attributes.as_ref(), &long, Controls::EMPTY)
        };
        let most = LENGTH_MAX as u64;
        assert!(entry(most - 100).is_some());
        assert!((0..60).all(|less| entry(most - less / 2).is_none()));
        assert!(entry(most + 1).is_none() && entry(u64::MAX).is_none());
    }
}
