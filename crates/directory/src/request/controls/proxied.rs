//! Proxied authorization (RFC 4370, and its first version): as whom a request is to be carried out.

use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::Control;

use super::request::Proxied;
use super::value::malformed;
use crate::request::refusal::Refusal;

/// The OID of the first version.
pub(crate) const V1: &str = "2.16.840.1.113730.3.4.12";
/// The OID of RFC 4370.
pub(crate) const V2: &str = "2.16.840.1.113730.3.4.18";

/// What each of them is called.
pub(super) const NAME: &str = "a proxied authorization control";

/// Reads the first version: a sequence of a DN.
pub(super) fn read_v1<'a>(control: &Control<'a>) -> Result<Proxied<'a>, Refusal> {
    let value = control.value.unwrap_or_default();
    let name = v1_name(value)
        .ok()
        .and_then(|octets| std::str::from_utf8(octets).ok())
        .ok_or_else(|| malformed("the value of the proxied authorization control is not a name"))?;
    Ok(if name.is_empty() { Proxied::Anonymous } else { Proxied::Dn(name) })
}

/// Reads the control of RFC 4370: an authzId (RFC 4513 §5.2.1.8).
pub(super) fn read_v2<'a>(control: &Control<'a>) -> Result<Proxied<'a>, Refusal> {
    let value = std::str::from_utf8(control.value.unwrap_or_default());
    let value = value.map_err(|_| malformed("the authorization identity is not UTF-8"))?;
    if value.is_empty() || value == "dn:" {
        Ok(Proxied::Anonymous)
    } else if let Some(name) = value.strip_prefix("dn:") {
        Ok(Proxied::Dn(name))
    } else if let Some(name) = value.strip_prefix("u:") {
        Ok(Proxied::User(name))
    } else {
        Err(malformed("an authorization identity begins with dn: or u:"))
    }
}

/// Refuses one that is not critical with any request (RFC 4370 §3): a server that ignored it would
/// do what nobody asked for.
pub(super) fn check_critical(control: &Control<'_>) -> Result<(), Refusal> {
    match !control.critical && [V1, V2].contains(&control.oid) {
        false => Ok(()),
        true => Err(malformed("the proxied authorization control must be critical")),
    }
}

fn v1_name(value: &[u8]) -> Result<&[u8], DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    outer.end()?;
    let name = sequence.octets(Tag::OCTET_STRING)?;
    sequence.end()?;
    Ok(name)
}
