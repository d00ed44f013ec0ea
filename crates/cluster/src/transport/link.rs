//! The way to one node for one purpose: a connection that is made anew after it broke.
//!
//! Invariant: at most one connection is being made at a time, and after failures ever more seldom:
//! a node that is gone costs next to nothing.
//! Invariant: connecting goes on when who wanted it has given up, so that short deadlines still
//! end up with a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::connection::{Connection, DialError, Dialing};
use super::frame::Purpose;
use super::greeting::GreetingError;

/// The wait after the first failure, in milliseconds; each further one doubles it.
pub const BACKOFF_MIN_MS: u64 = 25;
/// The longest wait between two attempts, in milliseconds: a vote must not miss a node that has
/// come back.
pub const BACKOFF_MAX_MS: u64 = 400;
/// How long one that is turned away tries again every [`BACKOFF_MIN_MS`] before that counts as a
/// failure, in milliseconds: others come from the same machine, and each time another may get in.
pub const TURNED_AWAY_MAX_MS: u64 = 1_000;
/// A connection that breaks before this many milliseconds is a failure like one that is refused.
const SHORT_LIVED_MS: u64 = 1_000;

/// The way to one node for one purpose.
pub(crate) struct Link {
    /// Where the node was at first.
    first: Dialing,
    state: Mutex<State>,
    /// Told after every attempt.
    attempts: watch::Sender<u64>,
}

struct State {
    address: String,
    phase: Phase,
    failures: u32,
    /// When the next attempt may be made.
    next: Instant,
    error: String,
    /// The version of the protocol that the node spoke last, if it was another one.
    other_protocol: Option<u16>,
    /// Whether the log says that the node cannot be reached.
    is_reported: bool,
}

enum Phase {
    Idle,
    Connecting,
    Open { connection: Arc<Connection>, since: Instant },
}

impl Link {
    pub(crate) fn new(first: Dialing) -> Self {
        let state = State {
            address: first.address.clone(),
            phase: Phase::Idle,
            failures: 0,
            next: Instant::now(),
            error: String::new(),
            other_protocol: None,
            is_reported: false,
        };
        let attempts = watch::Sender::new(0);
        Self { first, state: Mutex::new(state), attempts }
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.first.purpose
    }

    /// The version of the protocol that the node spoke last, if it was another one.
    pub(crate) fn other_protocol(&self) -> Option<u16> {
        self.state().other_protocol
    }

    /// The node has moved; a connection to where it was is closed.
    pub(crate) fn set_address(&self, address: &str) {
        let mut state = self.state();
        if state.address == address {
            return;
        }
        address.clone_into(&mut state.address);
        state.failures = 0;
        state.next = Instant::now();
        if let Phase::Open { connection, .. } = &state.phase {
            connection.close("the node has another address now");
            state.phase = Phase::Idle;
        }
    }

    /// Nobody wants the node any more: a connection to it is closed.
    pub(crate) fn end(&self, reason: &str) {
        let mut state = self.state();
        if let Phase::Open { connection, .. } = &state.phase {
            connection.close(reason);
            state.phase = Phase::Idle;
        }
    }

    /// The connection, made if there is none.
    ///
    /// # Errors
    /// Why there is none until the deadline.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Arc<Connection>, String> {
        let mut attempts = self.attempts.subscribe();
        if let Some(connection) = self.look() {
            return Ok(connection);
        }
        let attempted = timeout_at(deadline, attempts.changed()).await;
        let state = self.state();
        match &state.phase {
            Phase::Open { connection, .. } => Ok(Arc::clone(connection)),
            Phase::Idle => Err(state.error.clone()),
            Phase::Connecting if attempted.is_err() && state.error.is_empty() => {
                Err(format!("{} has not answered yet", state.address))
            }
            Phase::Connecting => Err(state.error.clone()),
        }
    }

    /// The connection that is open; otherwise one is being made when this returns.
    fn look(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let mut state = self.state();
        match &state.phase {
            Phase::Open { connection, .. } if connection.is_open() => {
                return Some(Arc::clone(connection));
            }
            Phase::Connecting => return None,
            Phase::Open { since, .. } => {
                let is_short_lived = since.elapsed() < Duration::from_millis(SHORT_LIVED_MS);
                state.failures = if is_short_lived { state.failures + 1 } else { 0 };
                state.next = Instant::now() + backoff(state.failures);
            }
            Phase::Idle => {}
        }
        state.phase = Phase::Connecting;
        let dialing = Dialing { address: state.address.clone(), ..self.first.clone() };
        tokio::spawn(Arc::clone(self).attempt(dialing, state.next));
        None
    }

    async fn attempt(self: Arc<Self>, dialing: Dialing, when: Instant) {
        sleep_until(when).await;
        let last = Instant::now() + Duration::from_millis(TURNED_AWAY_MAX_MS);
        let outcome = loop {
            match Connection::dial(&dialing).await {
                Err(DialError::TurnedAway) if Instant::now() < last => {
                    sleep(Duration::from_millis(BACKOFF_MIN_MS)).await;
                }
                outcome => break outcome,
            }
        };
        let mut state = self.state();
        if state.address != dialing.address {
            // Where nobody is to be sought any more.
            state.phase = Phase::Idle;
        } else {
            self.conclude(&mut state, outcome);
        }
        drop(state);
        self.attempts.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn conclude(&self, state: &mut State, outcome: Result<Connection, DialError>) {
        let (node, purpose) = (self.first.wanted, self.first.purpose);
        let address = state.address.as_str();
        match outcome {
            Ok(connection) => {
                if state.is_reported {
                    tracing::info!(node, address, ?purpose, "the node is reached again");
                }
                state.is_reported = false;
                state.other_protocol = None;
                state.error.clear();
                let connection = Arc::new(connection);
                state.phase = Phase::Open { connection, since: Instant::now() };
            }
            Err(error) => {
                // Once, not for each attempt.
                if !state.is_reported {
                    tracing::warn!(node, address, ?purpose, %error, "the node cannot be reached");
                }
                state.is_reported = true;
                if let DialError::Greeting(GreetingError::Protocol { theirs }) = &error {
                    state.other_protocol = Some(*theirs);
                }
                state.failures = state.failures.saturating_add(1);
                state.next = Instant::now() + backoff(state.failures);
                state.error = format!("{address}: {error}");
                state.phase = Phase::Idle;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long to wait after so many failures.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let wait = if failures == 0 { 0 } else { BACKOFF_MIN_MS << doublings };
    Duration::from_millis(wait.min(BACKOFF_MAX_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit() {
        let waits = [0, 1, 2, 3, 5, 6, 100, u32::MAX].map(|it| backoff(it).as_millis());
        assert_eq!(waits, [0, 25, 50, 100, 400, 400, 400, 400]);
    }
}
