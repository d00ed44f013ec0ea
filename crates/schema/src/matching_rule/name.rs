//! Rules for names: object identifiers and distinguished names.

use ldap::description::is_numeric_oid;

use super::octets;
use crate::dn_key::DnKey;
use crate::prepare::Invalid;
use crate::schema::Schema;

/// RFC 4517 §4.2.26: a short name counts as the OID it stands for.
pub(super) fn object_identifier(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    let text = std::str::from_utf8(value).map_err(|_| Invalid("is not an object identifier"))?;
    if is_numeric_oid(text) {
        out.extend_from_slice(value);
        return Ok(());
    }
    let oid = schema.oid_of(text).ok_or(Invalid("is not the name of a known schema element"))?;
    out.extend_from_slice(oid.as_bytes());
    Ok(())
}

/// RFC 4517 §4.2.15.
pub(super) fn distinguished_name(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    DnKey::write(schema, dn_text(value)?, out).map_err(|error| Invalid(error.reason()))
}

/// RFC 4517 §4.2.31: the DN, then the bits if there are any.
pub(super) fn name_and_optional_uid(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    let (name, bits) = split_optional_uid(value);
    distinguished_name(schema, name, out)?;
    if let Some(bits) = bits {
        // No RDN starts with this octet.
        out.push(UID_MARK);
        out.extend_from_slice(octets::bits(bits)?);
    }
    Ok(())
}

/// Splits `dc=example#'0101'B` (RFC 4517 §3.3.21).
pub(crate) fn split_optional_uid(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let split = || {
        let position = value.iter().rposition(|&byte| byte == b'#')?;
        let (name, uid) = value.split_at_checked(position)?;
        let uid = uid.strip_prefix(b"#")?;
        octets::bits(uid).is_ok().then_some((name, Some(uid)))
    };
    split().unwrap_or((value, None))
}

fn dn_text(value: &[u8]) -> Result<&str, Invalid> {
    std::str::from_utf8(value).map_err(|_| Invalid("is not UTF-8"))
}

const UID_MARK: u8 = 1;
