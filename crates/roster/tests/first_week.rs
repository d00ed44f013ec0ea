//! What an operator asks in the first week, of real servers: who failed to sign in, a new
//! password for the administrator, how it is, what is wrong.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use client::{ConnectOptions, Connection};
use common::{check_all as check, roster};
use machine::{Machine, PERSON, alone, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// A message whose parts are shorter than 128 octets.
fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128, "{content:?}");
    [&[tag, length][..], &content].concat()
}

/// A SASL bind (RFC 4511 §4.2).
fn sasl_bind(id: u8, mechanism: &str, credentials: &str) -> Vec<u8> {
    let sasl = [tagged(4, &[mechanism.as_bytes()]), tagged(4, &[credentials.as_bytes()])];
    let sasl = tagged(0xa3, &[&sasl[0], &sasl[1]]);
    let bind = tagged(0x60, &[&[2, 1, 3], &[4, 0], &sasl]);
    tagged(0x30, &[&[2, 1, id], &bind])
}

/// Somebody who says to be this user, and does not know the password.
fn guess_by_scram(address: &str, user: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut answer = [0; 512];
    stream.write_all(&sasl_bind(1, "SCRAM-SHA-256", &format!("n,,n={user},r=abc"))).unwrap();
    let length = stream.read(&mut answer).unwrap();
    let text = String::from_utf8_lossy(&answer[..length]).into_owned();
    let nonce = text.split("r=").nth(1).unwrap().split(',').next().unwrap();
    let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let last = format!("c=biws,r={nonce},p={proof}");
    stream.write_all(&sasl_bind(2, "SCRAM-SHA-256", &last)).unwrap();
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].windows(3).any(|part| part == [0x0a, 1, 49]), "{text}");
}

fn guess(url: &str, dn: &str) {
    let mut connection = Connection::open(ConnectOptions::new(url)).unwrap();
    connection.bind(dn, b"not the password").unwrap_err();
}

fn failures(arguments: &[&str]) -> Value {
    let run = roster(&[&["log", "failures", "--json"], arguments].concat());
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.output).unwrap()
}

/// Those that were counted: how often, who, why.
fn counted(report: &Value) -> Vec<(u64, String, String)> {
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let all = report["failures"].as_array().unwrap().iter();
    let one = |one: &Value| (one["count"].as_u64().unwrap(), text(one, "name"), text(one, "cause"));
    let mut all: Vec<_> = all.map(one).collect();
    all.sort();
    all
}

#[test]
fn who_failed_to_sign_in_is_found_in_all_files_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut server: Machine = alone(folder.path());
    server.serve();
    let url = server.url();
    guess(&url, PERSON);
    guess(&url, "uid=nobody,dc=example,dc=com");
    guess(&url, "ou=people,dc=example,dc=com");
    guess_by_scram(&server.ldap, "marie");
    guess(&url, "cn=no\u{1b}[2Jbody");
    let data = server.data().to_owned();
    wait_for("lines of five binds", || (failures(&["--data", &data])["failed"] == 5).then_some(()));
    // Put aside, and compressed, as the server itself or logrotate does.
    let logs = server.data.join("logs");
    let rotated = logs.join("access-20260102030405Z.log");
    fs::rename(logs.join("access.log"), &rotated).unwrap();
    server.signal(Signal::HUP);
    wait_for("another file", || logs.join("access.log").exists().then_some(()));
    let packed = fs::File::create(rotated.with_extension("log.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&fs::read(&rotated).unwrap()).unwrap();
    packed.finish().unwrap();
    fs::remove_file(&rotated).unwrap();
    guess(&url, PERSON);
    let report = wait_for("a line in the new file", || {
        let report = failures(&["--data", &data]);
        (report["failed"] == 6).then_some(report)
    });
    let want = [
        (1, "cn=no\u{1b}[2Jbody", "no such entry"),
        (1, "marie", "no password to compare with"),
        (1, "ou=people,dc=example,dc=com", "no password to compare with"),
        (1, "uid=nobody,dc=example,dc=com", "no such entry"),
        (2, PERSON, "wrong password"),
    ];
    let want = want.map(|(count, name, cause)| (count, name.to_owned(), cause.to_owned()));
    assert_eq!(counted(&report), want);
    assert_eq!(report["failures"][0]["address"], "127.0.0.1");
    // Of what was put aside before, nothing is read.
    assert_eq!(failures(&["--data", &data, "--since", "1h"])["failed"], 1);
    let file = logs.join("access-20260102030405Z.log.gz");
    assert_eq!(failures(&[file.to_str().unwrap()])["failed"], 5);
    let run = roster(&["log", "failures", "--data", &data]);
    check(
        &run,
        0,
        &["wrong password", "127.0.0.1", "6 of 6 sign-ins failed", r"cn=no\u{1b}[2Jbody"],
    );
    assert!(!run.output.contains('\u{1b}'), "{run:?}");
    let run = roster(&["log", "failures", "--data", folder.path().to_str().unwrap()]);
    check(&run, 2, &["there is no access log at", "--data names the data directory"]);
    fs::write(&file, b"\x1f\x8b\x08 no gzip").unwrap();
    check(&roster(&["log", "failures", "--data", &data]), 2, &["cannot read", "Z.log.gz"]);
}

/// Whether the administrator comes in with this password.
fn lets_in(url: &str, password: &str) -> bool {
    let mut connection = Connection::open(ConnectOptions::new(url)).unwrap();
    connection.bind("cn=Directory Manager", password.as_bytes()).is_ok()
}

#[test]
fn the_administrator_gets_another_password_with_and_without_a_server() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let mut server = alone(folder.path());
    let data = server.data().to_owned();
    let set = |more: &[&str]| {
        roster(&[&["account", "set-administrator-password", "--data", &data], more].concat())
    };
    let run = set(&[]);
    check(&run, 0, &["administrator   cn=Directory Manager", "password        ", "session close"]);
    let made = run.output.lines().find_map(|line| line.strip_prefix("password        ")).unwrap();
    server.serve();
    let url = server.url();
    assert!(lets_in(&url, made) && !lets_in(&url, testing::crash::server::ADMIN_PASSWORD));
    // Another one while it is served: the old one stops without a restart.
    let file = folder.path().join("new");
    fs::write(&file, "correct horse battery staple\n").unwrap();
    let run = set(&["--new-password-file", file.to_str().unwrap()]);
    check(&run, 0, &["A running server takes it within two seconds"]);
    assert!(!run.output.contains("horse"), "{run:?}");
    wait_for("the new one", || lets_in(&url, "correct horse battery staple").then_some(()));
    assert!(!lets_in(&url, made));
    let stored = server.data.join("admin-password");
    assert_eq!(fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&stored).unwrap().contains("horse"));
    // What is no password leaves the one before in force.
    fs::write(&stored, "in the clear").unwrap();
    let log = server.data.with_extension("log");
    wait_for("a line that says so", || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains("the previous one stays in use").then_some(())
    });
    assert!(lets_in(&url, "correct horse battery staple"));
    fs::write(&file, "\n").unwrap();
    let file = file.to_str().unwrap();
    check(&set(&["--new-password-file", file]), 2, &["contains no password"]);
    let other = folder.path().to_str().unwrap();
    let run = roster(&["account", "set-administrator-password", "--data", other]);
    check(&run, 2, &["is not a roster data directory"]);
}
