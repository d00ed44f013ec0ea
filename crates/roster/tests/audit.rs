//! The audit log of a server that is killed again and again: nothing acknowledged is missing in
//! it, and nothing is in it twice.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use serde_json::Value;
use testing::client::{Attributes, Client, Request};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, SUFFIX};

/// How often the server is killed.
const ROUNDS: usize = 4;
/// Clients that write at the same time.
const CLIENTS: usize = 3;

fn place(folder: &tempfile::TempDir, settings: &[(&str, &str)]) -> Place {
    let environment = settings.iter().map(|(n, v)| (format!("ROSTER_{n}"), (*v).to_owned()));
    Place {
        roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
        folder: folder.path().to_owned(),
        environment: environment.collect(),
    }
}

fn unit(name: &str) -> Request {
    let mut attributes = Attributes::new();
    attributes.insert("objectClass".to_owned(), ["organizationalUnit".to_owned()].into());
    Request::Add { dn: format!("ou={name},{SUFFIX}"), attributes }
}

/// Adds units until the server is gone, and tells when it is at work; the names that were
/// acknowledged.
fn add_until_the_end(
    address: std::net::SocketAddr,
    prefix: &str,
    at_work: &Sender<()>,
) -> Vec<String> {
    let mut client = Client::connect(address).unwrap();
    client.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap();
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        match client.call(&unit(&name)) {
            Ok(answer) => assert_eq!(answer.code, 0, "{answer:?}"),
            Err(_) => break,
        }
        acknowledged.push(name);
        if acknowledged.len() == 2 {
            at_work.send(()).unwrap();
        }
    }
    acknowledged
}

#[test]
fn nothing_acknowledged_is_missing_in_the_audit_log_after_kills() {
    let folder = tempfile::tempdir().unwrap();
    // Files that are put aside and compressed all the time, and no access log: it may lose lines.
    let place = place(
        &folder,
        &[
            ("AUDIT_LOG__FORMAT", "json"),
            ("AUDIT_LOG__ROTATE_SIZE_MIB", "1"),
            ("AUDIT_LOG__COMPRESS", "none"),
            ("ACCESS_LOG__FORMAT", "off"),
        ],
    );
    place.init().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let server = place.start().unwrap();
        let address = server.address;
        let (sender, at_work) = channel();
        let clients = (0..CLIENTS).map(|client| {
            let (prefix, sender) = (format!("{round}-{client}"), sender.clone());
            thread::spawn(move || add_until_the_end(address, &prefix, &sender))
        });
        let clients = clients.collect::<Vec<_>>();
        // However long it takes them to get in.
        (0..CLIENTS).for_each(|_| at_work.recv().unwrap());
        // Long enough for the position to be written in between, in some rounds.
        testing::crash::server::pause(std::time::Duration::from_millis(400 * round as u64 + 200));
        server.kill().unwrap();
        acknowledged.extend(clients.into_iter().flat_map(|client| client.join().unwrap()));
    }
    assert!(acknowledged.len() > ROUNDS * CLIENTS, "{}", acknowledged.len());
    place.start().unwrap().stop().unwrap();
    let mut files = fs::read_dir(place.data().join("logs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect::<Vec<_>>();
    // `audit-2026….log` comes before `audit.log`.
    files.sort();
    let text = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect::<String>();
    let lines =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    let mut seen = BTreeMap::<&str, usize>::new();
    for line in &lines {
        assert_ne!(line["kind"], "note", "{line}");
        *seen.entry(line["dn"].as_str().unwrap()).or_default() += 1;
    }
    for name in &acknowledged {
        let count = seen.get(format!("ou={name},{SUFFIX}").as_str());
        assert_eq!(count, Some(&1), "{name} of {}", acknowledged.len());
    }
    // Every change there was has the number after the one before it.
    let numbers = lines.iter().map(|line| line["lsn"].as_u64().unwrap()).collect::<Vec<_>>();
    assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
    assert!(lines.iter().any(|line| line["subject"] == ADMIN_DN && line["mechanism"] == "simple"));
}
