//! TLS between nodes: whom a node believes, and what it proves itself with.
//!
//! Invariant: TLS 1.3 only; both sides present a certificate of the cluster's own authority, and
//! no other authority counts.
//! Invariant: nothing is resumed: each connection proves anew who is at its ends.
//! Invariant: what a node begins to prove itself with is what others believe who have the same
//! authorities: files that others would refuse do not take the place of those in use.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use environment::Timestamp;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};

use super::authority::{AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE, node_name};
use super::{NodeIdentity, TransportError};

/// What a node proves itself with, and whom it believes; clones are the same.
#[derive(Clone)]
pub struct Credentials {
    identity: NodeIdentity,
    directory: Arc<Path>,
    current: Arc<ArcSwap<Loaded>>,
}

/// The files as they were read.
struct Loaded {
    stamps: [Stamp; 3],
    /// Why the files with these stamps are not those that were read.
    refused: Option<String>,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// What distinguishes one version of a file from another: when it was written, and its length; none
/// when it cannot be looked at.
type Stamp = Option<(SystemTime, u64)>;

/// The stamps of the files of `directory`.
fn stamps(directory: &Path) -> [Stamp; 3] {
    [AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE].map(|name| {
        let found = std::fs::metadata(directory.join(name)).ok()?;
        Some((found.modified().ok()?, found.len()))
    })
}

impl Credentials {
    /// Reads `ca.pem`, `node.pem` and `node.key` of `directory` for the node `identity`, at `now`.
    ///
    /// # Errors
    /// A file cannot be used, the key does not fit, or the certificate is that of another node, of
    /// another authority, or not valid at `now`.
    pub fn load(
        directory: &Path,
        identity: NodeIdentity,
        now: Timestamp,
    ) -> Result<Self, TransportError> {
        let current = Arc::new(ArcSwap::from_pointee(Loaded::read(directory, identity, now)?));
        Ok(Self { identity, directory: directory.into(), current })
    }

    /// Reads the files again if one of them has changed, at `now`; whether they are in use now.
    /// Connections that are open stay.
    ///
    /// # Errors
    /// As [`Self::load`]; what was read before stays in use, and the same reason is told once.
    pub fn reload(&self, now: Timestamp) -> Result<bool, TransportError> {
        let before = self.current.load();
        let stamps = stamps(&self.directory);
        let is_same = before.stamps == stamps;
        if is_same && before.refused.is_none() {
            return Ok(false);
        }
        let error = match Loaded::read(&self.directory, self.identity, now) {
            Ok(loaded) => {
                self.current.store(Arc::new(loaded));
                return Ok(true);
            }
            Err(error) => error,
        };
        // They are looked at again: one that is not valid yet becomes so.
        let refused = Some(error.to_string());
        if is_same && before.refused == refused {
            return Ok(false);
        }
        let (client, server) = (Arc::clone(&before.client), Arc::clone(&before.server));
        self.current.store(Arc::new(Loaded { stamps, refused, client, server }));
        Err(error)
    }

    /// The node that these are for.
    #[must_use]
    pub fn identity(&self) -> NodeIdentity {
        self.identity
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current.load().client)
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().server)
    }

    /// The same, for a node that says that it is another one.
    #[cfg(test)]
    pub(crate) fn pretending(self, identity: NodeIdentity) -> Self {
        Self { identity, ..self }
    }
}

