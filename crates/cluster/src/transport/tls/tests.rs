//! Credentials from files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use environment::{Clock as _, SystemClock};
use tempfile::TempDir;

use super::*;
use crate::transport::{AUTHORITY_KEY_FILE, Authority};

const CLUSTER: [u8; 16] = *b"cluster of tests";

fn identity(node: u64) -> NodeIdentity {
    NodeIdentity { cluster: CLUSTER, node }
}

fn written(node: u64) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tls");
    let now = SystemClock::new().now();
    Authority::new(CLUSTER, now).unwrap().issue(node, now).unwrap().write(&path).unwrap();
    (directory, path)
}

#[test]
fn what_is_written_is_for_the_owner_alone_and_loads() {
    let (_directory, path) = written(7);
    for name in [AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE] {
        let mode = std::fs::metadata(path.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let credentials = Credentials::load(&path, identity(7)).unwrap();
    assert_eq!(credentials.identity(), identity(7));
}

#[test]
fn a_certificate_of_another_node_or_cluster_is_not_ours() {
    let (_directory, path) = written(7);
    for other in [identity(8), identity(77), NodeIdentity { cluster: [1; 16], node: 7 }] {
        let error = Credentials::load(&path, other).err().unwrap().to_string();
        assert!(error.contains("its name is not node-"), "{error}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (_directory, path) = written(7);
    for name in [AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE] {
        let good = std::fs::read(path.join(name)).unwrap();
        std::fs::write(path.join(name), "no certificate").unwrap();
        let error = Credentials::load(&path, identity(7)).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
        std::fs::remove_file(path.join(name)).unwrap();
        let error = Credentials::load(&path, identity(7)).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
        std::fs::write(path.join(name), good).unwrap();
    }
    Credentials::load(&path, identity(7)).unwrap();
}

#[test]
fn an_authority_that_was_written_issues_again() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemClock::new().now();
    Authority::new(CLUSTER, now).unwrap().write(directory.path()).unwrap();
    let key = directory.path().join(AUTHORITY_KEY_FILE);
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let again = Authority::load(directory.path(), CLUSTER).unwrap();
    let path = directory.path().join("node");
    again.issue(3, now).unwrap().write(&path).unwrap();
    let credentials = Credentials::load(&path, identity(3)).unwrap();
    // The certificate is believed by who has only that of the authority.
    let certificate = certificates(&path.join(NODE_FILE)).unwrap().remove(0);
    let mut roots = RootCertStore::empty();
    roots.add(certificates(&directory.path().join(AUTHORITY_FILE)).unwrap().remove(0)).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::new(aws_lc_rs::default_provider()),
    );
    let when = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(
        now.seconds(),
    ));
    verifier.build().unwrap().verify_client_cert(&certificate, &[], when).unwrap();
    assert!(is_node(&certificate, credentials.identity()));
}

#[test]
fn changed_files_are_read_again_and_wrong_ones_change_nothing() {
    let (_directory, path) = written(7);
    let credentials = Credentials::load(&path, identity(7)).unwrap();
    let is_same = |before: &Arc<ClientConfig>| Arc::ptr_eq(before, &credentials.client());
    let first = credentials.client();
    assert!(!credentials.reload().unwrap());
    assert!(is_same(&first));
    std::fs::write(path.join(NODE_FILE), "no certificate").unwrap();
    assert!(credentials.reload().is_err());
    assert!(is_same(&first));
    assert!(!credentials.reload().unwrap(), "it was said once");
    let (_other, renewed) = written(7);
    for name in [AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE] {
        std::fs::copy(renewed.join(name), path.join(name)).unwrap();
    }
    assert!(credentials.clone().reload().unwrap());
    assert!(!is_same(&first), "clones are the same");
}
