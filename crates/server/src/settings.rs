//! The settings of one node: what must be known before the directory can be opened.
//!
//! A setting is one row of the table in `rows.rs`; reading, checking, the sample file and the
//! reference page all derive from it. Invariant: no value gets into [`Settings`] but through its
//! row, so that defaults, file, environment and flags are held to the same limits.
//!
//! Order, the later wins: default, what the directory says, `roster.toml` of the data directory,
//! the file that is named, environment (`ROSTER_SECTION__KEY`, or `ROSTER_SECTION__KEY_FILE`
//! naming a file that holds the value), flags.

mod access_control;
mod authentication;
mod cluster;
mod error;
pub(crate) mod file_watch;
mod load;
pub(crate) mod of_directory;
mod page;
mod policy;
mod row;
mod rows;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use access_control::AccessControlSettings;
pub use authentication::AuthenticationSettings;
pub use cluster::ClusterSettings;
pub use error::SettingsError;
pub use load::{Loaded, OwnSources};
pub use page::{SettingDescription, setting_descriptions, setting_like};

use directory::{Network, PasswordOptions, PasswordPolicyOptions, Policy};

use crate::listen::read_levels::ListenerLevels;

/// All settings of a node, in the sections of `roster.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `[server]`: the process.
    pub server: ServerSettings,
    /// `[listen]`: where clients connect.
    pub listen: ListenSettings,
    /// `[tls]`: certificate and handshake.
    pub tls: TlsSettings,
    /// `[authentication]`: how clients prove who they are.
    pub authentication: AuthenticationSettings,
    /// `[access_control]`: what access rules ask for.
    pub access_control: AccessControlSettings,
    /// `[limits]`: what one connection may cost.
    pub limits: LimitSettings,
    /// `[password]`: how passwords are stored and verified.
    pub password: PasswordSettings,
    /// `[password_policy]`: which policy is the default, and what binds record.
    pub password_policy: PasswordPolicySettings,
    /// `[admin]`: HTTP for whoever watches the server.
    pub admin: AdminSettings,
    /// `[cluster]`: this server as one of several.
    pub cluster: ClusterSettings,
    /// `[store]`: memory and disk of the store.
    pub store: StoreSettings,
    /// `[archive]`: changes that are kept.
    pub archive: ArchiveSettings,
    /// `[sinks]`: changes that are sent.
    pub sinks: SinkSettings,
    /// `[tasks]`: what the server does by itself.
    pub tasks: TaskSettings,
    /// `[log]`: diagnostics.
    pub log: LogSettings,
    /// `[access_log]`: operations.
    pub access_log: AccessLogSettings,
    /// `[audit_log]`: changes.
    pub audit_log: AuditLogSettings,
    /// `[[policy]]`: what connections may ask for.
    pub policies: Vec<Policy>,
}

/// `[server]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// The data directory.
    pub data: PathBuf,
    /// Threads that serve connections; 0 = one per core.
    pub workers: usize,
    /// Threads for large searches; 0 = one per core.
    pub scan_threads: usize,
    /// Threads among them that serve nobody who has not signed in; 0 = a quarter, at least one.
    pub scan_threads_reserved: usize,
    /// Jobs that may wait for such a thread; one more is answered `busy`.
    pub scan_queue_max: usize,
    /// Positions among them for those who have signed in; half of them at the most.
    pub scan_queue_reserved: usize,
    /// Jobs of one identity, or of all that have not signed in from one address, that may wait.
    pub scan_queue_asker_max: usize,
    /// How long operations in progress may take to end when the server stops.
    pub shutdown_timeout: Duration,
    /// Whether the system may write a core file, and debuggers look into the process.
    pub core_dumps: bool,
}

