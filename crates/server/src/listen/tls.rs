//! TLS: what the settings and their files make of it, replaced as a whole when a file changes.
//!
//! Invariant: TLS 1.2 and 1.3 only.
//! Invariant: a connection keeps what it was begun with. Files that cannot be used change nothing.

mod certificate;
mod generate;
mod load;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use directory::{CertificateState, ChannelBindings, ClientCertificate, Live};
use environment::Timestamp;
use rustls::{ProtocolVersion, ServerConnection};
use tokio_rustls::TlsAcceptor;

use crate::error::ServerError;
use crate::settings::Settings;
use crate::settings::file_watch::{Stamp, stamps};

pub use generate::generate_self_signed;
pub(crate) use load::{CIPHER_SUITES, VERSIONS};

/// TLS as it is now.
pub(crate) struct Tls {
    settings: Live<Settings>,
    current: ArcSwap<Loaded>,
    watched: Mutex<Watched>,
    /// Held by whoever puts others in use: what was read of files for settings that have gone
    /// would come after what was read for these.
    changing: Mutex<()>,
}

/// What was made of one version of the files.
pub(crate) struct Loaded {
    pub(crate) acceptor: TlsAcceptor,
    /// `tls-server-end-point` of the certificate.
    server_end_point: Option<Vec<u8>>,
    /// When the certificate is no longer valid, in seconds since 1970.
    pub(crate) expires: i64,
    /// The subject of the certificate.
    pub(crate) subject: String,
    /// Its SHA-256, in hexadecimal digits.
    sha256: String,
}

struct Watched {
    stamps: Vec<Option<Stamp>>,
    /// The day on which the log last warned of the expiry.
    warned: Option<u64>,
    /// Why the files that are there are not used.
    error: Option<String>,
}

/// What other settings make of TLS.
pub(crate) struct OtherTls {
    settings: Settings,
    stamps: Vec<Option<Stamp>>,
    loaded: Loaded,
}

impl Tls {
    /// Loads the files as the settings say; makes a self-signed certificate when the settings are
    /// the default and there is none.
    pub(crate) fn new(settings: &Settings, now: Timestamp) -> Result<Self, ServerError> {
        let (cert, key) = (settings.cert_path(), settings.key_path());
        if settings.has_default_certificate() && !cert.exists() && !key.exists() {
            generate_self_signed(&settings.server.data, &[])?;
            tracing::info!(cert = %cert.display(), "made a self-signed certificate");
        }
        let stamps = stamps(&paths(settings));
        let loaded = load::load(settings)?;
        tracing::info!(
            subject = loaded.subject,
            expires = expiry(loaded.expires),
            "certificate loaded"
        );
        let tls = Self {
            settings: Live::new(settings.clone()),
            current: ArcSwap::from_pointee(loaded),
            watched: Mutex::new(Watched { stamps, warned: None, error: None }),
            changing: Mutex::default(),
        };
        tls.warn_of_expiry(now);
        Ok(tls)
    }

    /// What a handshake that begins now uses.
    pub(crate) fn current(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    /// Looks whether a file has changed, and if so loads them all; says whether they are in use.
    pub(crate) fn look(&self, now: Timestamp) -> bool {
        // Before they are read: what changes meanwhile is found the next time.
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = self.settings.get();
        let stamps = stamps(&paths(&settings));
        {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            // What could not be used is tried again: the reason may have gone.
            if watched.stamps == stamps && watched.error.is_none() {
                drop(watched);
                self.warn_of_expiry(now);
                return false;
            }
            watched.stamps = stamps;
            watched.warned = None;
        }
        let mut failed = None;
        let is_loaded = match load::load(&settings) {
            Ok(loaded) => {
                tracing::info!(
                    subject = loaded.subject,
                    expires = expiry(loaded.expires),
                    "certificate reloaded; open connections keep the old one"
                );
                self.current.store(Arc::new(loaded));
                true
            }
            Err(error) => {
                failed = Some(error.to_string());
                false
            }
        };
        {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = failed.as_ref().filter(|_| watched.error != failed) {
                let kept = "the changed files cannot be used; the previous ones stay in use";
                tracing::error!(error, "{kept}");
            }
            watched.error = failed;
        }
        self.warn_of_expiry(now);
        is_loaded
    }

    /// Loads what the settings ask for, if these, or the files, are others than what is in use.
    ///
    /// # Errors
    /// Files that cannot be used.
    pub(crate) fn load_other(&self, settings: &Settings) -> Result<Option<OtherTls>, ServerError> {
        let before = self.settings.get();
        let stamps = stamps(&paths(settings));
        let is_same = before.tls == settings.tls && before.server.data == settings.server.data;
        if is_same {
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if watched.stamps == stamps && watched.error.is_none() {
                return Ok(None);
            }
        }
        let loaded = load::load(settings)?;
        Ok(Some(OtherTls { settings: settings.clone(), stamps, loaded }))
    }

    /// Has this in use from now on.
    pub(crate) fn begin(&self, other: OtherTls, now: Timestamp) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let OtherTls { settings, stamps, loaded } = other;
        tracing::info!(
            subject = loaded.subject,
            expires = expiry(loaded.expires),
            "TLS has other settings or files; open connections keep the old ones"
        );
        {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            self.settings.set(settings);
            self.current.store(Arc::new(loaded));
            *watched = Watched { stamps, warned: None, error: None };
        }
        self.warn_of_expiry(now);
    }

