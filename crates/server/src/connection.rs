//! One client connection: reads messages, has them handled, writes the answers.
//!
//! The usual request costs one wake, one read, one call of the directory and one write; what was
//! read with it is handled with it and answered with the same write.
//!
//! Invariant: a connection holds memory only for a message that is not complete and for answers
//! that are not sent; both are bounded by settings. While nothing is going on it holds none.
//! Invariant: answers leave in the order in which they were produced.

pub(crate) mod bind_throttle;
mod deliveries;
mod hashes;
pub(crate) mod holding;
mod idle;
pub(crate) mod mailbox;
mod output;
pub(crate) mod presence;
pub(crate) mod read_buffer;
pub(crate) mod send_queue;
pub(crate) mod sessions;
mod status;
mod time_slice;

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use directory::{Identity, Next, Noted, Session};
use ldap::ber::{DecodeError, DecodeReason, Frame, frame};
use ldap::encode;
use ldap::message::{
    Controls, DecodeLimits, LdapResult, Message, MessageId, Request, ResponseKind,
};
use ldap::result::ResultCode;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};

use self::bind_throttle::{BindThrottle, Decision};
use self::holding::Holding;
use self::idle::IdleTimer;
use self::output::Output;
use self::status::Closing;
use self::time_slice::TimeSlice;
use crate::connection::mailbox::{ConnectionId, Mailbox};
use crate::connection::send_queue::Batch;
use crate::limits::anonymous_share::Queued;
use crate::limits::budget::Held;
use crate::listen::stream::Stream;
use crate::log::ConnectionLog;
use crate::pools::fair_queue::Asker;
use crate::pools::scan_pool::Delivery;
use crate::worker::Worker;

/// One connection on its worker.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) id: ConnectionId,
    /// Shared with the answers that are to be sent.
    pub(crate) stream: Rc<RefCell<Stream>>,
    pub(crate) session: Session,
    pub(crate) mailbox: Rc<Mailbox>,
    /// For the access log.
    pub(crate) log: ConnectionLog,
    bind_throttle: BindThrottle,
    holding: Holding,
    /// Whether it waits for its share of the worker, while it has not authenticated.
    queued: Queued,
    input: Input,
    output: Output,
    /// Answers of this connection leave with that batch, or have left.
    queued_in: Option<Batch>,
    /// Jobs on the pools.
    jobs: Vec<Running>,
    /// Set when no further message will be handled, to what is to be done once all is sent.
    ending: Option<Ending>,
    idle: IdleTimer,
    /// The round in which the session was looked at last.
    recheck_round: u64,
    /// Runs while the client has ended its side, its jobs deliver nothing, and nothing is to be
    /// sent.
    half_closed: Option<Pin<Box<Sleep>>>,
    closing: Closing,
}

/// What was received and not handled yet.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    /// How many bytes are needed before it is worth looking at them again; 0: look at once.
    need: usize,
    /// When whole messages among them were read.
    read: Option<Instant>,
    /// The client will send nothing more.
    ended: bool,
    /// The client will send nothing more, as far as it was looked ahead.
    ahead_ended: bool,
}

struct Running {
    deliveries: mpsc::Receiver<Delivery>,
    /// Whose passwords it hashes, if it does: no message is handled until it is done.
    hashes_for: Option<Asker>,
    /// They are those of a bind that counts as failed when its client does not wait for the answer.
    silence_tells: bool,
    /// The request.
    _held: Option<Held>,
}

impl Running {
    fn search(deliveries: mpsc::Receiver<Delivery>, held: Held) -> Self {
        Self { deliveries, hashes_for: None, silence_tells: false, _held: Some(held) }
    }
}

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

/// The message that was handled.
#[derive(Clone, Copy)]
enum Attempt<'m> {
    /// For the first time.
    First(&'m [u8]),
    /// Once more, with answers of the hash pool; the access log knows of it.
    Again(MessageId),
}

impl<'m> Attempt<'m> {
    fn message(self) -> &'m [u8] {
        match self {
            Self::First(message) => message,
            // What was put off for a password is never put off as a large search.
            Self::Again(_) => &[],
        }
    }
}

/// What a connection does when it has sent everything.
enum AfterOutput {
    End(Ending),
    MoreOutput,
    Input,
}

