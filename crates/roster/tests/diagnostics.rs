//! Diagnostics on standard error that nobody reads: they must stop nobody.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testing::crash::server::{Place, pause};

/// Binds that are sent together; each has a message id of one octet.
const TOGETHER: usize = 100;
/// Lines of them fill a pipe, and then the queue of lines that wait.
const BINDS: usize = 12_000;
/// How long an answer may take: nothing but a server that stands still takes so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Kills what it holds when the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bind by SASL ANONYMOUS, whose trace information is a line of the log.
fn bind(id: usize) -> Vec<u8> {
    let wrap = |tag: u8, octets: &[u8]| {
        let length = u16::try_from(octets.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], octets].concat()
    };
    let trace = [b'x'; 250];
    let sasl = [wrap(0x04, b"ANONYMOUS"), wrap(0x04, &trace)].concat();
    let request = [&[0x02, 1, 3, 0x04, 0][..], &wrap(0xA3, &sasl)].concat();
    let id = u8::try_from(id).unwrap();
    wrap(0x30, &[&[0x02, 1, id][..], &wrap(0x60, &request)].concat())
}

#[test]
fn whoever_does_not_read_standard_error_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let setting = |name: &str, value: &str| (format!("ROSTER_{name}"), value.to_owned());
    let place = Place {
        roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
        folder: folder.path().to_owned(),
        environment: vec![
            setting("LOG__LEVEL", "debug"),
            setting("SERVER__WORKERS", "1"),
            setting("AUTHENTICATION__MECHANISMS", "ANONYMOUS"),
        ],
    };
    place.init().unwrap();
    let ready = folder.path().join("ready");
    let child = place
        .command(&["serve", "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
        .arg("--ready-file")
        .arg(&ready)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut server = Ended(child.unwrap());
    let text = loop {
        match std::fs::read_to_string(&ready) {
            Ok(text) => break text,
            Err(_) => pause(Duration::from_millis(5)),
        }
        assert!(server.0.try_wait().unwrap().is_none(), "it serves");
    };
    let address = text.lines().find_map(|line| line.strip_prefix("ldap ")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let binds = (1..=TOGETHER).flat_map(bind).collect::<Vec<_>>();
    for _ in 0..BINDS / TOGETHER {
        stream.write_all(&binds).unwrap();
        let mut answers = [0; TOGETHER * 14];
        stream.read_exact(&mut answers).unwrap();
        let success = [0x61, 7, 0x0A, 1, 0, 4, 0, 4, 0];
        assert!(answers.chunks(14).all(|answer| answer.ends_with(&success)));
    }
    drop(stream);
    let mut errors = server.0.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text)
    });
    let id = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(server.0.wait().unwrap().success());
    let text = reader.join().unwrap().unwrap();
    assert!(text.contains("lines of this log were lost: standard error was not read"), "{text}");
    assert!(text.trim_end().ends_with("stopped"), "the last line is written");
}
