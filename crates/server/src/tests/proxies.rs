//! The PROXY protocol, and what the client's address means for passwords.

use super::*;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";

fn behind(network: &str) -> Running {
    let networks = vec![network.parse().unwrap()];
    Running::with(|settings| settings.listen.proxies = networks)
}

#[test]
fn the_client_is_the_one_that_the_proxy_names() {
    let running = behind("127.0.0.0/8");
    let far = b"PROXY TCP4 192.0.2.1 192.0.2.2 51000 389\r\n";
    let near = b"PROXY TCP4 127.0.0.1 192.0.2.2 51000 389\r\n";
    let far_v2 = [V2, &[192, 0, 2, 1, 192, 0, 2, 2, 1, 1, 1, 1]].concat();
    for header in [&far[..], near, &far_v2] {
        let mut client = running.connect();
        // The first request may come in the same segment.
        client.send(&[header, &bind(1, ROOT, "secret")].concat());
        assert_eq!(client.receive(), "1 bind confidentialityRequired");
        client.send(&bind(2, "", ""));
        assert_eq!(client.receive(), "2 bind success");
    }
    // TLS from the client to us, through the proxy.
    let mut socket = TcpStream::connect(running.addresses.ldaps[0]).unwrap();
    socket.write_all(&far_v2).unwrap();
    let connection = tls::connection(&running, "localhost", tls::BOTH, None);
    let mut client = Client::over(rustls::StreamOwned::new(connection, socket));
    client.send(&bind(1, ROOT, "secret"));
    assert_eq!(client.receive(), "1 bind success");
}

#[test]
fn a_header_that_comes_octet_by_octet_is_read() {
    let running = behind("127.0.0.1");
    let mut client = running.connect();
    for octet in b"PROXY UNKNOWN\r\n" {
        client.send(&[*octet]);
    }
    client.send(&root_dse(1));
    assert_eq!(client.receive(), "1 entry ");
    assert_eq!(client.receive(), "1 done success");
}

#[test]
fn a_trusted_proxy_must_send_a_header() {
    let running = Running::with(|settings| {
        settings.listen.proxies = vec!["127.0.0.1".parse().unwrap()];
        settings.tls.handshake_timeout = Duration::from_millis(50);
    });
    let mut client = running.connect();
    client.send(&root_dse(1));
    assert_eq!(client.receive(), "closed");
    // None at all.
    let mut client = running.connect();
    assert_eq!(client.receive(), "closed");
    // The Unix socket is not behind a proxy.
    let path = running.addresses.ldapi.clone().unwrap();
    let mut client = Client::unix(&path);
    client.send(&bind(1, ROOT, "secret"));
    assert_eq!(client.receive(), "1 bind success");
    // Connections without a header are not counted for ever.
    while running.counters.connections.value() > 1 {
        std::thread::yield_now();
    }
}

#[test]
fn nobody_else_can_claim_an_address() {
    let running = behind("192.0.2.0/24");
    let mut client = running.connect();
    client.send(b"PROXY TCP4 127.0.0.1 192.0.2.2 51000 389\r\n");
    assert!(client.receive().starts_with("0 notice protocolError"));
    assert_eq!(client.receive(), "closed");
    running.connect_root();
}

#[test]
fn a_stopping_server_does_not_wait_for_a_header() {
    let mut running = behind("127.0.0.1");
    let mut client = running.connect();
    client.send(b"PROXY");
    running.stop();
    assert_eq!(client.receive(), "closed");
}
