//! Why a server cannot start or run, each in one clear sentence.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::settings::SettingsError;

/// What keeps a server from starting, or ended it.
#[derive(Debug)]
pub enum ServerError {
    /// An address cannot be listened on.
    Listen {
        /// Which address.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    Socket {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The settings name no listener at all.
    NoListener,
    /// Certificate or key cannot be used.
    Certificate {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The tasks cannot be kept.
    Tasks(io::Error),
    /// There are hardly any open files for connections.
    TooFewFiles {
        /// How many the process may have.
        files: u64,
        /// How many it should.
        needed: u64,
    },
    /// No cipher suite of the settings belongs to a protocol version of the settings.
    NoCipherSuite,
    /// Clients are to show certificates, but nobody is named who may issue them.
    NoClientCa,
    /// The keys for bearer tokens cannot be used.
    TokenKeys {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be written.
    Io {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The settings cannot be read again.
    Settings(SettingsError),
    /// A thread or its event loop cannot be started.
    Thread(io::Error),
    /// A worker thread ended by itself: a bug of the server.
    WorkerEnded,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "{address} is in use by another process")
            }
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Socket { path, reason } => {
                write!(f, "cannot listen on {}: {reason}", path.display())
            }
            Self::NoListener => f.write_str("no address to listen on: set one in section [listen]"),
            Self::Certificate { path, reason } => {
                write!(f, "cannot use {} for TLS: {reason}", path.display())
            }
            Self::Tasks(error) => write!(f, "what is known of tasks cannot be kept: {error}"),
            Self::TooFewFiles { files, needed } => write!(
                f,
                "this process may open only {files} files, which leaves hardly any for clients: \
                 allow {needed} (LimitNOFILE of a unit, 'ulimit -n')"
            ),
            Self::NoCipherSuite => {
                f.write_str("tls.cipher_suites has none that belongs to a version of tls.versions")
            }
            Self::NoClientCa => f.write_str(
                "tls.client_certificates needs tls.client_ca: who may issue the certificates",
            ),
            Self::TokenKeys { path, reason } => {
                write!(f, "cannot use {} as keys for tokens: {reason}", path.display())
            }
            Self::Io { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Self::Settings(error) => error.fmt(f),
            Self::Thread(source) => write!(f, "cannot start a thread: {source}"),
            Self::WorkerEnded => f.write_str("a worker thread has ended unexpectedly"),
        }
    }
}

impl std::error::Error for ServerError {}
