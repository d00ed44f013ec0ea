//! Why a request has no answer, or not the one that was wanted.

use std::fmt;
use std::io;

use crate::answer::Outcome;

/// What went wrong between this client and a server.
#[derive(Debug)]
pub enum ClientError {
    /// The URL cannot be connected to.
    Url {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers there.
    Connect {
        /// The host and port, or the socket.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// TLS could not be set up, mostly because the certificate is not trusted.
    Tls(String),
    /// A file of trusted certificates cannot be used.
    Trust {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The connection broke.
    Lost(io::Error),
    /// The server closed the connection, with its reason if it gave one.
    Closed(Option<Outcome>),
    /// No answer within the time allowed, in seconds.
    TimedOut(u64),
    /// The server sends more than so many bytes for a search whose entries are kept in memory.
    TooMuch(usize),
    /// The server sent what is no answer to the request.
    Malformed(String),
    /// The server said no.
    Refused {
        /// What was asked for.
        operation: &'static str,
        /// What it answered.
        outcome: Outcome,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, reason } => write!(f, "cannot use the URL '{url}': {reason}"),
            Self::Connect { address, source } => {
                write!(f, "cannot connect to {address}: {source}")
            }
            Self::Tls(reason) => write!(f, "TLS failed: {reason}"),
            Self::Trust { path, reason } => {
                write!(f, "cannot read trusted certificates from {path}: {reason}")
            }
            Self::Lost(error) => write!(f, "the connection was lost: {error}"),
            Self::Closed(None) => f.write_str("the server closed the connection"),
            Self::Closed(Some(outcome)) => write!(f, "the server disconnects: {outcome}"),
            Self::TimedOut(seconds) => write!(f, "the server did not answer within {seconds} s"),
            Self::TooMuch(bytes) => {
                write!(f, "the server sends more than {} MiB where little is expected", bytes >> 20)
            }
            Self::Malformed(reason) => write!(f, "the server sent a malformed message: {reason}"),
            Self::Refused { operation, outcome } => {
                write!(f, "the server refuses the {operation}: {outcome}")
            }
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { source, .. } | Self::Lost(source) => Some(source),
            _ => None,
        }
    }
}
