//! `roster top` and `/metrics` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Run, command, roster};
use demo::Demo;
use testing::crash::server::Place;

/// One interval, as short as it gets.
fn top(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    roster(&[&["top", "--once", "--every", "0.2"], arguments, &server].concat())
}

#[test]
fn one_interval_is_told_as_text_and_as_json() {
    let demo = Demo::start(100);
    let run = top(&demo, &[]);
    assert_eq!(run.code, 0, "{run:?}");
    for want in [
        "roster 0.",
        "\noperations   ",
        " of 10,000 open",
        "\nsearch ",
        "\nqueues       hash 0 of 4,000   scan 0 of 1,000   write 0 of 10,000\n",
        "\nstore        102 entries   ",
        "\njournal      0 changes/s   ",
        // A day less, once it is a second old.
        "\ncertificate  36",
        " days left\n",
    ] {
        assert!(run.output.contains(want), "{}\nlacks\n{want}", run.output);
    }
    assert!(!run.output.contains('\x1b'), "nothing is coloured where nobody watches");
    let json = top(&demo, &["--json"]);
    let frame: serde_json::Value = serde_json::from_str(&json.output).unwrap();
    // Its own searches of the reading before are over by now.
    let search = frame["operations"].as_array().unwrap().iter().find(|one| one["name"] == "search");
    let search = search.unwrap();
    assert!(search["per_s"].as_f64().unwrap() > 0.0, "{search}");
    assert!(search["p99_us"].as_u64().unwrap() > 0, "{search}");
    // The server may not have noticed yet that the one before is gone.
    assert!(frame["connections"]["open"].as_u64().unwrap() >= 1);
    assert!(frame["process"]["cpu_cores"].as_f64().unwrap() > 0.0);
    assert_eq!(frame["store"]["entries"], 102);
}

#[test]
fn who_may_not_read_the_figures_is_told_who_may() {
    let demo = Demo::start(100);
    let run = roster(&["top", "--once", "-H", &demo.url("ldap")]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.errors.contains("to its administrator only"), "{run:?}");
    assert!(run.errors.contains("roster: hint: ask as the administrator"), "{run:?}");
    let run = roster(&["top", "--every", "0", "-H", &demo.url("ldap")]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn a_server_that_ends_is_asked_for_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ldapi").display().to_string();
    let place = Place {
        roster: PathBuf::from(env!("CARGO_BIN_EXE_roster")),
        folder: folder.path().join("server"),
        environment: vec![("ROSTER_LISTEN__LDAPI".to_owned(), socket.clone())],
    };
    place.init().unwrap();
    let server = place.start().unwrap();
    let url = format!("ldapi://{}", socket.replace('/', "%2F"));
    let mut child = command(&["top", "--every", "0.1", "-H", &url]).spawn().unwrap();
    let told = lines_of(child.stdout.take().unwrap());
    let notes = lines_of(child.stderr.take().unwrap());
    let (head, first) = (told.recv_timeout(PATIENCE).unwrap(), told.recv_timeout(PATIENCE));
    assert!(head.contains("search/s") && first.is_ok(), "{head}");
    drop(server);
    let gone = notes.recv_timeout(PATIENCE).unwrap();
    assert!(gone.starts_with("roster: note: ") && gone.ends_with("; asking again"), "{gone}");
    let server = place.start().unwrap();
    // How often it was asked for in between is not told.
    let back = notes.recv_timeout(PATIENCE).unwrap();
    assert!(back.starts_with("roster: note: the server is back after "), "{back}");
    // What was told before the end.
    while told.try_recv().is_ok() {}
    let line = told.recv_timeout(PATIENCE).unwrap();
    assert!(line.trim_start().starts_with(|letter: char| letter.is_ascii_digit()), "{line}");
    // Once is once.
    drop(server);
    let run = roster(&["top", "--once", "-H", &url]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.errors.contains("cannot connect to"), "{run:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The lines of a pipe, as they come.
fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

const PATIENCE: Duration = Duration::from_secs(60);
