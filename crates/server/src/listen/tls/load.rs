//! From settings and files to what rustls works with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

use super::{Loaded, certificate, refuse};
use crate::error::ServerError;
use crate::settings::Settings;
use crate::settings::file_watch::read_file;

/// Names of the protocol versions.
pub(crate) const VERSIONS: &[&str] = &["1.2", "1.3"];

/// Names of the cipher suites as IANA registers them, in the order of preference.
pub(crate) const CIPHER_SUITES: &[&str] = &[
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Loads everything anew.
pub(super) fn load(settings: &Settings) -> Result<Loaded, ServerError> {
    let (cert, key) = (settings.cert_path(), settings.key_path());
    let chain = certificates(&cert)?;
    let private = PrivateKeyDer::from_pem_slice(&read(&key)?)
        .map_err(|error| refuse(&key, pem_reason(&error)))?;
    warn_if_readable(&key);
    let leaf = chain.first().ok_or_else(|| refuse(&cert, "it contains no certificate"))?;
    let facts = certificate::facts(leaf)
        .ok_or_else(|| refuse(&cert, "its first certificate cannot be read"))?;
    let provider = Arc::new(provider(&settings.tls.cipher_suites));
    let verifier = verifier(settings, &provider)?;
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(&settings.tls.versions))
        .map_err(|_| ServerError::NoCipherSuite)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, private)
        .map_err(|error| refuse(&cert, error.to_string()))?;
    Ok(Loaded {
        acceptor: TlsAcceptor::from(Arc::new(config)),
        server_end_point: facts.server_end_point,
        expires: facts.expires,
        subject: facts.subject,
        sha256: facts.sha256,
    })
}

/// The provider with these cipher suites only; all of them when none is named.
fn provider(names: &[&str]) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if !names.is_empty() {
        provider.cipher_suites.retain(|suite| {
            suite.suite().as_str().is_some_and(|name| names.contains(&&*iana_name(name)))
        });
    }
    provider
}

/// rustls marks those of TLS 1.3.
fn iana_name(name: &str) -> String {
    name.strip_prefix("TLS13_").map_or_else(|| name.to_owned(), |rest| format!("TLS_{rest}"))
}

fn versions(names: &[&str]) -> Vec<&'static SupportedProtocolVersion> {
    [("1.3", &rustls::version::TLS13), ("1.2", &rustls::version::TLS12)]
        .into_iter()
        .filter(|(name, _)| names.is_empty() || names.contains(name))
        .map(|(_, version)| version)
        .collect()
}

/// What looks at the certificates of clients.
fn verifier(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ServerError> {
    let is_required = match settings.tls.client_certificates {
        "required" => true,
        "optional" => false,
        _ => return Ok(WebPkiClientVerifier::no_client_auth()),
    };
    let path = settings.client_ca_path().ok_or(ServerError::NoClientCa)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&path)? {
        roots.add(authority).map_err(|error| refuse(&path, error.to_string()))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    let (builder, path) = match settings.client_crl_path() {
        Some(path) => (builder.with_crls(revocations(&path)?), path),
        None => (builder, path),
    };
    let built = builder.build().map_err(|error| refuse(&path, error.to_string()))?;
    Ok(built)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let all = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse(path, pem_reason(&error)))?;
    if all.is_empty() {
        return Err(refuse(path, "it contains no certificate"));
    }
    Ok(all)
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, ServerError> {
    let all = CertificateRevocationListDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refuse(path, pem_reason(&error)))?;
    if all.is_empty() {
        return Err(refuse(path, "it contains no certificate revocation list"));
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Vec<u8>, ServerError> {
    read_file(path, FILE_MAX_BYTES).map_err(|error| refuse(path, error.to_string()))
}

fn pem_reason(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "it contains no private key".to_owned(),
        other => format!("it is not PEM ({other})"),
    }
}

fn warn_if_readable(key: &Path) {
    let mode = fs::metadata(key).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        tracing::warn!(key = %key.display(), "the private key can be read by others: chmod 600 it");
    }
}

/// The most of a file: lists of revocations can be large.
const FILE_MAX_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_all_suites_there_are() {
        let all = aws_lc_rs::ALL_CIPHER_SUITES;
        let names = all.iter().map(|suite| iana_name(suite.suite().as_str().unwrap()));
        assert_eq!(names.collect::<Vec<_>>(), CIPHER_SUITES);
        for name in CIPHER_SUITES {
            assert_eq!(provider(&[name]).cipher_suites.len(), 1, "{name}");
        }
        assert_eq!(provider(&[]).cipher_suites.len(), CIPHER_SUITES.len());
    }
}
