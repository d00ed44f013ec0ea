//! TLS between nodes: whom a node believes, and what it proves itself with.
//!
//! Invariant: TLS 1.3 only; both sides present a certificate of the cluster's own authority, and
//! no other authority counts.
//! Invariant: nothing is resumed: each connection proves anew who is at its ends.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

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
    /// Reads `ca.pem`, `node.pem` and `node.key` of `directory` for the node `identity`.
    ///
    /// # Errors
    /// A file cannot be used, or the certificate is that of another node.
    pub fn load(directory: &Path, identity: NodeIdentity) -> Result<Self, TransportError> {
        let current = Arc::new(ArcSwap::from_pointee(Loaded::read(directory, identity)?));
        Ok(Self { identity, directory: directory.into(), current })
    }

    /// Reads the files again if one of them has changed; whether they are in use now. Connections
    /// that are open stay.
    ///
    /// # Errors
    /// As [`Self::load`]; what was read before stays in use, and the same files are not read again.
    pub fn reload(&self) -> Result<bool, TransportError> {
        let before = self.current.load();
        let stamps = stamps(&self.directory);
        if before.stamps == stamps {
            return Ok(false);
        }
        let read = Loaded::read(&self.directory, self.identity);
        let kept = |_: &TransportError| {
            let (client, server) = (Arc::clone(&before.client), Arc::clone(&before.server));
            self.current.store(Arc::new(Loaded { stamps, client, server }));
        };
        self.current.store(Arc::new(read.inspect_err(kept)?));
        Ok(true)
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
    fn read(directory: &Path, identity: NodeIdentity) -> Result<Self, TransportError> {
        // Before they are read: what changes meanwhile is found the next time.
        let stamps = stamps(directory);
        let (authority, node) = (directory.join(AUTHORITY_FILE), directory.join(NODE_FILE));
        let key = directory.join(NODE_KEY_FILE);
        let chain = certificates(&node)?;
        let own = chain.first().ok_or_else(|| unusable(&node, "it contains no certificate"))?;
        if !is_node(own, identity) {
            let name = node_name(identity);
            return Err(unusable(&node, format!("its name is not {name}")));
        }
        let private = || {
            PrivateKeyDer::from_pem_file(&key).map_err(|error| unusable(&key, error.to_string()))
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&authority)? {
            roots.add(certificate).map_err(|error| unusable(&authority, error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let client = client(&roots, chain.clone(), private()?)
            .map_err(|error| unusable(&node, error.to_string()))?;
        let server = server(roots, chain, private()?).map_err(|reason| unusable(&node, reason))?;
        Ok(Self { stamps, client: Arc::new(client), server: Arc::new(server) })
    }
}

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
