//! SASL (RFC 4422, RFC 4513 §5.2): one file per mechanism, behind one table.
//!
//! Invariant: a mechanism proves who the client is and nothing else; what that identity may do, and
//! whether it may act as another, is decided in [`authorize`] for all of them alike.
//! Invariant: nothing is read from the store for a message that is not well formed.

pub(crate) mod anonymous;
pub(crate) mod external;
#[cfg(feature = "gssapi")]
mod gssapi;
mod oauthbearer;
pub(crate) mod plain;
pub(crate) mod scram;

use std::time::Duration;

use aci::{Access, Identity, Privilege};
use auth::plain::PLAIN;
use ldap::result::ResultCode;

use crate::access::guard::Site;
use crate::bind::hashing::Questions;
use crate::bind::identity_mapper::{self, UserName};
use crate::bind::proxied;
use crate::directory::Directory;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

/// One mechanism.
pub(crate) struct Mechanism {
    /// Its registered name.
    pub(crate) name: &'static str,
    /// Whether the server and this connection have what it is about: keys of those who sign
    /// tokens, a channel to be bound to. It is not supported where they have not.
    has_means: fn(&Directory, &Session) -> bool,
    /// Whether it can succeed on this connection, as far as that is to be told.
    can_succeed: fn(&Directory, &Session) -> bool,
    /// Takes a message of the client: the first one, or the next of an exchange.
    step: fn(&mut Worker, &Session, Message<'_>) -> Result<Step, Refusal>,
}

/// What a client has sent.
pub(crate) struct Message<'m> {
    /// What was kept of the messages before; none at the first.
    pub(crate) exchange: Option<Exchange>,
    /// The message.
    pub(crate) octets: &'m [u8],
    /// The mechanism it is of.
    pub(crate) mechanism: &'static str,
}

/// How far an authentication came.
pub(crate) enum Step {
    /// To its end.
    Done {
        /// Whom the client is let in as.
        access: Access,
        /// The server's last message, if the mechanism has one.
        answer: Option<Vec<u8>>,
    },
    /// The client is to send more.
    Continue {
        /// What is to be remembered until then.
        exchange: Exchange,
        /// The server's message.
        challenge: Vec<u8>,
    },
    /// A password is to be verified that is stored in a form that takes long.
    NeedsHash(Questions),
}

/// What is kept of an exchange between two binds of a session. It is small: what an anonymous
/// client can make a server keep is bounded by the size of its messages.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// The client was asked for its first message.
    First,
    /// Some tokens of Kerberos came and went.
    #[cfg(feature = "gssapi")]
    Gssapi(Box<gssapi::Exchange>),
    /// The salt was sent.
    Scram(Box<scram::Exchange>),
    /// The client was told why its token is not accepted, and has to acknowledge it.
    TokenRefused,
}

impl Exchange {
    /// Who the client says it is, where it has said so.
    pub(crate) fn username(&self) -> Option<&str> {
        match self {
            Self::Scram(exchange) => Some(exchange.username()),
            #[cfg(feature = "gssapi")]
            Self::Gssapi(_) => None,
            Self::First | Self::TokenRefused => None,
        }
    }
}

/// An exchange and whose it is.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The name of the mechanism.
    pub(crate) mechanism: &'static str,
    /// Where it stands.
    pub(crate) exchange: Exchange,
    /// When it began, by the clock that never goes back.
    pub(crate) begun: Duration,
}

/// Needs no proof (RFC 4505).
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

/// Kerberos (RFC 4752), where it is built in.
pub(crate) const GSSAPI: &str = "GSSAPI";

