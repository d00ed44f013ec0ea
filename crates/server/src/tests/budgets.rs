//! Memory that clients make the server hold by not taking what they asked for.

use std::net::{IpAddr, Ipv4Addr};

use ldap::message::StringsBuf;
use socket2::{Domain, Socket, Type};

use super::*;

const MIB: usize = 1 << 20;

/// A client that comes from `127.0.0.last`, and whose kernel takes little for it.
pub(super) fn connect_from(running: &Running, last: u8) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0);
    socket.bind(&address.into()).unwrap();
    socket.connect(&running.ldap().into()).unwrap();
    Client::plain(socket.into())
}

/// A metric by its name, with its labels.
pub(super) fn metric(running: &Running, name: &str) -> usize {
    let page = crate::metrics::exposition(&running.metrics.scrape().unwrap());
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
    line.parse().unwrap()
}

/// A quarter of a megabyte.
fn subschema(id: i32) -> Vec<u8> {
    let mut attributes = StringsBuf::new();
    attributes.push("+");
    request(
        id,
        Request::Search(SearchRequest {
            base: "cn=schema",
            scope: Scope::Base,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::parse("(objectClass=subschema)").unwrap(),
            attributes: attributes.as_ref(),
        }),
    )
}

fn ask_many(count: i32) -> Vec<u8> {
    (1..=count).flat_map(subschema).collect()
}

/// Sends what the server takes of it; one that is ended takes nothing.
fn try_send(client: &mut Client, octets: &[u8]) {
    let _ = client.transport.write_all(octets);
}

/// Somebody else is answered, though others hold all they may.
fn check_answered(client: &mut Client, id: i32) {
    client.send(&subschema(id));
    let answers = [client.receive(), client.receive()];
    assert_eq!(answers, [format!("{id} entry cn=schema"), format!("{id} done success")]);
}

/// Waits until something is so; meanwhile somebody else is answered.
pub(super) fn wait_until(client: &mut Client, is_so: impl Fn() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come");
        check_answered(client, 1);
    }
}

/// Anonymous clients that take nothing: `clients` of them, with so many requests each.
fn check_strangers(clients: usize, requests: i32) {
    let running = Running::with(|settings| {
        settings.limits.undelivered_anonymous_max_bytes = 8 * MIB;
        settings.limits.undelivered_per_address_max_bytes = 4 * MIB;
    });
    let mut root = running.connect_root();
    let mut neighbour = connect_from(&running, 2);
    let asked = ask_many(requests);
    let (mut stalled, mut most) = (Vec::new(), 0);
    for number in 0..clients {
        let mut client = connect_from(&running, 1);
        try_send(&mut client, &asked);
        stalled.push(client);
        if number % 5 == 0 {
            let id = i32::try_from(number).unwrap() + 2;
            check_answered(&mut neighbour, id);
            check_answered(&mut root, id);
        }
        most = most.max(metric(&running, "roster_undelivered_anonymous_bytes"));
    }
    wait_until(&mut root, || metric(&running, "roster_undelivered_closed_total") > 0);
    for id in 1_000..1_010 {
        check_answered(&mut neighbour, id);
        check_answered(&mut root, id);
        most = most.max(metric(&running, "roster_undelivered_anonymous_bytes"));
    }
    // Each of two workers may be about to count what one connection holds.
    assert!(most < 4 * MIB + 2 * 3 * MIB, "{most} octets were held");
    // When they are gone, nothing is.
    drop(stalled);
    wait_until(&mut root, || running.counters.connections.value() == 2);
    wait_until(&mut root, || metric(&running, "roster_undelivered_anonymous_bytes") == 0);
}

#[test]
fn strangers_that_ask_for_much_and_take_nothing_share_a_budget() {
    // Thirty of them took 1.5 GB: each had a budget, and the answers of each of its searches
    // another.
    check_strangers(30, 63);
}

#[test]
fn so_do_many_strangers_that_ask_for_little_each() {
    check_strangers(60, 25);
}

#[test]
fn searches_of_one_connection_share_what_may_wait_for_it() {
    // Each of its searches on the pool left half a megabyte for it.
    let running = Running::with(|settings| {
        settings.server.scan_threads = 2;
        settings.limits.output_buffer_max_bytes = 256 * 1024;
    });
    fill(&running, 250, 2_000);
    let mut client = connect_from(&running, 1);
    client.send(&bind(1, ROOT, "secret"));
    assert_eq!(client.receive(), "1 bind success");
    let requests = (2..62).flat_map(|id| search(id, "dc=example,dc=org", Scope::Subtree));
    client.send(&requests.collect::<Vec<_>>());
    let held = || metric(&running, "roster_undelivered_bytes");
    let mut neighbour = running.connect_root();
    let mut most = 0;
    wait_until(&mut neighbour, || held() >= 256 * 1024);
    for id in 2..20 {
        check_answered(&mut neighbour, id);
        most = most.max(held());
    }
    // Its output, twice since vectors grow so; what waits for that; and one chunk of each thread.
    assert!(most < 2 * MIB, "{most} octets were held");
    // When it takes them, it gets all its answers.
    let mut ends = 0;
    while ends < 60 {
        let answer = client.receive();
        assert!(answer.contains(" entry ") || answer.ends_with(" done success"), "{answer}");
        ends += usize::from(answer.contains(" done "));
    }
}

#[test]
fn who_has_signed_in_and_takes_nothing_is_ended_when_all_is_used_up() {
    let running = Running::with(|settings| {
        settings.limits.undelivered_max_bytes = 4 * MIB;
        settings.limits.undelivered_anonymous_max_bytes = MIB;
    });
    let asked = ask_many(40);
    let mut stalled = Vec::new();
    let mut most = 0;
    for _ in 0..20 {
        let mut client = connect_from(&running, 1);
        try_send(&mut client, &bind(1, ROOT, "secret"));
        assert_eq!(client.receive(), "1 bind success");
        try_send(&mut client, &asked);
        stalled.push(client);
        most = most.max(metric(&running, "roster_undelivered_bytes"));
    }
    let mut root = running.connect_root();
    wait_until(&mut root, || metric(&running, "roster_undelivered_closed_total") > 0);
    assert!(most < 4 * MIB + 2 * 3 * MIB, "{most} octets were held");
    check_answered(&mut root, 3);
}

#[test]
fn a_request_that_does_not_arrive_in_full_counts() {
    let running = Running::with(|settings| {
        settings.limits.undelivered_anonymous_max_bytes = 2 * MIB;
        settings.limits.undelivered_per_address_max_bytes = MIB;
    });
    // All but the last octets of a request.
    let filter = format!("(description={})", "x".repeat(60_000));
    let mut part = search_by(1, "", Scope::Base, &filter);
    part.truncate(part.len() - 10);
    let mut stalled = Vec::new();
    let mut root = running.connect_root();
    let mut most = 0;
    while metric(&running, "roster_undelivered_closed_total") == 0 {
        let mut client = connect_from(&running, 1);
        try_send(&mut client, &part);
        stalled.push(client);
        check_answered(&mut root, 2);
        most = most.max(metric(&running, "roster_undelivered_anonymous_bytes"));
    }
    assert!((MIB * 3 / 4..2 * MIB).contains(&most), "{most} octets were held");
}
