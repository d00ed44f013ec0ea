//! How long searches take while many people sign in at once, beside how long they take alone.
//!
//! `cargo run --release -p server --example logins [BINDS]`: a server and its clients in one
//! process, every password stored with Argon2id at its default cost.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::disallowed_methods, reason = "it measures")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "whoever runs it sees why")]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use auth::password::Scheme;
use directory::{Directory, DirectoryOptions, GlobalAcis};
use environment::SystemClock;
use ldap::ber::{Frame, frame};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{
    Authentication, BindRequest, Controls, DerefAliases, Message, MessageId, Request, Scope,
    SearchRequest, StringsBuf,
};
use offline::{ImportOptions, Source};
use server::{Server, Settings};

/// People in the directory; each signs in at the most once.
const PEOPLE: usize = 2_000;
const SUFFIX: &str = "dc=example,dc=org";
/// How long searches are measured alone.
const ALONE: Duration = Duration::from_secs(3);

fn main() {
    let binds = std::env::args().nth(1).map_or(1_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fill(&data);
    let directory =
        Directory::open(DirectoryOptions::new(&data), Arc::new(SystemClock::new())).unwrap();
    let mut settings = Settings::default();
    settings.server.data = data;
    settings.listen.ldap = vec!["127.0.0.1:0".parse().unwrap()];
    settings.listen.ldaps = Vec::new();
    let server = Server::start(directory, &settings).unwrap();
    let address = server.addresses().ldap[0];

    let stop = Arc::new(AtomicBool::new(false));
    report("searches alone", search(address, &stop, Some(ALONE)));
    let beside = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || search(address, &stop, None))
    };
    let began = Instant::now();
    let succeeded = sign_in(address, binds);
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    report("searches beside", beside.join().unwrap());
    println!(
        "{succeeded} of {binds} binds succeeded in {:.1} s, {:.0} a second",
        took.as_secs_f64(),
        f64::from(succeeded) / took.as_secs_f64()
    );
}

/// People with one password each, at the default cost.
fn fill(data: &std::path::Path) {
    let clock = Arc::new(SystemClock::new());
    Directory::init(data, &[Dn::parse(SUFFIX).unwrap()], None, GlobalAcis::Public, clock).unwrap();
    // One hash for all of them: making them is not what is measured.
    let storage = auth::password::PasswordStorage::from(Scheme::Argon2id);
    let hash = storage.hash(b"password", &mut environment::OsChance).unwrap();
    let hash = String::from_utf8(hash).unwrap();
    let mut text = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n");
    for number in 0..PEOPLE {
        write!(
            text,
            "dn: uid=user.{number},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: user.{number}\n\
             cn: User {number}\nsn: {number}\nuserPassword: {hash}\n\n"
        )
        .unwrap();
    }
    let sources = vec![Source::new("people", text.as_bytes())];
    let clock = SystemClock::new();
    offline::import(data, sources, &ImportOptions::default(), &clock, &mut ()).unwrap();
}

/// Searches by uid, one after the other, for so long or until it is told to stop.
fn search(address: SocketAddr, stop: &AtomicBool, length: Option<Duration>) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut took = Vec::new();
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) && length.is_none_or(|length| began.elapsed() < length) {
        let uid = format!("(uid=user.{})", took.len() % PEOPLE);
        let attributes = StringsBuf::new();
        let request = SearchRequest {
            base: SUFFIX,
            scope: Scope::Subtree,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::parse(&uid).unwrap(),
            attributes: attributes.as_ref(),
        };
        let id = i32::try_from(took.len() + 1).unwrap();
        let sent = Instant::now();
        send(&mut stream, id, Request::Search(request));
        // The entry, and the end.
        receive(&mut stream, 2);
        took.push(sent.elapsed());
    }
    took
}

/// Binds on a connection each, all at once; how many succeed.
fn sign_in(address: SocketAddr, binds: usize) -> u32 {
    let mut streams = Vec::new();
    for number in 0..binds {
        let mut stream = TcpStream::connect(address).unwrap();
        let name = format!("uid=user.{},{SUFFIX}", number % PEOPLE);
        let authentication = Authentication::Simple(b"password");
        let bind = BindRequest { version: 3, name: &name, authentication };
        send(&mut stream, 1, Request::Bind(bind));
        streams.push(stream);
    }
    let mut succeeded = 0;
    for stream in &mut streams {
        // 30 0c 02 01 01 61 07 0a 01 00: success is the 0 at the end of that.
        if receive(stream, 1).get(9) == Some(&0) {
            succeeded += 1;
        }
    }
    succeeded
}

fn send(stream: &mut TcpStream, id: i32, op: Request<'_>) {
    let mut message = Vec::new();
    Message { id: MessageId(id), op, controls: Controls::EMPTY }.encode(&mut message);
    stream.write_all(&message).unwrap();
}

/// Reads until so many messages are there.
fn receive(stream: &mut TcpStream, messages: usize) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let mut rest = octets.as_slice();
        let mut whole = 0;
        while let Ok(Frame::Complete(length)) = frame(rest, 1 << 20) {
            rest = &rest[length..];
            whole += 1;
        }
        if whole >= messages {
            return octets;
        }
        let received = stream.read(&mut buffer).unwrap();
        assert!(received > 0, "the server closed the connection");
        octets.extend_from_slice(&buffer[..received]);
    }
}

fn report(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |share: usize| {
        took.get((took.len() * share / 1_000).min(took.len().saturating_sub(1)))
            .map_or(0.0, Duration::as_secs_f64)
            * 1e3
    };
    println!(
        "{what}: {} of them, median {:.3} ms, 99 % {:.3} ms, 99.9 % {:.3} ms, longest {:.3} ms",
        took.len(),
        at(500),
        at(990),
        at(999),
        at(1_000)
    );
}
