//! A synchronous LDAP client: connect, authenticate, one request at a time, its answers; or many,
//! through a [`Pipeline`].
//!
//! Start at `connection.rs`. Speaks `ldap://`, `ldaps://`, `ldapi://` and StartTLS; referrals are
//! reported and never followed.
//!
//! Invariant: certificates are checked unless the caller says otherwise.
//! Invariant: every wait and every message has a limit.

mod answer;
mod connection;
mod error;
mod pipeline;
mod stream;
mod tls;

pub use answer::{Found, FoundEntry, Outcome};
pub use connection::{
    ConnectOptions, Connection, Page, SearchAnswer, SearchFor, StreamAnswer, TextAttribute,
    TextModification,
};
pub use error::ClientError;
pub use pipeline::{Answer, Pipeline, Window};
pub use stream::{ClientStream, ldapi_url};
pub use tls::{CertificateCheck, TlsOptions};
