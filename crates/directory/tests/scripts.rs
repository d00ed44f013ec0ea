//! Plays the dialogue scripts of `tests/scripts` in process, each on a fresh directory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use directory::Peer as Address;
use ldap::ldif::{LdifBody, LdifLimits, LdifReader};
use ldap::result::ResultCode;
use support::{Connection, SUFFIX, Served, init};
use tempfile::TempDir;
use testing::{Peer, Received, Target};

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
        copy_directory(fixture, copy.path());
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
        self.open.push(Connection::new(&self.served.directory, Address::default()));
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
    copy_directory(&served.options.data, &place.path().join("data"));
    place
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn every_dialogue_goes_as_written() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts");
    let outcomes = testing::run_directory(&scripts, &mut InProcess::default()).unwrap();
    let failures: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some(format!("{}: {}", outcome.title, outcome.failure.as_ref()?)))
        .collect();
    assert!(outcomes.len() >= 400, "only {} dialogues were found", outcomes.len());
    let (failed, all) = (failures.len(), outcomes.len());
    assert!(failures.is_empty(), "{failed} of {all} failed:\n{}", failures.join("\n"));
}
