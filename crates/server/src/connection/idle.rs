//! The end of connections that nothing is heard of: idle ones, and those that a client has ended on
//! its side.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ldap::result::ResultCode;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Connection, Running};
use crate::pools::scan_pool;

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

impl Connection {
    /// `Ready` when a client that has ended its side is given up, while it has jobs or a bind that
    /// waits in line. It may still read, or be gone:
    /// TCP says so only when something is sent to it, and a search may look long before it does.
    pub(super) fn poll_half_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.worker.shared.limits().half_closed_timeout;
        let is_in_line = self.bind_throttle.is_waiting();
        let has_nothing = self.jobs.is_empty() && !is_in_line;
        // What goes on with what changes has no end of its own that could be waited for.
        let goes_on = |job: &Running| job.follows.is_some();
        let has_no_end = !has_nothing && !is_in_line && self.jobs.iter().all(goes_on);
        if self.state.is_half_closed() && has_no_end && self.output.is_done() {
            self.log.ends("closed by the client");
            return Poll::Ready(());
        }
        if !self.state.is_half_closed() || has_nothing || timeout.is_zero() {
            return Poll::Pending;
        }
        if !self.output.is_done() {
            // It is there as long as it reads. Jobs wait for it, and not it for them.
            self.state.has_delivered();
            return Poll::Pending;
        }
        loop {
            ready!(self.state.poll_silence(cx, timeout));
            // A bind that waits is for nobody but its own client, who seems to be gone.
            let is_begun = |job: &Running| scan_pool::has_thread(&job.deliveries);
            if self.is_hashing() || is_in_line || self.jobs.iter().any(is_begun) {
                break;
            }
            // It is for others that its searches have not been begun: that is not its fault.
            self.state.has_delivered();
        }
        tracing::debug!(connection = self.id.0, "closed: the client ended, its searches did not");
        self.log.ends("closed by the client before its searches ended");
        Poll::Ready(())
    }

    /// `Ready` when the session was ended because the client was silent for too long.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.idle.poll_first(cx).is_ready() {
            self.idle.has_asked();
            self.dismiss(ResultCode::TimeLimitExceeded, "no request came in time");
            return Poll::Ready(());
        }
        let busy = self.session.outstanding() > 0 || self.output.waiting() > 0;
        let timeout = self.session.idle_limit();
        let timeout = timeout.unwrap_or(self.worker.shared.limits().idle_timeout);
        ready!(self.idle.poll_expired(cx, busy, timeout));
        self.dismiss(ResultCode::TimeLimitExceeded, "the connection was idle for too long");
        Poll::Ready(())
    }
}
