//! What a machine gets that joins the cluster: a certificate, and the files that all members have.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cluster::transport::{AUTHORITY_KEY_FILE, Authority, NODE_FILE, check_key};
use directory::Admitted;
use environment::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::settings::ClusterSettings;

/// Who makes certificates for machines that join.
#[derive(Debug)]
pub(super) struct Admission {
    data: PathBuf,
    /// Where the certificates of this member are.
    certificates: PathBuf,
}

impl Admission {
    pub(super) fn new(data: &Path, settings: &ClusterSettings) -> Self {
        let certificates = data.join(&settings.certificates);
        Self { data: data.to_owned(), certificates }
    }

    /// Whether this member has what it takes, and a certificate can be made for such a key.
    pub(super) fn check(&self, key: &[u8]) -> Result<(), String> {
        let path = self.certificates.join(AUTHORITY_KEY_FILE);
        if !path.try_exists().unwrap_or(false) {
            return Err(format!(
                "this member has not the key of the cluster's authority, {}: have another one make \
                 the token",
                path.display()
            ));
        }
        check_key(key).map_err(|error| error.to_string())
    }

    /// When the certificate of this member ends, in seconds since 1970; none if it cannot be read.
    pub(super) fn certificate_ends_s(&self) -> Option<u64> {
        let pem = CertificateDer::from_pem_file(self.certificates.join(NODE_FILE)).ok()?;
        let (_, certificate) = X509Certificate::from_der(&pem).ok()?;
        u64::try_from(certificate.validity().not_after.timestamp()).ok()
    }

    /// What member `member` of cluster `cluster` gets, which has made this key.
    pub(super) fn admit(
        &self,
        cluster: [u8; 16],
        member: u64,
        key: &[u8],
        now: Timestamp,
    ) -> Result<Admitted, String> {
        self.check(key)?;
        let authority =
            Authority::load(&self.certificates, cluster).map_err(|error| error.to_string())?;
        let certificate = authority.certify(member, key, now).map_err(|error| error.to_string())?;
        let files = common_files(&self.data)
            .map_err(|error| format!("{} cannot be read: {error}", self.data.display()))?;
        Ok(Admitted {
            cluster,
            certificate,
            authority: authority.certificate_pem().to_owned(),
            authority_key: authority.key_pem().to_owned(),
            files,
        })
    }
}

/// The files of a data directory that are the same on all members: who the administrator is, and
/// the files of the schema.
fn common_files(data: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for name in ADMINISTRATOR_FILES {
        match fs::read_to_string(data.join(name)) {
            Ok(text) => drop(files.insert((*name).to_owned(), text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let folder = data.join(SCHEMA_FOLDER);
    let all = match fs::read_dir(&folder) {
        Ok(all) => all,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(error),
    };
    let mut bytes = 0;
    for file in all {
        let file = file?;
        let name = file.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".ldif")) else { continue };
        let text = fs::read_to_string(file.path())?;
        bytes += text.len();
        if bytes > SCHEMA_MAX_BYTES {
            let why =
                format!("the files in {SCHEMA_FOLDER} have more than {SCHEMA_MAX_BYTES} bytes");
            return Err(io::Error::other(why));
        }
        files.insert(format!("{SCHEMA_FOLDER}/{name}"), text);
    }
    Ok(files)
}

/// Files that say who the administrator is.
const ADMINISTRATOR_FILES: &[&str] = &["admin-name", "admin-password"];
/// The folder with files of the schema.
const SCHEMA_FOLDER: &str = "schema";
/// The most octets of files of the schema that are sent.
const SCHEMA_MAX_BYTES: usize = 8 << 20;
