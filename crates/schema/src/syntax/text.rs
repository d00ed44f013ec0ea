//! Syntaxes of one piece: strings, numbers, times, names.

use ldap::description::is_oid;
use ldap::dn::{DnLimits, parse_dn};

use crate::matching_rule::{self as rules, split_lines, split_optional_uid};
use crate::rules::Prepare;
use crate::schema::Schema;

type Checked = Result<(), &'static str>;

/// RFC 4517 §3.3.6: UTF-8, at least one character.
pub(crate) fn directory_string(_: &Schema, value: &[u8]) -> Checked {
    if value.is_empty() {
        return Err("is empty");
    }
    utf8(value).map(|_| ())
}

/// RFC 4517 §3.3.15: ASCII, may be empty.
pub(super) fn ia5_string(_: &Schema, value: &[u8]) -> Checked {
    if value.is_ascii() { Ok(()) } else { Err("holds a character outside of IA5 (ASCII)") }
}

/// RFC 4517 §3.3.29.
pub(super) fn printable_string(_: &Schema, value: &[u8]) -> Checked {
    if is_printable(value) { Ok(()) } else { Err(NOT_PRINTABLE) }
}

/// RFC 4517 §3.3.4: two printable characters, by ISO 3166 two letters.
pub(super) fn country(_: &Schema, value: &[u8]) -> Checked {
    if value.len() == 2 && is_printable(value) {
        Ok(())
    } else {
        Err("is not a country code of two letters")
    }
}

/// RFC 4517 §3.3.23.
pub(crate) fn numeric_string(_: &Schema, value: &[u8]) -> Checked {
    numeric(value)
}

/// Digits and spaces, at least one.
pub(crate) fn numeric(value: &[u8]) -> Checked {
    let is_allowed = |byte: &u8| byte.is_ascii_digit() || *byte == b' ';
    if !value.is_empty() && value.iter().all(is_allowed) {
        Ok(())
    } else {
        Err("holds something else than digits and spaces, or nothing")
    }
}

/// RFC 4517 §3.3.31, which is a printable string; `E.123` numbers fit it. `#`, `*`, `;` and `_`
/// are accepted as well, because dial strings and extensions hold them.
pub(crate) fn telephone_number(_: &Schema, value: &[u8]) -> Checked {
    telephone(value)
}

/// What a telephone number is made of, at least one character of it.
pub(crate) fn telephone(value: &[u8]) -> Checked {
    let is_allowed =
        |byte: &u8| is_printable_char(*byte) || matches!(byte, b'#' | b'*' | b';' | b'_');
    if !value.is_empty() && value.iter().all(is_allowed) {
        Ok(())
    } else {
        Err("is not a telephone number such as +1 512 315 0280")
    }
}

/// RFC 4517 §3.3.28: lines separated by `$`.
pub(crate) fn postal_address(schema: &Schema, value: &[u8]) -> Checked {
    directory_string(schema, value)?;
    for line in split_lines(value) {
        let mut rest = line;
        while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
            rest = match rest.get(at + 1..).unwrap_or_default() {
                [b'2', b'4', rest @ ..] | [b'5', b'C' | b'c', rest @ ..] => rest,
                _ => return Err("has a backslash that escapes neither '$' nor '\\'"),
            };
        }
    }
    Ok(())
}

/// RFC 4517 §3.3.26.
pub(super) fn object_identifier(_: &Schema, value: &[u8]) -> Checked {
    if is_oid(utf8(value)?) { Ok(()) } else { Err("is neither a name nor a dotted OID") }
}

/// RFC 4517 §3.3.9.
pub(super) fn distinguished_name(schema: &Schema, value: &[u8]) -> Checked {
    not_blank(schema, value)?;
    let is_wrong = parse_dn(utf8(value)?, DnLimits::default()).any(|ava| ava.is_err());
    if is_wrong { Err(NOT_A_NAME) } else { Ok(()) }
}

/// Spaces alone are read as the zero-length DN where a request names an entry; a value of them is
/// none.
pub(crate) fn not_blank(_: &Schema, value: &[u8]) -> Checked {
    let is_blank = !value.is_empty() && value.iter().all(|&byte| byte == b' ');
    if is_blank { Err(NOT_A_NAME) } else { Ok(()) }
}

/// RFC 4517 §3.3.21.
pub(crate) fn name_and_optional_uid(schema: &Schema, value: &[u8]) -> Checked {
    distinguished_name(schema, split_optional_uid(value).0)
}

/// RFC 4517 §3.3.34.
pub(super) fn utc_time(_: &Schema, value: &[u8]) -> Checked {
    rules::utc_time(value).map_err(|invalid| invalid.0)
}

/// RFC 4517 §3.3.13.
pub(super) fn generalized_time(_: &Schema, value: &[u8]) -> Checked {
    rules::generalized_time(value, &mut Vec::with_capacity(value.len()))
        .map_err(|invalid| invalid.0)
}

/// RFC 4517 §3.3.16.
pub(super) fn integer(schema: &Schema, value: &[u8]) -> Checked {
    by_rule(rules::integer, schema, value)
}

/// RFC 4517 §3.3.2.
pub(super) fn bit_string(schema: &Schema, value: &[u8]) -> Checked {
    by_rule(rules::bit_string, schema, value)
}

/// RFC 4517 §3.3.3.
pub(super) fn boolean(schema: &Schema, value: &[u8]) -> Checked {
    by_rule(rules::boolean, schema, value)
}

/// RFC 4530 §2.1.
pub(super) fn uuid(schema: &Schema, value: &[u8]) -> Checked {
    by_rule(rules::uuid, schema, value)
}

/// RFC 3112 §2.
pub(super) fn auth_password(schema: &Schema, value: &[u8]) -> Checked {
    by_rule(rules::auth_password, schema, value)
}

pub(super) fn csn(schema: &Schema, value: &[u8]) -> Checked {
    by_rule(rules::csn, schema, value)
}

/// Where values conform exactly when a rule can prepare them.
fn by_rule(rule: Prepare, schema: &Schema, value: &[u8]) -> Checked {
    rule(schema, value, &mut Vec::with_capacity(value.len() + 8)).map_err(|invalid| invalid.0)
}

pub(super) fn utf8(value: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(value).map_err(|_| "is not UTF-8")
}

/// Whether `value` is a PrintableString of RFC 4517 §3.2 with at least one character.
pub(super) fn is_printable(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|&byte| is_printable_char(byte))
}

pub(super) const fn is_printable_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'\'' | b'(' | b')' | b'+' | b',' | b'-' | b'.' | b'=' | b'/' | b':' | b'?' | b' '
        )
}

const NOT_A_NAME: &str = "is not a distinguished name";
pub(super) const NOT_PRINTABLE: &str = "holds a character outside of PrintableString, or none";
