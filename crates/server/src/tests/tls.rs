//! LDAPS and StartTLS with a real TLS client.

use super::*;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

pub(super) type Version = &'static rustls::SupportedProtocolVersion;

/// A client's side of TLS that trusts exactly the server's own certificate.
fn connect_tls(running: &Running, socket: TcpStream, name: &str, versions: &[Version]) -> Client {
    let connection = connection(running, name, versions, None);
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    Client::over(StreamOwned::new(connection, socket))
}

/// A certificate and its key, as a client shows them.
pub(super) type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(super) fn connection(
    running: &Running,
    name: &str,
    versions: &[Version],
    shown: Option<Shown>,
) -> ClientConnection {
    let cert = running.data.path().join("data/tls/cert.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match shown {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

pub(super) fn connect_ldaps(running: &Running, name: &str, versions: &[Version]) -> Client {
    let socket = TcpStream::connect(running.addresses.ldaps[0]).unwrap();
    connect_tls(running, socket, name, versions)
}

pub(super) const BOTH: &[Version] = &[&rustls::version::TLS13, &rustls::version::TLS12];

#[test]
fn ldaps_speaks_both_versions_and_names_the_loopback() {
    let running = Running::start();
    let versions: [&[Version]; 2] = [&[&rustls::version::TLS13], &[&rustls::version::TLS12]];
    for versions in versions {
        for name in ["localhost", "127.0.0.1", "::1"] {
            let mut client = connect_ldaps(&running, name, versions);
            client.send(&bind(1, ROOT, "secret"));
            assert_eq!(client.receive(), "1 bind success", "{name}");
        }
    }
}

#[test]
fn pipelining_and_large_messages_work_inside_tls() {
    let running = Running::start();
    let mut client = connect_ldaps(&running, "localhost", BOTH);
    client.send(&bind(1, ROOT, "secret"));
    assert_eq!(client.receive(), "1 bind success");
    let requests = (1..=500).flat_map(|id| extended(id, WHO_AM_I)).collect::<Vec<_>>();
    client.send(&requests);
    for id in 1..=500 {
        let want = format!("{id} extended success dn:cn=Directory Manager");
        assert_eq!(client.receive(), want);
    }
    client.send(&add(2, "large", 300_000));
    assert_eq!(client.receive(), "2 add success");
    client.send(&search(3, "ou=large,dc=example,dc=org", Scope::Base));
    while client.receive() != "3 done success" {}
}

#[test]
fn start_tls_protects_the_same_session() {
    let running = Running::start();
    let mut client = running.connect();
    client.send(&extended(1, START_TLS));
    assert_eq!(client.receive(), "1 extended success");
    let mut client = connect_tls(&running, client.socket.unwrap(), "localhost", BOTH);
    client.send(&bind(2, ROOT, "secret"));
    assert_eq!(client.receive(), "2 bind success");
    client.send(&extended(3, WHO_AM_I));
    assert_eq!(client.receive(), "3 extended success dn:cn=Directory Manager");
}

#[test]
fn what_is_sent_behind_start_tls_is_discarded() {
    // CVE-2011-0411 and its kin: plain text that somebody in between adds to the StartTLS request
    // must not be carried out inside the protected session.
    let running = Running::start();
    let mut client = running.connect();
    let mut requests = extended(1, START_TLS);
    requests.extend_from_slice(&extended(66, WHO_AM_I));
    client.send(&requests);
    assert_eq!(client.receive(), "1 extended success");
    let mut client = connect_tls(&running, client.socket.unwrap(), "localhost", BOTH);
    client.send(&extended(2, WHO_AM_I));
    assert_eq!(client.receive(), "2 extended success");
    client.send(&extended(3, WHO_AM_I));
    assert_eq!(client.receive(), "3 extended success");
}

#[test]
fn a_handshake_that_fails_ends_the_connection() {
    let running = Running::start();
    let mut client = running.connect();
    client.send(&extended(1, START_TLS));
    assert_eq!(client.receive(), "1 extended success");
    // Going on without TLS is not possible.
    client.send(&extended(2, WHO_AM_I));
    let mut rest = Vec::new();
    let _ = client.transport.read_to_end(&mut rest);
    assert!(frame(&rest, 1_000_000).is_err(), "a TLS alert at the most: {rest:x?}");
    let mut client = Client::plain(TcpStream::connect(running.addresses.ldaps[0]).unwrap());
    client.send(&root_dse(1));
    let mut rest = Vec::new();
    let _ = client.transport.read_to_end(&mut rest);
    assert!(frame(&rest, 1_000_000).is_err(), "a TLS alert at the most: {rest:x?}");
    running.check_alive();
}

#[test]
fn a_handshake_must_end_in_time() {
    let running =
        Running::with(|settings| settings.tls.handshake_timeout = Duration::from_millis(50));
    let mut client = Client::plain(TcpStream::connect(running.addresses.ldaps[0]).unwrap());
    assert_eq!(client.receive(), "closed");
    let mut client = running.connect();
    client.send(&extended(1, START_TLS));
    assert_eq!(client.receive_all(), ["1 extended success"]);
    running.check_alive();
}

#[test]
fn a_stopping_server_says_so_inside_tls() {
    let mut running = Running::start();
    let mut client = connect_ldaps(&running, "localhost", BOTH);
    client.send(&extended(1, WHO_AM_I));
    assert_eq!(client.receive(), "1 extended success");
    let received = std::thread::spawn(move || client.receive_all());
    running.stop();
    let want = ["0 notice unavailable the server is shutting down"];
    assert_eq!(received.join().unwrap(), want);
}

#[test]
fn only_the_versions_and_suites_of_the_settings_are_spoken() {
    let running = Running::with(|settings| {
        settings.tls.versions = vec!["1.3"];
        settings.tls.cipher_suites = vec!["TLS_AES_128_GCM_SHA256"];
    });
    let try_it = |versions: &[Version]| {
        let mut socket = TcpStream::connect(running.addresses.ldaps[0]).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut connection = connection(&running, "localhost", versions, None);
        let shaken = connection.complete_io(&mut socket);
        shaken.ok().and_then(|_| connection.negotiated_cipher_suite()).map(|suite| suite.suite())
    };
    assert_eq!(try_it(&[&rustls::version::TLS12]), None);
    assert_eq!(try_it(BOTH), Some(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256));
    running.check_alive();
}

#[test]
fn a_changed_certificate_is_used_by_new_connections_only() {
    let running = Running::with(|settings| {
        settings.tls.reload_interval = Duration::from_secs(1);
    });
    let data = running.data.path().join("data");
    let shown = || {
        let mut socket = TcpStream::connect(running.addresses.ldaps[0]).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut connection = trusting();
        while connection.peer_certificates().is_none() {
            connection.complete_io(&mut socket).unwrap();
        }
        connection.peer_certificates().unwrap()[0].to_vec()
    };
    let mut old = connect_ldaps(&running, "localhost", BOTH);
    old.send(&bind(1, ROOT, "secret"));
    assert_eq!(old.receive(), "1 bind success");
    let first = shown();
    crate::generate_self_signed(&data, &["new.example".to_owned()]).unwrap();
    while shown() == first {
        std::thread::yield_now();
    }
    let second = shown();
    // The one that was open goes on with the certificate it knows.
    old.send(&extended(2, WHO_AM_I));
    assert_eq!(old.receive(), "2 extended success dn:cn=Directory Manager");
    // Files that cannot be used change nothing.
    std::fs::write(data.join("tls/cert.pem"), "nonsense").unwrap();
    for _ in 0..100 {
        assert_eq!(shown(), second);
    }
    old.send(&extended(3, WHO_AM_I));
    assert_eq!(old.receive(), "3 extended success dn:cn=Directory Manager");
}

/// A client that trusts everybody: which certificate it is shown is what counts.
fn trusting() -> ClientConnection {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(BOTH)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
