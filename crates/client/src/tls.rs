//! Whom TLS trusts.
//!
//! Invariant: TLS 1.2 and 1.3 only, as the server has it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};

use crate::error::ClientError;

/// How certificates are looked at.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Whether the server must prove who it is.
    pub check: CertificateCheck,
    /// PEM file of the certificates trusted; without it, those of the system.
    pub trusted: Option<PathBuf>,
    /// Made once for all connections with these options and their clones.
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl TlsOptions {
    /// What to trust, and whether to look.
    pub fn new(check: CertificateCheck, trusted: Option<PathBuf>) -> Self {
        Self { check, trusted, config: Arc::default() }
    }
}

/// Whether the server must prove who it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CertificateCheck {
    /// The certificate is valid for the host, and somebody trusted vouches for it.
    #[default]
    Demand,
    /// Whoever answers is believed: encryption without knowing who is at the other end.
    Never,
    /// The certificate is the one with this SHA-256, whoever vouches for it and for what host.
    Pinned([u8; 32]),
}

impl CertificateCheck {
    /// By the names of `TLS_REQCERT` in ldap.conf(5).
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "never" | "allow" => Some(Self::Never),
            "try" | "demand" | "hard" => Some(Self::Demand),
            _ => None,
        }
    }
}

/// The configuration that `options` ask for.
pub(crate) fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>, ClientError> {
    if let Some(config) = options.config.get() {
        return Ok(Arc::clone(config));
    }
    let config = make(options)?;
    Ok(Arc::clone(options.config.get_or_init(|| config)))
}

fn make(options: &TlsOptions) -> Result<Arc<ClientConfig>, ClientError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| ClientError::Tls(error.to_string()))?;
    let config = match options.check {
        CertificateCheck::Demand => builder.with_root_certificates(trusted(options)?),
        CertificateCheck::Never => {
            let verifier = Unchained { provider, pinned: None };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        CertificateCheck::Pinned(pinned) => {
            let verifier = Unchained { provider, pinned: Some(pinned) };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    Ok(Arc::new(config.with_no_client_auth()))
}

fn trusted(options: &TlsOptions) -> Result<RootCertStore, ClientError> {
    let system = SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.exists());
    let path = options.trusted.as_deref().or(system);
    let Some(path) = path else {
        return Err(ClientError::Tls("no trusted certificates are installed here".to_owned()));
    };
    let refuse = |reason: String| ClientError::Trust { path: path.display().to_string(), reason };
    let mut store = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| refuse(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
        match store.add(certificate) {
            Ok(()) => {}
            // A bundle of the system may hold one that this library does not read.
            Err(_) if options.trusted.is_none() => {}
            Err(error) => return Err(refuse(error.to_string())),
        }
    }
    if store.is_empty() {
        return Err(refuse("it contains no certificate".to_owned()));
    }
    Ok(store)
}

/// Looks at no chain of certificates: believes whoever answers, or whoever has the one certificate.
/// Signatures are still checked, so that nobody else can join in.
#[derive(Debug)]
struct Unchained {
    provider: Arc<CryptoProvider>,
    /// The SHA-256 of the certificate.
    pinned: Option<[u8; 32]>,
}

impl ServerCertVerifier for Unchained {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found: [u8; 32] = Sha256::digest(certificate).into();
        match self.pinned {
            Some(pinned) if pinned != found => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Where systems keep the certificates they trust.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_ldap_conf() {
        for (name, want) in [
            ("never", Some(CertificateCheck::Never)),
            ("ALLOW", Some(CertificateCheck::Never)),
            ("try", Some(CertificateCheck::Demand)),
            ("demand", Some(CertificateCheck::Demand)),
            ("hard", Some(CertificateCheck::Demand)),
            ("maybe", None),
        ] {
            assert_eq!(CertificateCheck::named(name), want, "{name}");
        }
    }

    #[test]
    fn a_file_that_holds_no_certificate_is_named() {
        let with = |path: &str| TlsOptions { trusted: Some(path.into()), ..TlsOptions::default() };
        for path in ["/dev/null", "/nowhere/at/all"] {
            let error = config(&with(path)).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
