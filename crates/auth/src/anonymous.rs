//! The message of ANONYMOUS (RFC 4505): who calls, for the log.

use crate::Malformed;

/// Trace information: at most 255 characters.
pub fn read(octets: &[u8]) -> Result<&str, Malformed> {
    let trace = std::str::from_utf8(octets).ok();
    trace
        .filter(|text| text.chars().count() <= TRACE_MAX_CHARACTERS)
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or(Malformed("trace information is at most 255 characters of text"))
}

/// RFC 4505 §2.
const TRACE_MAX_CHARACTERS: usize = 255;