    /// The certificate that clients are shown.
    pub(crate) fn state(&self) -> CertificateState {
        let current = self.current();
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        CertificateState {
            subject: current.subject.clone(),
            expires_s: u64::try_from(current.expires).unwrap_or(0),
            sha256: current.sha256.clone(),
            error: watched.error.clone(),
        }
    }

    /// Warns once a day when the certificate is about to expire.
    fn warn_of_expiry(&self, now: Timestamp) {
        let seconds = i64::try_from(now.seconds()).unwrap_or(i64::MAX);
        let expires = self.current.load().expires;
        let left = expires.saturating_sub(seconds);
        if left > EXPIRY_WARNING_S {
            return;
        }
        let day = now.seconds() / SECONDS_PER_DAY;
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.warned.replace(day) == Some(day) {
            return;
        }
        let expires = expiry(expires);
        if left <= 0 {
            tracing::error!(expires, "the certificate has expired: clients refuse it");
        } else {
            let days = left / i64::try_from(SECONDS_PER_DAY).unwrap_or(1);
            tracing::warn!(expires, days, "the certificate is about to expire");
        }
    }
}

/// The files that TLS is made from.
fn paths(settings: &Settings) -> Vec<PathBuf> {
    let mut paths = vec![settings.cert_path(), settings.key_path()];
    paths.extend([settings.client_ca_path(), settings.client_crl_path()].into_iter().flatten());
    paths
}

/// A moment for the log.
fn expiry(seconds: i64) -> String {
    let micros = u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000);
    Timestamp(micros).generalized_time()
}

impl Loaded {
    /// What the handshake has found out.
    pub(crate) fn facts(&self, connection: &ServerConnection) -> io::Result<directory::Tls> {
        let client = connection.peer_certificates().and_then(|chain| chain.first());
        let client = match client {
            None => None,
            Some(der) => Some(ClientCertificate {
                subject: certificate::subject(der).ok_or(io::ErrorKind::InvalidData)?,
                der: der.to_vec(),
            }),
        };
        // Before TLS 1.3 the value is only safe with an extension whose use is not told
        // (RFC 9266 §4.2).
        let exporter = (connection.protocol_version() == Some(ProtocolVersion::TLSv1_3))
            .then(|| {
                let room = vec![0; EXPORTER_BYTES];
                connection.export_keying_material(room, EXPORTER_LABEL, Some(&[])).ok()
            })
            .flatten();
        let suite = connection.negotiated_cipher_suite();
        let name = suite.and_then(|suite| suite.suite().as_str()).unwrap_or_default();
        Ok(directory::Tls {
            strength_bits: if name.contains("AES_128") { 128 } else { 256 },
            client,
            bindings: ChannelBindings { exporter, server_end_point: self.server_end_point.clone() },
        })
    }
}

/// A file that cannot be used, and why.
fn refuse(path: &Path, reason: impl Into<String>) -> ServerError {
    ServerError::Certificate { path: path.to_owned(), reason: reason.into() }
}

/// RFC 9266 §2.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";
/// RFC 9266 §2.
const EXPORTER_BYTES: usize = 32;
/// The log warns from thirty days before on.
const EXPIRY_WARNING_S: i64 = 30 * 86_400;
const SECONDS_PER_DAY: u64 = 86_400;

#[cfg(test)]
mod tests;