impl Loaded {
    fn read(
        directory: &Path,
        identity: NodeIdentity,
        now: Timestamp,
    ) -> Result<Self, TransportError> {
        // Before they are read: what changes meanwhile is found the next time.
        let stamps = stamps(directory);
        let (authority, node) = (directory.join(AUTHORITY_FILE), directory.join(NODE_FILE));
        let key = directory.join(NODE_KEY_FILE);
        let chain = certificates(&node)?;
        let own = chain.first().ok_or_else(|| unusable(&node, "it contains no certificate"))?;
        if !is_node(own, identity) {
            let name = node_name(identity);
            let advice = "put the certificate of this member there";
            return Err(unusable(&node, format!("its name is not {name}: {advice}")));
        }
        let private = || {
            PrivateKeyDer::from_pem_file(&key).map_err(|error| unusable(&key, error.to_string()))
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&authority)? {
            roots.add(certificate).map_err(|error| unusable(&authority, error.to_string()))?;
        }
        let roots = Arc::new(roots);
        verify(&chain, &roots, identity, now).map_err(|reason| unusable(&node, reason))?;
        let client = client(&roots, chain.clone(), private()?)
            .map_err(|error| unusable(&node, failure(&error)))?;
        let server = server(roots, chain, private()?).map_err(|reason| unusable(&node, reason))?;
        Ok(Self { stamps, refused: None, client: Arc::new(client), server: Arc::new(server) })
    }
}

/// Whether others believe a chain that have the same authorities, as that of who dials and of who
/// accepts.
fn verify(
    chain: &[CertificateDer<'static>],
    roots: &Arc<RootCertStore>,
    identity: NodeIdentity,
    now: Timestamp,
) -> Result<(), String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (own, more) = chain.split_first().ok_or("it contains no certificate")?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.seconds()));
    let name = ServerName::try_from(node_name(identity)).map_err(|error| error.to_string())?;
    let (servers, clients) = (Arc::clone(roots), Arc::clone(roots));
    let dialed = WebPkiServerVerifier::builder_with_provider(servers, Arc::clone(&provider));
    let dialed = dialed.build().map_err(|error| error.to_string())?;
    let dials = WebPkiClientVerifier::builder_with_provider(clients, provider);
    let dials = dials.build().map_err(|error| error.to_string())?;
    dialed.verify_server_cert(own, more, &name, &[], now).map_err(|error| failure(&error))?;
    dials.verify_client_cert(own, more, now).map_err(|error| failure(&error))?;
    Ok(())
}

/// What is wrong with a certificate and what is to be done, in a sentence.
fn failure(error: &rustls::Error) -> String {
    let at =
        |time: UnixTime| Timestamp(time.as_secs().saturating_mul(1_000_000)).generalized_time();
    match error {
        rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after, ..
        }) => format!("it expired at {}: {RENEW}", at(*not_after)),
        rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before,
            ..
        }) => format!("it is not valid before {}: {RENEW}", at(*not_before)),
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => format!(
            "no authority in {AUTHORITY_FILE} has issued it: put {NODE_FILE}, {NODE_KEY_FILE} and \
             {AUTHORITY_FILE} there that belong together"
        ),
        rustls::Error::InconsistentKeys(_) => format!(
            "{NODE_KEY_FILE} is not its key: put {NODE_FILE} and {NODE_KEY_FILE} there that \
             belong together"
        ),
        error => format!("{error}: {RENEW}"),
    }
}

const RENEW: &str = "issue another one with the authority of the cluster, or set the clock of this \
                     machine";

/// Whether a certificate bears the name of a node.
pub(crate) fn is_node(certificate: &CertificateDer<'_>, identity: NodeIdentity) -> bool {
    let (Ok(parsed), Ok(name)) =
        (ParsedCertificate::try_from(certificate), ServerName::try_from(node_name(identity)))
    else {
        return false;
    };
    verify_server_name(&parsed, &name).is_ok()
}

fn client(
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(Arc::clone(roots))
        .with_client_auth_cert(chain, key)?;
    config.resumption = Resumption::disabled();
    // Names of nodes are of no interest to who listens on the way.
    config.enable_sni = false;
    Ok(config)
}

fn server(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| error.to_string())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let all = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(path, error.to_string()))?;
    if all.is_empty() { Err(unusable(path, "it contains no certificate")) } else { Ok(all) }
}

fn unusable(path: &Path, reason: impl Into<String>) -> TransportError {
    TransportError::Certificate { path: path.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests;
