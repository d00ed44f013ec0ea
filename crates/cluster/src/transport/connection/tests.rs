//! Many requests over one stream, whose other end the test plays.

use tokio::io::DuplexStream;

use super::super::frame::HEAD_BYTES;
use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn pair(room: usize) -> (Connection, DuplexStream) {
    let (near, far) = tokio::io::duplex(room);
    (Connection::over(near, Purpose::Asks), far)
}

async fn begin(connection: &Connection, body: &[u8]) -> Call {
    connection.begin(Kind::Ask, body.to_vec(), soon()).await.unwrap()
}

async fn respond(far: &mut DuplexStream, kind: Kind, number: u32, body: &[u8]) {
    let frame = Frame { kind, number, body: body.to_vec() };
    far.write_all(&frame.head(Purpose::Asks).unwrap()).await.unwrap();
    far.write_all(body).await.unwrap();
}

#[tokio::test]
async fn responses_find_their_requests_in_any_order() {
    let (connection, far) = pair(1 << 16);
    let mut first = begin(&connection, b"first").await;
    let mut second = begin(&connection, b"second").await;
    let (read, mut write) = tokio::io::split(far);
    let mut reader = FrameReader::new(read, Purpose::Asks);
    let numbers = [reader.next().await, reader.next().await].map(|it| it.unwrap().unwrap().number);
    for (number, body) in numbers.into_iter().zip([b"1", b"2"]).rev() {
        let frame = Frame { kind: Kind::AskResponse, number, body: body.to_vec() };
        write.write_all(&frame.head(Purpose::Asks).unwrap()).await.unwrap();
        write.write_all(body).await.unwrap();
    }
    assert_eq!(first.response(soon()).await, Ok(b"1".to_vec()));
    assert_eq!(second.response(soon()).await, Ok(b"2".to_vec()));
    assert!(connection.is_open());
    assert!(connection.shared.pending().calls.is_empty());
}

#[tokio::test]
async fn what_was_given_up_in_the_queue_is_never_written() {
    // The writer is stuck in the body of the first.
    let (connection, mut far) = pair(64);
    let mut first = begin(&connection, &[1; 1 << 20]).await;
    let mut head = [0; HEAD_BYTES];
    far.read_exact(&mut head).await.unwrap();
    let mut second = begin(&connection, b"second").await;
    let third = begin(&connection, b"third").await;
    let mut fourth = begin(&connection, b"fourth").await;
    let now = Instant::now();
    assert_eq!(second.response(now).await, Err(CallError::TimedOut { is_sent: false }));
    assert_eq!(first.response(now).await, Err(CallError::TimedOut { is_sent: true }));
    drop(third);
    let mut body = vec![0; 1 << 20];
    far.read_exact(&mut body).await.unwrap();
    let (read, mut write) = tokio::io::split(far);
    let mut reader = FrameReader::new(read, Purpose::Asks);
    let next = reader.next().await.unwrap().unwrap();
    assert_eq!(next.body, b"fourth");
    let response = Frame { kind: Kind::AskResponse, number: next.number, body: Vec::new() };
    write.write_all(&response.head(Purpose::Asks).unwrap()).await.unwrap();
    assert_eq!(fourth.response(soon()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_broken_connection_says_what_was_sent() {
    let (connection, mut far) = pair(64);
    let mut first = begin(&connection, &[1; 1 << 20]).await;
    let mut second = begin(&connection, b"second").await;
    let mut head = [0; HEAD_BYTES];
    far.read_exact(&mut head).await.unwrap();
    drop(far);
    let is_sent = |outcome| match outcome {
        Err(CallError::Broken { is_sent, .. }) => is_sent,
        other => panic!("{other:?}"),
    };
    assert!(is_sent(first.response(soon()).await));
    assert!(!is_sent(second.response(soon()).await));
    assert!(!connection.is_open());
    let after = connection.begin(Kind::Ask, Vec::new(), soon()).await.err();
    assert!(matches!(after, Some(CallError::Broken { is_sent: false, .. })), "{after:?}");
}

#[tokio::test]
async fn a_response_that_nobody_waits_for_is_dropped() {
    let (connection, mut far) = pair(1 << 16);
    let call = begin(&connection, b"given up").await;
    let number = call.number;
    drop(call);
    respond(&mut far, Kind::AskResponse, number, b"late").await;
    respond(&mut far, Kind::AskResponse, 4_711, b"of nobody").await;
    let mut next = begin(&connection, b"next").await;
    respond(&mut far, Kind::AskResponse, next.number, b"yes").await;
    assert_eq!(next.response(soon()).await, Ok(b"yes".to_vec()));
}

#[tokio::test]
async fn a_peer_that_breaks_the_rules_is_left() {
    let broken = |outcome| matches!(outcome, Err(CallError::Broken { is_sent: true, .. }));
    // A request where responses come.
    let (connection, mut far) = pair(1 << 16);
    let mut call = begin(&connection, b"").await;
    far.read_exact(&mut [0; HEAD_BYTES]).await.unwrap();
    respond(&mut far, Kind::Ask, call.number, b"").await;
    assert!(broken(call.response(soon()).await));
    // A frame of four gibioctets.
    let (connection, mut far) = pair(1 << 16);
    let mut call = begin(&connection, b"").await;
    far.read_exact(&mut [0; HEAD_BYTES]).await.unwrap();
    far.write_all(&[0xff, 0xff, 0xff, 0xff, 0x85, 0, 0, 0, 0]).await.unwrap();
    assert!(broken(call.response(soon()).await));
    assert!(!connection.is_open());
}

#[tokio::test]
async fn no_more_requests_wait_than_the_limit_says() {
    let (connection, _far) = pair(64);
    let mut calls = Vec::new();
    for _ in 0..REQUESTS_MAX {
        calls.push(begin(&connection, b"").await);
    }
    let late = || Instant::now() + Duration::from_millis(20);
    let more = connection.begin(Kind::Ask, Vec::new(), late()).await.err();
    assert_eq!(more, Some(CallError::TimedOut { is_sent: false }));
    calls.pop();
    // Octets are bounded, too, and what is given up gives them back only when it leaves the queue.
    calls.clear();
    let (connection, _far) = pair(64);
    let part = UNWRITTEN_MAX_BYTES / 4;
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(begin(&connection, &vec![0; part]).await);
    }
    let more = connection.begin(Kind::Ask, vec![0; part], late()).await.err();
    assert_eq!(more, Some(CallError::TimedOut { is_sent: false }));
}

#[tokio::test]
async fn the_connection_ends_with_its_last_handle() {
    let (connection, mut far) = pair(64);
    drop(connection);
    let mut rest = Vec::new();
    assert_eq!(far.read_to_end(&mut rest).await.unwrap(), 0);
}
