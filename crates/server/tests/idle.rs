//! What idle connections cost: less than 20 KB of memory each, and no CPU.
//!
//! `ROSTER_IDLE_CONNECTIONS=5000 cargo test --release -p server --test idle -- --nocapture`
//! measures with as many as the requirement names and prints the figures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail so")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use directory::{Directory, DirectoryOptions, GlobalAcis};
use environment::SystemClock;
use ldap::dn::Dn;
use server::{Server, Settings};

#[test]
fn an_idle_connection_costs_little_memory_and_no_cpu() {
    let connections = std::env::var("ROSTER_IDLE_CONNECTIONS")
        .map_or(CONNECTIONS, |text| text.parse().expect("a number of connections"));
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let clock = Arc::new(SystemClock::new());
    let suffix = Dn::parse("dc=example,dc=org").unwrap();
    Directory::init(&path, &[suffix], None, GlobalAcis::Public, clock.clone()).unwrap();
    let directory = Directory::open(DirectoryOptions::new(&path), clock).unwrap();
    let mut settings = Settings::default();
    settings.server.data = path;
    settings.listen.ldap = vec!["127.0.0.1:0".parse().unwrap()];
    settings.listen.ldaps = vec![];
    let server = Server::start(directory, &settings).unwrap();

    // The first ones make the server allocate what it keeps.
    let mut clients = connect(&server, WARM_UP);
    let before = resident_bytes();
    clients.extend(connect(&server, connections));
    let each = resident_bytes().saturating_sub(before) / connections;
    let mut ticks = ticks_of_a_while();
    // What the clients left to do, such as lines of the log, may fall into the first of them. What
    // idle connections cost falls into all.
    for _ in 0..WATCHED_MORE {
        if ticks > TICKS_MAX {
            ticks = ticks_of_a_while();
        }
    }
    #[allow(clippy::print_stdout, reason = "the figures are asked for")]
    {
        println!("{connections} idle connections: {each} bytes each, {ticks} ticks of CPU");
    }
    assert!(each < MEMORY_MAX_BYTES, "{each} bytes");
    assert!(ticks <= TICKS_MAX, "{ticks} ticks of 10 ms in {WATCHED:?}");
    assert_eq!(server.counts().connections, u64::try_from(WARM_UP + connections).unwrap());
}

/// Clients that have asked something and been answered.
fn connect(server: &Server, count: usize) -> Vec<TcpStream> {
    let address = server.addresses().ldap[0];
    let clients = (0..count).map(|_| {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(WHO_AM_I).unwrap();
        let mut answer = [0; 14];
        client.read_exact(&mut answer).unwrap();
        client
    });
    clients.collect()
}

/// Resident memory of this process; the clients' own share of it is a file descriptor each.
fn resident_bytes() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// What this process takes in a while.
fn ticks_of_a_while() -> u64 {
    let before = cpu_ticks();
    // Nothing is awaited here but time: that nothing happens is what is measured.
    let (_sender, never) = channel::<()>();
    let _ = never.recv_timeout(WATCHED);
    cpu_ticks() - before
}

/// User and system time of this process, in hundredths of a second.
fn cpu_ticks() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap();
    let fields = text.rsplit(") ").next().unwrap().split(' ').collect::<Vec<_>>();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Who am I? (RFC 4532) as a message.
const WHO_AM_I: &[u8] = b"\x30\x1e\x02\x01\x01\x77\x19\x80\x171.3.6.1.4.1.4203.1.11.3";

const CONNECTIONS: usize = 1_000;

const WARM_UP: usize = 100;

const MEMORY_MAX_BYTES: usize = 20_000;

const WATCHED: Duration = Duration::from_millis(500);

/// How often it is watched again at the most.
const WATCHED_MORE: u32 = 10;

/// One may be the measuring itself.
const TICKS_MAX: u64 = 1;
