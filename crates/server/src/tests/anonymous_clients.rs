//! Slots of connections that have not authenticated.

use super::*;

fn ask(client: &mut Client) {
    client.send(&extended(1, WHO_AM_I));
    assert_eq!(client.receive(), "1 extended success");
}

#[test]
fn strangers_that_take_all_places_do_not_keep_the_administrator_out() {
    // Whoever opened connections until there were no more kept everybody out who does not come by
    // the Unix socket.
    let running = Running::with(|settings| {
        settings.limits.connections_max = 10;
        settings.limits.connections_anonymous_percent = 50;
    });
    let mut strangers = Vec::new();
    for _ in 0..5 {
        let mut client = running.connect();
        ask(&mut client);
        strangers.push(client);
    }
    let mut root = running.connect_root();
    // It has taken the slot of the first, until it had signed in.
    assert_eq!(strangers.remove(0).receive(), "closed");
    for client in &mut strangers {
        ask(client);
    }
    let mut next = running.connect();
    ask(&mut next);
    let mut another = running.connect();
    ask(&mut another);
    assert_eq!(strangers.remove(0).receive(), "closed");
    root.send(&extended(2, WHO_AM_I));
    assert_eq!(root.receive(), "2 extended success dn:cn=Directory Manager");
}

#[test]
fn where_all_places_are_taken_a_stranger_gives_up_his() {
    let running = Running::with(|settings| settings.limits.connections_max = 3);
    let mut known = [running.connect_root(), running.connect_root()];
    let mut stranger = running.connect();
    ask(&mut stranger);
    let mut third = running.connect_root();
    assert_eq!(stranger.receive(), "closed");
    // Who has signed in does not.
    assert_eq!(running.connect().receive_all(), ["0 notice busy too many connections"]);
    for client in known.iter_mut().chain([&mut third]) {
        client.send(&extended(2, WHO_AM_I));
        assert_eq!(client.receive(), "2 extended success dn:cn=Directory Manager");
    }
}

#[test]
fn a_connection_in_its_handshake_gives_up_its_place_as_well() {
    let running = Running::with(|settings| {
        settings.limits.connections_max = 10;
        settings.limits.connections_anonymous_percent = 20;
        settings.tls.handshake_timeout = Duration::from_secs(600);
    });
    let silent = (0..10).map(|_| TcpStream::connect(running.addresses.ldaps[0]).unwrap());
    let silent = silent.collect::<Vec<_>>();
    // All have come, or the last of them would take the place of whoever signs in.
    let is_closed = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let read = Read::read(&mut &**stream, &mut [0]);
        read.map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    };
    while silent.iter().filter(is_closed).count() < 8 {
        std::thread::yield_now();
    }
    let mut root = running.connect_root();
    while running.counters.connections.value() > 3 {
        root.send(&extended(2, WHO_AM_I));
        assert_eq!(root.receive(), "2 extended success dn:cn=Directory Manager");
    }
    drop(silent);
}
