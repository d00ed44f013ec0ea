//! One client connection: reads messages, has them handled, writes the answers.
//!
//! Where a session is stands in `state.rs`. `input.rs` reads and cuts out messages, `output.rs`
//! sends answers; here is what comes in which order, and what becomes of a message. What the writer
//! and the pools have made comes in by `deliveries.rs` and `hashes.rs`.
//!
//! The usual request costs one wake, one read, one call of the directory and one write; what was
//! read with it is handled with it and answered with the same write.
//!
//! Invariant: a connection holds memory only for a message that is not complete and for answers
//! that are not sent; both are bounded by settings. While nothing is going on it holds none.
//! Invariant: answers leave in the order in which they were produced.

pub(crate) mod bind_throttle;
mod deliveries;
mod follows;
mod hashes;
pub(crate) mod holding;
mod idle;
mod input;
pub(crate) mod mailbox;
mod output;
pub(crate) mod presence;
pub(crate) mod read_buffer;
mod reads;
pub(crate) mod send_queue;
pub(crate) mod sessions;
mod state;
mod status;
mod time_slice;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use directory::{Completion, Identity, Next, Received, Session, Stop, disconnect};
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::Instant;

use self::bind_throttle::{BindThrottle, Decision};
use self::follows::Follows;
use self::holding::Holding;
use self::idle::IdleTimer;
use self::input::Input;
use self::output::Output;
use self::reads::Fresh;
pub(crate) use self::state::Ending;
use self::state::State;
use self::time_slice::TimeSlice;
use crate::connection::mailbox::{ConnectionId, Mailbox};
use crate::limits::anonymous_share::Queued;
use crate::limits::budget::Held;
use crate::listen::stream::Stream;
use crate::log::ConnectionLog;
use crate::pools::fair_queue::Asker;
use crate::pools::scan_pool::{Delivery, ParkedJob};
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
    /// Jobs on the pools, and what waits for fresh data.
    jobs: Vec<Running>,
    /// Those of them that wait until another one has sent an entry in parts, the oldest first.
    waiting: VecDeque<Box<ParkedJob>>,
    /// A message of the response to this request is only in part in the output, or sent.
    within: Option<MessageId>,
    /// What has waited for fresh data, and goes on when it is this connection's turn.
    fresh: VecDeque<Fresh>,
    state: State,
    idle: IdleTimer,
    /// The round in which the session was looked at last.
    recheck_round: u64,
}

struct Running {
    /// The request.
    id: MessageId,
    deliveries: mpsc::Receiver<Delivery>,
    /// Whose passwords it hashes, if it does: no message is handled until it is done.
    hashes_for: Option<Asker>,
    /// No message is handled until it is done, or released: later requests must not overtake it.
    keeps_order: bool,
    /// It has parked, and is among those that wait: nothing comes of it.
    waits: bool,
    /// It has parked until there is a change.
    follows: Option<Follows>,
    /// What ends it, of a job on the scan pool.
    stop: Option<Stop>,
    /// They are those of a bind that counts as failed when its client does not wait for the answer.
    silence_tells: bool,
    /// What the request takes.
    _held: Option<Held>,
}

impl Running {
    fn search(
        id: MessageId,
        keeps_order: bool,
        deliveries: mpsc::Receiver<Delivery>,
        held: Held,
    ) -> Self {
        Self {
            id,
            deliveries,
            hashes_for: None,
            keeps_order,
            waits: false,
            follows: None,
            stop: None,
            silence_tells: false,
            _held: Some(held),
        }
    }
}

/// The message that was handled.
#[derive(Clone, Copy)]
enum Attempt<'m> {
    /// For the first time.
    First(&'m Received<'m>),
    /// Once more, with answers of the hash pool; the access log knows of it.
    Again,
}

/// Names a request, and says what it asks for.
type Which = (MessageId, Option<OperationKind>);

/// What a connection does when it has sent everything.
enum AfterOutput {
    End(Ending),
    MoreOutput,
    Input,
}

/// What is kept of a client from its first octet on.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) mailbox: Rc<Mailbox>,
    pub(crate) log: ConnectionLog,
    pub(crate) bind_throttle: BindThrottle,
    pub(crate) holding: Holding,
}

