//! Get effective rights (draft-ietf-ldapext-acl-model, as OpenDJ has it): whose rights are wanted.

use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::Control;

use super::request::EffectiveRights;
use super::value::malformed;
use crate::request::refusal::Refusal;

/// The control's OID.
pub(crate) const OID: &str = "1.3.6.1.4.1.42.2.27.9.5.2";

/// What the control is called.
pub(super) const NAME: &str = "the get effective rights control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<EffectiveRights<'a>, Refusal> {
    match control.value {
        None | Some([]) => Ok(EffectiveRights::default()),
        Some(value) => decode(value)
            .map_err(|_| malformed("the value of the get effective rights control is malformed")),
    }
}

fn decode(value: &[u8]) -> Result<EffectiveRights<'_>, DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    outer.end()?;
    let identity = sequence.string(Tag::OCTET_STRING)?;
    let identity = Some(identity.strip_prefix("dn:").unwrap_or(identity));
    let mut attributes = Vec::new();
    if let Some(mut list) = sequence.sequence_optional(Tag::SEQUENCE)? {
        while list.peek_tag().is_some() {
            attributes.push(list.string(Tag::OCTET_STRING)?);
        }
    }
    sequence.end()?;
    Ok(EffectiveRights { identity, attributes })
}