/// `[listen]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenSettings {
    /// Addresses for LDAP (and StartTLS).
    pub ldap: Vec<SocketAddr>,
    /// Addresses for LDAP inside TLS.
    pub ldaps: Vec<SocketAddr>,
    /// Unix socket; empty = none; relative to the data directory.
    pub ldapi: PathBuf,
    /// Permission bits of the Unix socket.
    pub ldapi_mode: u32,
    /// Networks of proxies that say where their clients are.
    pub proxies: Vec<Network>,
    /// How fresh reads are on each listener, where they do not say.
    pub read_levels: ListenerLevels,
}

/// `[tls]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificate chain, PEM; relative to the data directory.
    pub cert: PathBuf,
    /// Private key, PEM; relative to the data directory.
    pub key: PathBuf,
    /// Protocol versions; empty = all.
    pub versions: Vec<&'static str>,
    /// Cipher suites; empty = all.
    pub cipher_suites: Vec<&'static str>,
    /// Whether clients show certificates: `none`, `optional` or `required`.
    pub client_certificates: &'static str,
    /// Who may issue them, PEM; relative to the data directory; empty = nobody.
    pub client_ca: PathBuf,
    /// What was revoked, PEM; relative to the data directory; empty = nothing.
    pub client_crl: PathBuf,
    /// How often the files are looked at; zero = never.
    pub reload_interval: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
}

/// `[limits]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Connections at the same time, over all listeners but the Unix socket.
    pub connections_max: usize,
    /// As many more of the Unix socket.
    pub connections_reserved: usize,
    /// Share of `connections_max` for connections that have not authenticated, in percent.
    pub connections_anonymous_percent: usize,
    /// Connections of one address at the same time; 0 = any number.
    pub connections_per_address_max: usize,
    /// Binds of one address that may fail before it has to wait; 0 = any number.
    pub bind_failures_max: u32,
    /// How long one bind may have to wait.
    pub bind_delay_max: Duration,
    /// Networks from which binds are counted by account.
    pub bind_gateways: Vec<Network>,
    /// Size of one request in bytes.
    pub message_size_max_bytes: usize,
    /// Size of one request in bytes while the client has not authenticated.
    pub message_size_anonymous_max_bytes: usize,
    /// Operations of one connection that are not answered yet; at the limit nothing more is read.
    pub outstanding_max: usize,
    /// Answers in bytes that wait for a client to read them; beyond, no request of it is handled.
    pub output_buffer_max_bytes: usize,
    /// What is held for all connections, in bytes: answers that were not taken, requests that
    /// wait.
    pub undelivered_max_bytes: usize,
    /// What is held for all connections that have not authenticated, in bytes.
    pub undelivered_anonymous_max_bytes: usize,
    /// What is held for those of one address among them, in bytes.
    pub undelivered_per_address_max_bytes: usize,
    /// How long a connection may last before its first request; zero = for ever.
    pub first_request_timeout: Duration,
    /// How long a connection may stay silent; zero = for ever.
    pub idle_timeout: Duration,
    /// How long a client may refuse to read its answers.
    pub write_timeout: Duration,
    /// How long searches of a client that has ended its side may go on without delivering
    /// anything; zero means to their end.
    pub half_closed_timeout: Duration,
    /// How many files the process may have open, when that lowered `connections_max`; no setting.
    pub open_files_max: Option<u64>,
    /// Entries one search, or one page of it, returns; 0 = no limit.
    pub size_limit_entries: u32,
    /// Entries that all pages of one search return together; 0 = no limit.
    pub paged_total_entries_max: u32,
    /// How long one search may take, in seconds; 0 = no limit.
    pub time_limit_s: u32,
    /// Entries one search may look at; 0 = no limit.
    pub look_through_limit_entries: u32,
    /// Connections bound as one identity at the same time; 0 = any number.
    pub connections_per_identity_max: u32,
    /// Operations of one identity that are not answered; 0 = any number.
    pub operations_per_identity_max: u32,
    /// Work that one search may do, in millions of steps; 0 = no limit.
    pub search_work_max: u32,
    /// Work that one search of those who have not authenticated may do, in millions of steps; 0 =
    /// no limit.
    pub search_work_anonymous_max: u32,
    /// Entries that a search which no index helps may look at without a privilege.
    pub unindexed_entries: u32,
    /// Searches that go on with what changes, at the same time.
    pub streams_max: usize,
    /// The same of one user, or of one address that has not authenticated.
    pub streams_each_max: usize,
    /// Entries that one search sorts in memory.
    pub sort_entries_max: u64,
    /// Memory that one search takes for sorting, in bytes.
    pub sort_bytes_max: usize,
}

