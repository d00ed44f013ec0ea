//! Sockets, TLS, worker threads, settings and signals: everything around the directory.
//!
//! Start at `server.rs`, then `worker.rs` and `connection.rs`.
//!
//! Invariant: knows no operation; a message goes to the directory as it was framed, and what comes
//! back is sent as it is.
//! Invariant: async ends here. The directory is called from one thread at a time with plain slices.

mod accept;
mod addresses;
mod admin;
mod budget;
mod connection;
mod counters;
mod departures;
mod error;
mod fair_queue;
mod files;
mod hash_pool;
mod host_names;
mod listen;
mod log;
mod memory;
mod metrics;
mod places;
mod pool;
mod presence;
mod proxy_header;
mod read_buffer;
mod rows;
mod server;
mod sessions;
mod settings;
mod stranger_turns;
mod stream;
mod tls;
mod worker;

pub use counters::Counts;
pub use error::ServerError;
pub use listen::Addresses;
pub use log::{is_hidden, journal_hold};
pub use memory::on_release;
pub use proxy_header::{NoProxyHeader, ProxyHeader};
pub use server::{Server, ShutdownHandle};
pub use settings::{
    AccessControlSettings, AccessLogSettings, AdminSettings, AuditLogSettings,
    AuthenticationSettings, LimitSettings, ListenSettings, LogFileSettings, LogSettings,
    ServerSettings, Settings, SettingsError, StoreSettings, TlsSettings,
};
pub use tls::generate_self_signed;

#[cfg(test)]
mod tests;
