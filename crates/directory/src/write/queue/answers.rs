//! What waits for a batch to be durable, and what is told when it is not.
//!
//! Invariant: a request whose outcome is not known is never told that it failed.

use std::sync::Arc;

use history::log::CommitError;
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use super::waiting::Queued;
use crate::forward::outgoing::{Forwarding, Outgoing};
use crate::forward::request::Forwardable;
use crate::request::cancel::{Cancel, Ending};
use crate::request::completion::{Completion, WriteDone};
use crate::request::outbox::{LostUpdate, Post, To, refused};
use crate::request::refusal::Refusal;
use crate::write::request::{WriteOp, WriteRequest};
use crate::write::response::WriteResponse;

/// A request that was decided and waits until what it was decided on is durable.
pub(super) struct Waiting {
    to: To,
    /// What is sent when the batch is durable; encoded by the writer, so that the log has little
    /// to do between two syncs.
    done: WriteDone,
    /// Whether the batch has a record of it.
    is_logged: bool,
    /// What is needed to ask another node, if that may be.
    forwardable: Option<Box<Forwardable>>,
}

impl Waiting {
    pub(super) fn new(queued: Queued, answer: WriteResponse, is_logged: bool) -> Self {
        let Queued { mut request, to, .. } = queued;
        let forwardable = request.forwardable.take();
        Self { to, done: answer.encode(&request), is_logged, forwardable }
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
    fn refuse(self, failed: &Failed, forwarding: Option<&Arc<Forwarding>>, post: &mut Post) {
        let Self { to, done, is_logged, forwardable } = self;
        let refusal = if is_logged { &failed.logged } else { &failed.others };
        let Completion { id, operation, .. } = done.completion;
        let operation = operation.unwrap_or(OperationKind::Modify);
        // It is too late to cancel it.
        let (cancel, is_begun) = (Cancel::default(), true);
        let lost = Lost { id, operation, cancel, to, forwardable, is_begun };
        lost.give_up(failed, is_logged, refusal, forwarding, post);
    }
}

/// A request that the log did not take.
struct Lost {
    id: MessageId,
    operation: OperationKind,
    cancel: Cancel,
    to: To,
    forwardable: Option<Box<Forwardable>>,
    is_begun: bool,
}

impl Lost {
    /// Has another node asked, if it may be the one to decide; else refuses it.
    fn give_up(
        self,
        failed: &Failed,
        is_logged: bool,
        refusal: &Refusal,
        forwarding: Option<&Arc<Forwarding>>,
        post: &mut Post,
    ) {
        let Self { id, operation, cancel, to, forwardable, is_begun } = self;
        let lost = match &failed.lost {
            Some(LostUpdate::Unknown) if !is_logged => LostUpdate::NotDeciding { leader: None },
            Some(lost) => lost.clone(),
            None => return post.send(to, refused((id, Some(operation)), refusal.clone())),
        };
        match (to, forwardable, forwarding) {
            (To::Forwarded(reply), ..) => reply(Err(lost)),
            (to, Some(forwardable), Some(forwarding)) => forwarding.take_over(Outgoing {
                forwardable: *forwardable,
                id,
                operation,
                cancel,
                to,
                is_begun,
                may_have_happened: lost == LostUpdate::Unknown,
            }),
            (to, ..) => post.send(to, refused((id, Some(operation)), refusal.clone())),
        }
    }
}

/// Sends the answers of a batch that is durable and visible.
pub(super) fn answer_all(batch: Vec<Waiting>) {
    let mut post = Post::default();
    batch.into_iter().for_each(|one| one.answer(&mut post));
}

/// Sends other answers to a batch that was lost.
pub(super) fn fail_all(batch: Vec<Waiting>, failed: &Failed, forwarding: Option<&Arc<Forwarding>>) {
    let mut post = Post::default();
    batch.into_iter().for_each(|one| one.refuse(failed, forwarding, &mut post));
}

/// Gives up requests that are not over with a batch that was lost, or that cannot be decided here.
pub(super) fn give_up(
    batch: impl IntoIterator<Item = Queued>,
    failed: &Failed,
    forwarding: Option<&Arc<Forwarding>>,
) {
    if failed.lost.is_none() || forwarding.is_none() {
        return refuse_all(batch, &failed.logged);
    }
    let mut post = Post::default();
    for Queued { request, to, .. } in batch {
        let is_begun = request.cancel.is_decided();
        // A part of it has happened already.
        let has_steps = matches!(&request.op, WriteOp::SubtreeDelete(op) if op.is_begun());
        let WriteRequest { id, operation, cancel, forwardable, .. } = *request;
        let lost = Lost { id, operation, cancel, to, forwardable, is_begun };
        match has_steps {
            true => lost.give_up(&failed.unknown(), true, &failed.logged, forwarding, &mut post),
            false => lost.give_up(failed, false, &failed.logged, forwarding, &mut post),
        }
    }
}

/// What the requests of a batch that was not committed are told.
pub(super) struct Failed {
    /// Those that wanted to change something.
    pub(super) logged: Refusal,
    /// Those that changed nothing, but were decided beside those that did.
    pub(super) others: Refusal,
    /// Whether another node may be asked, and what is known.
    lost: Option<LostUpdate>,
}

impl Failed {
    /// They were decided on a state that is not going to be.
    pub(super) fn decided_in_vain(refusal: Refusal) -> Self {
        let lost = Some(LostUpdate::NotDeciding { leader: None });
        Self { logged: refusal.clone(), others: refusal, lost }
    }

    /// The same of what has happened in part.
    fn unknown(&self) -> Self {
        let Self { logged, others, .. } = self;
        let (logged, others) = (logged.clone(), others.clone());
        Self { logged, others, lost: Some(LostUpdate::Unknown) }
    }

    pub(super) fn new(error: &CommitError) -> Self {
        let others = Refusal::from(error);
        let logged = if error.is_unknown() { unknown() } else { others.clone() };
        let lost = match error {
            CommitError::NotDeciding { leader } => {
                Some(LostUpdate::NotDeciding { leader: leader.clone() })
            }
            CommitError::Stale { .. } | CommitError::NoQuorum => {
                Some(LostUpdate::NotDeciding { leader: None })
            }
            CommitError::Unknown { .. } => Some(LostUpdate::Unknown),
            CommitError::Busy
            | CommitError::NoSpace
            | CommitError::TooLarge { .. }
            | CommitError::Fatal(_) => None,
        };
        Self { logged, others, lost }
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
