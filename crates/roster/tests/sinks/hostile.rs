//! Targets that do harm: what they do keeps their own sink, and nobody else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use testing::client::ChangeKind;

use super::broker::{self, Broker, MESSAGE_TOO_LARGE};
use super::common::have;
use super::directory::{Server, add, add_person, person, until};
use super::nats::{self, Nats};
use super::receiver::{Https, certificates};
use super::{ADD, IN_FORCE, changelog_read, of_people, read};

/// A target that does this with each connection.
struct Target {
    port: u16,
    /// Connections that there were.
    count: Arc<AtomicU64>,
    /// The most octets that one of them took.
    most: Arc<AtomicU64>,
}

impl Target {
    fn start(serve: impl Fn(TcpStream, &AtomicU64) -> Option<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, most) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (counted, highest, serve) = (Arc::clone(&count), Arc::clone(&most), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (serve, highest) = (Arc::clone(&serve), Arc::clone(&highest));
                thread::spawn(move || serve(stream, &highest));
            }
        });
        Self { port, count, most }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    fn nats(&self, options: &str) -> String {
        let url = format!("nats://127.0.0.1:{}", self.port);
        of_people(&format!("bad: nats {url} subject=a {options}"))
    }
}

/// Sends this without end, and counts what is taken of it.
fn flood(stream: &mut TcpStream, most: &AtomicU64) -> Option<()> {
    let block = vec![b'x'; 1 << 16];
    let mut sent = 0;
    // What is not read any more, and not closed, is as good.
    stream.set_write_timeout(Some(Duration::from_secs(10))).ok()?;
    while sent < FLOOD_MAX_BYTES {
        stream.write_all(&block).ok()?;
        sent += block.len() as u64;
        most.fetch_max(sent, Ordering::SeqCst);
    }
    None
}

/// Has two speak with each other.
fn relay(mut stream: TcpStream, mut server: TcpStream) -> Option<()> {
    let (mut there, mut back) = (stream.try_clone().ok()?, server.try_clone().ok()?);
    thread::spawn(move || std::io::copy(&mut there, &mut back));
    std::io::copy(&mut server, &mut stream).ok().map(drop)
}

/// Speaks NATS, confirms the first message, and does something then.
fn confirm_one(
    mut stream: TcpStream,
    then: impl FnOnce(&mut TcpStream) -> Option<()>,
) -> Option<()> {
    stream.write_all(format!("INFO {NATS_INFO}\r\n").as_bytes()).ok()?;
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    let mut subscribed = String::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.first()? {
            "PING" => stream.write_all(b"PONG\r\n").ok()?,
            "SUB" => subscribed = (*words.last()?).to_owned(),
            "HPUB" => {
                let mut message = vec![0; words.last()?.parse::<usize>().ok()? + 2];
                lines.read_exact(&mut message).ok()?;
                let (reply, body) = (words.get(2)?, "{\"stream\":\"S\",\"seq\":1}");
                let answer = format!("MSG {reply} {subscribed} {}\r\n{body}\r\n", body.len());
                stream.write_all(answer.as_bytes()).ok()?;
                return then(&mut stream);
            }
            _ => {}
        }
    }
}

#[test]
fn a_target_that_makes_a_library_panic_is_counted_and_waited_for() {
    let server = Server::start(&[]);
    let target = Target::start(|mut stream, _| {
        stream.write_all(b"-ERR\r\n").ok()?;
        sleep(Duration::from_secs(2));
        None
    });
    server.sinks(ADD, &[&target.nats("timeout=2")]);
    let (mut client, begun) = (server.client(), Instant::now());
    for at in 0..20 {
        add_person(&mut client, &format!("p{at}"));
        sleep(Duration::from_millis(200));
    }
    until("it is counted", || server.number("bad", "roster-sink-failed") >= 2);
    assert_eq!(server.shown("bad", "roster-sink-state"), "waiting");
    // After 0.5 s, 1 s, 2 s and so on.
    let most = 4 + begun.elapsed().as_secs() / 3;
    assert!(target.count() <= most, "{} in {:?}", target.count(), begun.elapsed());
}

