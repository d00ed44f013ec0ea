//! The requests (RFC 4511 §4.2–§4.12) as one enum.

use super::{
    AddRequest, BindRequest, CompareRequest, DecodeLimits, ExtendedRequest, MessageId,
    ModifyDnRequest, ModifyRequest, SearchRequest,
};
use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Authenticate (RFC 4511 §4.2).
    Bind(BindRequest<'a>),
    /// End the session (RFC 4511 §4.3).
    Unbind,
    /// Find entries (RFC 4511 §4.5).
    Search(SearchRequest<'a>),
    /// Change attributes of an entry (RFC 4511 §4.6).
    Modify(ModifyRequest<'a>),
    /// Add an entry (RFC 4511 §4.7).
    Add(AddRequest<'a>),
    /// Remove an entry (RFC 4511 §4.8).
    Delete(DeleteRequest<'a>),
    /// Rename or move an entry (RFC 4511 §4.9).
    ModifyDn(ModifyDnRequest<'a>),
    /// Test one value of an entry (RFC 4511 §4.10).
    Compare(CompareRequest<'a>),
    /// Give up the operation with this id (RFC 4511 §4.11).
    Abandon(MessageId),
    /// An operation named by an OID (RFC 4511 §4.12).
    Extended(ExtendedRequest<'a>),
}

/// Removes a leaf entry (RFC 4511 §4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRequest<'a> {
    /// The DN of the entry.
    pub name: &'a str,
}

impl<'a> Request<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        tag: Tag,
        limits: &DecodeLimits,
    ) -> Result<Self, DecodeError> {
        Ok(match tag {
            BIND => Self::Bind(BindRequest::read(reader.sequence(tag)?, limits)?),
            UNBIND => {
                let start = *reader;
                if !reader.read(tag)?.is_empty() {
                    return Err(start.error(DecodeReason::BadNull));
                }
                Self::Unbind
            }
            SEARCH => Self::Search(SearchRequest::read(reader.sequence(tag)?, limits)?),
            MODIFY => Self::Modify(ModifyRequest::read(reader.sequence(tag)?, limits)?),
            ADD => Self::Add(AddRequest::read(reader.sequence(tag)?, limits)?),
            DELETE => Self::Delete(DeleteRequest { name: limits.read_name(reader, tag)? }),
            MODIFY_DN => Self::ModifyDn(ModifyDnRequest::read(reader.sequence(tag)?, limits)?),
            COMPARE => Self::Compare(CompareRequest::read(reader.sequence(tag)?, limits)?),
            ABANDON => Self::Abandon(MessageId::read(reader, tag)?),
            EXTENDED => Self::Extended(ExtendedRequest::read(reader.sequence(tag)?)?),
            _ => return Err(reader.error(DecodeReason::UnexpectedTag(tag))),
        })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Unbind => return writer.header(UNBIND, 0),
            Self::Delete(request) => return writer.octets(DELETE, request.name.as_bytes()),
            Self::Abandon(id) => return writer.integer(ABANDON, i64::from(id.0)),
            Self::Bind(_)
            | Self::Search(_)
            | Self::Modify(_)
            | Self::Add(_)
            | Self::ModifyDn(_)
            | Self::Compare(_)
            | Self::Extended(_) => {}
        }
        let mark = writer.begin(self.kind().tag());
        match self {
            Self::Bind(request) => request.write(writer),
            Self::Search(request) => request.write(writer),
            Self::Modify(request) => request.write(writer),
            Self::Add(request) => request.write(writer),
            Self::ModifyDn(request) => request.write(writer),
            Self::Compare(request) => request.write(writer),
            Self::Extended(request) => request.write(writer),
            Self::Unbind | Self::Delete(_) | Self::Abandon(_) => {}
        }
        writer.end(mark);
    }
}

pub(super) const BIND: Tag = Tag::application(0, true);
pub(super) const UNBIND: Tag = Tag::application(2, false);
pub(super) const SEARCH: Tag = Tag::application(3, true);
pub(super) const MODIFY: Tag = Tag::application(6, true);
pub(super) const ADD: Tag = Tag::application(8, true);
pub(super) const DELETE: Tag = Tag::application(10, false);
pub(super) const MODIFY_DN: Tag = Tag::application(12, true);
pub(super) const COMPARE: Tag = Tag::application(14, true);
pub(super) const ABANDON: Tag = Tag::application(16, false);
pub(super) const EXTENDED: Tag = Tag::application(23, true);
