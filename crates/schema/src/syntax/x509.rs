//! X.509 syntaxes (RFC 4523 §2), checked as far as the outermost element.

use super::text::utf8;
use crate::matching_rule::is_sequence;
use crate::schema::Schema;

/// RFC 4523 §2.1.
pub(super) fn certificate(schema: &Schema, value: &[u8]) -> Result<(), &'static str> {
    sequence(schema, value).map_err(|_| "is not a certificate in DER form")
}

/// Whether it is one SEQUENCE in DER and nothing after it.
pub(crate) fn sequence(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    if is_sequence(value) { Ok(()) } else { Err("is not a SEQUENCE in DER form") }
}

/// An assertion in the text form of RFC 3641: braces around components, or a choice.
pub(super) fn assertion(_: &Schema, value: &[u8]) -> Result<(), &'static str> {
    let text = utf8(value)?.trim();
    let is_braced = text.starts_with('{') && text.ends_with('}');
    if is_braced || text.contains([':', '$']) {
        Ok(())
    } else {
        Err("is not an assertion in text form")
    }
}
