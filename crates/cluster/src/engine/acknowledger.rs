//! Waits for the outcome of batches and tells it, in the order in which they were accepted.
//!
//! Invariant: every batch is told of exactly once. As long as this server decides it waits for the
//! outcome; once it does not, no longer than the limit, because the outcome may come only when the
//! others can be reached again.
//! Invariant: after a batch was given up nothing is decided in its reign any more: it is in the
//! log, and may be committed yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use history::log::{CommitDone, CommitError, Reign, Role};
use openraft::errors::{ClientWriteError, Fatal};
use openraft::raft::WriteResult;
use store::Lsn;
use tokio::sync::{mpsc, watch};

use super::command::Standing;
use crate::errands::Errands;
use crate::shared::Shared;
use crate::types::{RecordOutcome, Types};

/// What became of each record of a batch, in order.
pub(super) type Outcomes = BoxStream<'static, Result<WriteResult<Types>, Fatal<Types>>>;

/// A batch that the engine was given.
pub(super) struct Pending {
    pub(super) reign: Reign,
    pub(super) last: Lsn,
    pub(super) outcomes: Result<Outcomes, CommitError>,
    pub(super) done: CommitDone,
}

/// Waits for the outcome of batches.
pub(super) struct Acknowledger {
    pub(super) shared: Arc<Shared>,
    pub(super) errands: Errands,
    pub(super) accepted: mpsc::UnboundedReceiver<Pending>,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) outcome_wait: Duration,
}

impl Acknowledger {
    /// Until nothing more is accepted.
    pub(super) async fn run(mut self) {
        while let Some(Pending { reign, last, outcomes, done }) = self.accepted.recv().await {
            let outcome = match outcomes {
                Err(error) => Err(error),
                Ok(outcomes) => {
                    let standing = self.standing.clone();
                    tokio::select! {
                        biased;
                        outcome = outcome_of(outcomes, &self.shared) => outcome.map(|()| last),
                        () = given_up(standing, reign, self.outcome_wait) => {
                            // Before anybody hears of it: nothing more is decided in this reign.
                            self.shared.give_up(reign);
                            Err(unknown(
                                "the server lost the lead before the change was acknowledged",
                            ))
                        }
                    }
                }
            };
            self.shared.in_flight.fetch_sub(1, Ordering::AcqRel);
            self.errands.give(move || done(outcome));
        }
    }
}

/// Waits until all records of a batch have their outcome, which is the same for all.
async fn outcome_of(mut outcomes: Outcomes, shared: &Shared) -> Result<(), CommitError> {
    let mut all = Ok(());
    while let Some(one) = outcomes.next().await {
        let outcome = match one {
            Ok(Ok(written)) => match written.response {
                RecordOutcome::Applied => Ok(()),
                RecordOutcome::Void => {
                    let expected = Lsn(shared.progress.applied().0 + 1);
                    Err(CommitError::Stale { expected })
                }
            },
            Ok(Err(error)) => Err(not_written(error)),
            Err(fatal) => Err(unknown(&format!("the cluster's log failed: {fatal}"))),
        };
        all = all.and(outcome);
    }
    all
}

fn not_written(error: ClientWriteError<Types>) -> CommitError {
    match error {
        // Refused before it was put into the log.
        ClientWriteError::ForwardToLeader(forward) => CommitError::NotDeciding {
            leader: forward.leader_node.map(|node| node.url).filter(|url| !url.is_empty()),
        },
        ClientWriteError::LogEntryDiscarded(_) => {
            unknown("another server took the lead before the change was acknowledged")
        }
        other @ (ClientWriteError::ChangeMembershipError(_)
        | ClientWriteError::PreconditionFailed(_)) => unknown(&other.to_string()),
    }
}

fn unknown(reason: &str) -> CommitError {
    CommitError::Unknown { reason: reason.to_owned() }
}

/// Waits until this server has not decided in `reign` for `wait`.
async fn given_up(mut standing: watch::Receiver<Standing>, reign: Reign, wait: Duration) {
    loop {
        let lost = standing.wait_for(|now| now.role != Role::Deciding(reign)).await;
        // Without a driver nothing will be heard any more.
        let Ok(since) = lost.map(|lost| lost.since) else { return };
        tokio::select! {
            biased;
            back = standing.wait_for(|now| now.role == Role::Deciding(reign)) => {
                if back.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep_until(since + wait) => return,
        }
    }
}
