//! The values of a password modify request and of its response (RFC 3062 §2).

use ldap::ber::{DecodeError, Reader, Tag, Writer};
use ldap::message::{DecodeLimits, ExtendedRequest, Message, Request};
use schema::{DnKey, Schema};
use zeroize::Zeroizing;

use crate::write::request::PasswordModify;

/// passwdModifyOID.
pub(crate) const OID: &str = "1.3.6.1.4.1.4203.1.11.1";

/// PasswdModifyRequestValue.
#[derive(Default)]
pub(super) struct RequestValue<'a> {
    pub(super) user: Option<&'a [u8]>,
    pub(super) old: Option<&'a [u8]>,
    pub(super) new: Option<&'a [u8]>,
}

/// Whether a request is about the password of `key`, the account of whoever asks.
pub(crate) fn is_own(schema: &Schema, value: Option<&[u8]>, key: &DnKey) -> bool {
    let Some(octets) = value else { return true };
    let Ok(RequestValue { user, .. }) = decode(octets) else { return false };
    let Some(user) = user else { return true };
    let name = std::str::from_utf8(user).ok();
    let name = name.map(|text| text.strip_prefix("dn:").unwrap_or(text));
    name.and_then(|name| DnKey::from_text(schema, name).ok()).is_some_and(|user| user == *key)
}

/// Whether a request sends the old password.
pub(crate) fn sends_old(value: Option<&[u8]>) -> bool {
    value.and_then(|octets| decode(octets).ok()).is_some_and(|value| value.old.is_some())
}

/// Whether a request has the server make up the new password, and tell it.
pub(crate) fn wants_generated(value: Option<&[u8]>) -> bool {
    let value = value.map(decode);
    value.is_none_or(|value| value.is_ok_and(|value| value.new.is_none()))
}

/// The name of whose password a request is about; none: of whoever asks.
pub(crate) fn named(value: Option<&[u8]>) -> Option<&str> {
    let user = value.and_then(|octets| decode(octets).ok())?.user?;
    let text = std::str::from_utf8(user).ok()?;
    Some(text.strip_prefix("dn:").unwrap_or(text))
}

pub(super) fn decode(octets: &[u8]) -> Result<RequestValue<'_>, DecodeError> {
    let mut outer = Reader::new(octets);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    outer.end()?;
    let value = RequestValue {
        // PHP names nobody by an empty name, which is that of no account.
        user: sequence.read_optional(Tag::context(0, false))?.filter(|user| !user.is_empty()),
        old: sequence.read_optional(Tag::context(1, false))?,
        new: sequence.read_optional(Tag::context(2, false))?,
    };
    sequence.end()?;
    Ok(value)
}

/// The message of a request that sends no new password, as if it sent `generated`: whoever carries it
/// out makes up no other one. None where it is no such message.
pub(crate) fn with_generated(
    message: &[u8],
    limits: &DecodeLimits,
    generated: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let Message { id, op, controls } = Message::<Request<'_>>::decode(message, limits).ok()?;
    let Request::Extended(ExtendedRequest { oid: OID, value }) = op else { return None };
    let RequestValue { user, old, .. } = match value {
        Some(octets) => decode(octets).ok()?,
        None => RequestValue::default(),
    };
    let mut value = Zeroizing::new(Vec::new());
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    for (number, octets) in [(0, user), (1, old), (2, Some(generated))] {
        if let Some(octets) = octets {
            writer.octets(Tag::context(number, false), octets);
        }
    }
    writer.end(sequence);
    let op = Request::Extended(ExtendedRequest { oid: OID, value: Some(&value) });
    // At once: no other copy is left behind.
    let mut out = Zeroizing::new(Vec::with_capacity(message.len() + value.len() + HEADS_BYTES));
    Message { id, op, controls }.encode(&mut out);
    Some(out)
}

/// Tags and lengths that may be longer than they were.
const HEADS_BYTES: usize = 64;

/// PasswdModifyResponseValue: the generated password.
fn response_value(generated: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::context(0, false), generated);
    writer.end(sequence);
    value
}

impl PasswordModify {
    /// The password that was made up, if one was.
    pub(crate) fn generated(&self) -> Option<&[u8]> {
        self.new.as_ref().ok()?.generated.as_deref()
    }

    /// PasswdModifyResponseValue, when there is a password to tell.
    pub(crate) fn response_value(&self) -> Option<Vec<u8>> {
        self.generated().map(response_value)
    }
}
