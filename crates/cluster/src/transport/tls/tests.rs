//! Credentials from files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use environment::{Clock as _, SystemClock, Timestamp};
use tempfile::TempDir;

use super::*;
use crate::transport::authority::NodeCertificate;
use crate::transport::{AUTHORITY_KEY_FILE, Authority};

const CLUSTER: [u8; 16] = *b"cluster of tests";

fn identity(node: u64) -> NodeIdentity {
    NodeIdentity { cluster: CLUSTER, node }
}

fn now() -> Timestamp {
    SystemClock::new().now()
}

fn after(days: u64) -> Timestamp {
    Timestamp(now().0 + days * 86_400_000_000)
}

fn written(node: u64) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tls");
    let now = now();
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
    let credentials = Credentials::load(&path, identity(7), now()).unwrap();
    assert_eq!(credentials.identity(), identity(7));
}

#[test]
fn a_certificate_of_another_node_or_cluster_is_not_ours() {
    let (_directory, path) = written(7);
    for other in [identity(8), identity(77), NodeIdentity { cluster: [1; 16], node: 7 }] {
        let error = Credentials::load(&path, other, now()).err().unwrap().to_string();
        assert!(error.contains("its name is not node-"), "{error}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (_directory, path) = written(7);
    for name in [AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE] {
        let good = std::fs::read(path.join(name)).unwrap();
        std::fs::write(path.join(name), "no certificate").unwrap();
        let error = Credentials::load(&path, identity(7), now()).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
        std::fs::remove_file(path.join(name)).unwrap();
        let error = Credentials::load(&path, identity(7), now()).err().unwrap().to_string();
        assert!(error.contains(name), "{error}");
        std::fs::write(path.join(name), good).unwrap();
    }
    Credentials::load(&path, identity(7), now()).unwrap();
}

#[test]
fn an_authority_that_was_written_issues_again() {
    let directory = tempfile::tempdir().unwrap();
    let now = now();
    Authority::new(CLUSTER, now).unwrap().write(directory.path()).unwrap();
    let key = directory.path().join(AUTHORITY_KEY_FILE);
    assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let again = Authority::load(directory.path(), CLUSTER).unwrap();
    let path = directory.path().join("node");
    again.issue(3, now).unwrap().write(&path).unwrap();
    let credentials = Credentials::load(&path, identity(3), now).unwrap();
    // The certificate is believed by who has only that of the authority.
    let certificate = certificates(&path.join(NODE_FILE)).unwrap().remove(0);
    let mut roots = RootCertStore::empty();
    roots.add(certificates(&directory.path().join(AUTHORITY_FILE)).unwrap().remove(0)).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::new(aws_lc_rs::default_provider()),
    );
    let when = UnixTime::since_unix_epoch(Duration::from_secs(now.seconds()));
    verifier.build().unwrap().verify_client_cert(&certificate, &[], when).unwrap();
    assert!(is_node(&certificate, credentials.identity()));
}

#[test]
fn changed_files_are_read_again_and_wrong_ones_change_nothing() {
    let (_directory, path) = written(7);
    let credentials = Credentials::load(&path, identity(7), now()).unwrap();
    let is_same = |before: &Arc<ClientConfig>| Arc::ptr_eq(before, &credentials.client());
    let first = credentials.client();
    assert!(!credentials.reload(now()).unwrap());
    assert!(is_same(&first));
    std::fs::write(path.join(NODE_FILE), "no certificate").unwrap();
    assert!(credentials.reload(now()).is_err());
    assert!(is_same(&first));
    assert!(!credentials.reload(now()).unwrap(), "it was said once");
    let (_other, renewed) = written(7);
    for name in [AUTHORITY_FILE, NODE_FILE, NODE_KEY_FILE] {
        std::fs::copy(renewed.join(name), path.join(name)).unwrap();
    }
    assert!(credentials.clone().reload(now()).unwrap());
    assert!(!is_same(&first), "clones are the same");
}

#[test]
fn a_certificate_that_others_would_refuse_does_not_take_the_place_of_one_that_works() {
    let (_directory, path) = written(7);
    let (now, ten_years) = (now(), 3650);
    let authority = Authority::new(CLUSTER, now).unwrap();
    authority.issue(7, now).unwrap().write(&path).unwrap();
    let credentials = Credentials::load(&path, identity(7), now).unwrap();
    let first = credentials.client();
    let put = |name: &str, text: &str| std::fs::write(path.join(name), text).unwrap();
    let both = |certificate: &NodeCertificate| {
        put(NODE_FILE, &certificate.certificate_pem);
        put(NODE_KEY_FILE, &certificate.key_pem);
    };
    let refused = |at: Timestamp, what: &str| {
        let error = credentials.reload(at).unwrap_err().to_string();
        assert!(error.contains(NODE_FILE) && error.contains(what), "{what}: {error}");
        assert!(Arc::ptr_eq(&first, &credentials.client()), "{what}: the previous one stays");
        assert!(!credentials.reload(at).unwrap(), "{what}: it is said once");
        // At a start there is no previous one.
        let error = Credentials::load(&path, identity(7), at).err().unwrap().to_string();
        assert!(error.contains(what), "{what}: {error}");
    };
    let stranger = Authority::new(CLUSTER, now).unwrap();
    both(&stranger.issue(7, now).unwrap());
    refused(now, "no authority in ca.pem has issued it: put ");
    both(&authority.issue(8, now).unwrap());
    refused(now, "its name is not node-7.");
    put(NODE_FILE, &authority.issue(7, now).unwrap().certificate_pem);
    refused(now, "node.key is not its key: put ");
    both(&authority.issue(7, now).unwrap());
    refused(after(ten_years + 1), "it expired at ");
    both(&authority.issue(7, after(ten_years)).unwrap());
    refused(now, "it is not valid before ");
    // Its time comes, without a change of the files.
    assert!(credentials.reload(after(ten_years)).unwrap());
    assert!(!Arc::ptr_eq(&first, &credentials.client()));
}
