//! A synchronous LDAP client: connect, authenticate, one request at a time, its answers.
//!
//! Start at `connection.rs`. Speaks `ldap://`, `ldaps://`, `ldapi://` and StartTLS; referrals are
//! reported and never followed.
//!
//! Invariant: certificates are checked unless the caller says otherwise.
//! Invariant: every wait and every message has a limit.

mod answer;
mod connection;
mod error;
mod stream;
mod tls;

pub use answer::{Entry, Found, Outcome};
pub use connection::{Attribute, Change, ConnectOptions, Connection, SearchFor};
pub use error::ClientError;
pub use tls::{CertificateCheck, TlsOptions};
