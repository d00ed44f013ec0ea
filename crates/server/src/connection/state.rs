//! The states of a session: from reading its messages to what is done when all is sent.
//!
//! Invariant: a transition consumes the state before it, and with that the timer that only this
//! state needs.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Where a session is.
#[derive(Default)]
pub(super) enum State {
    /// Messages are read and handled.
    #[default]
    Open,
    /// The client has ended its side, as a look ahead has found: what it sent before is handled
    /// first.
    EndSeen(Timer),
    /// Everything that the client has sent was read: it gets what is under way.
    HalfClosed(Timer),
    /// Nothing more is handled: what was made is sent, then the session ends like this.
    Draining { ending: Ending, deadline: Timer },
}

/// Runs once it is begun.
type Timer = Option<Pin<Box<Sleep>>>;

/// How a session ends, or what interrupts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The connection is broken: nothing can be sent.
    Lost,
    /// The client is done.
    Closed,
    /// A notice says why the client is disconnected, and it should have the time to read it.
    Dismissed,
    /// The answer to StartTLS was sent.
    StartTls,
}

impl State {
    /// The client will send nothing more, but messages of it may be left.
    pub(super) fn see_end(self) -> Self {
        match self {
            Self::Open => Self::EndSeen(None),
            Self::EndSeen(_) | Self::HalfClosed(_) | Self::Draining { .. } => self,
        }
    }

    /// All was read that the client has sent.
    pub(super) fn reach_end(self) -> Self {
        match self {
            Self::Open => Self::HalfClosed(None),
            Self::EndSeen(silence) | Self::HalfClosed(silence) => Self::HalfClosed(silence),
            Self::Draining { .. } => self,
        }
    }

    /// No further message is handled.
    pub(super) fn drain(self, ending: Ending) -> Self {
        match self {
            Self::Open | Self::EndSeen(_) | Self::HalfClosed(_) => {
                Self::Draining { ending, deadline: None }
            }
            Self::Draining { deadline, .. } => Self::Draining { ending, deadline },
        }
    }

    /// Whether the client may send more.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Whether further messages are handled.
    pub(super) fn is_handling(&self) -> bool {
        match self {
            Self::Open | Self::EndSeen(_) => true,
            Self::HalfClosed(_) | Self::Draining { .. } => false,
        }
    }

    /// Whether the client has ended its side, and is served all the same.
    pub(super) fn is_half_closed(&self) -> bool {
        match self {
            Self::EndSeen(_) | Self::HalfClosed(_) => true,
            Self::Open | Self::Draining { .. } => false,
        }
    }

    /// Whether nothing follows what was made.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self, Self::Draining { .. })
    }

    /// Something was delivered, or it is not the client's fault that nothing was.
    pub(super) fn has_delivered(&mut self) {
        match self {
            Self::EndSeen(silence) | Self::HalfClosed(silence) => *silence = None,
            Self::Open | Self::Draining { .. } => {}
        }
    }

    /// `Ready` when nothing was delivered for so long to a client that has ended its side.
    pub(super) fn poll_silence(&mut self, cx: &mut Context<'_>, timeout: Duration) -> Poll<()> {
        match self {
            Self::EndSeen(silence) | Self::HalfClosed(silence) => poll(silence, cx, timeout),
            Self::Open | Self::Draining { .. } => Poll::Pending,
        }
    }

    /// `Ready` when the client does not take the last words in time.
    pub(super) fn poll_deadline(&mut self, cx: &mut Context<'_>, timeout: Duration) -> Poll<()> {
        match self {
            // TLS is about to come; then it is time.
            Self::Draining { ending: Ending::StartTls, .. } => Poll::Pending,
            Self::Draining { deadline, .. } => poll(deadline, cx, timeout),
            Self::Open | Self::EndSeen(_) | Self::HalfClosed(_) => Poll::Pending,
        }
    }
}

fn poll(timer: &mut Timer, cx: &mut Context<'_>, timeout: Duration) -> Poll<()> {
    timer.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn the_end_of_a_client_is_seen_before_it_is_reached() {
        let state = State::default();
        assert!(state.is_handling() && !state.is_half_closed());
        let state = state.see_end();
        assert!(state.is_handling() && state.is_half_closed());
        let state = state.reach_end().see_end();
        assert!(!state.is_handling() && state.is_half_closed());
        let state = state.drain(Ending::Closed).see_end().reach_end();
        assert!(state.is_draining() && !state.is_handling() && !state.is_half_closed());
        assert!(State::Open.reach_end().is_half_closed());
    }

    #[test]
    fn timers_run_in_their_own_states_alone() {
        let (soon, late) = (Duration::from_millis(1), Duration::from_secs(3_600));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let cx = &mut Context::from_waker(Waker::noop());
            let mut open = State::Open;
            assert!(open.poll_silence(cx, soon).is_pending());
            let mut ended = open.see_end();
            poll_fn(|cx| ended.poll_silence(cx, soon)).await;
            let mut ended = ended.reach_end();
            assert!(ended.poll_silence(cx, late).is_ready(), "it has gone off");
            ended.has_delivered();
            assert!(ended.poll_silence(cx, late).is_pending(), "it begins anew");
            assert!(ended.poll_deadline(cx, soon).is_pending());
            let mut interrupted = ended.drain(Ending::StartTls);
            assert!(interrupted.poll_deadline(cx, soon).is_pending());
            let mut dismissed = interrupted.drain(Ending::Dismissed);
            poll_fn(|cx| dismissed.poll_deadline(cx, soon)).await;
            assert!(dismissed.poll_silence(cx, soon).is_pending());
            assert!(dismissed.drain(Ending::Closed).poll_deadline(cx, late).is_ready());
        });
    }
}
