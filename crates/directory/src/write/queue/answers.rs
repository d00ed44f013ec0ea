//! What waits for a batch to be durable, and what is told when it is not.
//!
//! Invariant: a request whose outcome is not known is never told that it failed.

use history::log::CommitError;
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use super::outbox::{Post, To};
use super::waiting::Queued;
use crate::request::cancel::Ending;
use crate::request::completion::{Completion, WriteDone};
use crate::request::refusal::Refusal;
use crate::request::sink;
use crate::write::response::WriteResponse;

/// A request that was decided and waits until what it was decided on is durable.
pub(super) struct Waiting {
    to: To,
    /// What is sent when the batch is durable; encoded by the writer, so that the log has little
    /// to do between two syncs.
    done: WriteDone,
    /// Whether the batch has a record of it.
    is_logged: bool,
}

impl Waiting {
    pub(super) fn new(queued: Queued, answer: WriteResponse, is_logged: bool) -> Self {
        let Queued { request, to, .. } = queued;
        Self { to, done: answer.encode(&request), is_logged }
    }

    /// How many octets wait to be sent.
    pub(super) fn octets(&self) -> usize {
        self.done.bytes.len()
    }

    /// Sends the answer as it was decided.
    fn answer(self, post: &mut Post) {
        post.send(self.to, self.done);
    }

    /// Sends another answer: the batch was not committed.
    fn refuse(self, failed: &Failed, post: &mut Post) {
        let refusal = if self.is_logged { &failed.logged } else { &failed.others };
        let Completion { id, operation, .. } = self.done.completion;
        post.send(self.to, refused((id, operation), refusal.clone()));
    }
}

/// Sends the answers of a batch that is durable and visible.
pub(super) fn answer_all(batch: Vec<Waiting>) {
    let mut post = Post::default();
    batch.into_iter().for_each(|one| one.answer(&mut post));
}

/// Sends other answers to a batch that was lost.
pub(super) fn fail_all(batch: Vec<Waiting>, failed: &Failed) {
    let mut post = Post::default();
    batch.into_iter().for_each(|one| one.refuse(failed, &mut post));
}

/// What the requests of a batch that was not committed are told.
pub(super) struct Failed {
    /// Those that wanted to change something.
    pub(super) logged: Refusal,
    /// Those that changed nothing, but were decided beside those that did.
    pub(super) others: Refusal,
}

impl Failed {
    pub(super) fn new(error: &CommitError) -> Self {
        let others = Refusal::from(error);
        let logged = if error.is_unknown() { unknown() } else { others.clone() };
        Self { logged, others }
    }
}

/// The answer to a request of which nobody knows whether it will have happened.
fn unknown() -> Refusal {
    Refusal::new(
        ResultCode::Other,
        "the outcome is unknown: the disk of the server failed while the change was written; \
         check whether it happened before you try again",
    )
}

/// Refuses requests that nothing was begun for.
pub(super) fn refuse_all(batch: impl IntoIterator<Item = Queued>, refusal: &Refusal) {
    let mut post = Post::default();
    for Queued { request, to, .. } in batch {
        let which = (request.id, Some(request.operation));
        let done = match request.cancel.decide() {
            Ending::Own => refused(which, refusal.clone()),
            // Whoever counts replies gets one for an abandoned request too.
            Ending::Abandoned => {
                WriteDone { bytes: Vec::new(), completion: Completion::of(which.0, which.1) }
            }
            Ending::Canceled => refused(which, Refusal::new(ResultCode::Canceled, "")),
        };
        post.send(to, done);
    }
}

pub(crate) fn refused(which: (MessageId, Option<OperationKind>), refusal: Refusal) -> WriteDone {
    let mut bytes = Vec::new();
    let completion = sink::refuse(&mut bytes, which.0, which.1, refusal);
    WriteDone { bytes, completion }
}

/// The refusal of what comes when the directory is being shut down.
pub(crate) fn shutting_down() -> Refusal {
    Refusal::new(ResultCode::Unavailable, "the server is shutting down")
}
