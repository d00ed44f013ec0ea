//! TLS: the certificate of the server, made or loaded.
//!
//! Invariant: TLS 1.2 and 1.3 only. A private key we write is never readable by others.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use directory::{Clock as _, SystemClock, Timestamp};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::ServerError;
use crate::settings::Settings;

/// Writes a self-signed certificate and its key into the data directory `data`, as `tls/cert.pem`
/// and `tls/key.pem` (mode 0600), where the settings look for them by default.
///
/// It is valid for one year, for `localhost`, the loopback addresses, the name of this host and
/// `names` (DNS names or IP addresses). Existing files are replaced.
///
/// # Errors
/// A name that cannot stand in a certificate; a file that cannot be written.
pub fn generate_self_signed(data: &Path, names: &[String]) -> Result<(), ServerError> {
    let settings = Settings::default();
    let (cert, key) = (data.join(settings.tls.cert), data.join(settings.tls.key));
    let bad = |error: rcgen::Error| ServerError::Certificate {
        path: cert.clone(),
        reason: error.to_string(),
    };
    let pair = KeyPair::generate().map_err(bad)?;
    let now = SystemClock::new().now();
    let certificate = parameters(names, now).and_then(|it| it.self_signed(&pair)).map_err(bad)?;
    for path in [&cert, &key] {
        if let Some(parent) = path.parent() {
            let failed = |source| ServerError::Io { path: parent.to_owned(), source };
            fs::create_dir_all(parent).map_err(failed)?;
        }
    }
    write_file(&key, &pair.serialize_pem(), 0o600)?;
    write_file(&cert, &certificate.pem(), 0o644)
}

fn parameters(names: &[String], now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut all = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    for name in std::iter::once(&host).chain(names) {
        if !name.is_empty() && !all.contains(name) {
            all.push(name.clone());
        }
    }
    let mut parameters = CertificateParams::new(all)?;
    // A subject of its own for each certificate would be better for clients that cache by name,
    // but the host's name is what a person recognizes.
    parameters.distinguished_name.push(DnType::CommonName, format!("roster on {host}"));
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.seconds());
    // Clients' clocks may be behind ours.
    parameters.not_before = now - CLOCK_SKEW;
    parameters.not_after = now + VALIDITY;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}

/// Writes beside and renames, so that a reader never sees half a file.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), ServerError> {
    let failed = |source| ServerError::Io { path: path.to_owned(), source };
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path))
        .map_err(failed)
}

/// Loads certificate and key as the settings say; makes self-signed ones when the settings are the
/// default and neither file exists.
pub(crate) fn acceptor(settings: &Settings) -> Result<TlsAcceptor, ServerError> {
    let (cert, key) = (settings.cert_path(), settings.key_path());
    if settings.has_default_certificate() && !cert.exists() && !key.exists() {
        generate_self_signed(&settings.server.data, &[])?;
        tracing::info!(cert = %cert.display(), "made a self-signed certificate");
    }
    let config = server_config(&cert, &key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn server_config(cert: &Path, key: &Path) -> Result<rustls::ServerConfig, ServerError> {
    let refuse =
        |path: &Path, reason: String| ServerError::Certificate { path: path.to_owned(), reason };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(cert, pem_reason(&error)))?;
    if chain.is_empty() {
        return Err(refuse(cert, "it holds no certificate".to_owned()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| refuse(key, pem_reason(&error)))?;
    warn_if_readable(key);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| refuse(cert, error.to_string()))
}

fn pem_reason(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "it holds no private key".to_owned(),
        other => format!("it is not PEM ({other})"),
    }
}

fn warn_if_readable(key: &Path) {
    let mode = fs::metadata(key).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        tracing::warn!(key = %key.display(), "the private key can be read by others: chmod 600 it");
    }
}

/// How long a self-signed certificate is valid: one year.
const VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// How far a client's clock may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(data: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.server.data = data.to_owned();
        settings
    }

    #[test]
    fn the_key_is_readable_by_the_owner_only() {
        let data = tempfile::tempdir().unwrap();
        // A second time, over existing files of any mode.
        for _ in 0..2 {
            generate_self_signed(data.path(), &[]).unwrap();
            let key = data.path().join("tls/key.pem");
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&key), 0o600);
            fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        }
        server_config(&data.path().join("tls/cert.pem"), &data.path().join("tls/key.pem")).unwrap();
    }

    #[test]
    fn a_certificate_is_made_only_where_the_default_ones_are_missing() {
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(data.path());
        acceptor(&settings).unwrap();
        let cert = data.path().join("tls/cert.pem");
        let first = fs::read(&cert).unwrap();
        acceptor(&settings).unwrap();
        assert_eq!(fs::read(&cert).unwrap(), first);
        settings.tls.cert = "other.pem".into();
        let error = acceptor(&settings).err().unwrap().to_string();
        assert!(error.contains("other.pem for TLS: No such file"), "{error}");
    }

    #[track_caller]
    fn check_refused(cert: Option<&str>, key: Option<&str>, want: &str) {
        let data = tempfile::tempdir().unwrap();
        generate_self_signed(data.path(), &[]).unwrap();
        let settings = settings(data.path());
        for (path, text) in [(settings.cert_path(), cert), (settings.key_path(), key)] {
            if let Some(text) = text {
                fs::write(path, text).unwrap();
            }
        }
        let error = acceptor(&settings).err().unwrap().to_string();
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn unusable_files_are_refused_by_name() {
        let other = KeyPair::generate().unwrap().serialize_pem();
        check_refused(Some(""), None, "cert.pem for TLS: it holds no certificate");
        check_refused(None, Some("no key here"), "key.pem for TLS: it holds no private key");
        check_refused(None, Some(&other), "cert.pem for TLS: ");
        check_refused(
            Some("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
            None,
            "cert.pem for TLS: it is not PEM",
        );
    }

    #[test]
    fn a_name_that_cannot_stand_in_a_certificate_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let names = ["b\u{e4}d".to_owned()];
        assert!(generate_self_signed(data.path(), &names).is_err());
    }
}
