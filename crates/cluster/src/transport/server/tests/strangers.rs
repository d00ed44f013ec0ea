//! Who is not a node gets nothing and takes little.

use std::collections::VecDeque;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;

use super::super::super::frame::HEAD_BYTES;
use super::super::super::greeting::{WELCOME_BYTES, Welcome};
use super::super::super::limits::{
    UNAUTHENTICATED_FROM_MEMBER_MAX, UNAUTHENTICATED_PER_ADDRESS_MAX,
};
use super::super::super::{AskError, GreetingError, PROTOCOL, node_name};
use super::*;

/// TLS to `node`, as the configuration allows.
async fn tls(
    config: &Arc<rustls::ClientConfig>,
    node: &Node2,
) -> io::Result<ClientStream<TcpStream>> {
    let name = ServerName::try_from(node_name(identity(2))).unwrap();
    let stream = TcpStream::connect(node.address).await?;
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// What the node says before it closes.
async fn last_words(stream: &mut ClientStream<TcpStream>) -> Vec<u8> {
    let mut words = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut words)).await;
    // Whether it is closed with an alert or a reset is of no interest here.
    drop(end.expect("the node closes the connection"));
    words
}

fn greeting(protocol: u16, from: NodeIdentity, wanted: u64) -> Greeting {
    Greeting { protocol, from, wanted, purpose: Purpose::Asks as u8 }
}

async fn greet(stream: &mut ClientStream<TcpStream>, greeting: Greeting) {
    stream.write_all(&greeting.encode()).await.unwrap();
    stream.flush().await.unwrap();
}

async fn welcome(stream: &mut ClientStream<TcpStream>) -> Welcome {
    let mut octets = [0; WELCOME_BYTES];
    timeout(LONG, stream.read_exact(&mut octets)).await.unwrap().unwrap();
    Welcome::decode(&octets).unwrap()
}

#[tokio::test]
async fn who_has_no_certificate_of_the_authority_is_refused() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let directory = tempfile::tempdir().unwrap();
    AUTHORITY.write(directory.path()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(directory.path().join("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut nobody = tls(&Arc::new(config), &node).await.unwrap();
    drop(nobody.write_all(&greeting(PROTOCOL, identity(1), 2).encode()).await);
    assert_eq!(last_words(&mut nobody).await, b"");
    until("refused", || node.server.refused() == 1).await;

    // A certificate of an authority of the same name with another key.
    let stranger = issued_by(&Authority::new(CLUSTER, now()).unwrap(), 1);
    assert!(
        tls(&stranger.client(), &node).await.is_err(),
        "nor does the stranger believe the node"
    );
    until("refused", || node.server.refused() == 2).await;

    // As a node would see it.
    let peers = Peers::new(stranger);
    peers.know(2, &node.address.to_string());
    let error = peers.ask(2, b"hello".to_vec(), LONG).await.unwrap_err();
    assert!(matches!(&error, AskError::NotSent(text) if text.contains("certificate")), "{error}");
    assert_eq!(node.server.connections(), 0);
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_not_believed_by_the_node() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    // It believes the node, but has a certificate that the node's authority did not issue.
    let stranger = issued_by(&Authority::new(CLUSTER, now()).unwrap(), 1);
    let resolver = Arc::clone(&stranger.client().client_auth_cert_resolver);
    let mut config = rustls::ClientConfig::clone(&credentials(1).client());
    config.client_auth_cert_resolver = resolver;
    let mut stream = tls(&Arc::new(config), &node).await.unwrap();
    drop(stream.write_all(&greeting(PROTOCOL, identity(1), 2).encode()).await);
    assert_eq!(last_words(&mut stream).await, b"");
    until("refused", || node.server.refused() == 1).await;
    assert_eq!(node.server.connections(), 0);
}

#[tokio::test]
async fn a_node_that_says_it_is_another_one_is_refused() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let mut liar = tls(&credentials(3).client(), &node).await.unwrap();
    greet(&mut liar, greeting(PROTOCOL, identity(1), 2)).await;
    assert_eq!(last_words(&mut liar).await, b"");
    until("refused", || node.server.refused() == 1).await;
    let peers = Peers::new(credentials(3).pretending(identity(1)));
    peers.know(2, &node.address.to_string());
    let error = peers.ask(2, b"hello".to_vec(), LONG).await.unwrap_err();
    assert!(matches!(error, AskError::NotSent(_)), "{error}");
    assert_eq!(node.server.connections(), 0);
}

#[tokio::test]
async fn a_node_that_is_not_the_wanted_one_gets_nothing() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let peers = Peers::new(credentials(1));
    peers.know(3, &node.address.to_string());
    let error = peers.ask(3, b"hello".to_vec(), LONG).await.unwrap_err();
    let AskError::NotSent(reason) = &error else { panic!("{error}") };
    assert!(reason.contains("not valid for name"), "{reason}");
    assert_eq!(node.server.connections(), 0);
}

