//! SASL (RFC 4422, RFC 4513 §5.2): one file per mechanism, behind one table.
//!
//! Invariant: nothing is read from the store for a message that is not well formed.

pub(crate) mod anonymous;
pub(crate) mod exchange;
pub(crate) mod external;
#[cfg(feature = "gssapi")]
mod gssapi;
pub(crate) mod mechanism;
mod oauthbearer;
pub(crate) mod plain;
pub(crate) mod scram;

use auth::plain::PLAIN;
use ldap::result::ResultCode;

use self::exchange::{Exchange, Pending};
use self::mechanism::{Mechanism, Message, Step};
use crate::bind::authentication::{ANONYMOUS, AuthenticationOptions, EXTERNAL, GSSAPI};
use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

/// Refuses settings that name a mechanism that is not here, or that can never work.
pub(crate) fn check(options: &AuthenticationOptions) -> Result<(), DirectoryError> {
    options.mechanisms.iter().try_for_each(|name| {
        let wrong = |reason| DirectoryError::Authentication { text: name.clone(), reason };
        check_one(name).map_err(wrong)
    })
}

/// Whether the mechanism of this name has what it needs, beyond what its name says; if not, why.
fn check_one(name: &str) -> Result<(), String> {
    if !mechanisms().any(|known| known == name) {
        return Err(match name {
            GSSAPI => "this server was built without it (feature gssapi)".to_owned(),
            _ => "the server does not know this SASL mechanism".to_owned(),
        });
    }
    #[cfg(feature = "gssapi")]
    if name == GSSAPI {
        gssapi::check().map_err(|error| format!("there is no key for Kerberos: {error}"))?;
    }
    Ok(())
}

/// All mechanisms, the strongest first: many clients take the first one they know.
const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: EXTERNAL,
        has_means: |_, _| true,
        can_succeed: |_, session| external::can_succeed(session),
        step: external::step,
    },
    Mechanism {
        name: scram::SHA_512_PLUS.name,
        has_means: |_, session| scram::can_bind(session),
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_512_PLUS, directory),
        step: |worker, session, message| scram::step(scram::SHA_512_PLUS, worker, session, message),
    },
    Mechanism {
        name: scram::SHA_256_PLUS.name,
        has_means: |_, session| scram::can_bind(session),
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_256_PLUS, directory),
        step: |worker, session, message| scram::step(scram::SHA_256_PLUS, worker, session, message),
    },
    Mechanism {
        name: scram::SHA_512.name,
        has_means: |_, _| true,
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_512, directory),
        step: |worker, session, message| scram::step(scram::SHA_512, worker, session, message),
    },
    Mechanism {
        name: scram::SHA_256.name,
        has_means: |_, _| true,
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_256, directory),
        step: |worker, session, message| scram::step(scram::SHA_256, worker, session, message),
    },
    #[cfg(feature = "gssapi")]
    Mechanism {
        name: GSSAPI,
        has_means: |_, _| true,
        can_succeed: |_, _| true,
        step: gssapi::step,
    },
    Mechanism {
        name: "OAUTHBEARER",
        has_means: |directory, _| directory.credentials.takes_tokens(),
        can_succeed: |directory, session| {
            session.is_confidential(&directory.credentials.authentication())
        },
        step: oauthbearer::step,
    },
    Mechanism {
        name: PLAIN,
        has_means: |_, _| true,
        can_succeed: |directory, session| {
            session.takes_plain(&directory.credentials.authentication())
        },
        step: plain::step,
    },
    Mechanism {
        name: ANONYMOUS,
        has_means: |_, _| true,
        can_succeed: |_, _| true,
        step: anonymous::step,
    },
];

/// The names of all mechanisms, whether offered or not.
pub(crate) fn mechanisms() -> impl Iterator<Item = &'static str> {
    MECHANISMS.iter().map(|mechanism| mechanism.name)
}

/// Which mechanisms are offered: one bit for each row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offered(u16);

impl Offered {
    /// What can succeed on this connection.
    pub(crate) fn to(session: &Session, directory: &Directory) -> Self {
        let bit = |row: usize| 1_u16.checked_shl(u32::try_from(row).unwrap_or(u32::MAX));
        let rows = MECHANISMS.iter().enumerate();
        let offered = rows.filter(|(_, mechanism)| mechanism.is_offered(directory, session));
        Self(offered.filter_map(|(row, _)| bit(row)).fold(0, |all, bit| all | bit))
    }

    /// The values of `supportedSASLMechanisms`.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        mechanisms()
            .enumerate()
            .filter(move |(row, _)| self.0 >> row & 1 == 1)
            .map(|(_, name)| name)
    }
}

/// Takes one SASL bind request. `pending` is the exchange it may go on with.
pub(crate) fn step(
    worker: &mut Worker,
    session: &Session,
    pending: Option<Pending>,
    name: &str,
    credentials: Option<&[u8]>,
) -> Result<(&'static str, Step), Refusal> {
    let known = MECHANISMS.iter().find(|mechanism| mechanism.name == name);
    let Some(mechanism) = known.filter(|one| one.is_supported(&worker.directory, session)) else {
        return Err(Refusal::new(
            ResultCode::AuthMethodNotSupported,
            "the SASL mechanism is not supported; the root DSE lists those that are",
        ));
    };
    // A bind with another mechanism gives an exchange up (RFC 4511 §4.2.1).
    let pending = pending.filter(|one| one.mechanism == name);
    let directory = &worker.directory;
    if let Some(Pending { begun, .. }) = &pending
        && directory.clock.elapsed().saturating_sub(*begun) > directory.limits().sasl_exchange_max
    {
        return Err(Refusal::new(
            ResultCode::InvalidCredentials,
            "the messages of this bind took too long; begin it again",
        ));
    }
    let exchange = pending.map(|one| one.exchange);
    let message = match (exchange, credentials) {
        // These speak first, but the client has sent nothing: an empty challenge asks it to
        // (RFC 4422 §3.3). EXTERNAL and ANONYMOUS have nothing to say in most cases.
        (None, None) if name != ANONYMOUS && name != EXTERNAL => {
            return Ok((
                mechanism.name,
                Step::Continue { exchange: Exchange::First, challenge: Vec::new() },
            ));
        }
        (Some(Exchange::First), octets) => Message {
            exchange: None,
            octets: octets.unwrap_or_default(),
            mechanism: mechanism.name,
        },
        (exchange, octets) => {
            Message { exchange, octets: octets.unwrap_or_default(), mechanism: mechanism.name }
        }
    };
    Ok((mechanism.name, (mechanism.step)(worker, session, message)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_those_that_need_a_decision_are_offered_by_default() {
        let others = mechanisms().filter(|name| ![ANONYMOUS, GSSAPI].contains(name));
        assert!(others.eq(AuthenticationOptions::default().mechanisms));
    }
}
