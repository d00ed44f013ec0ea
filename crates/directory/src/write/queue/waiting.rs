//! Requests that wait for the writer: those who ask take turns.
//!
//! Invariant: the requests of one connection are taken in the order in which they came.
//! Invariant: the bell has a token only while something waits of which the writer, who found
//! nothing, was not told yet.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::request::asker_bytes::{AskerBytes, AskerHeld};
use crate::request::asker_queues::{Asker, AskerQueues, QueueSize};
use crate::request::limits::Limits;
use crate::request::outbox::To;
use crate::write::request::WriteRequest;

/// A request that waits for the writer.
pub(super) struct Queued {
    pub(super) request: Box<WriteRequest>,
    pub(super) to: To,
    pub(super) asker: Asker,
    /// Octets that it takes while it waits; 0 where it is small.
    pub(super) large_bytes: usize,
    /// What it has made of its answer and keeps until it is over, when it is carried out in steps.
    pub(super) kept: Option<AskerHeld>,
}

/// The requests, and the bell that wakes the writer.
pub(super) struct WaitingWrites {
    state: Mutex<State>,
    bell: Sender<()>,
    /// For the writer, who waits for the log as well.
    pub(super) rung: Receiver<()>,
}

struct State {
    queues: AskerQueues<Queued>,
    /// Of the requests that are not small.
    bytes: AskerBytes,
    /// The writer found nothing.
    is_waited_for: bool,
    is_closed: bool,
}

/// Why a request was not taken.
pub(super) enum NotTaken {
    Full,
    TooLarge,
    Closed,
}

/// What the writer finds.
pub(super) enum Found {
    Request(Queued),
    Nothing,
    /// Nothing, and nothing will come.
    Closed,
}

impl WaitingWrites {
    pub(super) fn new(limits: &Limits) -> Self {
        let max = limits.write_queue_max;
        let size =
            QueueSize { max, reserved: max / 2, asker_max: limits.write_queue_asker_max.min(max) };
        let state = State {
            queues: AskerQueues::new(size),
            bytes: AskerBytes::new(limits.write_queue_max_bytes),
            is_waited_for: false,
            is_closed: false,
        };
        let (bell, rung) = bounded(1);
        Self { state: Mutex::new(state), bell, rung }
    }

    /// How many wait, and how many may.
    pub(super) fn depth(&self) -> (usize, usize) {
        self.lock().queues.depth()
    }

    /// Octets that large requests hold here.
    pub(super) fn held_bytes(&self) -> usize {
        self.lock().bytes.held()
    }

    /// A request comes; it is given back with the reason when it is not taken.
    pub(super) fn put(&self, queued: Queued) -> Result<(), (Queued, NotTaken)> {
        let (asker, octets) = (queued.asker, queued.large_bytes);
        let mut state = self.lock();
        if state.is_closed {
            return Err((queued, NotTaken::Closed));
        }
        if octets > 0 && !state.bytes.hold(asker, octets) {
            return Err((queued, NotTaken::TooLarge));
        }
        if let Err(queued) = state.queues.put(asker, queued) {
            if octets > 0 {
                state.bytes.release(asker, octets);
            }
            return Err((queued, NotTaken::Full));
        }
        if std::mem::take(&mut state.is_waited_for) {
            // Under the lock, or the token could come when the request is taken already.
            let _ = self.bell.try_send(());
        }
        Ok(())
    }

    /// The oldest request of the one whose turn it is. The bell rings when there is one again.
    pub(super) fn take(&self) -> Found {
        let mut state = self.lock();
        let Some(queued) = state.queues.take() else {
            let _ = self.rung.try_recv();
            state.is_waited_for = true;
            return if state.is_closed { Found::Closed } else { Found::Nothing };
        };
        if queued.large_bytes > 0 {
            state.bytes.release(queued.asker, queued.large_bytes);
        }
        Found::Request(queued)
    }

    /// The next request as [`Self::take`] gives it; None at once when there is none.
    pub(super) fn try_take(&self) -> Option<Queued> {
        match self.take() {
            Found::Request(queued) => Some(queued),
            Found::Nothing | Found::Closed => None,
        }
    }

    /// The next request as [`Self::take`] gives it; waits for it no longer than `pause`.
    pub(super) fn take_within(&self, pause: Duration) -> Option<Queued> {
        self.try_take().or_else(|| {
            self.rung.recv_timeout(pause).ok()?;
            self.try_take()
        })
    }

    /// Nothing more is taken.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        let _ = self.bell.try_send(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
