//! A self-signed certificate, for a server that was given none.
//!
//! Invariant: a private key we write is never readable by others.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use environment::{Clock as _, SystemClock, Timestamp};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};

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
    write_file(&cert, &certificate.pem(), 0o644)?;
    // After a power cut a key without its certificate would keep the server from starting.
    let folders = [cert.parent(), key.parent(), Some(data)];
    folders.into_iter().flatten().try_for_each(|folder| {
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|source| ServerError::Io { path: folder.to_owned(), source })
    })
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

/// How long a self-signed certificate is valid: one year.
const VALIDITY: Duration = Duration::from_secs(365 * 86_400);

/// How far a client's clock may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);
