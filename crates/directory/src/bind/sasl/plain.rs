//! PLAIN (RFC 4616): name and password in one message, for connections nobody can listen to.

use auth::plain::read;
use ldap::result::ResultCode;

use super::mechanism::{Message, Step, authorize};
use crate::bind::simple::{self, Simple};
use crate::bind::user_name::UserName;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

pub(super) fn step(
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    if !session.takes_plain(&worker.directory.credentials.authentication()) {
        return Err(Refusal::new(
            ResultCode::ConfidentialityRequired,
            "PLAIN is accepted on protected connections only: use StartTLS or ldaps://, or a \
             simple bind where passwords may be sent in the clear",
        ));
    }
    let plain = read(message.octets)?;
    worker.request.claimed = Some(plain.authcid.into());
    match simple::start(worker, UserName::of_sasl(plain.authcid), plain.password)? {
        Simple::Verified(access) => {
            let proven = access.from_origin(session.origin(message.mechanism));
            Ok(Step::Done { access: authorize(worker, proven, plain.authzid)?, answer: None })
        }
        Simple::NeedsHash(questions) => Ok(Step::NeedsHash(questions)),
    }
}