impl Connection {
    pub(crate) fn new(
        worker: Rc<Worker>,
        id: ConnectionId,
        stream: Stream,
        client: Client,
    ) -> Self {
        let Client { session, mailbox, log, bind_throttle, holding } = client;
        let limits = &worker.shared.limits();
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
            jobs: Vec::new(),
            waiting: VecDeque::new(),
            within: None,
            fresh: VecDeque::new(),
            state: State::Open,
            idle,
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
            let octets = self.output.held() + self.input.held() + self.mailbox.left();
            self.holding.update(octets, is_anonymous, &worker.shared, || worker.now());
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
            if self.is_client_late() {
                self.log.ends("the client takes too long for a large entry");
                return Poll::Ready(Ending::Lost);
            }
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
            let resumes = self.may_resume();
            if !resumes && !self.may_handle(self.output.waiting()) {
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
            if resumes {
                self.resume_next(slice);
                continue;
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
        if std::mem::replace(&mut self.recheck_round, round) == round || self.state.is_draining() {
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
        self.state = State::Open;
    }

    /// Handles no further message; once all is sent, the session ends like that.
    fn drain(&mut self, ending: Ending) {
        self.state = std::mem::take(&mut self.state).drain(ending);
    }

    /// The session is over: nothing is done for it any more.
    pub(crate) fn abandon(&mut self) {
        self.session.abandon_all();
        self.fresh.clear();
        if self.jobs.is_empty() {
            return;
        }
        let hashes_for = self.jobs.iter().find_map(|job| job.hashes_for);
        let has_searches = self.jobs.iter().any(|job| job.hashes_for.is_none());
        let has_guessed = self.jobs.iter().any(|job| job.silence_tells);
        self.jobs.clear();
        self.waiting.clear();
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

    /// The job that later requests must not overtake, nor earlier ones that are still under way.
    fn keeps_order(&self) -> Option<usize> {
        match self.within {
            Some(id) => self.jobs.iter().position(|job| job.id == id),
            None => self.jobs.iter().position(|job| job.keeps_order),
        }
    }

    /// The job that a state of the store is held for until the client has taken an entry of its.
    fn sends_in_parts(&self) -> Option<usize> {
        let is_one = |job: &Running| job.stop.as_ref().is_some_and(Stop::is_client_to_take);
        self.jobs.iter().position(is_one)
    }

    /// Whether the client takes too long for an entry that is sent in parts, for which a state of
    /// the store is held.
    fn is_client_late(&self) -> bool {
        // There is one at a time, and what was sent before it waits in the output at the most.
        self.jobs.iter().any(|job| job.stop.as_ref().is_some_and(Stop::is_client_late))
    }

    /// Whether the next message may be handled while `waiting_bytes` of answers are not sent.
    fn may_handle(&self, waiting_bytes: usize) -> bool {
        let limits = &self.worker.shared.limits();
        self.state.is_handling()
            && !self.worker.is_stopping()
            && !self.bind_throttle.is_waiting()
            && !self.is_hashing()
            && self.keeps_order().is_none()
            && self.has_room(waiting_bytes)
            && self.session.outstanding() < limits.outstanding_max
    }

    /// Whether there is room for what one more request may bring. Without output and jobs there
    /// always is: nothing would say when there is again.
    fn has_room(&self, waiting_bytes: usize) -> bool {
        if waiting_bytes == 0 && self.jobs.is_empty() && self.fresh.is_empty() {
            return true;
        }
        // What waits for changes makes nothing before it has a thread.
        let making = self.jobs.iter().filter(|job| job.follows.is_none()).count();
        let expected = (making + self.fresh.len()) * END_MAX_BYTES;
        waiting_bytes + expected < self.worker.shared.limits().output_buffer_max_bytes
            && self.holding.has_room()
    }

    /// Everything was sent: what now?
    fn after_output(&mut self) -> AfterOutput {
        if let State::Draining { ending, .. } = self.state {
            return AfterOutput::End(ending);
        }
        if self.session.outstanding() > 0 || !self.jobs.is_empty() {
            return AfterOutput::Input;
        }
        if matches!(self.state, State::HalfClosed(_)) {
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

    /// Has one message handled; false while it has to wait.
    fn handle(&mut self, worker: &Rc<Worker>, received: &Received<'_>, out: &mut Vec<u8>) -> bool {
        let account = || worker.account_of_guess(&self.session, received);
        let (addresses, now) = (&worker.shared.client_addresses, || worker.now());
        match self.bind_throttle.throttle(received, addresses, now, account) {
            Decision::Now => {}
            Decision::Later => return false,
            Decision::Never => {
                let (code, why) = (ResultCode::Busy, TOO_MANY_FAILED);
                let completion = worker.refuse(&mut self.session, received, code, why, out);
                self.record_answer(worker, Attempt::First(received), completion);
                return true;
            }
        }
        self.idle.has_asked();
        let start = out.len();
        let next = worker.handle(&mut self.session, received, out);
        let which = (received.id().unwrap_or(MessageId::UNSOLICITED), received.operation());
        self.follow(worker, next, which, Attempt::First(received), start, out);
        true
    }

    /// Ends the session: handling a message panicked.
    fn panicked(&mut self, which: Which, start: usize, out: &mut Vec<u8>) -> Completion {
        out.truncate(start);
        self.log.ends("internal error");
        self.drain(Ending::Dismissed);
        disconnect(out, which.0, which.1, ResultCode::Other, "internal error")
    }

    /// Does what is to be done after a message was handled; none: that panicked.
    fn follow(
        &mut self,
        worker: &Rc<Worker>,
        next: Option<Next>,
        which: Which,
        attempt: Attempt<'_>,
        start: usize,
        out: &mut Vec<u8>,
    ) {
        let Some(next) = next else {
            let completion = self.panicked(which, start, out);
            return self.record_answer(worker, attempt, completion);
        };
        let so_far = (out.len() - start) as u64;
        let completion = match next {
            Next::Answered(completion) => completion,
            Next::Write(pending) => {
                let (addresses, now) = (&worker.shared.client_addresses, || worker.now());
                let id = pending.id();
                if !pending.is_elsewhere() || self.bind_throttle.hand_on(id, addresses, now) {
                    self.bind_throttle.ends(pending.is_wrong_guess(), addresses, now);
                    // Before it is submitted: the answer may come at once.
                    self.record_begun(worker, attempt, so_far);
                    return pending.submit_to(&worker.outbox, self.id.0);
                }
                self.session.forget(id);
                pending.refuse(out, ResultCode::Busy, TOO_MANY_HANDED_ON)
            }
            Next::Later(job) => {
                let (id, keeps_order) = (job.id(), job.keeps_order());
                let held_bytes = job.message_bytes();
                let account = self.holding.account(&worker.shared, || worker.now());
                let stop = Some(job.stop());
                match worker.shared.scan_pool.submit(&self.session, &account, job) {
                    Ok(deliveries) => {
                        self.record_begun(worker, attempt, so_far);
                        let held = account.hold(held_bytes);
                        let running = Running::search(id, keeps_order, deliveries, held);
                        return self.jobs.push(Running { stop, ..running });
                    }
                    Err(job) => {
                        self.session.forget(id);
                        job.refuse(out, ResultCode::Busy, format!("{TOO_MANY_WAIT}; try again"))
                    }
                }
            }
            Next::Hash(job) => match self.begin_hash(worker, job) {
                Ok(()) => return self.record_begun(worker, attempt, so_far),
                Err((job, why)) => {
                    self.session.forget(job.id());
                    self.unanswered(worker, &job);
                    job.refuse(out, ResultCode::Busy, format!("{why}; try again"))
                }
            },
            Next::Wait(read) => match self.begin_read(worker, read) {
                Ok(()) => return self.record_begun(worker, attempt, so_far),
                Err((read, why)) => {
                    self.session.forget(read.id());
                    read.refuse(out, ResultCode::Busy, format!("{why}; try again"))
                }
            },
            Next::StartTls(completion) => {
                self.drain(Ending::StartTls);
                completion
            }
            Next::Close(completion) => {
                let says_why = completion.code.is_some();
                self.drain(if says_why { Ending::Dismissed } else { Ending::Closed });
                completion
            }
        };
        let (addresses, now) = (&worker.shared.client_addresses, || worker.now());
        self.bind_throttle.answered(&completion, addresses, now);
        self.record_answer(worker, attempt, completion);
    }

    /// For the access log: a message goes on elsewhere.
    fn record_begun(&mut self, worker: &Worker, attempt: Attempt<'_>, so_far: u64) {
        if let Attempt::First(received) = attempt {
            worker.recorder.begun(&mut self.log, &self.session, received, so_far);
        }
    }

    /// For the access log: all was said to a message.
    fn record_answer(&mut self, worker: &Worker, attempt: Attempt<'_>, completion: Completion) {
        let recorder = &worker.recorder;
        match attempt {
            Attempt::First(received) => {
                recorder.handled(&mut self.log, &self.session, received, &completion);
            }
            Attempt::Again => {
                recorder.answered(&mut self.log, &self.session, completion, Duration::ZERO);
            }
        }
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

const TOO_MANY_FAILED: &str = "too many binds of your address have failed; try again later";
const TOO_MANY_HANDED_ON: &str =
    "too many passwords of your address wait to be looked at; try again later";
const TOO_MANY_WAIT: &str = "too many large requests are waiting";

/// What the end of a job may bring, whatever waits: less than one chunk.
const END_MAX_BYTES: usize = 64 * 1024;
