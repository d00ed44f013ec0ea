//! Plays the dialogue scripts of `tests/scripts` over TCP, against the server with all its layers.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use auth::password::Scheme;
use directory::{AdminPassword, Confidentiality, Directory, DirectoryOptions, GlobalAcis};
use environment::SystemClock;
use ldap::dn::Dn;
use offline::ImportOptions;
use server::{Server, ServerError, Settings, ShutdownHandle};
use tempfile::TempDir;
use testing::{Peer, Target, TcpTarget, copy_directory};

/// Each fixture is loaded once; every dialogue gets a server on a copy of its files.
#[derive(Default)]
struct OverTcp {
    fixtures: BTreeMap<PathBuf, TempDir>,
    running: Option<Running>,
}

impl Peer for OverTcp {
    fn fresh(&mut self, ldif: &Path) -> Result<Box<dyn Target + '_>, String> {
        // The one before ends first: its data are deleted with it.
        self.running = None;
        let fixture = self.fixtures.entry(ldif.to_owned()).or_insert_with(|| load_fixture(ldif));
        let running = self.running.insert(Running::start(fixture.path()));
        Ok(Box::new(TcpTarget::new(running.address)))
    }
}

/// A server on a directory of its own.
struct Running {
    address: std::net::SocketAddr,
    shutdown: ShutdownHandle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
    _data: TempDir,
}

impl Running {
    fn start(fixture: &Path) -> Self {
        let data = TempDir::new().unwrap();
        copy_directory(fixture, data.path()).unwrap();
        let path = data.path().join("data");
        let mut options = DirectoryOptions::new(&path);
        options.passwords.storage = Scheme::Ssha512.into();
        options.passwords.check_own = false;
        options.authentication.plain_confidentiality = Confidentiality::Remote;
        let directory = Directory::open(options, Arc::new(SystemClock::new())).unwrap();
        let mut settings = Settings::default();
        settings.server.data = path;
        settings.server.workers = 1;
        settings.listen.ldap = vec!["127.0.0.1:0".parse().unwrap()];
        settings.listen.ldaps = Vec::new();
        let server = Server::start(directory, &settings).unwrap();
        Self {
            address: server.addresses().ldap[0],
            shutdown: server.shutdown_handle(),
            thread: Some(std::thread::spawn(move || server.wait().map(drop))),
            _data: data,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.shutdown();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A data directory with exactly the entries of an LDIF file, and a certificate.
fn load_fixture(ldif: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let clock = Arc::new(SystemClock::new());
    let suffix = Dn::parse("dc=example,dc=org").unwrap();
    let admin = AdminPassword { clear: b"secret", storage: Scheme::Ssha512.into() };
    Directory::init(&data, &[suffix], Some(admin), GlobalAcis::Public, clock).unwrap();
    let sources = vec![offline::Source::open(ldif).unwrap()];
    let clock = SystemClock::new();
    offline::import(&data, sources, &ImportOptions::default(), &clock, &mut ()).unwrap();
    server::generate_self_signed(&data, &["localhost".to_owned()]).unwrap();
    folder
}

#[test]
fn every_dialogue_goes_as_written() {
    testing::check_all(OverTcp::default);
}
