//! ANONYMOUS (RFC 4505): no proof; the message may say who calls, for the log.

use aci::{Access, Identity};

use super::{Message, Step, malformed};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::worker::Worker;

/// Trace information: at most 255 characters.
pub(crate) fn read(octets: &[u8]) -> Result<&str, Refusal> {
    let trace = std::str::from_utf8(octets).ok();
    trace
        .filter(|text| text.chars().count() <= TRACE_MAX_CHARACTERS)
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or_else(|| malformed("trace information is at most 255 characters of text"))
}

pub(super) fn step(
    _worker: &mut Worker,
    _session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    let trace = read(message.octets)?;
    tracing::debug!(trace, "anonymous by SASL");
    Ok(Step::Done { access: Access::of(Identity::Anonymous), answer: None })
}

/// RFC 4505 §2.
const TRACE_MAX_CHARACTERS: usize = 255;
