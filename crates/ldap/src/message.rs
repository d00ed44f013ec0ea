//! The LDAPMessage envelope and every operation in it (RFC 4511 §4.1.1, §4.2–§4.14).
//!
//! Invariants: a decoded message borrows from its buffer; lists stay in wire form; only a filter
//! allocates, bounded by [`DecodeLimits`]. What `encode` writes, `decode` reads back equal.

use std::fmt;

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};
use crate::control::CONTROLS;
pub use crate::control::{Control, Controls, ControlsBuf};

mod add;
mod attribute;
mod bind;
mod compare;
mod extended;
mod ldap_result;
mod limits;
mod list;
mod modify;
mod modify_dn;
mod operation_kind;
mod request;
mod response;
mod search;

pub use add::AddRequest;
pub use attribute::{Attributes, AttributesBuf, PartialAttribute, PartialAttributeElement};
pub use bind::{Authentication, BindRequest};
pub use compare::CompareRequest;
pub use extended::ExtendedRequest;
pub use ldap_result::LdapResult;
pub use limits::{
    CONTROLS_MAX, DecodeLimits, MODIFICATIONS_MAX, NAME_LENGTH_MAX_BYTES, SELECTED_MAX,
};
pub use list::{
    Element, List, ListBuf, ListIter, Octets, Strings, StringsBuf, Text, Values, ValuesBuf,
};
pub use modify::{
    Modification, ModificationElement, Modifications, ModificationsBuf, ModifyOperation,
    ModifyRequest,
};
pub use modify_dn::ModifyDnRequest;
pub use operation_kind::OperationKind;
pub use request::{DeleteRequest, Request};
pub(crate) use response::SEARCH_ENTRY;
pub use response::{Response, ResponseKind};
pub use search::{DerefAliases, Scope, SearchRequest};

/// Names one operation of a session: 0 to 2³¹ − 1 (RFC 4511 §4.1.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub i32);

impl MessageId {
    /// The id of notifications the server sends of its own accord (RFC 4511 §4.4).
    pub const UNSOLICITED: Self = Self(0);

    pub(crate) fn read(reader: &mut Reader<'_>, tag: Tag) -> Result<Self, DecodeError> {
        let start = *reader;
        let id = Self(reader.integer_i32(tag)?);
        if id.0 < 0 { Err(start.error(DecodeReason::OutOfRange)) } else { Ok(id) }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One LDAPMessage; `Op` is [`Request`] or [`Response`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a, Op> {
    /// Ties responses to their request.
    pub id: MessageId,
    /// The operation.
    pub op: Op,
    /// The controls, in the order they came.
    pub controls: Controls<'a>,
}

impl<'a> Message<'a, Request<'a>> {
    /// Reads the one request in `bytes`; its id is not 0 (RFC 4511 §4.1.1.1).
    pub fn decode(bytes: &'a [u8], limits: &DecodeLimits) -> Result<Self, DecodeFailure> {
        decode_envelope(bytes, limits, MessageId(1), |reader, tag| {
            Request::read(reader, tag, limits)
        })
    }

    /// Appends the request to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_envelope(out, self.id, &self.controls, |writer| self.op.write(writer));
    }
}

impl<'a> Message<'a, Response<'a>> {
    /// Reads the one response in `bytes`.
    pub fn decode(bytes: &'a [u8], limits: &DecodeLimits) -> Result<Self, DecodeFailure> {
        decode_envelope(bytes, limits, MessageId::UNSOLICITED, |reader, tag| {
            Response::read(reader, tag, limits)
        })
    }

    /// Appends the response to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_envelope(out, self.id, &self.controls, |writer| self.op.write(writer));
    }
}

/// A message that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeFailure {
    /// The message id, if it could still be read: the server may answer `protocolError` to it.
    pub id: Option<MessageId>,
    /// The tag of the operation, if it could still be read; [`OperationKind::from_tag`] takes it.
    pub tag: Option<Tag>,
    /// What is wrong, and where.
    pub error: DecodeError,
}

impl fmt::Display for DecodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for DecodeFailure {}

fn decode_envelope<'a, Op>(
    bytes: &'a [u8],
    limits: &DecodeLimits,
    id_min: MessageId,
    read_op: impl FnOnce(&mut Reader<'a>, Tag) -> Result<Op, DecodeError>,
) -> Result<Message<'a, Op>, DecodeFailure> {
    let (mut id, mut tag) = (None, None);
    let decode = || {
        let mut whole = Reader::new(bytes);
        let mut fields = whole.sequence(Tag::SEQUENCE)?;
        whole.end()?;
        let at_id = fields;
        let message_id = MessageId::read(&mut fields, Tag::INTEGER)?;
        if message_id < id_min {
            return Err(at_id.error(DecodeReason::OutOfRange));
        }
        id = Some(message_id);
        let Some(op_tag) = fields.peek_tag() else {
            return Err(fields.error(DecodeReason::Truncated));
        };
        tag = Some(op_tag);
        let op = read_op(&mut fields, op_tag)?;
        let controls = Controls::read(&mut fields, limits)?;
        fields.end_extensible(&[CONTROLS])?;
        Ok(Message { id: message_id, op, controls })
    };
    decode().map_err(|error| DecodeFailure { id, tag, error })
}

fn encode_envelope(
    out: &mut Vec<u8>,
    id: MessageId,
    controls: &Controls<'_>,
    write_op: impl FnOnce(&mut Writer<'_>),
) {
    let mut writer = Writer::new(out);
    let mark = writer.begin(Tag::SEQUENCE);
    writer.integer(Tag::INTEGER, i64::from(id.0));
    write_op(&mut writer);
    controls.write(&mut writer);
    writer.end(mark);
}
