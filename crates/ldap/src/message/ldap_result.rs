//! LDAPResult (RFC 4511 §4.1.9) and its referral (§4.1.10).

use super::{DecodeLimits, Strings};
use crate::ber::{DecodeError, Reader, Tag, Writer, integer_len, tlv_len};
use crate::result::ResultCode;

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdapResult<'a> {
    /// The result code.
    pub code: ResultCode,
    /// The nearest superior that exists, for the codes that have one; otherwise empty.
    pub matched_dn: &'a str,
    /// For people; may be empty.
    pub diagnostic: &'a str,
    /// URIs of other servers, with code `referral` only.
    pub referrals: Strings<'a>,
}

impl<'a> LdapResult<'a> {
    pub(crate) const REFERRAL: Tag = Tag::context(3, true);

    /// A result that says no more than its code.
    #[must_use]
    pub const fn new(code: ResultCode) -> Self {
        Self { code, matched_dn: "", diagnostic: "", referrals: Strings::EMPTY }
    }

    /// Reads the components every response has; the caller goes on with those of its own.
    pub(super) fn read(
        fields: &mut Reader<'a>,
        limits: &DecodeLimits,
    ) -> Result<Self, DecodeError> {
        let code = ResultCode::from_wire(fields.enumerated(Tag::ENUMERATED)?);
        let matched_dn = limits.read_name(fields, Tag::OCTET_STRING)?;
        let diagnostic = fields.string(Tag::OCTET_STRING)?;
        let referrals = match fields.sequence_optional(Self::REFERRAL)? {
            Some(uris) => Strings::decode_filled(uris)?,
            None => Strings::EMPTY,
        };
        Ok(Self { code, matched_dn, diagnostic, referrals })
    }

    /// Reads a response that has no components of its own.
    pub(super) fn read_only(
        reader: &mut Reader<'a>,
        tag: Tag,
        limits: &DecodeLimits,
    ) -> Result<Self, DecodeError> {
        let mut fields = reader.sequence(tag)?;
        let result = Self::read(&mut fields, limits)?;
        fields.end_extensible(&[Self::REFERRAL])?;
        Ok(result)
    }

    /// How many octets [`Self::write`] writes.
    pub(crate) const fn encoded_len(&self) -> usize {
        let referrals_len = match self.referrals.as_ber().len() {
            0 => 0,
            len => tlv_len(len),
        };
        // A code of 32 bits is a positive number in 64.
        tlv_len(integer_len(self.code.code() as i64))
            + tlv_len(self.matched_dn.len())
            + tlv_len(self.diagnostic.len())
            + referrals_len
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        writer.enumerated(Tag::ENUMERATED, self.code.code());
        writer.octets(Tag::OCTET_STRING, self.matched_dn.as_bytes());
        writer.octets(Tag::OCTET_STRING, self.diagnostic.as_bytes());
        if !self.referrals.is_empty() {
            writer.octets(Self::REFERRAL, self.referrals.as_ber());
        }
    }
}
