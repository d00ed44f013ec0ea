//! Sockets, TLS, worker threads, settings and signals: everything around the directory.
//!
//! Start at `server.rs`, then `worker.rs` and `connection.rs`. The folders, in the order in which a
//! request meets them: `listen` takes a connection in, `connection` serves it, `limits` bounds what
//! it takes from others, `pools` has the threads for what would delay them. `log` and `metrics` say
//! what happened, `admin` answers whoever watches, `settings` is what all was set up with.
//!
//! Invariant: knows no operation; a message goes to the directory as it was framed, and what comes
//! back is sent as it is.
//! Invariant: async ends here. The directory is called from one thread at a time with plain slices.

mod admin;
mod cluster;
mod connection;
mod error;
mod in_force;
mod limits;
mod listen;
mod log;
mod metrics;
mod pools;
mod rows;
mod server;
mod settings;
mod sinks;
mod tasks;
mod worker;

pub use cluster::ClusterMember;
pub use error::ServerError;
pub use in_force::{Following, HearSettings, ReadSettings, settings_with_directory};
pub use limits::memory::on_release;
pub use listen::listeners::Addresses;
pub use listen::proxy_header::{NoProxyHeader, ProxyHeader};
pub use listen::read_levels::{ListenerLevel, ListenerLevels};
pub use listen::tls::generate_self_signed;
pub use log::{RotatedLog, is_hidden, journal_hold, rotated_logs};
pub use metrics::counters::Counts;
pub use pools::forwarded_pool::{ForwardedPool, ForwardedPoolSize};
pub use server::{Ended, Server, ShutdownHandle};
pub use settings::{
    AccessControlSettings, AccessLogSettings, AdminSettings, ArchiveSettings, AuditLogSettings,
    AuthenticationSettings, ClusterSettings, LimitSettings, ListenSettings, Loaded,
    LogFileSettings, LogSettings, OwnSources, ServerSettings, SettingDescription, Settings,
    SettingsError, StoreSettings, TaskSettings, TlsSettings, setting_descriptions, setting_like,
};
pub use tasks::{TaskOrder, TaskProgram};

#[cfg(test)]
mod tests;
