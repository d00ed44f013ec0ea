//! What the rest of the server asks of the driver, and what that tells of this server.

use history::log::{
    BarrierDone, CommitDone, CommitError, LogBatch, MemberChange, MembersDone, Reign, Role,
};
use tokio::time::Instant;

/// What the rest of the server asks of the driver.
pub(super) enum Command {
    /// A batch to be committed.
    Commit { reign: Reign, batch: LogBatch, done: CommitDone },
    /// A state that has everything that was acknowledged before.
    Linearizable(BarrierDone),
    /// The same, of this server or not at all: another one asks.
    ReadIndex(BarrierDone),
    /// This server is about to end: another is to lead.
    Retire,
    /// More of the state is durable without the log.
    Forget,
    /// Who takes part is to change.
    Change { change: MemberChange, done: MembersDone },
    /// The end. The sender is told when it is there.
    Close(std::sync::mpsc::SyncSender<()>),
}

/// What this server is, and since when.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) role: Role,
    pub(super) since: Instant,
}

pub(super) fn closed() -> CommitError {
    CommitError::Fatal("the server is shutting down".to_owned())
}
