//! `roster stop`, `restart` and `lockdown` against real servers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;
mod machine;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use client::{ConnectOptions, Connection, SearchFor};
use common::{Run, check_all as check, roster};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use machine::{Machine, PERSON, alone, wait_for};

const PERSON_PASSWORD: &str = "correct horse battery";

/// Runs a command as the administrator.
fn ask(machine: &Machine, command: &[&str]) -> Run {
    let url = machine.url();
    let login = ["-H", &url, "-y", machine.password.to_str().unwrap()];
    roster(&[command, &login].concat())
}

/// Gives anna a password, and these privileges and no others.
fn grant(machine: &Machine, privileges: &[&str]) {
    let mut root = machine.connect().unwrap();
    let password = [(ModifyOperation::Replace, "userPassword", &[PERSON_PASSWORD][..])];
    assert!(root.modify(PERSON, &password).unwrap().is_success());
    let change = [(ModifyOperation::Replace, "ds-privilege-name", privileges)];
    assert!(root.modify(PERSON, &change).unwrap().is_success());
}

/// Runs a command as anna.
fn ask_as_anna(machine: &Machine, command: &[&str]) -> Run {
    let url = machine.url();
    roster(&[command, &["-H", &url, "-D", PERSON, "-w", PERSON_PASSWORD]].concat())
}

fn served() -> (tempfile::TempDir, Machine) {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = alone(folder.path());
    machine.serve();
    (folder, machine)
}

#[test]
fn a_server_is_stopped_by_who_may() {
    let (_folder, mut machine) = served();
    grant(&machine, &["server-restart", "config-write"]);
    let run = ask_as_anna(&machine, &["stop"]);
    check(&run, 1, &["insufficientAccessRights (50)", "needs the privilege server-shutdown"]);
    let url = machine.url();
    let run = roster(&["stop", "-H", &url]);
    check(&run, 1, &["needs the privilege server-shutdown", "cn=Directory"]);
    let both = format!("{url} ldap://127.0.0.1:9");
    let run = roster(&["stop", "-H", &both, "-y", machine.password.to_str().unwrap()]);
    check(&run, 2, &["one server is stopped at a time"]);
    grant(&machine, &["server-shutdown"]);
    let run = ask_as_anna(&machine, &["restart"]);
    check(&run, 1, &["needs the privilege server-restart"]);
    check(&ask_as_anna(&machine, &["stop"]), 0, &["the server stops"]);
    let status = machine.server.take().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(0));
    let log = fs::read_to_string(machine.data.with_extension("log")).unwrap();
    assert!(log.contains("was asked to end") && log.contains("stopped"), "{log}");
}

