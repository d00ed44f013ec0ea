//! SASL binds (RFC 4513 §5.2): hands the messages to the mechanism and its answers to the client.

use ldap::result::ResultCode;

use super::Bound;
use crate::bind::sasl::exchange::Pending;
use crate::bind::sasl::mechanism::Step;
use crate::bind::{admission, sasl};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

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
) -> Result<Bound, Refusal> {
    let Sent { pending, mechanism, credentials } = sent;
    let goes_on = pending.as_ref().filter(|one| one.mechanism == mechanism);
    let begun = goes_on.map_or_else(|| worker.directory.clock.elapsed(), |one| one.begun);
    let (mechanism, step) = sasl::step(worker, session, pending, mechanism, credentials)?;
    Ok(match step {
        Step::Done { access, answer } => {
            admission::admit(&worker.directory, session, access, mechanism)?;
            Bound::Answered(ResultCode::Success, answer)
        }
        Step::Continue { exchange, challenge } => {
            session.set_pending(Pending { mechanism, exchange, begun });
            Bound::Answered(ResultCode::SaslBindInProgress, Some(challenge))
        }
        Step::NeedsHash(questions) => Bound::NeedsHash(questions),
    })
}
