//! Cancel (RFC 3909): a request under way is given up, and answered.
//!
//! Invariant: a session reaches its own requests alone. Binds and StartTLS are never under way when
//! another request is read.

use ldap::ber::{DecodeError, Reader, Tag};
use ldap::message::{ExtendedRequest, MessageId};
use ldap::result::ResultCode;

use crate::request::extended::{Call, respond};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::{Next, Worker};

/// Its OID.
pub(crate) const OID: &str = "1.3.6.1.1.8";

/// Carries it out: the other request ends as soon as whoever works on it looks.
pub(crate) fn start(
    _worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    out: &mut Vec<u8>,
) -> Result<Next, Refusal> {
    let value = request.value.unwrap_or_default();
    let id = read(value).map_err(|_| {
        Refusal::new(ResultCode::ProtocolError, "the value of Cancel is not a message id")
    })?;
    if id == call.id {
        return Err(Refusal::new(ResultCode::CannotCancel, "a Cancel is not canceled"));
    }
    if session.was_canceled_ahead(call.id) {
        respond(out, call.id, None, None);
        return Ok(Next::Answered);
    }
    session.cancel(id).map_err(|code| {
        let why = match code {
            ResultCode::TooLate => "the request is carried out already",
            _ => "no such request is under way in this session",
        };
        Refusal::new(code, why)
    })?;
    respond(out, call.id, None, None);
    Ok(Next::Answered)
}

/// Which request is to be canceled, when it is a Cancel that is well formed.
pub(crate) fn target(request: &ExtendedRequest<'_>) -> Option<MessageId> {
    read(request.value.filter(|_| request.oid == OID)?).ok()
}

/// `SEQUENCE { cancelID MessageID }`.
fn read(value: &[u8]) -> Result<MessageId, DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    let id = sequence.integer_i32(Tag::INTEGER)?;
    sequence.end()?;
    outer.end()?;
    Ok(MessageId(id))
}
