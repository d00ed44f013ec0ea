//! The cluster's own authority, and the certificates that it issues to nodes.
//!
//! Invariant: a private key is never readable by others.
//! Invariant: a certificate bears one name, which says the cluster and the node.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use environment::Timestamp;
use journal::{Disk as _, FileDisk};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SubjectPublicKeyInfo,
};

use super::{NodeIdentity, TransportError};

/// The certificate of the authority, in the directory of a node's credentials.
pub const AUTHORITY_FILE: &str = "ca.pem";
/// The private key of the authority; only who issues certificates needs it.
pub const AUTHORITY_KEY_FILE: &str = "ca.key";
/// The certificate of the node.
pub const NODE_FILE: &str = "node.pem";
/// The private key of the node.
pub const NODE_KEY_FILE: &str = "node.key";

/// How long the authority's certificate is valid: twenty years.
const AUTHORITY_VALIDITY: Duration = Duration::from_secs(20 * 365 * 86_400);
/// How long a node's certificate is valid: ten years. A cluster must not stop on a day that
/// nobody remembers.
const NODE_VALIDITY: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How far the clock of another node may be behind.
const CLOCK_SKEW: Duration = Duration::from_secs(86_400);

/// Who issues the certificates of one cluster.
pub struct Authority {
    cluster: [u8; 16],
    issuer: Issuer<'static, KeyPair>,
    key_pem: String,
    certificate_pem: String,
}

/// What a node proves with who it is: PEM texts.
pub struct NodeCertificate {
    /// The certificate of the authority.
    pub authority_pem: String,
    /// The certificate of the node.
    pub certificate_pem: String,
    /// Its private key.
    pub key_pem: String,
}

/// The name in the certificate of a node.
#[must_use]
pub fn node_name(identity: NodeIdentity) -> String {
    let cluster: String = identity.cluster.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("node-{}.{cluster}.roster.internal", identity.node)
}

impl Authority {
    /// A new authority for the cluster of this number, valid from `now` for twenty years.
    ///
    /// # Errors
    /// The library of cryptography fails.
    pub fn new(cluster: [u8; 16], now: Timestamp) -> Result<Self, TransportError> {
        let key = KeyPair::generate().map_err(failed)?;
        let parameters = authority_parameters(cluster, now);
        let certificate_pem = parameters.self_signed(&key).map_err(failed)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Self { cluster, issuer: Issuer::new(parameters, key), key_pem, certificate_pem })
    }

    /// Reads `ca.pem` and `ca.key` of `directory`, which [`Authority::write`] wrote for the cluster
    /// of this number.
    ///
    /// # Errors
    /// A file cannot be read, or holds no key.
    pub fn load(directory: &Path, cluster: [u8; 16]) -> Result<Self, TransportError> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|source| TransportError::Io { path, source })
        };
        let (certificate_pem, key_pem) = (read(AUTHORITY_FILE)?, read(AUTHORITY_KEY_FILE)?);
        let key = KeyPair::from_pem(&key_pem).map_err(|error| TransportError::Certificate {
            path: directory.join(AUTHORITY_KEY_FILE),
            reason: error.to_string(),
        })?;
        // The validity is that of the file; an issuer needs the name and the key alone.
        let issuer = Issuer::new(authority_parameters(cluster, Timestamp(0)), key);
        Ok(Self { cluster, issuer, key_pem, certificate_pem })
    }

    /// Writes `ca.pem` and `ca.key` into `directory`, which is made if it is not there; mode 0600.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), TransportError> {
        write_files(
            directory,
            &[(AUTHORITY_KEY_FILE, &self.key_pem), (AUTHORITY_FILE, &self.certificate_pem)],
        )
    }

    /// A key and a certificate for a node of the cluster, valid from `now` for ten years.
    ///
    /// # Errors
    /// The library of cryptography fails.
    pub fn issue(&self, node: u64, now: Timestamp) -> Result<NodeCertificate, TransportError> {
        let key = KeyPair::generate().map_err(failed)?;
        Ok(NodeCertificate {
            authority_pem: self.certificate_pem.clone(),
            certificate_pem: self.certificate_for(node, &key, now)?,
            key_pem: key.serialize_pem(),
        })
    }

    /// A certificate for a node of the cluster that has made a key itself, valid from `now` for ten
    /// years; PEM. The key is the SubjectPublicKeyInfo of RFC 5280, in DER.
    ///
    /// # Errors
    /// The key is none that can be used, or the library of cryptography fails.
    pub fn certify(&self, node: u64, key: &[u8], now: Timestamp) -> Result<String, TransportError> {
        let key = SubjectPublicKeyInfo::from_der(key).map_err(failed)?;
        self.certificate_for(node, &key, now)
    }

    /// Its own certificate, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its private key, PEM.
    #[must_use]
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    fn certificate_for(
        &self,
        node: u64,
        key: &impl PublicKeyData,
        now: Timestamp,
    ) -> Result<String, TransportError> {
        let name = node_name(NodeIdentity { cluster: self.cluster, node });
        let mut parameters = CertificateParams::new([name]).map_err(failed)?;
        parameters.distinguished_name = named(format!("roster node {node}"));
        valid(&mut parameters, now, NODE_VALIDITY);
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A node both dials and accepts.
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Ok(parameters.signed_by(key, &self.issuer).map_err(failed)?.pem())
    }
}

