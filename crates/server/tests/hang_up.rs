//! SIGHUP has a server open its logs anew, so that another program may put them aside.

use std::fs;
use std::sync::Arc;

use directory::{Directory, DirectoryOptions, GlobalAcis};
use environment::SystemClock;
use ldap::dn::Dn;
use rustix::process::{Signal, getpid, kill_process};
use server::{Server, Settings};

#[test]
fn a_hang_up_opens_the_logs_anew_and_ends_nothing() {
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
    settings.audit_log.format = "ldif";
    let server = Server::start(directory, &settings).unwrap();
    let handle = server.shutdown_handle();
    let logs = ["access.log", "audit.log"].map(|name| path.join("logs").join(name));
    for log in &logs {
        fs::rename(log, log.with_extension("aside")).unwrap();
    }
    let waiting = std::thread::spawn(move || server.wait());
    kill_process(getpid(), Signal::HUP).unwrap();
    while !logs.iter().all(|log| log.exists()) {
        std::thread::yield_now();
    }
    assert!(!waiting.is_finished());
    handle.shutdown();
    waiting.join().unwrap().unwrap();
}