impl Connection {
    pub(crate) fn new(
        worker: Rc<Worker>,
        id: ConnectionId,
        stream: Stream,
        (session, mailbox, log): (Session, Rc<Mailbox>, ConnectionLog),
        (bind_throttle, holding): (BindThrottle, Holding),
    ) -> Self {
        let limits = &worker.shared.limits;
        let idle = IdleTimer::new(limits.idle_timeout, limits.first_request_timeout);
        Self {
            recheck_round: worker.recheck_round.get(),
            worker,
            id,
            stream: Rc::new(RefCell::new(stream)),
            session,
            mailbox,
            log,
            bind_throttle,
            holding,
            queued: Queued::default(),
            input: Input::default(),
            output: Output::default(),
            queued_in: None,
            jobs: Vec::new(),
            ending: None,
            idle,
            half_closed: None,
            closing: None,
        }
    }

    /// Serves the client until the session ends or is interrupted.
    fn poll_session(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        let mut slice = TimeSlice::default();
        let polled = self.poll_slice(cx, &mut slice);
        let (worker, is_anonymous) = (&self.worker, self.is_anonymous());
        if let Some(begun) = slice.begun().filter(|_| is_anonymous) {
            worker.anonymous_share.used(Instant::now().saturating_duration_since(begun));
        }
        if polled.is_pending() {
            let octets = self.output.held() + self.input.bytes.capacity() + self.mailbox.left();
            self.holding.update(octets, is_anonymous, (&worker.shared, || worker.now()));
        }
        polled
    }

    fn is_anonymous(&self) -> bool {
        matches!(self.session.identity(), Identity::Anonymous)
    }

