//! Subcommands that are given several servers: the first that answers is used.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod demo;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use common::{Run, command, roster};
use demo::Demo;
use ldap::message::{MessageId, ResponseKind};
use ldap::result::ResultCode;
use rustix::process::{Pid, Signal, kill_process};

/// Nobody listens there.
const DEAD: &str = "ldap://127.0.0.1:1";
const DEAD_NOTE: &str = "roster: note: ldap://127.0.0.1:1 does not answer: cannot connect to \
                         127.0.0.1:1: connection refused\n";

/// A server that answers the first request of each connection with these octets, and tells every
/// request.
fn server(answer: Vec<u8>) -> (String, std::sync::mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("ldap://{}", listener.local_addr().unwrap());
    let (sender, requests) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 4096];
            let read = TcpStream::read(&mut stream, &mut request).unwrap();
            request.truncate(read);
            let _ = sender.send(request);
            let _ = stream.write_all(&answer);
        }
    });
    (uri, requests)
}

/// The answer to a bind.
fn answer(code: ResultCode) -> Vec<u8> {
    let mut out = Vec::new();
    let result = ldap::message::LdapResult::new(code);
    let none = ldap::message::Controls::EMPTY;
    ldap::encode::result(&mut out, MessageId(1), ResponseKind::Bind, &result, none);
    out
}

#[test]
fn a_server_that_is_away_is_passed_over_with_one_note() {
    let demo = Demo::start(20);
    let (uri, base) = (demo.url("ldapi"), "dc=example,dc=com");
    let both = format!("{DEAD} {uri}");
    let person = "uid=user.1,ou=people,dc=example,dc=com";
    let file = demo.scratch().join("out.ldif").display().to_string();
    let added = demo.scratch().join("added.ldif");
    let entry = "dn: ou=added,dc=example,dc=com\nobjectClass: organizationalUnit\nou: added\n";
    std::fs::write(&added, entry).unwrap();
    for arguments in [
        &["index", "status"][..],
        &["index", "verify", "uid.equality"],
        &["session", "list"],
        &["account", "show", person],
        &["explain", "-b", base, "(uid=user.1)"],
        &["why", person, person, "read", "cn"],
        &["top", "--once"],
        &["export", "-o", &file],
        &["import", added.to_str().unwrap()],
    ] {
        let alone = roster(&[arguments, &["-H", &uri]].concat());
        let run = roster(&[arguments, &["-H", &both]].concat());
        // What is there is neither exported over nor added again.
        let is_done_once = ["export", "import"].contains(&arguments[0]);
        assert!(alone.code == 0 || arguments[0] == "why", "{alone:?}");
        assert!(run.code == alone.code || is_done_once, "{arguments:?}: {run:?}\n{alone:?}");
        assert_eq!(run.errors.matches(DEAD_NOTE).count(), 1, "{arguments:?}: {run:?}");
    }

    // The ways to name several.
    let told = |arguments: &[&str]| roster(&[&["index", "status"], arguments].concat());
    for run in [
        told(&["-H", DEAD, "-H", &uri]),
        told(&["-H", &format!("{DEAD},{uri}")]),
        told(&["--uri", &both]),
    ] {
        assert_eq!((run.code, run.errors.as_str()), (0, DEAD_NOTE), "{run:?}");
    }
    let output = command(&["index", "status"]).env("LDAPURI", &both).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), DEAD_NOTE);
    // Who is named first is asked first, and the others not at all.
    let run = told(&["-H", &format!("{uri} {DEAD}")]);
    assert_eq!((run.code, run.errors.as_str()), (0, ""), "{run:?}");

    let run = told(&["-H", &format!("{DEAD} ldap://127.0.0.1:2")]);
    assert_eq!(run.code, 2, "{run:?}");
    let none = "roster: error: none of 2 servers answers; the first: cannot connect to 127.0.0.1:1";
    assert!(run.errors.contains(none), "{run:?}");
}

#[test]
fn a_password_is_sent_to_one_server_that_refuses_it() {
    let demo = Demo::start(20);
    let (other, requests) = server(answer(ResultCode::InvalidCredentials));
    let both = format!("{} {other}", demo.url("ldap"));
    let refused = |run: Run| {
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.errors.contains("invalidCredentials"), "{run:?}");
        assert!(!run.errors.contains("does not answer"), "{run:?}");
        let sent = requests.try_recv();
        assert!(sent.is_err(), "{sent:?}");
    };
    for arguments in [
        &["index", "status"][..],
        &["account", "show", "uid=user.1,ou=people,dc=example,dc=com"],
        &["cluster", "status"],
        // It would be tried every two seconds.
        &["cluster", "status", "--watch"],
        &["cluster", "token"],
        &["cluster", "transfer", "2"],
        &["top", "--once"],
    ] {
        refused(roster(&[arguments, &["-H", &both, "-w", "wrong"]].concat()));
    }
    // A load sends it once, not over all connections, and not to other servers.
    let (alone, requests) = server(answer(ResultCode::InvalidCredentials));
    let run = roster(&["bench", "search", "-H", &alone, "-w", "wrong", "-c", "40"]);
    assert!(run.code == 1 && run.errors.contains("invalidCredentials"), "{run:?}");
    let binds = requests
        .try_iter()
        .filter(|request| request.windows(b"wrong".len()).any(|window| window == b"wrong"));
    assert_eq!(binds.count(), 1);
}

#[test]
fn a_server_that_cannot_answer_now_gets_the_password_once() {
    let demo = Demo::start(20);
    let (first, requests) = server(answer(ResultCode::Unavailable));
    let both = format!("{first} {}", demo.url("ldap"));
    let run = roster(&["index", "status", "-H", &both, "-w", &demo.admin_password]);
    assert_eq!(run.code, 0, "{run:?}");
    let note = format!("roster: note: {first} does not answer: the server refuses the bind: ");
    assert!(run.errors.starts_with(&note), "{run:?}");
    assert_eq!(requests.try_iter().count(), 1);
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_not_waited_for_long() {
    let (demo, stuck) = (Demo::start(20), Demo::start(20));
    let pid = Pid::from_raw(i32::try_from(stuck.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // With a bind and without.
    let uris = [["ldapi", "ldapi"], ["ldap", "ldapi"]];
    let runs = uris.map(|[one, other]| {
        let both = format!("{} {}", stuck.url(one), demo.url(other));
        thread::spawn(move || roster(&["index", "status", "-H", &both]))
    });
    for run in runs {
        let run = run.join().unwrap();
        assert_eq!(run.code, 0, "{run:?}");
        let note = "does not answer: the server did not answer within 10 s\n";
        assert!(run.errors.ends_with(note) && run.errors.lines().count() == 1, "{run:?}");
    }
    kill_process(pid, Signal::CONT).unwrap();
}

#[test]
fn who_watches_goes_on_with_another_server() {
    let (first, second) = (Demo::start(20), Demo::start(20));
    let uris = [first.url("ldapi"), second.url("ldapi")];
    let both = uris.join(" ");
    let mut child = command(&["top", "--json", "--every", "1", "-H", &both]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with('{'));
    drop(first);
    for _ in 0..3 {
        assert!(lines.next().unwrap().unwrap().starts_with('{'));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    child.wait().unwrap();
    assert!(errors.contains("; reconnecting\n"), "{errors}");
    let note = format!("roster: note: {} does not answer: ", uris[0]);
    assert!(errors.matches(&note).count() <= 1, "{errors}");
    let back = format!("roster: note: {} answers after ", uris[1]);
    assert!(errors.contains(&back), "{errors}");
}
