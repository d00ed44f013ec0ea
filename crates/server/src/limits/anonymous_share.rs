//! The share of a worker that connections have which have not authenticated: together they are
//! served for a millisecond, then everybody else whom the kernel has news of. Where that takes
//! long, they have a quarter of the time: who is about to sign in is one of them.
//!
//! Invariant: time that nobody else wants is theirs: while some of them wait for their share, the
//! worker does nothing but ask the kernel for news between two rounds.
//! Invariant: who waits is waked in the order in which they came; one that is gone keeps nobody
//! waiting, since each round wakes several.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

/// The share that anonymous connections have of one worker.
#[derive(Default)]
pub(crate) struct AnonymousShare {
    /// What they had of this round.
    used: Cell<Duration>,
    /// How much more than [`ROUND_MAX`] they may have of it.
    more: Cell<Duration>,
    waiting: RefCell<VecDeque<Waiting>>,
    /// Wakes what begins the next round.
    rounds: RefCell<Option<Waker>>,
}

/// Whether a connection is in the queue of those that wait.
#[derive(Default)]
pub(crate) struct Queued(Rc<Cell<bool>>);

struct Waiting {
    waker: Waker,
    is_queued: Rc<Cell<bool>>,
}

impl AnonymousShare {
    /// Ready when an anonymous connection may be served now.
    pub(crate) fn poll_ready(&self, queued: &Queued, cx: &mut Context<'_>) -> Poll<()> {
        if queued.0.get() {
            return Poll::Pending;
        }
        if self.used.get() < ROUND_MAX + self.more.get() {
            return Poll::Ready(());
        }
        queued.0.set(true);
        let (waker, is_queued) = (cx.waker().clone(), Rc::clone(&queued.0));
        self.waiting.borrow_mut().push_back(Waiting { waker, is_queued });
        if let Some(waker) = self.rounds.borrow_mut().take() {
            waker.wake();
        }
        Poll::Pending
    }

    /// An anonymous connection was served for so long.
    pub(crate) fn used(&self, time: Duration) {
        self.used.set(self.used.get() + time);
    }

    /// Begins round after round, while there are some that wait.
    pub(crate) async fn run(&self) {
        loop {
            self.wait_for_some().await;
            let begun = Instant::now();
            self.used.set(Duration::ZERO);
            self.wake_first();
            // Until the kernel was asked whether it has news of others.
            yield_now().await;
            let others = begun.elapsed().saturating_sub(self.used.get());
            self.more.set((others / OF_OTHERS).saturating_sub(ROUND_MAX));
        }
    }

    async fn wait_for_some(&self) {
        poll_fn(|cx| {
            if !self.waiting.borrow().is_empty() {
                return Poll::Ready(());
            }
            *self.rounds.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake_first(&self) {
        let rounds = 1 + self.more.get().as_micros() / ROUND_MAX.as_micros();
        let count = WAKED_MAX.saturating_mul(usize::try_from(rounds).unwrap_or(1));
        for _ in 0..count {
            // Not while it is waked: that may drop a connection, and this is borrowed.
            let Some(first) = self.waiting.borrow_mut().pop_front() else { break };
            first.is_queued.set(false);
            first.waker.wake();
        }
    }
}

/// How long anonymous connections are served in one round.
const ROUND_MAX: Duration = Duration::from_millis(1);
/// They have so much of the time that others had: a third, and so a quarter of all.
const OF_OTHERS: u32 = 3;
/// So many of those that wait are waked for one round; those that find it used up wait again.
const WAKED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;

    #[test]
    fn strangers_wait_when_their_share_is_used_up_and_until_the_next_round() {
        let share = AnonymousShare::default();
        let mut cx = Context::from_waker(Waker::noop());
        let all: Vec<Queued> = (0..40).map(|_| Queued::default()).collect();
        let mut served = || {
            let is_served = |queued: &&Queued| share.poll_ready(queued, &mut cx).is_ready();
            all.iter().filter(is_served).count()
        };
        assert_eq!(served(), 40);
        share.used(ROUND_MAX);
        assert_eq!((served(), share.waiting.borrow().len()), (0, 40));
        assert_eq!((served(), share.waiting.borrow().len()), (0, 40), "each is in line once");
        share.used.set(Duration::ZERO);
        assert_eq!(served(), 0, "those that came first are first");
        share.wake_first();
        assert_eq!((served(), share.waiting.borrow().len()), (WAKED_MAX, 40 - WAKED_MAX));
        drop(share.waiting.borrow_mut().drain(..));
    }
}