/// `[password]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordSettings {
    /// How passwords are stored, up to which cost they are verified, and whether they are stored
    /// anew after a bind.
    pub options: PasswordOptions,
    /// Threads that hash passwords; 0 = one for each two cores.
    pub hash_threads: usize,
    /// Requests that may wait for such a thread; one more is answered `busy`.
    pub hash_queue_max: usize,
    /// Requests that may wait for such a thread of one identity, or of one client address that has
    /// not signed in.
    pub hash_queue_address_max: usize,
}

/// `[password_policy]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordPolicySettings {
    /// Which policy is the default, and what binds record in accounts.
    pub options: PasswordPolicyOptions,
}

/// `[admin]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminSettings {
    /// Addresses for HTTP; none = there is no such listener.
    pub listen: Vec<SocketAddr>,
    /// Whether they may be others than those of this machine alone.
    pub remote: bool,
}

/// `[store]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// Address space reserved for the memory map, in bytes; it uses up neither memory nor disk.
    pub map_size_bytes: u64,
    /// Changes that wait for the database, in bytes of memory; beyond, writes have to wait.
    pub overlay_max_bytes: u64,
    /// Share of the time that building and removing indexes may take, in percent.
    pub index_build_percent: u8,
    /// Whether the data file is read into memory at the start: `auto`, `on` or `off`.
    pub preload: &'static str,
    /// Journal kept after its changes are in the database, in bytes.
    pub journal_keep_bytes: u64,
    /// Free bytes of the disk below which only the administrator may write.
    pub disk_low_bytes: u64,
    /// Free bytes of the disk below which nobody may write; at most `disk_low_bytes`.
    pub disk_full_bytes: u64,
}

/// `[archive]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// How long changes are kept; zero = there is no archive.
    pub keep: Duration,
    /// Share of the disk that it may take, in percent.
    pub max_percent: u8,
    /// The most octets that it may take; 0 = only the share counts.
    pub max_bytes: u64,
    /// Where it is; relative to the data directory.
    pub directory: PathBuf,
}

/// `[sinks]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkSettings {
    /// Whether this server sends anything.
    pub run: bool,
    /// Where their files are, and those with their secrets; relative to the data directory.
    pub directory: PathBuf,
}

/// `[tasks]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSettings {
    /// Where the files are that tasks read and write; relative to the data directory.
    pub directory: PathBuf,
    /// The most tasks that are at work.
    pub running_max: usize,
    /// How long those that have ended are shown.
    pub keep: Duration,
    /// `HOST:PORT` of the server that takes e-mail; empty: none.
    pub mail_server: String,
    /// Whom e-mail is from.
    pub mail_from: String,
}

/// `[log]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
    /// `text` or `json`.
    pub format: &'static str,
}

/// `[access_log]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// `json`, `text` or `off`.
    pub format: &'static str,
    /// Where it is written and how long it is kept.
    pub file: LogFileSettings,
    /// Memory of each worker for lines that are not written yet, in bytes.
    pub buffer_bytes: usize,
    /// Lines within a second of connections that were refused; others are counted.
    pub refused_per_second_max: u32,
}

/// `[audit_log]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditLogSettings {
    /// `ldif`, `json` or `off`.
    pub format: &'static str,
    /// Where it is written and how long it is kept.
    pub file: LogFileSettings,
    /// `hidden` or `hashed`.
    pub passwords: &'static str,
}

