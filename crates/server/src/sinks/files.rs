//! The directory of the sinks: what they write, and the keys, passwords and certificates that they
//! name.
//!
//! Invariant: names come from lines of settings, which hold nothing but a name of a file here.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use zeroize::Zeroizing;

/// The directory.
#[derive(Clone, Debug)]
pub(super) struct SinkFiles(Arc<Path>);

impl SinkFiles {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path.into())
    }

    /// Where a file of this name is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    /// Makes it, for its owner alone, if it is not there.
    pub(super) fn make(&self) -> std::io::Result<()> {
        if self.0.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    /// A secret, without the end of its line.
    pub(super) fn secret(&self, name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let path = self.path(name);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::open(&path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(format!(
                "{} may be read by others: 'chmod 600' it, and think of what it holds as known",
                path.display()
            ));
        }
        let mut octets = Zeroizing::new(Vec::new());
        file.take(SECRET_MAX_BYTES + 1).read_to_end(&mut octets).map_err(failed)?;
        if octets.len() as u64 > SECRET_MAX_BYTES {
            return Err(format!("{} has more than {SECRET_MAX_BYTES} bytes", path.display()));
        }
        let end = octets.iter().rposition(|octet| !b"\r\n".contains(octet)).map_or(0, |at| at + 1);
        octets.truncate(end);
        match octets.is_empty() {
            true => Err(format!("{} is empty", path.display())),
            false => Ok(octets),
        }
    }

    /// A secret that is text.
    pub(super) fn password(&self, name: &str) -> Result<Zeroizing<String>, String> {
        let octets = self.secret(name)?;
        let text = std::str::from_utf8(&octets)
            .map_err(|_| format!("{} is not UTF-8", self.path(name).display()))?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// Whom TLS trusts: those of a file here, or those of the system.
    pub(super) fn tls(&self, ca: Option<&str>) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(name) => {
                let path = self.path(name);
                let failed = |error: String| format!("{}: {error}", path.display());
                let all = CertificateDer::pem_file_iter(&path)
                    .map_err(|error| failed(error.to_string()))?;
                for one in all {
                    let one = one.map_err(|error| failed(error.to_string()))?;
                    roots.add(one).map_err(|error| failed(error.to_string()))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err("there are no certificates of authorities to trust".to_owned());
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| error.to_string())?;
        Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
    }
}

/// The largest file with a secret, in bytes.
const SECRET_MAX_BYTES: u64 = 64 * 1024;