    fn poll_slice(&mut self, cx: &mut Context<'_>, slice: &mut TimeSlice) -> Poll<Ending> {
        self.mailbox.register(cx.waker());
        // What was handled before this time slice is answered by now, or the client waits for it.
        self.settle();
        self.recheck();
        loop {
            self.take_replies();
            let more_waits = self.take_chunks(cx);
            if !self.may_linger() {
                self.settle();
            }
            match self.poll_output(cx) {
                Poll::Ready(Ok(())) if more_waits => continue,
                Poll::Ready(Ok(())) => match self.after_output() {
                    AfterOutput::End(ending) => return Poll::Ready(ending),
                    AfterOutput::MoreOutput => continue,
                    AfterOutput::Input => {}
                },
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::Lost),
                Poll::Pending => {}
            }
            if self.bind_throttle.poll_wait(cx).is_ready() {
                continue;
            }
            if !self.may_handle(self.output.waiting()) {
                let addresses = &self.worker.shared.client_addresses;
                self.bind_throttle.step_back(addresses, || self.worker.now());
                if self.look_ahead(cx).is_err() {
                    return Poll::Ready(Ending::Lost);
                }
                return self.poll_half_closed(cx).map(|()| Ending::Lost);
            }
            if slice.is_over() {
                // The neighbours are next, with those that the kernel has news of; then this one
                // again.
                let _ = pin!(yield_now()).poll(cx);
                return Poll::Pending;
            }
            if self.is_anonymous() && !self.holding.is_local() && slice.begun().is_none() {
                ready!(self.worker.anonymous_share.poll_ready(&self.queued, cx));
            }
            match self.poll_input(cx, slice) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ending::Lost),
                Poll::Pending => match self.poll_idle(cx) {
                    Poll::Ready(()) => {}
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    /// Looks at whether the session is still what its entry is, when others may have changed it.
    fn recheck(&mut self) {
        let round = self.worker.recheck_round.get();
        if std::mem::replace(&mut self.recheck_round, round) == round || self.ending.is_some() {
            return;
        }
        if let Err(why) = self.worker.recheck(&mut self.session) {
            // Nothing goes on with rights that are gone.
            self.abandon();
            self.dismiss(ResultCode::StrongerAuthRequired, why);
        }
    }

    /// Goes on with the session, now protected by TLS.
    pub(crate) fn resume_secure(&mut self, stream: Stream, tls: directory::Tls) {
        self.stream.replace(stream);
        self.session.set_tls(tls);
        self.ending = None;
    }

    /// The session is over: nothing is done for it any more.
    pub(crate) fn abandon(&mut self) {
        self.session.abandon_all();
        if self.jobs.is_empty() {
            return;
        }
        let hashes_for = self.jobs.iter().find_map(|job| job.hashes_for);
        let has_searches = self.jobs.iter().any(|job| job.hashes_for.is_none());
        let has_guessed = self.jobs.iter().any(|job| job.silence_tells);
        self.jobs.clear();
        let (shared, now) = (&self.worker.shared, || self.worker.now());
        self.bind_throttle.ends(has_guessed, &shared.client_addresses, now);
        if let Some(asker) = hashes_for {
            shared.hash_pool.sweep(asker);
        }
        if has_searches {
            shared.scan_pool.sweep();
        }
    }

    /// Whether a message waits for the hash pool.
    fn is_hashing(&self) -> bool {
        self.jobs.iter().any(|job| job.hashes_for.is_some())
    }

    /// Whether the next message may be handled while `waiting_bytes` of answers are not sent.
    fn may_handle(&self, waiting_bytes: usize) -> bool {
        let limits = &self.worker.shared.limits;
        self.ending.is_none()
            && !self.input.ended
            && !self.worker.is_stopping()
            && !self.bind_throttle.is_waiting()
            && !self.is_hashing()
            && self.has_room(waiting_bytes)
            && self.session.outstanding() < limits.outstanding_max
    }

    /// Whether there is room for what one more request may bring. Without output and jobs there
    /// always is: nothing would say when there is again.
    fn has_room(&self, waiting_bytes: usize) -> bool {
        if waiting_bytes == 0 && self.jobs.is_empty() {
            return true;
        }
        let expected = self.jobs.len() * END_MAX_BYTES;
        waiting_bytes + expected < self.worker.shared.limits.output_buffer_max_bytes
            && self.holding.has_room()
    }

    /// Whether answers that are to be sent may wait for those of others.
    fn may_linger(&self) -> bool {
        self.output.bytes.is_empty()
            // What the client did not take counts as output from now on.
            && !self.mailbox.has_left()
            && self.ending.is_none()
            && !self.input.ended
            && !self.worker.is_stopping()
    }

    /// Sees to it that all answers that were handed in are sent, or are the first of the output.
    fn settle(&mut self) {
        let Some(batch) = self.queued_in.take() else { return };
        self.worker.send_queue.send_batch(batch);
        let mut left = self.mailbox.take_left();
        if !left.is_empty() {
            left.extend_from_slice(self.output.rest());
            self.output.bytes = left;
            self.output.sent = 0;
        }
    }

    /// Everything was sent: what now?
    fn after_output(&mut self) -> AfterOutput {
        if let Some(ending) = self.ending {
            return AfterOutput::End(ending);
        }
        if self.session.outstanding() > 0 || !self.jobs.is_empty() {
            return AfterOutput::Input;
        }
        if self.input.ended {
            // The client has shut down its side, and has all its answers.
            self.log.ends("closed by the client");
            return AfterOutput::End(Ending::Closed);
        }
        if self.worker.is_stopping() {
            self.dismiss(ResultCode::Unavailable, "the server is shutting down");
            return AfterOutput::MoreOutput;
        }
        AfterOutput::Input
    }

    /// Appends a notice of disconnection (RFC 4511 §4.4.1); nothing more is handled.
    fn dismiss(&mut self, code: ResultCode, diagnostic: &str) {
        self.ending = Some(Ending::Dismissed);
        self.log.ends(diagnostic);
        encode::notice_of_disconnection(&mut self.output.bytes, code, diagnostic);
    }

    // ---- input

    /// Reads once and handles what is complete.
    fn poll_input(&mut self, cx: &mut Context<'_>, slice: &mut TimeSlice) -> Poll<io::Result<()>> {
        let worker = Rc::clone(&self.worker);
        if self.input.bytes.is_empty() {
            let received = ready!(worker.read_buffer.poll_read(cx, &self.stream))?;
            if received.is_empty() {
                self.input.ended = true;
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
    fn look_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let has_nothing = self.jobs.is_empty() && !self.bind_throttle.is_waiting();
        if has_nothing || self.ending.is_some() || self.input.ended {
            return Ok(());
        }
        let have = self.input.bytes.len();
        if self.input.ahead_ended || have >= AHEAD_MAX_BYTES {
            return Ok(());
        }
        let most = AHEAD_MAX_BYTES - have;
        match self.worker.read_buffer.poll_read_some(cx, &self.stream, most) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Err(error)) => return Err(error),
            // The next read will find the end again, when what came before is handled.
            Poll::Ready(Ok(received)) if received.is_empty() => self.input.ahead_ended = true,
            Poll::Ready(Ok(received)) => {
                self.input.bytes.extend_from_slice(&received);
                self.input.need = 0;
                // There may be more.
                cx.waker().wake_by_ref();
            }
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
            self.input.ended = true;
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
        // Answers are sent together with those of others, unless earlier ones still wait.
        let is_alone = self.output.bytes.is_empty();
        let mut out = match is_alone {
            true => worker.send_queue.spare().take(),
            false => std::mem::take(&mut self.output.bytes),
        };
        let used = self.handle_into(worker, bytes, slice, (&mut out, self.output.sent));
        // What is whole, and left, waits since then.
        self.input.read = (used < bytes.len() && self.input.need == 0).then_some(read);
        if !is_alone {
            self.output.bytes = out;
        } else if out.is_empty() {
            worker.send_queue.spare().give_back(out);
        } else if self.ending.is_none() && self.stream.borrow().is_plain() {
            let to = (&self.stream, &self.mailbox);
            self.queued_in = Some(worker.send_queue.add(to, out, now));
        } else {
            self.settle();
            self.output.append(out);
        }
        used
    }

    fn handle_into(
        &mut self,
        worker: &Rc<Worker>,
        bytes: &[u8],
        slice: &mut TimeSlice,
        (out, sent): (&mut Vec<u8>, usize),
    ) -> usize {
        let mut used = 0;
        self.input.need = 0;
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            if slice.is_over() || !self.may_handle(out.len() - sent) {
                return used;
            }
            match frame(rest, self.message_size_max()) {
                Ok(Frame::Complete(length)) => {
                    let message = rest.get(..length).unwrap_or(rest);
                    let account = || worker.account_of_guess(&self.session, message);
                    let context = (|| worker.now(), account);
                    match self.bind_throttle.throttle(
                        message,
                        &worker.shared.client_addresses,
                        context,
                    ) {
                        Decision::Now => {}
                        Decision::Later => return used,
                        Decision::Never => {
                            self.refuse(worker, message, out);
                            used += length;
                            continue;
                        }
                    }
                    used += length;
                    self.idle.has_asked();
                    let before = out.len();
                    self.handle(worker, message, out);
                    slice.handled(length + out.len().saturating_sub(before), Instant::now);
                }
                Ok(Frame::Incomplete { need_at_least }) => {
                    self.input.need = need_at_least;
                    return used;
                }
                Err(error) => {
                    let diagnostic = self.why_unframed(&error);
                    self.log.ends(&diagnostic);
                    encode::notice_of_disconnection(out, ResultCode::ProtocolError, &diagnostic);
                    self.ending = Some(Ending::Dismissed);
                }
            }
            if self.ending.is_some() {
                // What follows is discarded; after StartTLS that is a rule of RFC 4511 §4.14.1,
                // because whoever sits in between could have put it there.
                return bytes.len();
            }
        }
        used
    }

    /// Answers a bind that too many others wait in front of.
    fn refuse(&mut self, worker: &Rc<Worker>, message: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let decoded = Message::<Request<'_>>::decode(message, &DecodeLimits::default());
        let Ok(decoded) = decoded else { return self.handle(worker, message, out) };
        self.session.refuse_bind();
        let why = "too many binds of your address have failed; try again later";
        let result = LdapResult { diagnostic: why, ..LdapResult::new(ResultCode::Busy) };
        encode::result(out, decoded.id, ResponseKind::Bind, &result, Controls::EMPTY);
        let answer = (out.get(start..).unwrap_or_default(), Noted::default());
        worker.recorder.handled(&mut self.log, &self.session, message, answer);
    }

    /// Has one message handled.
    fn handle(&mut self, worker: &Rc<Worker>, message: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let next = worker.handle(&mut self.session, message, out);
        self.follow(worker, next, Attempt::First(message), (start, out));
    }

    /// Does what is to be done after a message was handled; none: that panicked.
    fn follow(
        &mut self,
        worker: &Rc<Worker>,
        next: Option<Next>,
        attempt: Attempt<'_>,
        (start, out): (usize, &mut Vec<u8>),
    ) {
        let Some(next) = next else {
            out.truncate(start);
            encode::notice_of_disconnection(out, ResultCode::Other, "internal error");
            self.log.ends("internal error");
            self.ending = Some(Ending::Dismissed);
            let answer = out.get(start..).unwrap_or_default();
            return self.record_answer(worker, attempt, answer, Noted::default());
        };
        let so_far = out.get(start..).unwrap_or_default();
        match next {
            Next::Answered => {}
            Next::Write(pending) => {
                let is_wrong = worker.noted().is_wrong_guess;
                self.bind_throttle.ends(is_wrong, &worker.shared.client_addresses, || worker.now());
                // Before it is submitted: the answer may come at once.
                self.record_begun(worker, attempt, so_far);
                return pending.submit_to(&worker.outbox, self.id.0);
            }
            Next::Later(job) => {
                let id = job.id();
                let account = self.holding.account(&worker.shared, || worker.now());
                match worker.shared.scan_pool.submit((&self.session, &account), job) {
                    Some(deliveries) => {
                        self.record_begun(worker, attempt, so_far);
                        let held = account.hold(attempt.message().len());
                        return self.jobs.push(Running::search(deliveries, held));
                    }
                    None => {
                        self.session.forget(id);
                        let message = attempt.message();
                        refuse_busy(id, message, "too many large requests are waiting", out);
                    }
                }
            }
            Next::Hash(job) => match self.begin_hash(worker, job) {
                Ok(()) => return self.record_begun(worker, attempt, so_far),
                Err((job, why)) => {
                    self.session.forget(job.id());
                    refuse_busy(job.id(), job.message(), why, out);
                    self.unanswered(worker, &job);
                }
            },
            Next::StartTls => self.ending = Some(Ending::StartTls),
            Next::Close if out.len() > start => self.ending = Some(Ending::Dismissed),
            Next::Close => self.ending = Some(Ending::Closed),
        }
        let (answer, noted) = (out.get(start..).unwrap_or_default(), worker.noted());
        match noted.is_wrong_guess {
            true => self.bind_throttle.ends(true, &worker.shared.client_addresses, || worker.now()),
            false => self
                .bind_throttle
                .answered(answer, &worker.shared.client_addresses, || worker.now()),
        }
        self.record_answer(worker, attempt, answer, noted);
    }

    /// For the access log: a message goes on elsewhere.
    fn record_begun(&mut self, worker: &Worker, attempt: Attempt<'_>, so_far: &[u8]) {
        if let Attempt::First(message) = attempt {
            worker.recorder.begun(&mut self.log, &self.session, message, so_far);
        }
    }

    /// For the access log: all was said to a message.
    fn record_answer(
        &mut self,
        worker: &Worker,
        attempt: Attempt<'_>,
        answer: &[u8],
        noted: Noted,
    ) {
        match attempt {
            Attempt::First(message) => {
                worker.recorder.handled(&mut self.log, &self.session, message, (answer, noted));
            }
            Attempt::Again(id) => {
                worker.recorder.part(&mut self.log, answer);
                let outcome = (id, noted, Duration::ZERO);
                worker.recorder.answered(&mut self.log, &self.session, outcome);
            }
        }
    }

    /// Why what arrives is no message; of one that is too large, which limit holds.
    fn why_unframed(&self, error: &DecodeError) -> String {
        if error.reason != DecodeReason::MessageTooLong {
            return error.to_string();
        }
        let most = self.message_size_max();
        match most < self.worker.shared.limits.message_size_max_bytes {
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
        let limits = &self.worker.shared.limits;
        if matches!(self.session.identity(), Identity::Anonymous) {
            limits.message_size_anonymous_max_bytes.min(limits.message_size_max_bytes)
        } else {
            limits.message_size_max_bytes
        }
    }

    // ---- output

    /// Sends what waits. `Pending` while the client does not read; an error when it has not done
    /// so for too long.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
            let sent = std::mem::take(&mut self.output.bytes);
            self.worker.send_queue.spare().give_back(sent);
            self.output.sent = 0;
            if self.stream.borrow_mut().poll_flush(cx)?.is_ready() {
                self.output.flushed = true;
                self.output.timer = None;
                return Poll::Ready(Ok(()));
            }
        }
        self.output.flushed = false;
        let timeout = self.worker.shared.limits.write_timeout;
        let timer = self.output.timer.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(timer.as_mut().poll(cx));
        tracing::debug!(connection = self.id.0, "closed: the client does not read its answers");
        self.log.ends("the client does not read its answers");
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// The client did something, now.
    fn touch(&mut self) -> Instant {
        self.idle.last = Instant::now();
        self.holding.is_active(|| self.worker.now());
        self.idle.last
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.abandon();
        if let Some(why) = self.holding.leave(&self.worker.shared) {
            self.log.ends(why.text());
        }
        let worker = &self.worker;
        self.bind_throttle.leave(&worker.shared.client_addresses, || worker.now());
        self.worker.recorder.disconnected(&mut self.log, &self.session);
        self.worker.forget(self.id);
    }
}

/// Answers a request that found a pool full.
fn refuse_busy(id: MessageId, message: &[u8], diagnostic: &str, out: &mut Vec<u8>) {
    let decoded = Message::<Request<'_>>::decode(message, &DecodeLimits::default());
    let kind = decoded.ok().and_then(|message| message.op.answered_by());
    if let Some(kind) = kind {
        let diagnostic = format!("{diagnostic}; try again");
        let result = LdapResult { diagnostic: &diagnostic, ..LdapResult::new(ResultCode::Busy) };
        encode::result(out, id, kind, &result, Controls::EMPTY);
    }
}

/// What the end of a job may bring, whatever waits: less than one chunk.
const END_MAX_BYTES: usize = 64 * 1024;

/// How much of what waits to be handled is looked at for requests that abandon others.
const AHEAD_MAX_BYTES: usize = 16 * 1024;
