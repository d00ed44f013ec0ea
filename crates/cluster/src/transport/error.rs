//! What keeps a node from talking to others at all.
//!
//! Invariant: failures of one connection are not here; the engine has types of its own for them.

use std::path::PathBuf;
use std::{fmt, io};

/// Why the transport cannot start.
#[derive(Debug)]
pub enum TransportError {
    /// A file of the credentials cannot be read or written.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file of the credentials cannot be used.
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate could not be made.
    Issue(String),
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Certificate { path, reason } => {
                write!(f, "{} cannot be used: {reason}", path.display())
            }
            Self::Issue(reason) => write!(f, "a certificate cannot be made: {reason}"),
        }
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Certificate { .. } | Self::Issue(_) => None,
        }
    }
}
