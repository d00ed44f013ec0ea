//! What a connection has to send.
//!
//! Invariant: it holds what waits, and of what was sent as much again or [`SENT_MAX_BYTES`] at the
//! most; and the room to grow that a vector has.

use std::pin::Pin;

use tokio::time::Sleep;

/// Answers, in the order in which they leave.
#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    pub(super) sent: usize,
    /// TLS may hold more than we gave it.
    pub(super) flushed: bool,
    /// Runs while the client does not read.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl Output {
    /// What is not sent yet.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// How many bytes are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether the client, or the kernel for it, has taken everything.
    pub(super) fn is_done(&self) -> bool {
        self.bytes.is_empty() && self.flushed
    }

    /// How much memory that takes.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn append(&mut self, answer: Vec<u8>) {
        if self.bytes.is_empty() {
            self.bytes = answer;
        } else {
            self.bytes.extend_from_slice(&answer);
        }
    }

    /// So many bytes more were sent.
    pub(super) fn count_sent(&mut self, count: usize) {
        self.sent += count;
        // What is copied is less than what was sent since the last time.
        if self.sent > SENT_MAX_BYTES.max(self.waiting()) {
            self.bytes = self.rest().to_vec();
            self.sent = 0;
        }
    }
}

/// Bytes that were sent are kept up to so many, or as many as wait.
const SENT_MAX_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use testing::chance::Chance;

    use super::*;

    #[test]
    fn what_was_sent_takes_no_memory_while_more_waits() {
        // What was sent was dropped only when nothing waited: a client that read all the time, and
        // asked for more before it had everything, made its connection hold all its answers.
        check(10_000);
        check(300_000);
    }

    /// Sends some 10 MB, while about `waiting_bytes` wait.
    #[track_caller]
    fn check(waiting_bytes: usize) {
        let (mut output, mut chance) = (Output::default(), Chance::new(0, 0));
        let (mut appended, mut sent) = (0_u32, 0_u32);
        for round in 0..20_000_000 / waiting_bytes {
            while output.waiting() < waiting_bytes {
                let count = 1 + chance.below(2_000) as u32;
                output.append((appended..appended + count).map(|at| at as u8).collect());
                appended += count;
            }
            // One octet always waits.
            let count = 1 + chance.below(output.waiting() as u64 - 1) as u32;
            output.count_sent(count as usize);
            sent += count;
            let rest = (sent..appended).map(|at| at as u8).collect::<Vec<_>>();
            assert!(output.rest() == rest, "round {round}");
            let held = output.bytes.capacity();
            assert!(held < 4 * (waiting_bytes + SENT_MAX_BYTES), "{held} octets in round {round}");
        }
    }
}
