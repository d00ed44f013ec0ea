//! ANONYMOUS (RFC 4505): no proof; the message may say who calls, for the log.

use aci::{Access, Identity};

use auth::anonymous::read;

use super::mechanism::{Message, Step};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

pub(super) fn step(
    _worker: &mut Worker,
    _session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    let trace = read(message.octets)?;
    tracing::debug!(trace, "anonymous by SASL");
    Ok(Step::Done { access: Access::of(Identity::Anonymous), answer: None })
}