#[tokio::test]
async fn disagreements_in_the_greeting_are_answered_and_closed() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let other_cluster = NodeIdentity { cluster: [7; 16], node: 1 };
    for (greeting, error) in [
        (greeting(PROTOCOL + 1, identity(1), 2), GreetingError::Refused),
        (greeting(PROTOCOL, identity(1), 3), GreetingError::Node { reached: 2 }),
        (greeting(PROTOCOL, other_cluster, 2), GreetingError::Cluster),
    ] {
        let mut stream = tls(&credentials(1).client(), &node).await.unwrap();
        greet(&mut stream, greeting).await;
        let welcome = welcome(&mut stream).await;
        assert_eq!((welcome.protocol, welcome.from), (PROTOCOL, identity(2)));
        let wanted = NodeIdentity { node: greeting.wanted, ..greeting.from };
        assert_eq!(welcome.check(wanted), Err(error));
        assert_eq!(last_words(&mut stream).await, b"");
    }
    until("refused", || node.server.refused() == 3).await;
    // What is no greeting gets no answer.
    let mut stream = tls(&credentials(1).client(), &node).await.unwrap();
    stream.write_all(&[b'x'; GREETING_BYTES]).await.unwrap();
    assert_eq!(last_words(&mut stream).await, b"");
}

#[tokio::test]
async fn silence_slowness_plain_text_and_resets_end() {
    let limits = ServerLimits { handshake: Duration::from_millis(200), ..ServerLimits::default() };
    let node = node_2(Scripted::default(), limits).await;
    let mut refused = 0;
    for words in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x30\x0c\x02\x01\x01"] {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream.write_all(words).await.unwrap();
        let mut answer = Vec::new();
        drop(timeout(LONG, stream.read_to_end(&mut answer)).await.expect("it is closed"));
        // At most an alert of TLS.
        assert!(answer.len() <= 7, "{answer:?}");
        refused += 1;
        until("refused", || node.server.refused() == refused).await;
    }
    // Authenticated, but without a greeting.
    let mut silent = tls(&credentials(1).client(), &node).await.unwrap();
    assert_eq!(last_words(&mut silent).await, b"");
    let stream = TcpStream::connect(node.address).await.unwrap();
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    until("refused", || node.server.refused() == refused + 2).await;
    until("gone", || node.server.unauthenticated() == 0).await;
    assert_eq!(node.server.connections(), 0);
}

/// What a member that comes anew is answered: it asks again until it is let in.
async fn let_in(node: &Node2, octets: &[u8]) -> Vec<u8> {
    let began = Instant::now();
    loop {
        match node.peers().ask(2, octets.to_vec(), LONG).await {
            Ok(answer) => return answer,
            Err(error) => assert!(began.elapsed() < LONG, "{error:?}"),
        }
    }
}

#[tokio::test]
async fn ten_thousand_connections_take_a_few() {
    const ALL: u64 = 10_000;
    const AT_ONCE: usize = 100;
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let peers = node.peers();
    // A node that is connected is not disturbed.
    assert_eq!(peers.ask(2, b"ab".to_vec(), LONG).await, Ok(vec![b'b', b'a', 1]));
    let mut held = VecDeque::new();
    for _ in 0..ALL {
        // Who is dropped at once may see it as early as here.
        held.push_back(TcpStream::connect(node.address).await.ok());
        assert!(node.server.unauthenticated() <= UNAUTHENTICATED_FROM_MEMBER_MAX);
        if held.len() > AT_ONCE {
            held.pop_front();
        }
    }
    assert_eq!(peers.ask(2, b"cd".to_vec(), LONG).await, Ok(vec![b'd', b'c', 1]));
    // One that comes anew gets in past those that say nothing.
    assert_eq!(let_in(&node, b"cd").await, [b'd', b'c', 1]);
    held.clear();
    // Those that tried in vain are among them.
    until("refused", || node.server.refused() >= ALL).await;
    until("gone", || node.server.unauthenticated() == 0).await;
    // And a new one gets in.
    assert_eq!(let_in(&node, b"ef").await, [b'f', b'e', 1]);
}

