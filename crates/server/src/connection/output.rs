//! What a connection has to send, and how it is sent.
//!
//! Invariant: it holds what waits, and of what was sent as much again or [`SENT_MAX_BYTES`] at the
//! most; and the room to grow that a vector has.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ldap::encode;
use ldap::result::ResultCode;
use tokio::time::{Instant, Sleep, sleep};

use super::send_queue::Batch;
use super::{Connection, Ending};

/// Answers, in the order in which they leave.
#[derive(Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// TLS may hold more than we gave it.
    flushed: bool,
    /// Runs while the client does not read.
    timer: Option<Pin<Box<Sleep>>>,
    /// Answers of this connection leave with that batch, or have left.
    queued_in: Option<Batch>,
}

/// Answers to messages that are handled one after the other.
pub(super) struct Answers {
    pub(super) bytes: Vec<u8>,
    /// So many of the bytes were sent.
    sent: usize,
    /// They leave together with those of other connections: none waited before.
    is_alone: bool,
}

impl Answers {
    /// How many bytes are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }
}

impl Output {
    /// What is not sent yet.
    fn rest(&self) -> &[u8] {
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

    /// Puts in front what is to be sent before anything else.
    fn prepend(&mut self, mut left: Vec<u8>) {
        left.extend_from_slice(self.rest());
        (self.bytes, self.sent) = (left, 0);
    }

    /// The buffer, with what was sent and what was not.
    fn take(&mut self) -> Vec<u8> {
        self.sent = 0;
        std::mem::take(&mut self.bytes)
    }

    /// So many bytes more were sent.
    fn count_sent(&mut self, count: usize) {
        self.sent += count;
        // What is copied is less than what was sent since the last time.
        if self.sent > SENT_MAX_BYTES.max(self.waiting()) {
            self.bytes = self.rest().to_vec();
            self.sent = 0;
        }
    }
}

impl Connection {
    /// Where the answers to the next messages come: behind what waits, or into a buffer of their
    /// own.
    pub(super) fn begin_answers(&mut self) -> Answers {
        let is_alone = self.output.bytes.is_empty();
        let sent = self.output.sent;
        let bytes = match is_alone {
            true => self.worker.send_queue.spare().take(),
            false => self.output.take(),
        };
        Answers { bytes, sent, is_alone }
    }

    /// Answers leave with those of others, or wait as output.
    pub(super) fn end_answers(&mut self, answers: Answers, now: Instant) {
        let Answers { bytes, sent, is_alone } = answers;
        let send_queue = &self.worker.send_queue;
        if !is_alone {
            (self.output.bytes, self.output.sent) = (bytes, sent);
        } else if bytes.is_empty() {
            send_queue.spare().give_back(bytes);
        } else if !self.state.is_draining() && self.stream.borrow().is_plain() {
            let added = send_queue.add(&self.stream, &self.mailbox, bytes, now);
            self.output.queued_in = Some(added);
        } else {
            self.settle();
            self.output.append(bytes);
        }
    }

    /// Appends a notice of disconnection (RFC 4511 §4.4.1); nothing more is handled.
    pub(super) fn dismiss(&mut self, code: ResultCode, diagnostic: &str) {
        self.log.ends(diagnostic);
        if self.within.is_some() {
            // The client would take it for a part of the message that is under way.
            self.output = Output { flushed: true, ..Output::default() };
            return self.drain(Ending::Lost);
        }
        self.drain(Ending::Dismissed);
        encode::notice_of_disconnection(&mut self.output.bytes, code, diagnostic);
    }

    /// Whether answers that are to be sent may wait for those of others.
    pub(super) fn may_linger(&self) -> bool {
        self.output.bytes.is_empty()
            // What the client did not take counts as output from now on.
            && !self.mailbox.has_left()
            && self.state.is_handling()
            && !self.worker.is_stopping()
    }

    /// Sees to it that all answers that were handed in are sent, or are the first of the output.
    pub(super) fn settle(&mut self) {
        let Some(batch) = self.output.queued_in.take() else { return };
        self.worker.send_queue.send_batch(batch);
        let left = self.mailbox.take_left();
        if !left.is_empty() {
            self.output.prepend(left);
        }
    }

    /// Sends what waits. `Pending` while the client does not read; an error when it has not done
    /// so for too long.
    pub(super) fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.output.is_done() {
            return Poll::Ready(Ok(()));
        }
        let sent = self.stream.borrow_mut().send(cx, self.output.rest())?;
        if sent > 0 {
            self.output.count_sent(sent);
            self.holding.taken(|| self.worker.now());
            self.output.timer = None;
        }
        if self.output.waiting() == 0 {
            self.worker.send_queue.spare().give_back(self.output.take());
            if self.stream.borrow_mut().poll_flush(cx)?.is_ready() {
                self.output.flushed = true;
                self.output.timer = None;
                return Poll::Ready(Ok(()));
            }
        }
        self.output.flushed = false;
        let timeout = self.worker.shared.limits().write_timeout;
        let timer = self.output.timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(timer.as_mut().poll(cx));
        tracing::debug!(connection = self.id.0, "closed: the client does not read its answers");
        self.log.ends("the client does not read its answers");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
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
