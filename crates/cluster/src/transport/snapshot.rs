//! Sending a snapshot to another node.
//!
//! Invariant: never on a connection that heartbeats, votes or entries use.

use openraft::OptionalSend;
use openraft::alias::SnapshotOf;
use openraft::errors::{ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::SnapshotResponse;

use crate::types::{SnapshotFile, Types, Vote};

/// Sends a snapshot to a node.
///
/// # Errors
/// Always: a node that lacks what the log no longer has starts from a copy.
pub(crate) async fn send(
    _node: u64,
    _vote: Vote,
    _snapshot: SnapshotOf<Types, SnapshotFile>,
    _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
    _option: RPCOption,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    Err(StreamingError::Unreachable(Unreachable::from_string("snapshots are not sent yet")))
}