#[test]
fn a_target_that_sends_without_end_is_left() {
    let server = Server::start(&[]);
    let mut client = server.client();
    // When it is idle.
    let target = Target::start(|stream, most| confirm_one(stream, |stream| flood(stream, most)));
    server.sinks(ADD, &[&target.nats("timeout=2")]);
    add_person(&mut client, "anna");
    until("it sends", || target.most.load(Ordering::SeqCst) > 0);
    sleep(Duration::from_secs(3));
    let sent = target.most.load(Ordering::SeqCst);
    assert!(sent < FLOOD_TAKEN_MAX_BYTES, "{sent} octets were read");
    // While it is being connected.
    let target = Target::start(|mut stream, most| {
        stream.write_all(b"INFO ").ok()?;
        flood(&mut stream, most)
    });
    server.sinks(ChangeKind::Replace, &[&target.nats("timeout=20")]);
    sleep(IN_FORCE);
    add_person(&mut client, "berta");
    until("it is kept", || server.shown("bad", "roster-sink-error").contains("sends more than"));
    let sent = target.most.load(Ordering::SeqCst);
    assert!(sent < FLOOD_TAKEN_MAX_BYTES, "{sent} octets were read");
}

#[test]
fn what_a_target_says_is_shown_and_logged_in_a_line() {
    let server = Server::start(&[]);
    let target = Target::start(|mut stream, _| {
        stream.write_all(format!("INFO {NATS_INFO}\r\n").as_bytes()).ok()?;
        BufReader::new(stream.try_clone().ok()?).read_line(&mut String::new()).ok()?;
        let text =
            format!("x\u{1b}]0;title\u{7} \n2026-01-01 ERROR forged {}", "B".repeat(1 << 20));
        stream.write_all(format!("-ERR '{text}'\r\n").as_bytes()).ok()?;
        sleep(Duration::from_secs(2));
        None
    });
    server.sinks(ADD, &[&target.nats("timeout=2")]);
    add_person(&mut server.client(), "anna");
    let why = || server.shown("bad", "roster-sink-error");
    until("it is kept", || why().contains("forged"));
    assert!(why().chars().count() <= 301 && !why().contains(char::is_control), "{}", why());
    let log = server.log();
    assert!(!log.contains('\u{1b}') && !log.contains("\n2026-01-01"), "{log:.3000}");
    assert!(log.lines().all(|line| line.len() < 2_000));
}

#[test]
fn a_sign_in_that_takes_hours_keeps_neither_other_sinks_nor_a_stop() {
    let mut server = Server::start(&[]);
    let mut client = server.client();
    let target = Target::start(|stream, _| broker::scram(stream));
    server.put("password", "a password");
    let place = format!("127.0.0.1:{} topic=t cleartext=yes", target.port);
    let bad = of_people(&format!("bad: kafka {place} user=u password=password timeout=1"));
    server.sinks(ADD, &[&bad]);
    add_person(&mut client, "anna");
    until("it is kept", || server.number("bad", "roster-sink-failed") > 0);
    assert!(server.shown("bad", "roster-sink-error").contains("has not come back"));
    server.sinks(ChangeKind::Replace, &[&of_people("good: file good.jsonl")]);
    until("the other one begins", || server.shown("good", "roster-sink-state") == "running");
    add_person(&mut client, "berta");
    until("it is told", || read(&server, "good.jsonl").contains("berta"));
    // There is no second one beside the one that was left.
    server.sinks(ADD, &[&bad]);
    until("it begins", || server.shown("bad", "roster-sink-state") == "running");
    add_person(&mut client, "carla");
    until("it waits", || server.shown("bad", "roster-sink-error").contains("a call of before"));
    assert_eq!(target.count(), 1);
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_message_is_not_sent_after_its_connection_took_long_where_rights_were_lost_meanwhile() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let target = Target::start(|stream, told| {
        sleep(Duration::from_secs(5));
        confirm_one(stream, |_| {
            told.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_secs(60));
            None
        })
    });
    server.sinks(ADD, &[&target.nats("timeout=30")]);
    add_person(&mut client, "anna");
    until("it connects", || target.count() == 1);
    sleep(Duration::from_secs(1));
    changelog_read(&mut client, ChangeKind::Delete);
    let why = || server.shown("bad", "roster-sink-error");
    until("it may not", || why().contains("changelog-read"));
    assert_eq!(target.most.load(Ordering::SeqCst), 0, "it was sent by rights of before");
    changelog_read(&mut client, ADD);
    until("it is told", || target.most.load(Ordering::SeqCst) == 1);
    assert_eq!(target.count(), 1, "the connection is kept");
}

