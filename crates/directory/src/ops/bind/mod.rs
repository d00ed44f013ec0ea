//! Bind (RFC 4511 §4.2, RFC 4513): by name and password in `simple.rs`, by SASL in `sasl.rs`.

mod sasl;
mod simple;

use std::sync::Arc;

use aci::{Access, Identity};
use ldap::message::{Authentication, BindRequest, MessageId, ResponseKind};
use ldap::result::ResultCode;

use crate::dispatch::answer;
use crate::job::Job;
use crate::refusal::Refusal;
use crate::session::{SIMPLE, Session};
use crate::stop::Stop;
use crate::worker::{Next, Worker};

pub(crate) use sasl::EXTERNAL;
pub(crate) use simple::verify;

use simple::Simple;

/// Begins a bind of a session that `start_bind` made anonymous.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &BindRequest<'_>,
    id: MessageId,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<Next, Refusal> {
    if request.version != 3 {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            "only version 3 of the protocol is spoken here",
        ));
    }
    let (access, mechanism) = match &request.authentication {
        Authentication::Simple(password) => match simple::start(worker, request.name, password)? {
            Simple::Verified(access) if *access.identity() == Identity::Anonymous => (access, ""),
            Simple::Verified(access) => (access, SIMPLE),
            Simple::Slow => {
                let stop = Stop::new(session.begin(id), Arc::clone(&worker.directory.clock));
                return Ok(Next::Later(Job {
                    id,
                    message: bytes.to_vec(),
                    access: Arc::clone(session.access()),
                    denied: Vec::new(),
                    stop,
                    exclusive: true,
                }));
            }
        },
        Authentication::Sasl { mechanism, credentials } => {
            (Access::of(sasl::start(worker, session, mechanism, *credentials)?), EXTERNAL)
        }
        Authentication::Other(_) => {
            return Err(Refusal::new(
                ResultCode::AuthMethodNotSupported,
                "only simple and SASL authentication are known",
            ));
        }
    };
    session.set_access(access, mechanism);
    Ok(answer(out, id, ResponseKind::Bind, Ok(ResultCode::Success)))
}

fn invalid_credentials() -> Refusal {
    // The same words whether the name or the password is wrong.
    Refusal::new(ResultCode::InvalidCredentials, "")
}