/// A log file, and what becomes of the files before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFileSettings {
    /// The file; relative to the data directory.
    pub path: PathBuf,
    /// It is put aside when it is larger, in bytes; 0 = never.
    pub rotate_size_bytes: u64,
    /// It is put aside when it is older; zero = never.
    pub rotate_every: Duration,
    /// It is put aside at this time of the day, in minutes of UTC.
    pub rotate_at_min: Option<u32>,
    /// `none`, `gzip` or `zstd`.
    pub compress: &'static str,
    /// Files put aside that are kept; 0 = any number.
    pub keep_files: usize,
    /// How long they are kept; zero = for ever.
    pub keep: Duration,
    /// The oldest go while less of the disk is free, in bytes; 0 = they stay.
    pub keep_free_bytes: u64,
}

impl Settings {
    /// The name of the settings file in a data directory.
    pub const DATA_FILE: &'static str = "roster.toml";

    /// The Unix socket to listen on, if any.
    #[must_use]
    pub fn ldapi_path(&self) -> Option<PathBuf> {
        (!self.listen.ldapi.as_os_str().is_empty()).then(|| self.in_data(&self.listen.ldapi))
    }

    /// Where the certificate chain is.
    #[must_use]
    pub fn cert_path(&self) -> PathBuf {
        self.in_data(&self.tls.cert)
    }

    /// Where the private key is.
    #[must_use]
    pub fn key_path(&self) -> PathBuf {
        self.in_data(&self.tls.key)
    }

    /// Where the access log is, if there is one.
    #[must_use]
    pub fn access_log_path(&self) -> Option<PathBuf> {
        (self.access_log.format != "off").then(|| self.in_data(&self.access_log.file.path))
    }

    /// Where the audit log is, if there is one.
    #[must_use]
    pub fn audit_log_path(&self) -> Option<PathBuf> {
        (self.audit_log.format != "off").then(|| self.in_data(&self.audit_log.file.path))
    }

    /// Where the certificates of those are who may issue client certificates.
    #[must_use]
    pub fn client_ca_path(&self) -> Option<PathBuf> {
        self.optional(&self.tls.client_ca)
    }

    /// Where the revocation lists are.
    #[must_use]
    pub fn client_crl_path(&self) -> Option<PathBuf> {
        self.optional(&self.tls.client_crl)
    }

    /// Where the keys are that bearer tokens are verified with.
    #[must_use]
    pub fn token_keys_path(&self) -> Option<PathBuf> {
        self.optional(&self.authentication.token_keys)
    }

    /// Where the service's keys for Kerberos are.
    #[must_use]
    pub fn keytab_path(&self) -> Option<PathBuf> {
        self.optional(&self.authentication.keytab)
    }

    /// Whether certificate and key are where `roster init` puts self-signed ones.
    #[must_use]
    pub fn has_default_certificate(&self) -> bool {
        let default = Self::default();
        self.tls.cert == default.tls.cert && self.tls.key == default.tls.key
    }

    fn optional(&self, path: &Path) -> Option<PathBuf> {
        (!path.as_os_str().is_empty()).then(|| self.in_data(path))
    }

    fn in_data(&self, path: &Path) -> PathBuf {
        // `join` keeps an absolute path as it is.
        self.server.data.join(path)
    }

    /// Nothing set: what the rows are applied to.
    fn blank() -> Self {
        Self {
            cluster: ClusterSettings::default(),
            server: ServerSettings::default(),
            listen: ListenSettings::default(),
            tls: TlsSettings::default(),
            authentication: AuthenticationSettings::default(),
            access_control: AccessControlSettings::default(),
            limits: LimitSettings::default(),
            password: PasswordSettings::default(),
            password_policy: PasswordPolicySettings::default(),
            admin: AdminSettings::default(),
            store: StoreSettings::default(),
            archive: ArchiveSettings::default(),
            sinks: SinkSettings::default(),
            tasks: TaskSettings::default(),
            log: LogSettings::default(),
            access_log: AccessLogSettings::default(),
            audit_log: AuditLogSettings::default(),
            policies: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
