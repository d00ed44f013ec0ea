//! Rules that look at the first component of a value such as `( 2.5.4.3 NAME 'cn' … )`.

use super::{integer as integers, name, text};
use crate::prepare::Invalid;
use crate::schema::Schema;

/// RFC 4517 §4.2.17.
pub(super) fn integer(schema: &Schema, value: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    integers::integer(schema, first(value)?, out)
}

/// RFC 4517 §4.2.27.
pub(super) fn object_identifier(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    name::object_identifier(schema, first(value)?, out)
}

/// RFC 4517 §4.2.14.
pub(super) fn directory_string(
    schema: &Schema,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Invalid> {
    text::ignore(schema, first(value)?, out)
}

fn first(value: &[u8]) -> Result<&[u8], Invalid> {
    const NO_COMPONENT: Invalid = Invalid("is not a parenthesized list");
    let inner = value.trim_ascii().strip_prefix(b"(").ok_or(NO_COMPONENT)?.trim_ascii_start();
    if let Some(quoted) = inner.strip_prefix(b"'") {
        return quoted.split(|&byte| byte == b'\'').next().ok_or(NO_COMPONENT);
    }
    let is_end = |byte: &u8| matches!(byte, b' ' | b')');
    inner.split(is_end).next().filter(|first| !first.is_empty()).ok_or(NO_COMPONENT)
}
