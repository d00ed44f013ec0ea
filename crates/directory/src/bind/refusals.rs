//! What binds are refused with.

use ldap::result::ResultCode;

use crate::bind::authentication::AuthenticationOptions;
use crate::request::refusal::Refusal;
use crate::request::session::Session;

/// Refuses what carries a password over a connection that others may listen to.
pub(crate) fn require_confidentiality(
    options: &AuthenticationOptions,
    session: &Session,
) -> Result<(), Refusal> {
    if session.is_confidential(options) {
        return Ok(());
    }
    Err(Refusal::new(
        ResultCode::ConfidentialityRequired,
        "passwords are accepted on protected connections only: use StartTLS or ldaps://",
    ))
}

/// The refusal of a bind that proves nothing: the same words whether the name or the password is
/// wrong.
pub(crate) fn invalid_credentials() -> Refusal {
    Refusal::new(ResultCode::InvalidCredentials, "")
}
