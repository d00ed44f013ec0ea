//! Where answers wait for their connection: those of the write queue, and what a peer did not take.
//!
//! Invariant: a worker has one [`Inbox`], which other threads fill; mailboxes are seen by its own
//! thread alone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use directory::{Outbox, WriteDone};
use history::record::Who;
use tokio::sync::Notify;

use crate::connection::sessions::ConnectionStatus;

/// Names a connection of one worker; never used twice.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Answers of the write queue. There are as many as requests are outstanding, which is limited for
/// each connection; so this need not be.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    answers: Mutex<Vec<Arrived>>,
    pub(crate) arrived: Notify,
}

/// An answer to a connection.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) connection: ConnectionId,
    pub(crate) done: WriteDone,
}

impl Inbox {
    /// Takes all answers there are in exchange for an empty list.
    pub(crate) fn exchange(&self, empty: &mut Vec<Arrived>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *answers, empty);
    }
}

impl Outbox for Inbox {
    fn put(&self, connection: u64, done: WriteDone) {
        let arrived = Arrived { connection: ConnectionId(connection), done };
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(arrived);
    }

    fn flush(&self) {
        self.arrived.notify_one();
    }
}

/// Where answers wait for their connection.
pub(crate) struct Mailbox {
    /// What others see of the connection.
    pub(crate) status: Arc<ConnectionStatus>,
    /// Who they see it as.
    shown_as: RefCell<Arc<Who>>,
    answers: RefCell<VecDeque<WriteDone>>,
    /// What the peer has not taken of an answer that was sent.
    left: RefCell<Vec<u8>>,
    waker: RefCell<Option<Waker>>,
}

impl Mailbox {
    pub(crate) fn new(status: Arc<ConnectionStatus>, who: &Arc<Who>) -> Self {
        Self {
            status,
            shown_as: RefCell::new(Arc::clone(who)),
            answers: RefCell::default(),
            left: RefCell::default(),
            waker: RefCell::default(),
        }
    }

    /// Whether others see that it is this identity's.
    pub(crate) fn is_shown_as(&self, who: &Arc<Who>) -> bool {
        Arc::ptr_eq(&self.shown_as.borrow(), who)
    }

    /// Others see that it is this identity's.
    pub(crate) fn set_shown_as(&self, who: Arc<Who>) {
        self.shown_as.replace(who);
    }

    /// Octets of answers that the peer has not taken.
    pub(crate) fn left_bytes(&self) -> usize {
        self.left.borrow().len()
    }

    /// Adds an answer.
    pub(crate) fn put(&self, done: WriteDone) {
        self.answers.borrow_mut().push_back(done);
        self.wake();
    }

    /// The oldest answer.
    pub(crate) fn take(&self) -> Option<WriteDone> {
        self.answers.borrow_mut().pop_front()
    }

    /// The connection has to send this before anything else.
    pub(crate) fn leave(&self, octets: &[u8]) {
        self.left.borrow_mut().extend_from_slice(octets);
        self.wake();
    }

    /// Whether there is something that has to be sent before anything else.
    pub(crate) fn has_left(&self) -> bool {
        !self.left.borrow().is_empty()
    }

    /// How many octets are to be sent before anything else.
    pub(crate) fn left(&self) -> usize {
        self.left.borrow().capacity()
    }

    /// What is to be sent before anything else.
    pub(crate) fn take_left(&self) -> Vec<u8> {
        self.left.take()
    }

    /// Whom to wake.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut registered = self.waker.borrow_mut();
        if !registered.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *registered = Some(waker.clone());
        }
    }

    /// Has the connection look at what is here.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// That of no connection.
#[cfg(test)]
impl Default for Mailbox {
    fn default() -> Self {
        let who = Arc::default();
        Self::new(ConnectionStatus::nobody(&who), &who)
    }
}
