//! The server's fast path: answers written straight into an output buffer.
//!
//! Invariants: nothing is built first and nothing is allocated but the growth of the buffer itself;
//! values go from the store into the buffer with one copy; lengths are minimal.

use crate::ber::{OpenElement, Tag, Writer, integer_len, tlv_len};
use crate::message::{
    Controls, Element, LdapResult, Message, MessageId, PartialAttribute, PartialAttributeElement,
    Response, ResponseKind, SEARCH_ENTRY, Values,
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
