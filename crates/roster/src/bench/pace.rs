//! A steady rate: when each request is due.
//!
//! Invariant: requests are due at equal distances, whatever the server does. One that could not be
//! sent in time is late by its own latency, not left out.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::run::now;

/// The schedule of one thread, shared by its connections.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: f64,
    start: Instant,
    end: Instant,
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that were given out.
    given: u64,
    /// Connections with nothing to do.
    idle: VecDeque<Waker>,
}

impl Pace {
    /// `rate` requests a second from `start` to `end`.
    pub(crate) const fn new(rate: f64, start: Instant, end: Instant) -> Self {
        let state = State { given: 0, idle: VecDeque::new() };
        Self { rate, start, end, state: RefCell::new(state) }
    }

    /// Waits until a request is due; says when it was. `None` when there are no more.
    pub(crate) async fn next(&self) -> Option<Instant> {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            let due = self.due(state.given);
            if due >= self.end {
                Poll::Ready(None)
            } else if due <= now() {
                state.given += 1;
                Poll::Ready(Some(due))
            } else {
                state.idle.push_back(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }

    /// Wakes idle connections when something is due, until the end.
    pub(crate) async fn keep(&self) {
        let ticks = ticks(self.end);
        while now() < self.end {
            ticks.notified().await;
            let mut state = self.state.borrow_mut();
            let due = self.due(state.given);
            let count = match now().checked_duration_since(due) {
                _ if due >= self.end => state.idle.len(),
                Some(late) => (late.as_secs_f64() * self.rate) as usize + 1,
                None => 0,
            };
            let count = count.min(state.idle.len());
            let wakers: Vec<Waker> = state.idle.drain(..count).collect();
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
        let wakers = std::mem::take(&mut self.state.borrow_mut().idle);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn due(&self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / self.rate)
    }
}

/// Notifies again and again until `end`: the timers of tokio know whole milliseconds only.
fn ticks(end: Instant) -> Arc<Notify> {
    let notify = Arc::new(Notify::new());
    let ticks = Arc::clone(&notify);
    std::thread::spawn(move || {
        while now() < end {
            pause(TICK);
            ticks.notify_one();
        }
        pause(TICK);
        ticks.notify_one();
    });
    notify
}

#[allow(clippy::disallowed_methods, reason = "a rate is made of time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Between two looks at the clock while all connections are idle.
const TICK: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_many_as_the_rate_says() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let start = now();
        let pace = Pace::new(10_000.0, start, start + Duration::from_millis(50));
        let all = runtime.block_on(async {
            let take = async {
                let mut all = Vec::new();
                while let Some(due) = pace.next().await {
                    all.push(due - start);
                }
                all
            };
            tokio::join!(take, pace.keep()).0
        });
        assert_eq!(all.len(), 500);
        assert_eq!((all[0], all[1]), (Duration::ZERO, Duration::from_micros(100)));
    }
}
