//! Where the answers to writes go, so that a batch of them wakes each thread once.
//!
//! Invariant: whoever was put an answer is told of it before the [`Post`] that put it is gone.

use std::sync::Arc;

use ldap::message::{MessageId, OperationKind};

use crate::request::completion::WriteDone;
use crate::request::refusal::Refusal;
use crate::request::sink;

/// Takes the response to a write; called once, from a thread that must not wait.
pub type Reply = Box<dyn FnOnce(WriteDone) + Send>;

/// Takes the answers of all connections of one thread. Called from threads that must not wait.
pub trait Outbox: Send + Sync {
    /// Takes the response to a request of a connection. Nobody need look at it before the next
    /// [`Self::flush`].
    fn put(&self, connection: u64, done: WriteDone);

    /// Answers were put.
    fn flush(&self);
}

/// Where one answer goes.
pub(crate) enum To {
    Reply(Reply),
    Outbox {
        outbox: Arc<dyn Outbox>,
        connection: u64,
    },
    /// To the node that has handed it on.
    Forwarded(ForwardedReply),
}

/// Takes the response to an update of another node, or why there is none; called once, from a
/// thread that must not wait.
pub(crate) type ForwardedReply = Box<dyn FnOnce(Result<WriteDone, LostUpdate>) + Send>;

/// Why an update was not decided, or is not known to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum LostUpdate {
    /// Another node decides; nothing of it happened.
    NotDeciding { leader: Option<String> },
    /// It may have happened.
    Unknown,
}

/// Sends answers, and tells the outboxes once at the end.
#[derive(Default)]
pub(crate) struct Post {
    /// Few: as many as there are threads that serve connections.
    to_tell: Vec<Arc<dyn Outbox>>,
}

impl Post {
    pub(crate) fn send(&mut self, to: To, done: WriteDone) {
        match to {
            To::Reply(reply) => reply(done),
            To::Forwarded(reply) => reply(Ok(done)),
            To::Outbox { outbox, connection } => {
                outbox.put(connection, done);
                let is_same = |known: &Arc<dyn Outbox>| Arc::ptr_eq(known, &outbox);
                if !self.to_tell.iter().any(is_same) {
                    self.to_tell.push(outbox);
                }
            }
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.to_tell.iter().for_each(|outbox| outbox.flush());
    }
}

/// The refusal of a request, as its response.
pub(crate) fn refused(which: (MessageId, Option<OperationKind>), refusal: Refusal) -> WriteDone {
    let mut bytes = Vec::new();
    let completion = sink::refuse(&mut bytes, which.0, which.1, refusal);
    WriteDone { bytes, completion }
}
