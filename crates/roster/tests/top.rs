//! `roster top` and `/metrics` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Run, command, roster};
use demo::Demo;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
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
        "\nqueues       hash 0 of 4,000   scan 0 of 1,000   stream 0 of 10,000   write 0 of \
         10,000\n",
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
    assert!(run.errors.contains("only to its administrator"), "{run:?}");
    assert!(run.errors.contains("roster: hint: run it as the administrator"), "{run:?}");
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
    assert!(gone.starts_with("roster: note: ") && gone.ends_with("; reconnecting"), "{gone}");
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

/// A server that hung was seen only when the client's time-out of 30 s had passed, and then what it
/// had done since it was asked was told as what it had done in the time after.
#[test]
fn a_server_that_hangs_is_told_of_at_once() {
    let demo = Demo::start(100);
    let url = demo.url("ldapi");
    let mut child = command(&["top", "--json", "--every", "0.1", "-H", &url]).spawn().unwrap();
    let told = lines_of(child.stdout.take().unwrap());
    let notes = lines_of(child.stderr.take().unwrap());
    told.recv_timeout(PATIENCE).unwrap();
    signal(&demo, Signal::STOP);
    let silent = notes.recv_timeout(SOON).unwrap();
    assert!(silent.starts_with("roster: note: no answer for "), "{silent}");
    while told.try_recv().is_ok() {}
    signal(&demo, Signal::CONT);
    let answered = notes.recv_timeout(PATIENCE).unwrap();
    assert!(answered.starts_with("roster: note: the server answered after "), "{answered}");
    let frame: serde_json::Value =
        serde_json::from_str(&told.recv_timeout(PATIENCE).unwrap()).unwrap();
    assert!(frame["interval_s"].as_f64().unwrap() >= 1.0, "{frame}");
    // Ctrl-C ends it also while it waits; from the beginning on it is told that it does.
    signal(&demo, Signal::STOP);
    notes.recv_timeout(SOON).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut child = command(&["top", "-H", &url]).spawn().unwrap();
    let silent = lines_of(child.stderr.take().unwrap()).recv_timeout(SOON).unwrap();
    assert!(silent.starts_with("roster: note: no answer for "), "{silent}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_page_says_for_how_long_there_is_no_answer_and_heeds_keys_meanwhile() {
    let demo = Demo::start(100);
    let mut terminal = Terminal::new(&["top", "--every", "0.1", "-H", &demo.url("ldapi")]);
    terminal.page(|page| page.contains("every ") && !page.contains("no answer"));
    signal(&demo, Signal::STOP);
    terminal.page(|page| page.contains(" s; the figures are old"));
    // It counts, and what was known stays.
    terminal.page(|page| silence_s(page) >= Some(2) && page.contains("operations"));
    terminal.keys.write_all(b" ").unwrap();
    terminal.page(|page| page.contains("paused   q: quit   space: continue"));
    terminal.keys.write_all(b" ").unwrap();
    terminal.page(|page| silence_s(page).is_some() && page.contains("space: pause"));
    signal(&demo, Signal::CONT);
    terminal.page(|page| page.contains("every ") && !page.contains("no answer"));
    signal(&demo, Signal::STOP);
    terminal.page(|page| silence_s(page).is_some());
    terminal.keys.write_all(b"q").unwrap();
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
}

/// For how long there is no answer, by the page.
fn silence_s(page: &str) -> Option<u64> {
    let (_, behind) = page.split_once("no answer for ")?;
    behind.split_once(" s")?.0.parse().ok()
}

fn signal(demo: &Demo, signal: Signal) {
    kill_process(Pid::from_raw(demo.pid().cast_signed()).unwrap(), signal).unwrap();
}

/// The program in a terminal.
struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<String>,
}

impl Terminal {
    fn new(arguments: &[&str]) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let mut inside = OpenOptions::new();
        inside.read(true).write(true);
        // It must not become the terminal of the test.
        inside.custom_flags(rustix::fs::OFlags::NOCTTY.bits().cast_signed());
        let inside = inside.open(name).unwrap();
        let mut program = command(arguments);
        program.stdin(inside.try_clone().unwrap()).stdout(inside.try_clone().unwrap());
        let child = program.stderr(inside).spawn().unwrap();
        let keys = File::from(keys);
        let mut screen = keys.try_clone().unwrap();
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut octets = [0; 65_536];
            // Without a program in it any more, it cannot be read.
            while let Ok(length @ 1..) = screen.read(&mut octets) {
                let text =
                    String::from_utf8_lossy(octets.get(..length).unwrap_or_default()).into_owned();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, shown }
    }

    /// Waits until a page that was drawn is as wanted.
    fn page(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let mut text = String::new();
        loop {
            let more = self.shown.recv_timeout(SOON);
            text += &more.unwrap_or_else(|error| panic!("{error}: {text:?}"));
            // The keys are the end of a page.
            let mut pages = text.split("\x1b[H").filter(|page| page.contains("space:"));
            if pages.any(&is_wanted) {
                return;
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

/// Clearly less than the time-out of a client.
const SOON: Duration = Duration::from_secs(20);
