//! OAUTHBEARER (RFC 7628): a token of an identity provider, verified with keys that are configured
//! here.

use std::sync::Arc;

use auth::oauthbearer::read;
use ldap::result::ResultCode;

use super::exchange::Exchange;
use super::mechanism::{Message, Step, authorize};
use crate::bind::identity_mapper;
use crate::bind::refusals::require_confidentiality;
use crate::bind::user_name::UserName;
use crate::directory::Directory;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

pub(super) fn step(
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    if let Some(Exchange::TokenRefused) = message.exchange {
        // The client has acknowledged the reason.
        return Err(Refusal::new(ResultCode::InvalidCredentials, "the token is not accepted"));
    }
    require_confidentiality(&worker.directory.credentials.authentication(), session)?;
    let bearer = read(message.octets)?;
    let directory = Arc::clone(&worker.directory);
    let (Some(token), Some(keys)) = (bearer.token, directory.credentials.token_keys.load_full())
    else {
        return Ok(refused(&directory, "invalid_request", "there is no token, or no key for it"));
    };
    let options = &directory.credentials.authentication().tokens;
    let user = match keys.user(token.as_bytes(), options, directory.clock.now()) {
        Ok(user) => user,
        Err(reason) => return Ok(refused(&directory, "invalid_token", reason)),
    };
    worker.request.claimed = Some(user.as_str().into());
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    // Whatever its form, the claim is a user's name, unless it is a DN.
    let name = UserName::of_bind(&user);
    let access = match identity_mapper::find_vouched(&directory, &state, view, name)? {
        Some(found) => identity_mapper::access_without_password(&directory, &state, view, found)?,
        None => None,
    };
    match access {
        Some(access) => {
            let proven = access.from_origin(session.origin(message.mechanism));
            Ok(Step::Done { access: authorize(worker, proven, &bearer.authzid)?, answer: None })
        }
        None => Ok(refused(&directory, "invalid_token", "nobody has the name it gives")),
    }
}

/// Tells the client by RFC 7628 §3.2.2; the bind fails when it has acknowledged that.
fn refused(directory: &Directory, status: &str, reason: &'static str) -> Step {
    directory
        .seldom
        .proof
        .line(|left_out| tracing::info!(reason, left_out, "a bearer token was not accepted"));
    Step::Continue {
        exchange: Exchange::TokenRefused,
        challenge: format!("{{\"status\":\"{status}\"}}").into_bytes(),
    }
}
