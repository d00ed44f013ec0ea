//! PLAIN (RFC 4616): name and password in one message, for connections nobody can listen to.

use ldap::result::ResultCode;

use super::{Message, Step, authorize, malformed};
use crate::ops::bind::{self, Simple};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::worker::Worker;

/// The name of the mechanism.
pub(crate) const PLAIN: &str = "PLAIN";

/// The parts of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Plain<'m> {
    /// Whom the client wants to be; empty: whom it proves to be.
    pub(crate) authzid: &'m str,
    /// Whom it proves to be.
    pub(crate) authcid: &'m str,
    /// The password.
    pub(crate) password: &'m [u8],
}

/// `[authzid] NUL authcid NUL passwd`, each part without NUL.
pub(crate) fn read(octets: &[u8]) -> Result<Plain<'_>, Refusal> {
    let wrong = || malformed("a PLAIN message is an authzid, a name and a password between NULs");
    let mut parts = octets.split(|octet| *octet == 0);
    let mut text =
        || parts.next().and_then(|part| std::str::from_utf8(part).ok()).ok_or_else(wrong);
    let (authzid, authcid) = (text()?, text()?);
    let (Some(password), None) = (parts.next(), parts.next()) else {
        return Err(wrong());
    };
    if authcid.is_empty() || password.is_empty() {
        return Err(wrong());
    }
    Ok(Plain { authzid, authcid, password })
}

pub(super) fn step(
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    if !session.takes_plain(&worker.directory) {
        return Err(Refusal::new(
            ResultCode::ConfidentialityRequired,
            "PLAIN is taken over protected connections only: use StartTLS or ldaps://, \
             or where passwords may be sent in the clear a simple bind",
        ));
    }
    let plain = read(message.octets)?;
    match bind::verify_sasl(worker, plain.authcid, plain.password)? {
        Simple::Verified(access) => {
            let proven = access.from_origin(session.origin(message.mechanism));
            Ok(Step::Done { access: authorize(worker, proven, plain.authzid)?, answer: None })
        }
        Simple::NeedsHash(questions) => Ok(Step::NeedsHash(questions)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_three_parts() {
        let plain = |octets| read(octets).map(|it| (it.authzid, it.authcid, it.password)).ok();
        assert_eq!(plain(b"\0anna\0secret"), Some(("", "anna", &b"secret"[..])));
        assert_eq!(plain(b"u:x\0anna\0\xff"), Some(("u:x", "anna", &b"\xff"[..])));
        for wrong in [
            &b""[..],
            b"anna",
            b"anna\0secret",
            b"\0anna\0",
            b"\0\0secret",
            b"\0anna\0secret\0",
            b"\0\xff\0secret",
        ] {
            assert_eq!(plain(wrong), None, "{wrong:?}");
        }
    }
}
