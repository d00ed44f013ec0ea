//! Who answers other nodes.
//!
//! Invariant: a handler never blocks the thread: everything that is sent waits there.

use futures_util::future::BoxFuture;

use super::{
    AppendRequest, AppendResponse, CopyRequest, CopyResponse, TransferRequest, TransferResponse,
    VoteRequest, VoteResponse,
};
use crate::receiver::MemberReceiver;

/// A response that comes, or the reason why there is none, for the node that asked.
pub type Responding<T> = BoxFuture<'static, Result<T, String>>;

/// Answers other nodes. Each future is polled for the first time before the next request of the
/// connection is handed over, and dropped when the connection ends.
pub trait Handler: Send + Sync + 'static {
    /// The term of this node, as far as it is known; it may be behind.
    fn term(&self) -> u64;

    /// Whether node `from` is one of the cluster, as far as is known here. One that was removed is
    /// let in for asks alone, so that it can be told.
    fn hears(&self, _from: u64) -> bool {
        true
    }

    /// Entries for the log, and heartbeats, of node `from`.
    fn append(&self, from: u64, request: AppendRequest) -> Responding<AppendResponse>;

    /// The request of node `from` for a vote.
    fn vote(&self, from: u64, request: VoteRequest) -> Responding<VoteResponse>;

    /// The question of node `from` whether it would get a vote.
    fn pre_vote(&self, from: u64, request: VoteRequest) -> Responding<VoteResponse>;

    /// The request of node `from` to take over the lead.
    fn transfer(&self, from: u64, request: TransferRequest) -> Responding<TransferResponse>;

    /// A copy of the data of node `from`.
    fn copy(&self, _from: u64, _request: CopyRequest) -> Responding<CopyResponse> {
        Box::pin(std::future::ready(Err("no copies are taken here".to_owned())))
    }

    /// Octets of node `from`, which the transport does not understand.
    fn ask(&self, from: u64, octets: Vec<u8>) -> Responding<Vec<u8>>;
}

/// What answers octets of another node.
pub type Asks = Box<dyn Fn(u64, Vec<u8>) -> Responding<Vec<u8>> + Send + Sync>;

/// The engine as a handler, beside something that answers asks.
pub struct EngineHandler {
    receiver: MemberReceiver,
    asks: Asks,
}

impl EngineHandler {
    /// Hands what the engine understands to `receiver`, and everything else to `asks`.
    pub fn new(receiver: MemberReceiver, asks: Asks) -> Self {
        Self { receiver, asks }
    }
}

impl Handler for EngineHandler {
    fn term(&self) -> u64 {
        self.receiver.term()
    }

    fn hears(&self, from: u64) -> bool {
        !self.receiver.has_removed(from)
    }

    fn append(&self, _: u64, request: AppendRequest) -> Responding<AppendResponse> {
        let receiver = self.receiver.clone();
        Box::pin(async move { receiver.append(request).await })
    }

    fn vote(&self, _: u64, request: VoteRequest) -> Responding<VoteResponse> {
        let receiver = self.receiver.clone();
        Box::pin(async move { receiver.vote(request).await })
    }

    fn pre_vote(&self, _: u64, request: VoteRequest) -> Responding<VoteResponse> {
        let receiver = self.receiver.clone();
        Box::pin(async move { receiver.pre_vote(request).await })
    }

    fn transfer(&self, _: u64, request: TransferRequest) -> Responding<TransferResponse> {
        let receiver = self.receiver.clone();
        Box::pin(async move { receiver.transfer(request).await })
    }

    fn copy(&self, from: u64, request: CopyRequest) -> Responding<CopyResponse> {
        let receiver = self.receiver.clone();
        Box::pin(async move { receiver.copy(from, request).await })
    }

    fn ask(&self, from: u64, octets: Vec<u8>) -> Responding<Vec<u8>> {
        (self.asks)(from, octets)
    }
}
