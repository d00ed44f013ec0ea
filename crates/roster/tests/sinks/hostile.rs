//! Targets that do harm: what they do keeps their own sink, and nobody else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use testing::client::ChangeKind;

use super::directory::{Server, add_person, until};
use super::{ADD, IN_FORCE, of_people, read};

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
    let target =
        Target::start(|stream, most| confirm_one(stream, |stream| flood(stream, most)));
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
        let text = format!("x\u{1b}]0;title\u{7} \n2026-01-01 ERROR forged {}", "B".repeat(1 << 20));
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
    let target = Target::start(|stream, _| scram(stream));
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

/// A broker that asks who signs in to work for hours.
fn scram(mut stream: TcpStream) -> Option<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut request = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?];
        stream.read_exact(&mut request).ok()?;
        let number = |at: usize| Some(i16::from_be_bytes([request[at], *request.get(at + 1)?]));
        let body = match (number(0)?, number(2)?) {
            (18, version) => versions(version),
            // SaslHandshake: one mechanism.
            (17, _) => [&[0, 0, 0, 0, 0, 1, 0, 13], &b"SCRAM-SHA-512"[..]].concat(),
            // SaslAuthenticate.
            (36, version) => {
                let text = String::from_utf8_lossy(&request).into_owned();
                let nonce = text.split("r=").nth(1)?.trim_end_matches('\0');
                let first = format!("r={nonce}more,s=c2FsdHNhbHRzYWx0,i=4294967295");
                let length = i32::try_from(first.len()).ok()?.to_be_bytes();
                let lifetime: &[u8] = if version > 0 { &[0; 8] } else { &[] };
                [&[0, 0, 255, 255], &length[..], first.as_bytes(), lifetime].concat()
            }
            _ => return None,
        };
        let length = u32::try_from(4 + body.len()).ok()?;
        let answer = [&length.to_be_bytes(), request.get(4..8)?, &body].concat();
        stream.write_all(&answer).ok()?;
    }
}

/// Which requests the broker takes, in which versions.
fn versions(version: i16) -> Vec<u8> {
    let all = [[0_u16, 3, 9], [3, 1, 12], [17, 1, 1], [18, 0, 3], [36, 0, 1]];
    let is_new = version >= 3;
    let mut body = vec![0, 0];
    match is_new {
        true => body.push(u8::try_from(all.len()).unwrap() + 1),
        false => body.extend(u32::try_from(all.len()).unwrap().to_be_bytes()),
    }
    for one in all {
        one.iter().for_each(|number| body.extend(number.to_be_bytes()));
        body.extend(is_new.then_some(0));
    }
    body.extend([0; 4].iter().take(if version > 0 { 4 } else { 0 }));
    body.extend(is_new.then_some(0));
    body
}

/// More than is to be read.
const FLOOD_MAX_BYTES: u64 = 2 << 30;
/// What may be read by the time it is noticed, on a slow machine.
const FLOOD_TAKEN_MAX_BYTES: u64 = 256 << 20;
/// What a server of NATS says of itself.
const NATS_INFO: &str = "{\"server_id\":\"A\",\"server_name\":\"a\",\"version\":\"2.10.0\",\
                         \"go\":\"x\",\"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\
                         \"max_payload\":1048576,\"proto\":1,\"client_id\":1,\"jetstream\":true}";
