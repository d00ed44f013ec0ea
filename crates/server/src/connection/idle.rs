//! The end of connections that nothing is heard of.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Closes a silent connection. It is not wound up again for each request: when it goes off, it
/// looks how long ago the last one was.
pub(super) struct IdleTimer {
    /// Zero: it never goes off.
    timeout: Duration,
    /// When the client was last heard of, or answered.
    pub(super) last: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Runs until the first request is there.
    first: Option<Pin<Box<Sleep>>>,
}

impl IdleTimer {
    /// `first`: how long the first request may take; zero: for ever.
    pub(super) fn new(timeout: Duration, first: Duration) -> Self {
        let last = Instant::now();
        let first = Self::until(last, first);
        Self { timeout, last, sleep: Self::until(last, timeout), first }
    }

    /// A request is there.
    pub(super) fn has_asked(&mut self) {
        self.first = None;
    }

    /// `Ready` when no request came in time.
    pub(super) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.first {
            Some(first) => first.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }

    fn until(last: Instant, timeout: Duration) -> Option<Pin<Box<Sleep>>> {
        (!timeout.is_zero()).then(|| Box::pin(sleep_until(last + timeout)))
    }

    /// `timeout` may be another than before: a bind decides.
    pub(super) fn poll_expired(
        &mut self,
        cx: &mut Context<'_>,
        busy: bool,
        timeout: Duration,
    ) -> Poll<()> {
        if self.timeout != timeout {
            (self.timeout, self.sleep) = (timeout, Self::until(self.last, timeout));
        }
        let Some(sleep) = &mut self.sleep else { return Poll::Pending };
        loop {
            ready!(sleep.as_mut().poll(cx));
            if busy {
                self.last = Instant::now();
            }
            if self.last.elapsed() >= timeout {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(self.last + timeout);
        }
    }
}