/// Whether the mechanism of this name has what it needs, beyond what its name says; if not, why.
pub(crate) fn check(name: &str) -> Result<(), String> {
    if !mechanisms().any(|known| known == name) {
        return Err(match name {
            GSSAPI => "this server was built without it (feature gssapi)".to_owned(),
            _ => "there is no such SASL mechanism here".to_owned(),
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
        name: "EXTERNAL",
        has_means: |_, _| true,
        can_succeed: |_, session| external::can_succeed(session),
        step: external::step,
    },
    Mechanism {
        name: "SCRAM-SHA-512-PLUS",
        has_means: |_, session| scram::can_bind(session),
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_512_PLUS, directory),
        step: |worker, session, message| scram::step(scram::SHA_512_PLUS, worker, session, message),
    },
    Mechanism {
        name: "SCRAM-SHA-256-PLUS",
        has_means: |_, session| scram::can_bind(session),
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_256_PLUS, directory),
        step: |worker, session, message| scram::step(scram::SHA_256_PLUS, worker, session, message),
    },
    Mechanism {
        name: "SCRAM-SHA-512",
        has_means: |_, _| true,
        can_succeed: |directory, _| scram::can_succeed(scram::SHA_512, directory),
        step: |worker, session, message| scram::step(scram::SHA_512, worker, session, message),
    },
    Mechanism {
        name: "SCRAM-SHA-256",
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
        has_means: |directory, _| directory.takes_tokens(),
        can_succeed: |directory, session| session.is_confidential(directory),
        step: oauthbearer::step,
    },
    Mechanism {
        name: PLAIN,
        has_means: |_, _| true,
        can_succeed: |directory, session| session.takes_plain(directory),
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

impl Mechanism {
    pub(crate) fn is_offered(&self, directory: &Directory, session: &Session) -> bool {
        self.is_supported(directory, session) && (self.can_succeed)(directory, session)
    }

    /// Whether it is switched on, and there is what it needs.
    fn is_supported(&self, directory: &Directory, session: &Session) -> bool {
        directory.authentication.mechanisms.iter().any(|name| name == self.name)
            && (self.has_means)(directory, session)
    }

    /// Whether channel binding could have been used in place of this mechanism.
    pub(crate) fn is_offered_with_binding(directory: &Directory, session: &Session) -> bool {
        MECHANISMS
            .iter()
            .any(|other| other.name.ends_with("-PLUS") && other.is_offered(directory, session))
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
        && directory.clock.elapsed().saturating_sub(*begun) > directory.limits.sasl_exchange_max
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
        (None, None) if name != ANONYMOUS && name != external::EXTERNAL => {
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

/// Whom a client is let in as that has proved to be `proven` and asks to be `asked`: itself, or
/// whomever it may act as by the proxied authorization control. `proven` comes from where the
/// client is: rules about the right `proxy` may ask for that.
pub(crate) fn authorize(
    worker: &mut Worker,
    proven: Access,
    asked: &str,
) -> Result<Access, Refusal> {
    if asked.is_empty() {
        return Ok(proven);
    }
    let refused = || {
        Refusal::new(
            ResultCode::AuthorizationDenied,
            "the identity that was proved may not act as the one that was asked for",
        )
    };
    // Names without a form are those of entries whose users log in by them.
    let name = UserName::of_sasl(asked);
    let state = worker.directory.state.load_full();
    let directory = std::sync::Arc::clone(&worker.directory);
    if name == UserName::Dn("") {
        let may = proven.has(Privilege::ProxiedAuth);
        return may.then(|| Access::of(Identity::Anonymous)).ok_or_else(refused);
    }
    let view = worker.snapshot.view()?;
    let found = identity_mapper::find(&directory, &state, view, name)?;
    let Some(found) = found else { return Err(refused()) };
    let other = identity_mapper::access_of(&directory, &state, view, found)?.ok_or_else(refused)?;
    if proven.key().is_some() && other.key() == proven.key() {
        return Ok(proven);
    }
    let site = Site { directory: &directory, access: &proven, view, schema: &state.schema };
    proxied::access_as(&site, &state, found)?.ok_or_else(refused)
}

/// A message that is not as its mechanism says.
pub(crate) fn malformed(what: &'static str) -> Refusal {
    Refusal::new(ResultCode::ProtocolError, what)
}
