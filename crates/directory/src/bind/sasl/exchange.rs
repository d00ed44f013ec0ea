//! What is kept of a SASL bind between the messages of its client.
//!
//! Invariant: it is small: what an anonymous client can make a server keep is bounded by the size
//! of its messages.

#[cfg(feature = "gssapi")]
use std::fmt;
use std::time::Duration;

use auth::scram::Challenge;
#[cfg(feature = "gssapi")]
use libgssapi::context::ServerCtx;

use crate::bind::failure::BindFailure;
use crate::bind::user_name::Found;

/// What is kept of an exchange between two binds of a session.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// The client was asked for its first message.
    First,
    /// Some tokens of Kerberos came and went.
    #[cfg(feature = "gssapi")]
    Gssapi(Box<GssapiExchange>),
    /// The salt was sent.
    Scram(Box<ScramExchange>),
    /// The client was told why its token is not accepted, and has to acknowledge it.
    TokenRefused,
}

impl Exchange {
    /// Who the client says it is, where it has said so.
    pub(crate) fn username(&self) -> Option<&str> {
        match self {
            Self::Scram(exchange) => Some(&exchange.username),
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

/// What SCRAM keeps between the two messages of a client.
#[derive(Debug)]
pub(crate) struct ScramExchange {
    /// Whose keys these are, or why they are made up.
    pub(super) found: Result<Found, BindFailure>,
    /// Who the client says it is.
    pub(super) username: String,
    /// Whom the client wants to be.
    pub(super) authzid: String,
    /// What the proof must be of.
    pub(super) challenge: Challenge,
}

/// What GSSAPI keeps between the messages of a client.
#[cfg(feature = "gssapi")]
pub(crate) struct GssapiExchange {
    pub(super) context: ServerCtx,
    pub(super) stage: Stage,
}

/// What the client is to send next.
#[cfg(feature = "gssapi")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// A token of Kerberos.
    Token,
    /// Nothing: it has verified the server's token.
    Acknowledgement,
    /// The security layer it chose, and whom it wants to be.
    Layer,
}

// The context has keys.
#[cfg(feature = "gssapi")]
impl fmt::Debug for GssapiExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssapiExchange").field("stage", &self.stage).finish_non_exhaustive()
    }
}
