//! A signal stops a server in order, even when it comes before anybody waits.

use std::sync::Arc;

use directory::{Directory, DirectoryOptions, GlobalAcis};
use environment::SystemClock;
use ldap::dn::Dn;
use rustix::process::{Signal, getpid, kill_process};
use server::{Server, Settings};

#[test]
fn a_signal_stops_the_server() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let clock = Arc::new(SystemClock::new());
    let suffix = Dn::parse("dc=example,dc=org").unwrap();
    Directory::init(&path, &[suffix], None, GlobalAcis::Public, clock.clone()).unwrap();
    let directory = Directory::open(DirectoryOptions::new(&path), clock).unwrap();
    let mut settings = Settings::default();
    settings.server.data = path.clone();
    settings.listen.ldap = vec![];
    settings.listen.ldaps = vec![];
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start(Arc::clone(&directory), &settings).unwrap();
        assert!(path.join("ldapi").exists());
        kill_process(getpid(), signal).unwrap();
        server.wait().unwrap();
        assert!(!path.join("ldapi").exists());
    }
}
