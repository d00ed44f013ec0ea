//! What a SASL mechanism is, and what all of them share.
//!
//! Invariant: a mechanism proves who the client is and nothing else; what that identity may do, and
//! whether it may act as another, is decided in [`authorize`] for all of them alike.

use std::sync::Arc;

use aci::{Access, Identity, Privilege};
use ldap::result::ResultCode;

use super::exchange::Exchange;
use crate::access::guard::Viewer;
use crate::bind::hashing::Questions;
use crate::bind::user_name::UserName;
use crate::bind::{identity_mapper, proxied};
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
    pub(super) has_means: fn(&Directory, &Session) -> bool,
    /// Whether it can succeed on this connection, as far as that is to be told.
    pub(super) can_succeed: fn(&Directory, &Session) -> bool,
    /// Takes a message of the client: the first one, or the next of an exchange.
    pub(super) step: fn(&mut Worker, &Session, Message<'_>) -> Result<Step, Refusal>,
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

impl Mechanism {
    pub(crate) fn is_offered(&self, directory: &Directory, session: &Session) -> bool {
        self.is_supported(directory, session) && (self.can_succeed)(directory, session)
    }

    /// Whether it is switched on, and there is what it needs.
    pub(super) fn is_supported(&self, directory: &Directory, session: &Session) -> bool {
        directory.credentials.authentication().allows(self.name)
            && (self.has_means)(directory, session)
    }
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
            "the authenticated identity may not act as the requested authorization identity",
        )
    };
    // Names without a form are those of entries whose users log in by them.
    let name = UserName::of_sasl(asked);
    let state = worker.directory.state.load_full();
    let directory = Arc::clone(&worker.directory);
    if name == UserName::Dn("") {
        let may = proven.has(Privilege::ProxiedAuth);
        return may.then(|| Access::of(Identity::Anonymous)).ok_or_else(refused);
    }
    let view = worker.snapshot.view()?;
    let found = identity_mapper::find(&directory, &state, view, name)?;
    let Some(found) = found else { return Err(refused()) };
    let other = identity_mapper::access_of(&directory.credentials.root, &state, view, found)?
        .ok_or_else(refused)?;
    if proven.key().is_some() && other.key() == proven.key() {
        return Ok(proven);
    }
    let viewer = Viewer { directory: &directory, access: &proven, view, schema: &state.schema };
    proxied::access_as(&viewer, &state, found)?.ok_or_else(refused)
}

/// A message that is not as its mechanism says.
pub(crate) fn malformed(what: &'static str) -> Refusal {
    Refusal::new(ResultCode::ProtocolError, what)
}
