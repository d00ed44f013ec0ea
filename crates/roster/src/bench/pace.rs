//! A steady rate: tickets that say when each request is meant to be sent.
//!
//! Invariant: tickets follow each other at equal distances, whatever the server does. A request
//! that could not be sent in time is late by its own latency, not left out.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::run::now;

/// Gives out `rate` tickets a second from `start` to `end`; then the receiver ends.
pub(crate) fn tickets(rate: f64, start: Instant, end: Instant) -> UnboundedReceiver<Instant> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || give_out(rate, (start, end), &sender));
    receiver
}

fn give_out(rate: f64, (start, end): (Instant, Instant), sender: &UnboundedSender<Instant>) {
    for number in 0_u64.. {
        let due = start + Duration::from_secs_f64(number as f64 / rate);
        if due >= end {
            return;
        }
        let wait = due.saturating_duration_since(now());
        if !wait.is_zero() {
            // Several tickets at a time cost less, and are late by this little at most.
            pause(wait.max(TICK));
        }
        if sender.send(due).is_err() {
            return;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a rate is made of time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The shortest sleep.
const TICK: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_as_many_as_the_rate_says() {
        let start = now();
        let mut tickets = tickets(10_000.0, start, start + Duration::from_millis(50));
        let mut all = Vec::new();
        while let Some(ticket) = tickets.blocking_recv() {
            all.push(ticket - start);
        }
        assert_eq!(all.len(), 500);
        assert_eq!((all[0], all[1]), (Duration::ZERO, Duration::from_micros(100)));
    }
}
