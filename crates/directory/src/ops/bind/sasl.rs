//! SASL binds (RFC 4513 §5.2): hands the messages to the mechanism and its answers to the client.

use ldap::message::{Controls, LdapResult, Message, MessageId, Response};
use ldap::result::ResultCode;

use crate::refusal::Refusal;
use crate::sasl::{self, Pending, Step};
use crate::session::Session;
use crate::worker::Worker;

/// How far a bind came on the thread that read it.
pub(super) enum Bound {
    /// It is answered.
    Answered,
    /// A password is stored in a form that takes long to verify.
    Slow,
}

/// One message, and the exchange it may go on with.
pub(super) struct Sent<'m> {
    pub(super) pending: Option<Pending>,
    pub(super) mechanism: &'m str,
    pub(super) credentials: Option<&'m [u8]>,
}

/// Takes one message.
pub(super) fn start(
    worker: &mut Worker,
    session: &mut Session,
    sent: Sent<'_>,
    id: MessageId,
    out: &mut Vec<u8>,
) -> Result<Bound, Refusal> {
    let Sent { pending, mechanism, credentials } = sent;
    let goes_on = pending.as_ref().filter(|one| one.mechanism == mechanism);
    let begun = goes_on.map_or_else(|| worker.directory.clock.elapsed(), |one| one.begun);
    let (mechanism, step) = sasl::step(worker, session, pending, mechanism, credentials)?;
    match step {
        Step::Done { access, answer } => {
            session.bind_as(&worker.directory, access, mechanism)?;
            respond(out, id, ResultCode::Success, answer.as_deref());
        }
        Step::Continue { exchange, challenge } => {
            session.set_pending(Pending { mechanism, exchange, begun });
            respond(out, id, ResultCode::SaslBindInProgress, Some(&challenge));
        }
        Step::Slow => return Ok(Bound::Slow),
    }
    Ok(Bound::Answered)
}

fn respond(out: &mut Vec<u8>, id: MessageId, code: ResultCode, credentials: Option<&[u8]>) {
    let op = Response::Bind { result: LdapResult::new(code), server_sasl_credentials: credentials };
    Message { id, op, controls: Controls::EMPTY }.encode(out);
}
