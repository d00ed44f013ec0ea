//! The responses (RFC 4511 §4.2–§4.13) as one enum.

use super::{Attributes, DecodeLimits, LdapResult, Strings};
use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// The outcome of a Bind (RFC 4511 §4.2.2).
    Bind {
        /// The outcome.
        result: LdapResult<'a>,
        /// `serverSaslCreds`: the server's part of a SASL exchange.
        server_sasl_credentials: Option<&'a [u8]>,
    },
    /// An entry found (RFC 4511 §4.5.2).
    SearchEntry {
        /// Its DN.
        dn: &'a str,
        /// Its attributes; without values where only types were asked for.
        attributes: Attributes<'a>,
    },
    /// URIs at which the search goes on (RFC 4511 §4.5.3).
    SearchReference(Strings<'a>),
    /// The outcome of a Search.
    SearchDone(LdapResult<'a>),
    /// The outcome of a Modify.
    Modify(LdapResult<'a>),
    /// The outcome of an Add.
    Add(LdapResult<'a>),
    /// The outcome of a Delete.
    Delete(LdapResult<'a>),
    /// The outcome of a ModifyDN.
    ModifyDn(LdapResult<'a>),
    /// The outcome of a Compare.
    Compare(LdapResult<'a>),
    /// The outcome of an Extended operation, or an unsolicited notification (RFC 4511 §4.4).
    Extended {
        /// The outcome.
        result: LdapResult<'a>,
        /// `responseName`.
        oid: Option<&'a str>,
        /// `responseValue`.
        value: Option<&'a [u8]>,
    },
    /// More to come before the outcome (RFC 4511 §4.13).
    Intermediate {
        /// `responseName`.
        oid: Option<&'a str>,
        /// `responseValue`.
        value: Option<&'a [u8]>,
    },
}

/// The responses that end an operation: each carries an [`LdapResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// BindResponse.
    Bind,
    /// SearchResultDone.
    SearchDone,
    /// ModifyResponse.
    Modify,
    /// AddResponse.
    Add,
    /// DelResponse.
    Delete,
    /// ModifyDNResponse.
    ModifyDn,
    /// CompareResponse.
    Compare,
    /// ExtendedResponse.
    Extended,
}

impl ResponseKind {
    /// Its tag on the wire.
    #[must_use]
    pub const fn tag(self) -> Tag {
        match self {
            Self::Bind => BIND,
            Self::SearchDone => SEARCH_DONE,
            Self::Modify => MODIFY,
            Self::Add => ADD,
            Self::Delete => DELETE,
            Self::ModifyDn => MODIFY_DN,
            Self::Compare => COMPARE,
            Self::Extended => EXTENDED,
        }
    }
}

impl<'a> Response<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        tag: Tag,
        limits: &DecodeLimits,
    ) -> Result<Self, DecodeError> {
        Ok(match tag {
            BIND => Self::read_bind(reader.sequence(tag)?, limits)?,
            SEARCH_ENTRY => Self::read_entry(reader.sequence(tag)?, limits)?,
            SEARCH_REFERENCE => {
                Self::SearchReference(Strings::decode_filled(reader.sequence(tag)?)?)
            }
            SEARCH_DONE => Self::SearchDone(LdapResult::read_only(reader, tag, limits)?),
            MODIFY => Self::Modify(LdapResult::read_only(reader, tag, limits)?),
            ADD => Self::Add(LdapResult::read_only(reader, tag, limits)?),
            DELETE => Self::Delete(LdapResult::read_only(reader, tag, limits)?),
            MODIFY_DN => Self::ModifyDn(LdapResult::read_only(reader, tag, limits)?),
            COMPARE => Self::Compare(LdapResult::read_only(reader, tag, limits)?),
            EXTENDED => Self::read_extended(reader.sequence(tag)?, limits)?,
            INTERMEDIATE => Self::read_intermediate(reader.sequence(tag)?)?,
            _ => return Err(reader.error(DecodeReason::UnexpectedTag(tag))),
        })
    }

    fn read_bind(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let result = LdapResult::read(&mut fields, limits)?;
        let server_sasl_credentials = fields.read_optional(SERVER_SASL_CREDENTIALS)?;
        fields.end_extensible(&[LdapResult::REFERRAL, SERVER_SASL_CREDENTIALS])?;
        Ok(Self::Bind { result, server_sasl_credentials })
    }

    fn read_entry(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let dn = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let attributes = Attributes::decode(fields.sequence(Tag::SEQUENCE)?)?;
        fields.end_extensible(&[])?;
        Ok(Self::SearchEntry { dn, attributes })
    }

    fn read_extended(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let result = LdapResult::read(&mut fields, limits)?;
        let oid = fields.string_optional(RESPONSE_NAME)?;
        let value = fields.read_optional(RESPONSE_VALUE)?;
        fields.end_extensible(&[LdapResult::REFERRAL, RESPONSE_NAME, RESPONSE_VALUE])?;
        Ok(Self::Extended { result, oid, value })
    }

    fn read_intermediate(mut fields: Reader<'a>) -> Result<Self, DecodeError> {
        let oid = fields.string_optional(INTERMEDIATE_NAME)?;
        let value = fields.read_optional(INTERMEDIATE_VALUE)?;
        fields.end_extensible(&[INTERMEDIATE_NAME, INTERMEDIATE_VALUE])?;
        Ok(Self::Intermediate { oid, value })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        let mark = writer.begin(self.tag());
        match self {
            Self::Bind { result, server_sasl_credentials } => {
                result.write(writer);
                write_optional(writer, SERVER_SASL_CREDENTIALS, *server_sasl_credentials);
            }
            Self::SearchEntry { dn, attributes } => {
                writer.octets(Tag::OCTET_STRING, dn.as_bytes());
                writer.octets(Tag::SEQUENCE, attributes.as_ber());
            }
            Self::SearchReference(uris) => writer.raw(uris.as_ber()),
            Self::SearchDone(result)
            | Self::Modify(result)
            | Self::Add(result)
            | Self::Delete(result)
            | Self::ModifyDn(result)
            | Self::Compare(result) => result.write(writer),
            Self::Extended { result, oid, value } => {
                result.write(writer);
                write_optional(writer, RESPONSE_NAME, oid.map(str::as_bytes));
                write_optional(writer, RESPONSE_VALUE, *value);
            }
            Self::Intermediate { oid, value } => {
                write_optional(writer, INTERMEDIATE_NAME, oid.map(str::as_bytes));
                write_optional(writer, INTERMEDIATE_VALUE, *value);
            }
        }
        writer.end(mark);
    }

    const fn tag(&self) -> Tag {
        match self {
            Self::Bind { .. } => BIND,
            Self::SearchEntry { .. } => SEARCH_ENTRY,
            Self::SearchReference(_) => SEARCH_REFERENCE,
            Self::SearchDone(_) => SEARCH_DONE,
            Self::Modify(_) => MODIFY,
            Self::Add(_) => ADD,
            Self::Delete(_) => DELETE,
            Self::ModifyDn(_) => MODIFY_DN,
            Self::Compare(_) => COMPARE,
            Self::Extended { .. } => EXTENDED,
            Self::Intermediate { .. } => INTERMEDIATE,
        }
    }
}

fn write_optional(writer: &mut Writer<'_>, tag: Tag, content: Option<&[u8]>) {
    if let Some(content) = content {
        writer.octets(tag, content);
    }
}

const BIND: Tag = Tag::application(1, true);
pub(crate) const SEARCH_ENTRY: Tag = Tag::application(4, true);
const SEARCH_DONE: Tag = Tag::application(5, true);
const MODIFY: Tag = Tag::application(7, true);
const ADD: Tag = Tag::application(9, true);
const DELETE: Tag = Tag::application(11, true);
const MODIFY_DN: Tag = Tag::application(13, true);
const COMPARE: Tag = Tag::application(15, true);
const SEARCH_REFERENCE: Tag = Tag::application(19, true);
const EXTENDED: Tag = Tag::application(24, true);
const INTERMEDIATE: Tag = Tag::application(25, true);

const SERVER_SASL_CREDENTIALS: Tag = Tag::context(7, false);
const RESPONSE_NAME: Tag = Tag::context(10, false);
const RESPONSE_VALUE: Tag = Tag::context(11, false);
const INTERMEDIATE_NAME: Tag = Tag::context(0, false);
const INTERMEDIATE_VALUE: Tag = Tag::context(1, false);