/// Whether a certificate can be made for a key, the SubjectPublicKeyInfo of RFC 5280 in DER.
///
/// # Errors
/// Why not.
pub fn check_key(key: &[u8]) -> Result<(), TransportError> {
    SubjectPublicKeyInfo::from_der(key).map(|_| ()).map_err(failed)
}

/// The key of a node that has no certificate yet.
pub struct NodeKey(KeyPair);

impl NodeKey {
    /// Reads `node.key` of `directory`, or makes it, readable by the owner only.
    ///
    /// # Errors
    /// The file can neither be read nor written, or holds no key.
    pub fn load_or_make(directory: &Path) -> Result<Self, TransportError> {
        let path = directory.join(NODE_KEY_FILE);
        match fs::read_to_string(&path) {
            Ok(pem) => KeyPair::from_pem(&pem)
                .map(Self)
                .map_err(|error| TransportError::Certificate { path, reason: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = KeyPair::generate().map_err(failed)?;
                write_files(directory, &[(NODE_KEY_FILE, &key.serialize_pem())])?;
                Ok(Self(key))
            }
            Err(source) => Err(TransportError::Io { path, source }),
        }
    }

    /// What of it others may know: the SubjectPublicKeyInfo of RFC 5280, in DER.
    #[must_use]
    pub fn public_der(&self) -> Vec<u8> {
        self.0.subject_public_key_info()
    }

    /// Its private part, PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}

impl NodeCertificate {
    /// Writes `ca.pem`, `node.pem` and `node.key` into `directory`, which is made if it is not
    /// there; mode 0600.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), TransportError> {
        write_files(
            directory,
            &[
                (NODE_KEY_FILE, &self.key_pem),
                (AUTHORITY_FILE, &self.authority_pem),
                (NODE_FILE, &self.certificate_pem),
            ],
        )
    }
}

fn authority_parameters(cluster: [u8; 16], now: Timestamp) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let cluster: String = cluster.iter().map(|octet| format!("{octet:02x}")).collect();
    parameters.distinguished_name = named(format!("roster cluster {cluster}"));
    valid(&mut parameters, now, AUTHORITY_VALIDITY);
    // It issues certificates of nodes, and no authority below it.
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn named(name: String) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

/// Makes `parameters` valid from a day before `now`, for as long as `length` after it.
fn valid(parameters: &mut CertificateParams, now: Timestamp, length: Duration) {
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now.seconds());
    parameters.not_before = now - CLOCK_SKEW;
    parameters.not_after = now + length;
}

fn failed(error: rcgen::Error) -> TransportError {
    TransportError::Issue(error.to_string())
}

fn write_files(directory: &Path, files: &[(&str, &String)]) -> Result<(), TransportError> {
    let failed = |path: &Path, source| TransportError::Io { path: path.to_owned(), source };
    let is_new = !directory.is_dir();
    fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    for (name, text) in files {
        let path = directory.join(name);
        write_file(&path, text).map_err(|source| failed(&path, source))?;
    }
    sync_names(directory).map_err(|source| failed(directory, source))?;
    match directory.parent().filter(|_| is_new) {
        Some(parent) => sync_names(parent).map_err(|source| failed(parent, source)),
        None => Ok(()),
    }
}

/// Makes the names in a directory durable: after a power cut, a key without its certificate is of
/// no use.
fn sync_names(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    FileDisk::new(directory.to_owned()).sync_names()
}

/// Writes beside and renames, so that a reader never sees half a file.
fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let beside: PathBuf = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