#[tokio::test]
async fn who_comes_from_elsewhere_ten_thousand_times_has_nothing_computed() {
    const ALL: u64 = 10_000;
    let limits = ServerLimits { strangers_per_second: 5, ..ServerLimits::default() };
    let node = node_2(Scripted::default(), limits).await;
    // A node that was there once is known.
    assert_eq!(node.peers().ask(2, b"ab".to_vec(), LONG).await, Ok(vec![b'b', b'a', 1]));
    let began = Instant::now();
    let mut met = 0;
    for _ in 0..ALL {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        met += u64::from(socket.connect(node.address).await.is_ok());
        // As many as there may be in the seconds that this took, and in the one that began.
        assert!(node.server.unauthenticated() <= UNAUTHENTICATED_PER_ADDRESS_MAX);
    }
    let seconds = began.elapsed().as_secs() + 2;
    let looked_at = 5 * seconds;
    until("refused", || node.server.turned_away() >= met.saturating_sub(looked_at)).await;
    assert!(met > 10 * looked_at, "{met} came, of which {looked_at} may be looked at");
    assert_eq!(node.peers().ask(2, b"ef".to_vec(), LONG).await, Ok(vec![b'f', b'e', 1]));
}

/// Many a second, who hold what they get and say nothing.
#[tokio::test]
async fn who_shares_the_machine_of_a_member_takes_little_and_keeps_it_not_out() {
    let limits = ServerLimits { from_member_per_second: 20, ..ServerLimits::default() };
    let node = node_2(Scripted::default(), limits).await;
    assert_eq!(node.peers().ask(2, b"ab".to_vec(), LONG).await, Ok(vec![b'b', b'a', 1]));
    let (began, address) = (Instant::now(), node.address);
    let met = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&met);
    let flood = tokio::spawn(async move {
        let mut held = VecDeque::new();
        loop {
            // Who is turned away may see it as early as here.
            held.push_back(TcpStream::connect(address).await.ok());
            counted.fetch_add(1, Ordering::SeqCst);
            if held.len() > 500 {
                held.pop_front();
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    // Until many more have come than may be looked at.
    let looked_at = || {
        let seconds = u64::try_from(began.elapsed().as_millis()).unwrap() / 1_000 + 1;
        u64::from(limits.from_member_at_once) + seconds * u64::from(limits.from_member_per_second)
    };
    let (met, server) = (|| met.load(Ordering::SeqCst) as u64, &node.server);
    until("many come", || met() > 3 * looked_at()).await;
    until("few are looked at", || server.turned_away() + looked_at() >= met()).await;
    // The member itself.
    for _ in 0..3 {
        let comes = async { while node.peers().ask(2, b"cd".to_vec(), LONG).await.is_err() {} };
        timeout(LONG, comes).await.expect("the member gets in");
    }
    flood.abort();
}

#[tokio::test]
async fn a_frame_that_breaks_the_rules_ends_the_connection() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let heads: [[u8; HEAD_BYTES]; 4] = [
        // Four gibioctets.
        [0xff, 0xff, 0xff, 0xff, 0x05, 0, 0, 0, 0],
        // An append has no business on a connection for asks, nor has a response.
        [0x01, 0, 0, 0, 0x01, 0, 0, 0, 0],
        [0x01, 0, 0, 0, 0x85, 0, 0, 0, 0],
        // A kind that is not known.
        [0x01, 0, 0, 0, 0x60, 0, 0, 0, 0],
    ];
    for head in heads {
        let mut stream = tls(&credentials(1).client(), &node).await.unwrap();
        greet(&mut stream, greeting(PROTOCOL, identity(1), 2)).await;
        assert_eq!(welcome(&mut stream).await.check(identity(2)), Ok(()));
        stream.write_all(&head).await.unwrap();
        drop(stream.write_all(&[0]).await);
        assert_eq!(last_words(&mut stream).await, b"");
    }
    until("gone", || node.server.connections() == 0).await;
    assert!(node.handler.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_node_has_a_few_connections_for_each_purpose() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let mut all = Vec::new();
    for _ in 0..5 {
        let mut stream = tls(&credentials(1).client(), &node).await.unwrap();
        greet(&mut stream, greeting(PROTOCOL, identity(1), 2)).await;
        assert_eq!(welcome(&mut stream).await.check(identity(2)), Ok(()));
        all.push(stream);
    }
    for oldest in &mut all[..5 - CONNECTIONS_PER_PURPOSE_MAX] {
        assert_eq!(last_words(oldest).await, b"");
    }
    until("two", || node.server.connections() == CONNECTIONS_PER_PURPOSE_MAX).await;
    let newest = all.last_mut().unwrap();
    newest.write_all(&[1, 0, 0, 0, 0x05, 7, 0, 0, 0, b'x']).await.unwrap();
    let mut answer = [0; HEAD_BYTES + 2];
    newest.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, [2, 0, 0, 0, 0x85, 7, 0, 0, 0, b'x', 1]);
}