#[test]
fn a_request_is_not_sent_after_its_connection_took_long_where_rights_were_lost_meanwhile() {
    if !have("/usr/bin/python3", &["--version"]) || !have("openssl", &["version"]) {
        return;
    }
    let server = Server::start(&[]);
    let mut client = server.client();
    let https = Https::start();
    let port = https.port;
    let way = Target::start(move |stream, _| {
        sleep(Duration::from_secs(5));
        relay(stream, TcpStream::connect(("127.0.0.1", port)).ok()?)
    });
    server.put("hook.key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    server.put("ca.pem", &https.certificate());
    let target = format!("https://localhost:{}/ key=hook.key ca=ca.pem timeout=30", way.port);
    server.sinks(ADD, &[&of_people(&format!("bad: webhook {target}"))]);
    add_person(&mut client, "anna");
    until("it connects", || way.count() == 1);
    sleep(Duration::from_secs(1));
    changelog_read(&mut client, ChangeKind::Delete);
    let why = || server.shown("bad", "roster-sink-error");
    until("it may not", || why().contains("changelog-read"));
    assert_eq!(https.received(), "", "it was sent by rights of before");
    changelog_read(&mut client, ADD);
    until("it is told", || https.received().contains("anna"));
    assert_eq!(way.count(), 1, "the connection is kept");
}

#[test]
fn a_slow_broker_is_sent_nothing_by_rights_that_are_lost() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let taken = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&taken);
    // Several together it refuses, after a long time.
    let broker = Broker::start(move |_, records| {
        sleep(Duration::from_millis(if records > 1 { 2_500 } else { 200 }));
        counted.fetch_add(u64::from(records == 1), Ordering::SeqCst);
        Some(if records > 1 { MESSAGE_TOO_LARGE } else { 0 })
    });
    (0..40).for_each(|at| add_person(&mut client, &format!("p{at}")));
    changelog_read(&mut client, ChangeKind::Delete);
    server.sinks(ADD, &[&broker.line("timeout=300 from=first")]);
    changelog_read(&mut client, ADD);
    until("it is told", || taken.load(Ordering::SeqCst) > 1);
    changelog_read(&mut client, ChangeKind::Delete);
    sleep(Duration::from_millis(3_500));
    let by_then = taken.load(Ordering::SeqCst);
    sleep(Duration::from_secs(2));
    assert_eq!(taken.load(Ordering::SeqCst), by_then, "it is told by rights of before");
    assert!(server.shown("bad", "roster-sink-error").contains("changelog-read"));
    changelog_read(&mut client, ADD);
    until("all is told", || server.number("bad", "roster-sink-sent") >= 40);
}