#[test]
fn a_server_begins_anew_in_its_process_with_all_that_was_written() {
    let (_folder, mut machine) = served();
    let pid = machine.server.as_ref().unwrap().id();
    machine.set_title("before");
    let toml = machine.data.join("roster.toml");
    let good = fs::read_to_string(&toml).unwrap_or_default();
    // One that would not come back goes on.
    fs::write(&toml, "[server]\nworkers = \"many\"\n").unwrap();
    check(&ask(&machine, &["restart"]), 1, &["would not come back", "roster.toml"]);
    assert_eq!(machine.title().as_deref(), Some("before"));
    fs::write(&toml, good).unwrap();
    // Twice: the second run is one that began anew itself.
    for _ in 0..2 {
        check(&ask(&machine, &["restart"]), 0, &["it serves again, after "]);
        assert_eq!(machine.title().as_deref(), Some("before"));
        assert_eq!(machine.server.as_ref().unwrap().id(), pid);
        assert!(machine.server.as_mut().unwrap().try_wait().unwrap().is_none());
    }
    let run = ask(&machine, &["restart", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert!(told["seconds"].as_f64().unwrap() > 0.0, "{told}");
    let log = fs::read_to_string(machine.data.with_extension("log")).unwrap();
    assert_eq!(log.matches("serving ldap://").count(), 4, "{log}");
}

/// What `/readyz` answers: its status line and its body.
fn readiness(machine: &Machine) -> String {
    let ready = fs::read_to_string(machine.data.with_extension("ready")).unwrap();
    let address = ready.lines().find_map(|line| line.strip_prefix("admin ")).unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn reads(connection: &mut Connection) -> ResultCode {
    let asked = SearchFor {
        scope: Scope::Base,
        ..SearchFor::below(PERSON, Filter::Present("objectClass"))
    };
    match connection.search(&asked) {
        Ok(found) => found.outcome.code,
        Err(client::ClientError::Refused { outcome, .. }) => outcome.code,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn during_a_lockdown_only_administrators_are_served() {
    let (_folder, machine) = served();
    grant(&machine, &["server-lockdown"]);
    let mut anna = Connection::open(ConnectOptions::new(machine.url())).unwrap();
    anna.bind(PERSON, PERSON_PASSWORD.as_bytes()).unwrap();
    assert_eq!(reads(&mut anna), ResultCode::Success);
    assert!(readiness(&machine).starts_with("HTTP/1.1 200"), "{}", readiness(&machine));
    let run = ask_as_anna(&machine, &["lockdown", "on"]);
    check(&run, 1, &["needs the privilege bypass-lockdown, too"]);
    check(&ask_as_anna(&machine, &["lockdown", "status"]), 0, &["not locked down"]);
    check(&ask(&machine, &["lockdown", "on"]), 0, &["locked down: only administrators"]);
    check(&ask(&machine, &["lockdown", "status", "--json"]), 0, &["{\"on\":true}"]);

    // Who was there already, who comes, and who may end it but is no administrator.
    assert_eq!(reads(&mut anna), ResultCode::Unavailable);
    let change = [(ModifyOperation::Replace, "title", &["x"][..])];
    assert_eq!(anna.modify(PERSON, &change).unwrap().code, ResultCode::Unavailable);
    let run = ask_as_anna(&machine, &["lockdown", "off"]);
    check(&run, 1, &["unavailable (52)", "the server is locked down"]);
    let ready = readiness(&machine);
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("is locked down"), "{ready}");
    let mut root = machine.connect().unwrap();
    assert_eq!(reads(&mut root), ResultCode::Success);
    assert!(root.modify(PERSON, &change).unwrap().is_success());

    check(&ask(&machine, &["lockdown", "off"]), 0, &["not locked down"]);
    assert_eq!(reads(&mut anna), ResultCode::Success);
    assert!(readiness(&machine).starts_with("HTTP/1.1 200"));

    // It ends with the process.
    check(&ask(&machine, &["lockdown", "on"]), 0, &[]);
    check(&ask(&machine, &["restart"]), 0, &["it serves again"]);
    check(&ask(&machine, &["lockdown", "status"]), 0, &["not locked down"]);
    wait_for("readiness", || readiness(&machine).starts_with("HTTP/1.1 200").then_some(()));
    let url = machine.url();
    check(&roster(&["lockdown", "on", "-H", &url]), 1, &["needs the privilege server-lockdown"]);
}

#[test]
fn a_privilege_without_effect_is_not_granted() {
    let (_folder, machine) = served();
    let mut root = machine.connect().unwrap();
    for (value, says) in [
        ("jmx-read", "there is no JMX here"),
        ("data-sync", "members of a cluster"),
        ("pasword-reset", "is no privilege"),
        ("-nonsense", "is no privilege"),
    ] {
        let change = [(ModifyOperation::Add, "ds-privilege-name", &["config-read", value][..])];
        let outcome = root.modify(PERSON, &change).unwrap();
        assert_eq!(outcome.code, ResultCode::ConstraintViolation, "{value}");
        assert!(outcome.diagnostic.contains(says), "{value}: {}", outcome.diagnostic);
    }
    let entry =
        [("objectClass", &["person"][..]), ("sn", &["x"]), ("ds-privilege-name", &["jmx-notify"])];
    let outcome = root.add("cn=x,dc=example,dc=com", &entry).unwrap();
    assert_eq!(outcome.code, ResultCode::ConstraintViolation, "{outcome}");
    // Taking one away that has no effect does no harm.
    let good = ["Config-Read", "-jmx-read", "-bypass-acl", "unindexed-search-with-control"];
    let change = [(ModifyOperation::Replace, "ds-privilege-name", &good[..])];
    assert!(root.modify(PERSON, &change).unwrap().is_success());
    // What is moved in, or brought back, is as it was.
    let file = machine.data.with_extension("moved.ldif");
    let moved = "dn: cn=moved,dc=example,dc=com\nobjectClass: person\ncn: moved\nsn: x\n\
                 ds-privilege-name: jmx-read\nds-privilege-name: config-read\n";
    fs::write(&file, moved).unwrap();
    check(&ask(&machine, &["import", file.to_str().unwrap()]), 0, &[]);
    assert!(root.delete("cn=moved,dc=example,dc=com").unwrap().is_success());
    check(&ask(&machine, &["undelete", "cn=moved,dc=example,dc=com"]), 0, &["1 entries are back"]);
}
