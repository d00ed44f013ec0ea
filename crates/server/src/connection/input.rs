//! What a client sends: it is read, cut into messages, and these are handled where they are.
//!
//! Invariant: bytes are kept for messages that are not whole, or cannot be handled yet, alone; how
//! many is bounded by the largest message, and by what is looked at ahead.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use directory::Identity;
use ldap::ber::{DecodeError, DecodeReason, Frame, frame};
use ldap::encode;
use ldap::message::MessageId;
use ldap::result::ResultCode;
use tokio::time::Instant;

use super::output::Answers;
use super::time_slice::TimeSlice;
use super::{Connection, Ending};
use crate::worker::Worker;

/// What was received and not handled yet.
#[derive(Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// How many bytes are needed before it is worth looking at them again; 0: look at once.
    need: usize,
    /// When whole messages among them were read.
    read: Option<Instant>,
}

/// How far the messages were handled that were read.
struct Handled {
    /// So many bytes are done with.
    used: usize,
    /// How many bytes are needed before it is worth looking at what is left; 0: look at once.
    need: usize,
}

impl Input {
    /// How much memory that takes.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Connection {
    /// Reads once and handles what is complete.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        slice: &mut TimeSlice,
    ) -> Poll<io::Result<()>> {
        let worker = Rc::clone(&self.worker);
        if self.input.bytes.is_empty() {
            let received = ready!(worker.read_buffer.poll_read(cx, &self.stream))?;
            if received.is_empty() {
                self.state = std::mem::take(&mut self.state).reach_end();
                return Poll::Ready(Ok(()));
            }
            let used = self.handle_messages(&worker, &received, slice);
            if let Some(rest) = received.get(used..).filter(|rest| !rest.is_empty()) {
                self.input.bytes = rest.to_vec();
            }
            return Poll::Ready(Ok(()));
        }
        if self.input.need > 0 && !ready!(self.poll_more_input(cx))? {
            return Poll::Ready(Ok(()));
        }
        let mut bytes = std::mem::take(&mut self.input.bytes);
        let used = self.handle_messages(&worker, &bytes, slice);
        if used < bytes.len() {
            bytes.drain(..used);
            if bytes.capacity() > AHEAD_MAX_BYTES.max(4 * bytes.len()) {
                bytes.shrink_to_fit();
            }
            self.input.bytes = bytes;
        }
        Poll::Ready(Ok(()))
    }

    /// While requests have to wait, because the client does not take its answers or too many are
    /// under way, they are looked at for those that abandon or cancel one: what is given up goes on
    /// for nobody, and may be all that the others wait for. The end of the client is
    /// noticed, too: its guess at a password leaves the line.
    pub(super) fn look_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let has_nothing = self.jobs.is_empty() && !self.bind_throttle.is_waiting();
        let have = self.input.bytes.len();
        if has_nothing || !self.state.is_open() || have >= AHEAD_MAX_BYTES {
            return Ok(());
        }
        let most = AHEAD_MAX_BYTES - have;
        match self.worker.read_buffer.poll_read_some(cx, &self.stream, most) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Err(error)) => return Err(error),
            // The next read will find the end again, when what came before is handled.
            Poll::Ready(Ok(received)) if received.is_empty() => {
                self.state = std::mem::take(&mut self.state).see_end();
            }
            Poll::Ready(Ok(received)) => {
                self.input.bytes.extend_from_slice(&received);
                self.input.need = 0;
                // There may be more.
                cx.waker().wake_by_ref();
            }
        }
        if self.keeps_order().is_some() {
            // None of them would have been looked at yet.
            return Ok(());
        }
        let may_cancel = !self.is_hashing();
        let mut rest = self.input.bytes.as_slice();
        while let Ok(Frame::Complete(length)) = frame(rest, AHEAD_MAX_BYTES)
            && let Some((message, after)) = rest.split_at_checked(length)
        {
            self.session.look_ahead(message, may_cancel);
            rest = after;
        }
        Ok(())
    }

    /// Reads more behind an incomplete message; says whether it is worth looking at it again.
    fn poll_more_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // Room grows with what has arrived, not with what a length field claims.
        let received = ready!(self.worker.read_buffer.poll_read(cx, &self.stream))?;
        if received.is_empty() {
            self.state = std::mem::take(&mut self.state).reach_end();
            return Poll::Ready(Ok(false));
        }
        self.input.bytes.extend_from_slice(&received);
        drop(received);
        self.touch();
        Poll::Ready(Ok(self.input.bytes.len() >= self.input.need))
    }

    /// Handles the whole messages at the start of `bytes`, as many as this time slice and the
    /// limits allow. Returns how many bytes are done with. The answers leave with those of others,
    /// or are appended to the output.
    fn handle_messages(
        &mut self,
        worker: &Rc<Worker>,
        bytes: &[u8],
        slice: &mut TimeSlice,
    ) -> usize {
        let now = self.touch();
        slice.begin(now);
        let read = self.input.read.unwrap_or(now);
        worker.recorder.read(read, now);
        worker.mark_active();
        worker.send_queue.send_old(now);
        let mut answers = self.begin_answers();
        let Handled { used, need } = self.handle_into(worker, bytes, slice, &mut answers);
        self.input.need = need;
        // What is whole, and left, waits since then.
        self.input.read = (used < bytes.len() && need == 0).then_some(read);
        self.end_answers(answers, now);
        used
    }

    fn handle_into(
        &mut self,
        worker: &Rc<Worker>,
        bytes: &[u8],
        slice: &mut TimeSlice,
        answers: &mut Answers,
    ) -> Handled {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            if slice.is_over() || !self.may_handle(answers.waiting()) {
                break;
            }
            match frame(rest, self.message_size_max()) {
                Ok(Frame::Complete(length)) => {
                    let message = rest.get(..length).unwrap_or(rest);
                    let before = answers.bytes.len();
                    let Some(received) = worker.decode(message) else {
                        self.panicked((MessageId::UNSOLICITED, None), before, &mut answers.bytes);
                        return Handled { used: bytes.len(), need: 0 };
                    };
                    if !self.handle(worker, &received, &mut answers.bytes) {
                        break;
                    }
                    used += length;
                    let answered = answers.bytes.len().saturating_sub(before);
                    slice.handled(length + answered, Instant::now);
                }
                Ok(Frame::Incomplete { need_at_least }) => {
                    return Handled { used, need: need_at_least };
                }
                Err(error) => {
                    let diagnostic = self.why_unframed(&error);
                    self.log.ends(&diagnostic);
                    let (out, code) = (&mut answers.bytes, ResultCode::ProtocolError);
                    encode::notice_of_disconnection(out, code, &diagnostic);
                    self.drain(Ending::Dismissed);
                }
            }
            if self.state.is_draining() {
                // What follows is discarded; after StartTLS that is a rule of RFC 4511 §4.14.1,
                // because whoever sits in between could have put it there.
                return Handled { used: bytes.len(), need: 0 };
            }
        }
        Handled { used, need: 0 }
    }

    /// Why what arrives is no message; of one that is too large, which limit holds.
    fn why_unframed(&self, error: &DecodeError) -> String {
        if error.reason != DecodeReason::MessageTooLong {
            return error.to_string();
        }
        let most = self.message_size_max();
        match most < self.worker.shared.limits().message_size_max_bytes {
            true => format!(
                "the request is larger than {most} bytes, which is the limit before signing in \
                 (limits.message_size_anonymous_max_bytes)"
            ),
            false => {
                format!("the request is larger than {most} bytes (limits.message_size_max_bytes)")
            }
        }
    }

    /// Before the client has authenticated, little memory is spent on it.
    fn message_size_max(&self) -> usize {
        let limits = &self.worker.shared.limits();
        if matches!(self.session.identity(), Identity::Anonymous) {
            limits.message_size_anonymous_max_bytes.min(limits.message_size_max_bytes)
        } else {
            limits.message_size_max_bytes
        }
    }
}

/// How much of what waits to be handled is looked at for requests that abandon others.
const AHEAD_MAX_BYTES: usize = 16 * 1024;
