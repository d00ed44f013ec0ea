//! Where the answers to writes go, so that a batch of them wakes each thread once.
//!
//! Invariant: whoever was put an answer is told of it before the [`Post`] that put it is gone.

use std::sync::Arc;

use ldap::message::MessageId;

/// Takes the encoded answer to a write; called once, from a thread that must not wait. The answer
/// is empty when the request was abandoned: nothing is to be sent.
pub type Reply = Box<dyn FnOnce(Vec<u8>) + Send>;

/// Takes the answers of all connections of one thread. Called from threads that must not wait.
pub trait Outbox: Send + Sync {
    /// Takes the answer to the request `id` of a connection; an empty one when the request was
    /// abandoned. Nobody need look at it before the next [`Self::flush`].
    fn put(&self, connection: u64, id: MessageId, answer: Vec<u8>);

    /// Answers were put.
    fn flush(&self);
}

/// Where one answer goes.
pub(super) enum To {
    Reply(Reply),
    Outbox { outbox: Arc<dyn Outbox>, connection: u64, id: MessageId },
}

/// Sends answers, and tells the outboxes once at the end.
#[derive(Default)]
pub(super) struct Post {
    /// Few: as many as there are threads that serve connections.
    to_tell: Vec<Arc<dyn Outbox>>,
}

impl Post {
    pub(super) fn send(&mut self, to: To, answer: Vec<u8>) {
        match to {
            To::Reply(reply) => reply(answer),
            To::Outbox { outbox, connection, id } => {
                outbox.put(connection, id, answer);
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