#[test]
fn a_target_that_does_not_read_keeps_no_connection_and_no_memory() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let nats = Target::start(|mut stream, _| {
        let info = NATS_INFO.replace("1048576", "67108864");
        stream.write_all(format!("INFO {info}\r\n").as_bytes()).ok()?;
        let mut lines = BufReader::new(stream.try_clone().ok()?);
        let mut line = String::new();
        while lines.read_line(&mut line).ok()? > 0 && !line.ends_with("PING\r\n") {}
        stream.write_all(b"PONG\r\n").ok()?;
        sleep(Duration::from_secs(120));
        None
    });
    let broker = Broker::start(|_, _| {
        sleep(Duration::from_secs(120));
        None
    });
    let before = server.sockets();
    let kafka = broker.line("timeout=1").replace("bad:", "worse:");
    server.sinks(ADD, &[&nats.nats("timeout=1"), &kafka]);
    let long = "x".repeat(14 << 20);
    let names = [("objectClass", "inetOrgPerson"), ("uid", "a"), ("cn", "a"), ("sn", "a")];
    add(&mut client, &person("a"), &[&names[..], &[("description", &long)]].concat());
    for name in ["bad", "worse"] {
        until("it is tried again", || server.number(name, "roster-sink-failed") >= 4);
    }
    let now = server.sockets();
    assert!(now <= before + 5, "{before} sockets, and {now} after some attempts");
}

#[test]
fn who_is_on_the_way_to_a_server_with_tls_loses_no_change() {
    if !have(nats::PROGRAM, &["--version"]) || !have("openssl", &["version"]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    certificates(scratch.path());
    let path = |name: &str| scratch.path().join(name);
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    let nats = Nats::start(&format!(
        "allow_non_tls: true\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}",
        cert.display(),
        key.display()
    ));
    nats.make_stream();
    // It changes what is told before TLS, and nothing else.
    let port = nats.port;
    let way = Target::start(move |mut stream, _| {
        let server = TcpStream::connect(("127.0.0.1", port)).ok()?;
        let mut lines = BufReader::with_capacity(1, server.try_clone().ok()?);
        let mut info = String::new();
        lines.read_line(&mut info).ok()?;
        let info = info.replace("\"max_payload\":1048576", "\"max_payload\":1");
        stream.write_all(info.as_bytes()).ok()?;
        relay(stream, server)
    });
    let server = Server::start(&[]);
    server.put("ca.pem", &std::fs::read_to_string(path("ca.pem")).unwrap());
    let line = |port: u16| {
        let options = "subject=directory.changes ca=ca.pem tries=1";
        of_people(&format!("bad: nats tls://localhost:{port} {options}"))
    };
    server.sinks(ADD, &[&line(way.port)]);
    add_person(&mut server.client(), "anna");
    until("it waits", || server.number("bad", "roster-sink-failed") >= 2);
    let why = server.shown("bad", "roster-sink-error");
    assert!(why.contains("limit of 1 exceeded"), "{why}");
    assert_eq!(server.number("bad", "roster-sink-dead-letters"), 0);
    server.sinks(ChangeKind::Replace, &[&line(port)]);
    until("it is told", || nats.count() == 1);
}

#[test]
fn a_broker_does_not_fill_the_log() {
    let server = Server::start(&[]);
    let broker = Broker::start(|stream, _| {
        let (mut unasked, mut stream) = (stream.try_clone().ok()?, stream.try_clone().ok()?);
        stream.flush().ok()?;
        thread::spawn(move || {
            sleep(Duration::from_millis(500));
            let frames = [&[0, 0, 0, 8][..], &[77; 8]].concat().repeat(20_000);
            unasked.write_all(&frames)
        });
        Some(0)
    });
    server.sinks(ADD, &[&broker.line("timeout=5")]);
    add_person(&mut server.client(), "anna");
    until("it is told", || server.number("bad", "roster-sink-sent") > 0);
    sleep(Duration::from_secs(2));
    assert!(server.log().len() < 100_000, "{} octets", server.log().len());
}

/// More than is to be read.
const FLOOD_MAX_BYTES: u64 = 2 << 30;
/// What may be read by the time it is noticed, on a slow machine.
const FLOOD_TAKEN_MAX_BYTES: u64 = 256 << 20;
/// What a server of NATS says of itself.
const NATS_INFO: &str = "{\"server_id\":\"A\",\"server_name\":\"a\",\"version\":\"2.10.0\",\
                         \"go\":\"x\",\"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\
                         \"max_payload\":1048576,\"proto\":1,\"client_id\":1,\"jetstream\":true}";
