//! Nodes over real sockets with real certificates, and whoever else comes to the door.

mod peers;
mod strangers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use environment::{Clock as _, SystemClock, Timestamp};
use tokio::sync::Semaphore;

use super::super::{
    AppendRequest, AppendResponse, Authority, NodeIdentity, Peers, Responding, TransferRequest,
    TransferResponse, VoteRequest, VoteResponse,
};
use super::*;
use crate::types::Vote;

const CLUSTER: [u8; 16] = *b"cluster of tests";

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::new(CLUSTER, now()).unwrap());

fn now() -> Timestamp {
    SystemClock::new().now()
}

fn identity(node: u64) -> NodeIdentity {
    NodeIdentity { cluster: CLUSTER, node }
}

fn credentials(node: u64) -> Credentials {
    issued_by(&AUTHORITY, node)
}

fn issued_by(authority: &Authority, node: u64) -> Credentials {
    let directory = tempfile::tempdir().unwrap();
    authority.issue(node, now()).unwrap().write(directory.path()).unwrap();
    Credentials::load(directory.path(), identity(node), now()).unwrap()
}

/// Waits until something is so; fails after a time that no machine needs.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Answers as it is told.
struct Scripted {
    /// Appends wait for a permit each.
    appends: Arc<Semaphore>,
    /// Asks wait for a permit each.
    asks: Arc<Semaphore>,
    waiting_appends: Arc<AtomicUsize>,
    waiting_asks: Arc<AtomicUsize>,
    /// Indexes of the entries, in the order in which they came.
    seen: Mutex<Vec<u64>>,
    /// What appends are answered with that begin at an index.
    responses: Mutex<BTreeMap<u64, Result<AppendResponse, String>>>,
    /// Node 1 was removed from the cluster.
    has_removed: bool,
}

impl Default for Scripted {
    fn default() -> Self {
        let open = || Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self {
            appends: open(),
            asks: open(),
            waiting_appends: Arc::default(),
            waiting_asks: Arc::default(),
            seen: Mutex::default(),
            responses: Mutex::default(),
            has_removed: false,
        }
    }
}

async fn pass(gate: Arc<Semaphore>, waiting: Arc<AtomicUsize>) {
    waiting.fetch_add(1, Ordering::SeqCst);
    gate.acquire().await.unwrap().forget();
    waiting.fetch_sub(1, Ordering::SeqCst);
}

impl Handler for Scripted {
    fn term(&self) -> u64 {
        1
    }

    fn hears(&self, from: u64) -> bool {
        !(self.has_removed && from == 1)
    }

    fn append(&self, from: u64, request: AppendRequest) -> Responding<AppendResponse> {
        assert_eq!(from, 1);
        let indexes = request.entries.iter().map(|entry| entry.log_id.index);
        self.seen.lock().unwrap().extend(indexes);
        let first = request.entries.first().map(|entry| entry.log_id.index);
        let Some(first) = first else {
            return Box::pin(std::future::ready(Ok(AppendResponse::Success)));
        };
        let response = self.responses.lock().unwrap().remove(&first);
        let passing = pass(Arc::clone(&self.appends), Arc::clone(&self.waiting_appends));
        Box::pin(async move {
            passing.await;
            response.unwrap_or(Ok(AppendResponse::Success))
        })
    }

    fn vote(&self, _: u64, request: VoteRequest) -> Responding<VoteResponse> {
        let response = VoteResponse::new(request.vote, request.last_log_id, true);
        Box::pin(std::future::ready(Ok(response)))
    }

    fn pre_vote(&self, _: u64, request: VoteRequest) -> Responding<VoteResponse> {
        let response = VoteResponse::new(request.vote, request.last_log_id, false);
        Box::pin(std::future::ready(Ok(response)))
    }

    fn transfer(&self, _: u64, request: TransferRequest) -> Responding<TransferResponse> {
        let error = openraft::raft::TransferLeaderError::VoteChanged {
            expected: *request.from_leader(),
            actual: Vote::new(9, 9),
        };
        Box::pin(std::future::ready(Ok(Err(error))))
    }

    fn ask(&self, from: u64, mut octets: Vec<u8>) -> Responding<Vec<u8>> {
        if octets.is_empty() {
            return Box::pin(std::future::ready(Err("nothing was asked".to_owned())));
        }
        let passing = pass(Arc::clone(&self.asks), Arc::clone(&self.waiting_asks));
        Box::pin(async move {
            passing.await;
            octets.reverse();
            octets.push(u8::try_from(from).unwrap());
            Ok(octets)
        })
    }
}

/// Node 2, which serves.
struct Node2 {
    handler: Arc<Scripted>,
    address: SocketAddr,
    server: PeerServer,
}

async fn node_2(handler: Scripted, limits: ServerLimits) -> Node2 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handler = Arc::new(handler);
    let serving = Arc::clone(&handler) as Arc<dyn Handler>;
    let server = serve(listener, credentials(2), serving, limits, &Peers::new(credentials(2)));
    Node2 { handler, address, server }
}

impl Node2 {
    /// The other nodes as node 1 has them.
    fn peers(&self) -> Peers {
        let peers = Peers::new(credentials(1));
        peers.know(2, &self.address.to_string());
        peers
    }
}

const LONG: Duration = Duration::from_secs(30);
