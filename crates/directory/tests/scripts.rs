//! Plays the dialogue scripts of `tests/scripts` in process, each on a fresh directory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use directory::Peer as Address;
use ldap::ldif::{LdifBody, LdifLimits, LdifReader};
use ldap::result::ResultCode;
use support::{Connection, SUFFIX, Served, init};
use tempfile::TempDir;
use testing::{Peer, Received, Target, copy_directory};

/// Each fixture is loaded once; every dialogue gets a copy of its files.
#[derive(Default)]
struct InProcess {
    fixtures: BTreeMap<PathBuf, TempDir>,
    served: Option<Served>,
}

impl Peer for InProcess {
    fn fresh(&mut self, ldif: &Path) -> Result<Box<dyn Target + '_>, String> {
        let fixture =
            self.fixtures.entry(ldif.to_owned()).or_insert_with(|| load_fixture(ldif)).path();
        let copy = TempDir::new().unwrap();
        copy_directory(fixture, copy.path()).unwrap();
        let served = self.served.insert(Served::open_existing(copy));
        Ok(Box::new(Connections { served, open: Vec::new() }))
    }
}

struct Connections<'a> {
    served: &'a Served,
    open: Vec<Connection>,
}

impl Target for Connections<'_> {
    fn open(&mut self) -> usize {
        self.open.push(Connection::new(&self.served.directory, address()));
        self.open.len() - 1
    }

    fn send(&mut self, connection: usize, octets: &[u8]) {
        self.open[connection].feed(octets);
    }

    fn receive(&mut self, connection: usize) -> Received {
        let connection = &mut self.open[connection];
        match connection.received.pop_front() {
            Some(message) => Received::Message(message),
            None if connection.closed => Received::Closed,
            None => Received::Nothing,
        }
    }
}

/// A data directory with exactly the entries of an LDIF file, closed.
fn load_fixture(ldif: &Path) -> TempDir {
    let place = TempDir::new().unwrap();
    let work = TempDir::new().unwrap();
    init(&work.path().join("data"));
    let served = Served::open_existing(work);
    let mut root = served.root();
    // The suffix comes from the file, not as `init` makes it.
    assert_eq!(root.delete(SUFFIX), ResultCode::Success);
    let mut reader =
        LdifReader::new(BufReader::new(File::open(ldif).unwrap()), LdifLimits::default());
    while let Some(record) = reader.next_record().unwrap() {
        let LdifBody::Content(pairs) = &record.body else { panic!("a fixture holds entries") };
        let mut attributes = Vec::<(&str, Vec<&str>)>::new();
        for (description, value) in pairs {
            let value = std::str::from_utf8(value).unwrap();
            match attributes.iter_mut().find(|(known, _)| known == description) {
                Some((_, values)) => values.push(value),
                None => attributes.push((description, vec![value])),
            }
        }
        let attributes: Vec<(&str, &[&str])> =
            attributes.iter().map(|(description, values)| (*description, &values[..])).collect();
        let answer = root.try_add(&record.dn, &attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{}: {}", record.dn, answer.diagnostic);
    }
    drop(root);
    served.directory.shutdown();
    copy_directory(&served.options.data, &place.path().join("data")).unwrap();
    place
}

#[test]
fn every_dialogue_goes_as_written() {
    testing::check_all(InProcess::default);
}

/// A client on this machine, as over TCP.
fn address() -> Address {
    let ip = Some(std::net::IpAddr::from([127, 0, 0, 1]));
    Address { address: "127.0.0.1:1".to_owned(), ip, ..Address::default() }
}
