//! Nodes among themselves.

use futures_util::{StreamExt as _, stream};
use openraft::errors::RPCError;
use openraft::network::RPCOption;
use openraft::raft::{StreamAppendError, TransferLeaderError};
use openraft::{EntryPayload, RaftNetworkFactory as _, RaftNetworkV2 as _};
use tokio::io::AsyncReadExt as _;
use tokio::sync::oneshot;

use super::super::super::claim::TERM_AHEAD_MAX;
use super::super::super::frame::APPEND_MAX_BYTES;
use super::super::super::greeting::Welcome;
use super::super::super::{APPENDS_IN_FLIGHT_MAX, ASK_MAX_BYTES, AskError, PROTOCOL, PeerNetwork};
use super::*;
use crate::types::{Entry, LogId, Node, RecordBytes};

fn id(index: u64) -> LogId {
    LogId::new(1.into(), index)
}

/// An append of one entry.
fn append(index: u64, bytes: usize) -> AppendRequest {
    let payload = EntryPayload::Normal(RecordBytes(vec![1; bytes].into()));
    AppendRequest {
        vote: Vote::new_committed(1, 1),
        prev_log_id: index.checked_sub(1).map(id),
        entries: vec![Entry { log_id: id(index), payload }],
        leader_commit: None,
    }
}

fn heartbeat() -> AppendRequest {
    AppendRequest { entries: Vec::new(), ..append(0, 2) }
}

fn option() -> RPCOption {
    RPCOption::new(LONG)
}

impl Node2 {
    fn as_member(&self) -> Node {
        Node { address: self.address.to_string(), ..Node::default() }
    }

    /// For the log, and for heartbeats.
    async fn networks(&self) -> [PeerNetwork; 2] {
        let mut peers = self.peers();
        let log = peers.new_client(2, &self.as_member()).await;
        [log, peers.new_heartbeat_client(2, &self.as_member()).await]
    }

