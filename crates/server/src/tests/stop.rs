//! Stopping in order.

use super::*;

#[test]
fn idle_clients_are_told_that_the_server_stops() {
    let mut running = Running::start();
    let mut clients = (0..4).map(|_| running.connect()).collect::<Vec<_>>();
    let mut local = Client::unix(running.addresses.ldapi.as_ref().unwrap());
    for client in clients.iter_mut().chain([&mut local]) {
        client.send(&extended(1, WHO_AM_I));
        assert_eq!(client.receive(), "1 extended success");
    }
    let received = std::thread::spawn(move || {
        for client in clients.iter_mut().chain([&mut local]) {
            let want = "0 notice unavailable the server is shutting down";
            assert_eq!(client.receive_all(), [want]);
        }
    });
    running.stop();
    received.join().unwrap();
    assert!(TcpStream::connect(running.ldap()).is_err());
    assert!(!running.data.path().join("data/ldapi").exists());
}

#[test]
fn operations_in_progress_are_finished_first() {
    let mut running = Running::start();
    let mut client = running.connect_root();
    let requests = (1..=50).flat_map(|id| add(id, &format!("a{id}"), 0)).collect::<Vec<_>>();
    client.send(&requests);
    let first = client.receive();
    let received = std::thread::spawn(move || (first, client.receive_all()));
    running.stop();
    let (first, mut answers) = received.join().unwrap();
    assert_eq!(answers.pop().unwrap(), "0 notice unavailable the server is shutting down");
    answers.push(first);
    // Each was handled whole or not at all.
    for answer in &answers {
        assert!(answer.ends_with(" add success"), "{answer}");
    }
}

#[test]
fn a_client_that_does_not_leave_cannot_hold_the_server_up() {
    let mut running = Running::with(|settings| {
        settings.server.shutdown_timeout = Duration::from_millis(50);
    });
    let client = running.connect();
    running.check_alive();
    running.stop();
    drop(client);
}

#[test]
fn a_server_that_is_dropped_ends() {
    let running = Running::start();
    drop(running);
}
