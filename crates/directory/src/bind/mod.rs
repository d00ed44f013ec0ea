//! Bind (RFC 4511 §4.2, RFC 4513): by name and password in `simple.rs`, by SASL in `sasl/`.

pub(crate) mod administrator;
mod admission;
pub(crate) mod authentication;
pub(crate) mod credentials;
pub(crate) mod failure;
pub(crate) mod guessed;
pub(crate) mod hashing;
pub(crate) mod identity_mapper;
pub(crate) mod login;
pub(crate) mod must_change;
pub(crate) mod password_cache;
pub(crate) mod proxied;
pub(crate) mod recheck;
pub(crate) mod refusals;
pub(crate) mod rehash;
pub(crate) mod remark;
pub(crate) mod sasl;
pub(crate) mod simple;
pub(crate) mod user_name;

use aci::Identity;
use ldap::message::{Authentication, BindRequest, ControlsBuf};
use ldap::result::ResultCode;

use crate::bind::hashing::Questions;
use crate::bind::refusals::require_confidentiality;
use crate::bind::sasl::exchange::Pending;
use crate::bind::sasl::mechanism::Step;
use crate::bind::simple::Simple;
use crate::request::controls::authorization_identity;
use crate::request::controls::request::RequestControls;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::{SIMPLE, Session};
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};

/// How far a bind came on the thread that read it.
enum BindOutcome {
    /// To an answer: success, or the next message of an exchange, with the server's part of it.
    Answered(ResultCode, Option<Vec<u8>>),
    /// A password is stored in a form that takes long to verify.
    NeedsHash(Questions),
}

/// Begins a bind of a session that `start_bind` made anonymous.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &BindRequest<'_>,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let pending = session.take_pending();
    if request.version != 3 {
        return Err(Refusal::new(ResultCode::ProtocolError, "only LDAP version 3 is supported"));
    }
    let bound = match &request.authentication {
        Authentication::Simple(password) => bind_simply(worker, session, request.name, password)?,
        Authentication::Sasl { mechanism, credentials } => {
            bind_by_sasl(worker, session, pending, mechanism, *credentials)?
        }
        Authentication::Other(_) => {
            return Err(Refusal::new(
                ResultCode::AuthMethodNotSupported,
                "only simple and SASL authentication are supported",
            ));
        }
    };
    let (code, credentials) = match bound {
        BindOutcome::Answered(code, credentials) => (code, credentials),
        BindOutcome::NeedsHash(questions) => {
            // Nothing of the connection is carried out before the password is looked at; then the
            // same request is handled once more.
            let job =
                questions.job(worker.directory.hash_rules(), session.begin(envelope.id), envelope);
            session.hold_bind(envelope.id);
            return Ok(Next::Hash(job));
        }
    };
    session.set_must_change(worker.request.remark.must_change());
    let mut list = ControlsBuf::new();
    worker.request.remark.add_to(&mut list, controls.password_policy);
    if controls.authorization_identity && code == ResultCode::Success {
        authorization_identity::add_to(&mut list, session.identity());
    }
    Ok(Next::Answered(sink.bind(code, credentials.as_deref(), list.as_ref())))
}

/// A bind by name and password, or by neither.
fn bind_simply(
    worker: &mut Worker,
    session: &mut Session,
    name: &str,
    password: &[u8],
) -> Result<BindOutcome, Refusal> {
    if !password.is_empty() {
        require_confidentiality(&worker.directory.credentials.authentication(), session)?;
    }
    let name = simple::bind_name(worker, name);
    let access = match simple::start(worker, name, password)? {
        Simple::Verified(access) => access,
        Simple::NeedsHash(questions) => return Ok(BindOutcome::NeedsHash(questions)),
    };
    let is_anonymous = *access.identity() == Identity::Anonymous;
    let mechanism = if is_anonymous { "" } else { SIMPLE };
    admission::admit(worker, session, *access, mechanism)?;
    Ok(BindOutcome::Answered(ResultCode::Success, None))
}

/// A bind by SASL (RFC 4513 §5.2): hands one message to the mechanism, with the exchange it may
/// go on with, and its answer to the client.
fn bind_by_sasl(
    worker: &mut Worker,
    session: &mut Session,
    pending: Option<Pending>,
    mechanism: &str,
    credentials: Option<&[u8]>,
) -> Result<BindOutcome, Refusal> {
    let goes_on = pending.as_ref().filter(|one| one.mechanism == mechanism);
    let begun = goes_on.map_or_else(|| worker.directory.clock.elapsed(), |one| one.begun);
    let (mechanism, step) = sasl::step(worker, session, pending, mechanism, credentials)?;
    Ok(match step {
        Step::Done { access, answer } => {
            admission::admit(worker, session, access, mechanism)?;
            BindOutcome::Answered(ResultCode::Success, answer)
        }
        Step::Continue { exchange, challenge } => {
            session.set_pending(Pending { mechanism, exchange, begun });
            BindOutcome::Answered(ResultCode::SaslBindInProgress, Some(challenge))
        }
        Step::NeedsHash(questions) => BindOutcome::NeedsHash(questions),
    })
}