    fn waiting_asks(&self) -> usize {
        self.handler.waiting_asks.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn appends_are_in_flight_together_and_stay_in_order() {
    let closed = Arc::new(Semaphore::new(0));
    let handler = Scripted { appends: Arc::clone(&closed), ..Scripted::default() };
    let node = node_2(handler, ServerLimits::default()).await;
    let [mut log, mut heartbeats] = node.networks().await;
    let count = 2 * u64::try_from(APPENDS_IN_FLIGHT_MAX).unwrap();
    let requests = stream::iter((0..count).map(|index| append(index, 100)));
    let mut outcomes = log.stream_append(requests, option()).await.unwrap();
    let handler = Arc::clone(&node.handler);
    let watch = async {
        let waiting = || handler.waiting_appends.load(Ordering::SeqCst);
        until("all that may be are in flight", || waiting() == APPENDS_IN_FLIGHT_MAX).await;
        // Heartbeats and votes do not wait behind them.
        let response = heartbeats.append_entries(heartbeat(), option()).await.unwrap();
        assert_eq!(response, AppendResponse::Success);
        let request = VoteRequest::new(Vote::new(2, 1), Some(id(7)));
        let response = heartbeats.vote(request.clone(), option()).await.unwrap();
        assert_eq!(response, VoteResponse::new(request.vote, Some(id(7)), true));
        assert_eq!(waiting(), APPENDS_IN_FLIGHT_MAX, "the window is kept");
        closed.add_permits(usize::try_from(count).unwrap());
    };
    let read = async {
        let mut reached = Vec::new();
        while let Some(outcome) = outcomes.next().await {
            reached.push(outcome.unwrap().unwrap().unwrap().index);
        }
        reached
    };
    let (reached, ()) = tokio::join!(read, watch);
    let all: Vec<u64> = (0..count).collect();
    assert_eq!(reached, all);
    assert_eq!(*node.handler.seen.lock().unwrap(), all);
}

#[tokio::test]
async fn what_an_append_comes_to_is_told_and_ends_the_stream() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let [mut log, _] = node.networks().await;
    let higher = AppendResponse::HigherVote(Vote::new(5, 3));
    let partial = AppendResponse::PartialSuccess(Some(id(6)));
    node.handler.responses.lock().unwrap().extend([
        (2, Ok(AppendResponse::Conflict)),
        (5, Ok(higher.clone())),
        (7, Ok(partial.clone())),
        (0, Ok(AppendResponse::Conflict)),
        (9, Err("the engine has stopped".to_owned())),
    ]);
    let mut outcomes = Vec::new();
    for from in [2, 5, 7, 0, 9, 20] {
        let requests = stream::iter((from..from + 2).map(|index| append(index, 10)));
        let stream = log.stream_append(requests, option()).await.unwrap();
        outcomes.push(stream.collect::<Vec<_>>().await);
    }
    assert_eq!(outcomes[0], [Ok(Err(StreamAppendError::Conflict(id(1))))]);
    assert_eq!(outcomes[1], [Ok(Err(StreamAppendError::HigherVote(Vote::new(5, 3))))]);
    assert_eq!(outcomes[2], [Ok(Ok(Some(id(6))))]);
    assert!(matches!(outcomes[3][..], [Err(RPCError::Unreachable(_))]), "{outcomes:?}");
    assert!(matches!(outcomes[4][..], [Err(RPCError::Unreachable(_))]), "{outcomes:?}");
    assert!(outcomes[4][0].as_ref().unwrap_err().to_string().contains("the engine has stopped"));
    assert_eq!(outcomes[5], [Ok(Ok(Some(id(20)))), Ok(Ok(Some(id(21))))]);
    // It has lost what it confirmed: the engine may not hear of that.
    node.handler.responses.lock().unwrap().insert(21, Ok(AppendResponse::Conflict));
    let lost = log.append_entries(append(21, 10), option()).await.unwrap_err();
    assert!(lost.to_string().contains("lost what it had confirmed"), "{lost}");
    // One at a time.
    node.handler.responses.lock().unwrap().extend([(5, Ok(higher.clone())), (7, Ok(partial))]);
    assert_eq!(log.append_entries(append(5, 10), option()).await.unwrap(), higher);
    let partial = log.append_entries(append(7, 10), option()).await.unwrap();
    assert_eq!(partial, AppendResponse::PartialSuccess(Some(id(6))));
}

#[tokio::test]
async fn an_append_that_is_too_long_is_sent_in_part() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let [mut log, _] = node.networks().await;
    let mut request = append(0, APPEND_MAX_BYTES / 3);
    for index in 1..4 {
        request.entries.extend(append(index, APPEND_MAX_BYTES / 3).entries);
    }
    let requests = stream::iter([request.clone(), append(4, 10)]);
    let outcomes = log.stream_append(requests, option()).await.unwrap();
    assert_eq!(outcomes.collect::<Vec<_>>().await, [Ok(Ok(Some(id(1))))]);
    let response = log.append_entries(request, option()).await.unwrap();
    assert_eq!(response, AppendResponse::PartialSuccess(Some(id(1))));
    let error = log.append_entries(append(0, APPEND_MAX_BYTES), option()).await.unwrap_err();
    assert!(matches!(error, RPCError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn votes_and_transfers_are_answered() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let [mut log, _] = node.networks().await;
    let request = VoteRequest::new(Vote::new(2, 1), None);
    assert!(log.vote(request.clone(), option()).await.unwrap().vote_granted);
    assert!(!log.pre_vote(request.clone(), option()).await.unwrap().vote_granted);
    let vote = Vote::new_committed(2, 1);
    let response = log.transfer_leader(TransferRequest::new(vote, 2, None), option()).await;
    let changed = TransferLeaderError::VoteChanged { expected: vote, actual: Vote::new(9, 9) };
    assert_eq!(response, Ok(Err(changed)));
}

#[tokio::test]
async fn who_was_removed_is_let_in_to_be_told_and_for_nothing_else() {
    let removed = Scripted { has_removed: true, ..Scripted::default() };
    let node = node_2(removed, ServerLimits::default()).await;
    let [_, mut votes] = node.networks().await;
    let vote = VoteRequest::new(Vote::new(1, 1), None);
    assert!(votes.vote(vote, option()).await.is_err());
    until("it is refused", || node.server.refused() > 0).await;
    assert_eq!(node.server.connections(), 0);
    let peers = node.peers();
    let answer = peers.ask(2, vec![7], LONG).await;
    assert_eq!(answer.map(|octets| octets.len()), Ok(2));
    assert_eq!(node.server.connections(), 1);
}

#[tokio::test]
async fn who_speaks_as_another_member_is_not_heard() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let [mut log, mut heartbeats] = node.networks().await;
    let (led, vote) = (Vote::new_committed(2, 3), Vote::new(2, 3));
    let append = AppendRequest { vote: led, ..append(0, 10) };
    let heartbeat = AppendRequest { vote: led, ..heartbeat() };
    let request = VoteRequest::new(vote, None);
    let mut ended = 0;
    for outcome in [
        log.append_entries(append, option()).await.err(),
        heartbeats.append_entries(heartbeat, option()).await.err(),
        heartbeats.vote(request.clone(), option()).await.err(),
        heartbeats.pre_vote(request, option()).await.err(),
        log.transfer_leader(TransferRequest::new(led, 2, None), option()).await.err(),
    ] {
        ended += 1;
        assert!(matches!(outcome, Some(RPCError::Network(_))), "{ended}: {outcome:?}");
    }
    until("ended", || node.server.offended() == ended).await;
    until("gone", || node.server.connections() == 0).await;
    assert!(node.handler.seen.lock().unwrap().is_empty(), "no entry came through");
    // In its own name it is heard again.
    let request = VoteRequest::new(Vote::new(2, 1), None);
    assert!(heartbeats.vote(request, option()).await.unwrap().vote_granted);
}

#[tokio::test]
async fn a_term_that_is_too_far_above_the_own_is_not_heard() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let [mut log, mut heartbeats] = node.networks().await;
    let far = 1 + TERM_AHEAD_MAX + 1;
    let in_term = |term| AppendRequest { vote: Vote::new_committed(term, 1), ..append(0, 10) };
    let mut with_entry = append(0, 10);
    with_entry.entries[0].log_id.leader_id.term = u64::MAX;
    let mut ended = 0;
    for request in [in_term(u64::MAX), in_term(far), with_entry] {
        ended += 1;
        let outcome = log.append_entries(request, option()).await.err();
        assert!(matches!(outcome, Some(RPCError::Network(_))), "{ended}: {outcome:?}");
    }
    for term in [u64::MAX, far] {
        ended += 2;
        let request = VoteRequest::new(Vote::new(term, 1), None);
        let outcome = heartbeats.vote(request.clone(), option()).await.err();
        assert!(matches!(outcome, Some(RPCError::Network(_))), "{ended}: {outcome:?}");
        let outcome = heartbeats.pre_vote(request, option()).await.err();
        assert!(matches!(outcome, Some(RPCError::Network(_))), "{ended}: {outcome:?}");
    }
    until("ended", || node.server.offended() == ended).await;
    assert!(node.handler.seen.lock().unwrap().is_empty(), "no entry came through");
    log.append_entries(in_term(far - 1), option()).await.unwrap();
    // Nor is it believed when it comes as a response.
    let higher = |term| Ok(AppendResponse::HigherVote(Vote::new(term, 2)));
    node.handler.responses.lock().unwrap().extend([(50, higher(far)), (60, higher(far - 1))]);
    let outcome = log.append_entries(append(50, 10), option()).await.err();
    assert!(matches!(outcome, Some(RPCError::Unreachable(_))), "{outcome:?}");
    let outcome = log.append_entries(append(60, 10), option()).await;
    assert!(matches!(outcome, Ok(AppendResponse::HigherVote(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_and_the_connection_stays() {
    let closed = Arc::new(Semaphore::new(0));
    let handler = Scripted { appends: Arc::clone(&closed), ..Scripted::default() };
    let node = node_2(handler, ServerLimits::default()).await;
    let [_, mut heartbeats] = node.networks().await;
    heartbeats.append_entries(heartbeat(), option()).await.unwrap();
    let short = RPCOption::new(Duration::from_millis(40));
    let error = heartbeats.append_entries(append(1, 10), short).await.unwrap_err();
    assert!(matches!(error, RPCError::Timeout(_)), "{error}");
    closed.add_permits(1);
    heartbeats.append_entries(heartbeat(), option()).await.unwrap();
    assert_eq!(node.server.connections(), 1);
}

#[tokio::test]
async fn a_slow_ask_delays_nobody() {
    let closed = Arc::new(Semaphore::new(0));
    let handler = Scripted { asks: Arc::clone(&closed), ..Scripted::default() };
    let node = node_2(handler, ServerLimits::default()).await;
    let mut peers = node.peers();
    let mut log = peers.new_client(2, &node.as_member()).await;
    let mut heartbeats = peers.new_heartbeat_client(2, &node.as_member()).await;
    let asks = (0..20_u8).map(|number| peers.ask(2, vec![number], LONG));
    let asks = futures_util::future::join_all(asks);
    let watch = async {
        until("all asks wait", || node.waiting_asks() == 20).await;
        for index in 0..3 {
            log.append_entries(append(index, 10), option()).await.unwrap();
            heartbeats.append_entries(heartbeat(), option()).await.unwrap();
        }
        // Nor does it delay other asks of its connection.
        let error = peers.ask(2, Vec::new(), LONG).await.unwrap_err();
        assert_eq!(error, AskError::Unknown("nothing was asked".to_owned()));
        closed.add_permits(20);
    };
    let (responses, ()) = tokio::join!(asks, watch);
    for (number, response) in (0..).zip(responses) {
        assert_eq!(response, Ok(vec![number, 1]));
    }
}

#[tokio::test]
async fn an_ask_tells_whether_it_may_have_been_sent() {
    let handler = Scripted { asks: Arc::new(Semaphore::new(0)), ..Scripted::default() };
    let node = node_2(handler, ServerLimits::default()).await;
    let peers = node.peers();
    let is_not_sent = |outcome| matches!(outcome, Err(AskError::NotSent(_)));
    assert!(is_not_sent(peers.ask(9, b"x".to_vec(), LONG).await), "not known");
    assert!(is_not_sent(peers.ask(2, vec![0; ASK_MAX_BYTES + 1], LONG).await), "too long");
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    peers.know(3, &nobody.local_addr().unwrap().to_string());
    drop(nobody);
    assert!(is_not_sent(peers.ask(3, b"x".to_vec(), LONG).await), "nobody is there");
    // The deadline passes while the handler has it.
    let late = peers.ask(2, b"x".to_vec(), Duration::from_secs(1)).await;
    let reached = node.waiting_asks();
    assert!(late.is_err());
    assert!(reached == 0 || matches!(late, Err(AskError::Unknown(_))), "{late:?}");
    // The node goes while the handler has it.
    let ask = peers.ask(2, b"y".to_vec(), LONG);
    let go = async {
        until("the ask waits", || node.waiting_asks() > reached).await;
        node.server.task.abort();
    };
    let (gone, ()) = tokio::join!(ask, go);
    assert!(matches!(gone, Err(AskError::Unknown(_))), "{gone:?}");
    until("not listening", || node.server.connections() == 0).await;
    assert!(is_not_sent(peers.ask(2, b"z".to_vec(), LONG).await), "the node is gone");
}

#[tokio::test]
async fn a_node_that_comes_back_is_reached_again() {
    let node = node_2(Scripted::default(), ServerLimits::default()).await;
    let peers = node.peers();
    peers.ask(2, b"x".to_vec(), LONG).await.unwrap();
    let address = node.address;
    drop(node);
    let mut listener = None;
    while listener.is_none() {
        // The port is free as soon as the tasks are gone.
        tokio::task::yield_now().await;
        listener = TcpListener::bind(address).await.ok();
    }
    let handler = Arc::new(Scripted::default());
    let limits = ServerLimits::default();
    let own = Peers::new(credentials(2));
    let _server = serve(listener.unwrap(), credentials(2), handler, limits, &own);
    while peers.ask(2, b"x".to_vec(), LONG).await.is_err() {}
}

#[tokio::test]
async fn a_node_that_moves_is_reached_where_it_is() {
    let first = node_2(Scripted::default(), ServerLimits::default()).await;
    let peers = first.peers();
    peers.ask(2, b"x".to_vec(), LONG).await.unwrap();
    let second = node_2(Scripted::default(), ServerLimits::default()).await;
    peers.know(2, &second.address.to_string());
    peers.ask(2, b"x".to_vec(), LONG).await.unwrap();
    assert_eq!(second.server.connections(), 1);
    until("left", || first.server.connections() == 0).await;
    peers.forget(2);
    assert!(matches!(peers.ask(2, b"x".to_vec(), LONG).await, Err(AskError::NotSent(_))));
    until("left", || second.server.connections() == 0).await;
}

/// A node that says `welcome` and does then as the closure says.
async fn greeted<F, T>(welcome: Welcome, then: F) -> Peers
where
    F: FnOnce(TlsStream<TcpStream>) -> T + Send + 'static,
    T: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = Peers::new(credentials(1));
    peers.know(2, &listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        let stream = listener.accept().await.unwrap().0;
        let acceptor = TlsAcceptor::from(credentials(2).server());
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut octets = [0; GREETING_BYTES];
        stream.read_exact(&mut octets).await.unwrap();
        stream.write_all(&welcome.encode()).await.unwrap();
        stream.flush().await.unwrap();
        then(stream).await;
    });
    peers
}

const WELCOME: Welcome = Welcome {
    protocol: PROTOCOL,
    from: NodeIdentity { cluster: CLUSTER, node: 2 },
    is_welcome: true,
};

#[tokio::test]
async fn what_the_greeting_does_not_agree_on_is_said_clearly() {
    let newer = Welcome { protocol: PROTOCOL + 1, ..WELCOME };
    let foreign = Welcome { from: NodeIdentity { cluster: [1; 16], node: 2 }, ..WELCOME };
    let third = Welcome { from: identity(3), ..WELCOME };
    let unwelcome = Welcome { is_welcome: false, ..WELCOME };
    for (welcome, says) in [
        (newer, "speaks version 2 of the protocol"),
        (foreign, "belongs to another cluster"),
        (third, "node 3 was reached instead"),
        (unwelcome, "refuses the connection"),
    ] {
        let peers = greeted(welcome, |stream| async move { drop(stream) }).await;
        let error = peers.ask(2, b"x".to_vec(), LONG).await.unwrap_err();
        assert!(matches!(&error, AskError::NotSent(reason) if reason.contains(says)), "{error}");
        let others: Vec<_> = peers.other_protocols().into_iter().collect();
        let want = (welcome.protocol != PROTOCOL).then_some((2, welcome.protocol));
        assert_eq!(others, Vec::from_iter(want));
    }
}

#[tokio::test]
async fn a_node_that_stops_reading_holds_nobody_beyond_the_deadline() {
    let (begun, beginning) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let peers = greeted(WELCOME, |mut stream| async move {
        stream.read_exact(&mut [0]).await.unwrap();
        begun.send(()).unwrap();
        // Open, and not read any more.
        drop(stopped.await);
        drop(stream);
    })
    .await;
    let first = peers.ask(2, vec![1; ASK_MAX_BYTES], LONG);
    let second = async {
        beginning.await.unwrap();
        // More than the buffers of two sockets take is before it.
        peers.ask(2, b"second".to_vec(), Duration::from_millis(100)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(second, Err(AskError::NotSent(_))), "{second:?}");
    assert!(matches!(first, Err(AskError::Unknown(_))), "{first:?}");
    drop(stop);
}

#[tokio::test]
async fn attempts_are_shared_by_all_who_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = Peers::new(credentials(1));
    peers.know(2, &listener.local_addr().unwrap().to_string());
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            // No TLS.
            stream.write_all(b"no such thing\n").await.unwrap();
            kept.push(stream);
        }
    });
    let asks = (0..500).map(|_| peers.ask(2, b"x".to_vec(), LONG));
    for outcome in futures_util::future::join_all(asks).await {
        assert!(matches!(outcome, Err(AskError::NotSent(_))), "{outcome:?}");
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
}
