//! Work that is too long for the thread that reads requests: large searches, and compares with
//! large values or with many.

#[cfg(test)]
pub(crate) mod tests;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use aci::Access;
use environment::Clock;
use ldap::message::{MessageId, OperationKind};
use ldap::result::ResultCode;

use crate::read::search::budget::Budget;
use crate::read::search::parked::Parked;
use crate::read::search::resolved::ResolvedRequest;
use crate::request::asker_bytes::AskerHeld;
use crate::request::asker_queues::Asker;
use crate::request::completion::Completion;
use crate::request::decoded::{DecodedRequest, JobRequest};
use crate::request::large_entry::LargeMessage;
use crate::request::large_turns::{LargeTurn, LargeTurns};
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink;
use crate::request::stop::Stop;

/// A request to be carried out by a pool thread. It owns its request, because the read buffer is
/// needed for the next one.
pub struct Job {
    pub(crate) id: MessageId,
    pub(crate) operation: OperationKind,
    pub(crate) request: JobRequest,
    /// What the request of a search means, where that was found out. It is used as long as the
    /// schema stays the same.
    pub(crate) resolved: Option<Box<ResolvedRequest>>,
    pub(crate) access: Arc<Access>,
    /// Controls of the request that the asker may not use.
    pub(crate) denied: Vec<&'static str>,
    pub(crate) stop: Stop,
    /// Later requests of the connection wait until it is over, or says [`Receiver::release`].
    ///
    /// [`Receiver::release`]: crate::Receiver::release
    pub(crate) keeps_order: bool,
    /// It is carried out for somebody else than the session is of (RFC 4370).
    pub(crate) is_assumed: bool,
    /// Where it goes on, when it has parked.
    pub(crate) parked: Option<Box<Parked>>,
    /// The entry that it is sending in parts.
    pub(crate) large: Option<Box<LargeMessage>>,
    /// The turns of the connection's requests to do that, and its own, until the connection has
    /// taken all parts.
    pub(crate) large_turns: LargeTurns,
    pub(crate) turn: Option<LargeTurn>,
    /// Whose connection it is of.
    pub(crate) asker: Asker,
    /// Room for an entry that is sent in parts, if it has waited for that.
    pub(crate) room: Cell<Option<AskerHeld>>,
    /// Its place among those that go on with what changes, if it is one.
    pub(crate) _stream: Option<AskerHeld>,
}

impl Job {
    /// A request that a pool thread carries out as a whole; later ones of the connection need not
    /// wait for it.
    pub(crate) fn whole(
        session: &mut Session,
        envelope: Envelope<'_>,
        denied: Vec<&'static str>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            id: envelope.id,
            operation: envelope.operation,
            request: JobRequest::copy(envelope.bytes),
            resolved: None,
            access: Arc::clone(session.access()),
            denied,
            stop: Stop::new(session.begin(envelope.id), Arc::clone(clock)),
            keeps_order: false,
            is_assumed: session.is_assumed(),
            parked: None,
            large: None,
            large_turns: session.large_turns(),
            turn: None,
            asker: Asker::of(session),
            room: Cell::default(),
            _stream: None,
        }
    }
}

/// How far a pool thread came with a job.
#[derive(Debug)]
#[must_use]
pub enum Ran {
    /// It is over.
    Done(JobDone),
    /// Its receiver has no room: it goes on, on any thread, when it is run again. It holds nothing
    /// of the store, and goes on with what is there then; unless it [`Job::is_within_message`].
    Parked(Job),
    /// A part of a message was sent, and the rest cannot be: the connection has to end.
    Broken,
}

impl Ran {
    /// The end of a job; none when it has parked.
    pub fn done(self) -> Option<JobDone> {
        match self {
            Self::Done(done) => Some(done),
            Self::Parked(_) | Self::Broken => None,
        }
    }
}

impl Job {
    /// Which request it is.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Whether later requests of the connection may not overtake it, as if it were answered where
    /// requests are read: what the asker may not find has brought it here, and may not be told. It
    /// is never refused, since there is one for each connection at the most.
    pub fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    /// Whether a message of its response is only sent in part so far: what comes next is the rest
    /// of it, whoever has no more use for it.
    pub fn is_within_message(&self) -> bool {
        self.large.is_some()
    }

    /// Whether it has parked before an entry that is to be sent in parts, since another request of
    /// the connection is at that. It holds nothing for it, and is to be run again when
    /// [`Session::may_send_in_parts`].
    pub fn waits_for_turn(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.deferred.is_some())
    }

    /// Whether it waits for a change: it has nothing to do before, and holds nothing for it; see
    /// [`Directory::wait_for_change`].
    ///
    /// [`Directory::wait_for_change`]: crate::Directory::wait_for_change
    pub fn waits_for_change(&self) -> bool {
        self.parked.as_ref().is_some_and(|parked| parked.waits_for_change())
    }

    /// Octets of the message that it keeps.
    pub fn message_bytes(&self) -> usize {
        self.request.message_bytes()
    }

    /// Whether its time is over.
    pub fn is_late(&self) -> bool {
        self.stop.is_late()
    }

    /// Refuses the request: nothing of it is carried out.
    pub fn refuse(&self, out: &mut Vec<u8>, code: ResultCode, why: String) -> Completion {
        sink::refuse(out, self.id, Some(self.operation), Refusal::new(code, why))
    }

    /// The job parks, with what was read of its request where there is room for that.
    pub(crate) fn park(
        &mut self,
        request: DecodedRequest,
        parked: Box<Parked>,
        budget: &Budget,
        budget_max: usize,
    ) {
        let resolved = self.resolved.take();
        let terms = resolved.as_ref().map_or(0, |resolved| resolved.terms());
        self.request = request.kept(terms, budget, budget_max);
        let octets = self.request.message_bytes();
        self.resolved = resolved.and_then(|resolved| resolved.kept(octets, budget, budget_max));
        self.parked = Some(parked);
    }

    /// What tells that the job has to stop; for whoever waits on its behalf.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }
}

impl Session {
    /// A job of this connection goes on, all that it has made was taken: with the rights that the
    /// session has now, unless it is carried out for somebody else.
    pub fn renew(&self, job: &mut Job) {
        job.turn = None;
        if !job.is_assumed && !job.stop.is_abandoned() {
            job.access = Arc::clone(self.own_access());
        }
    }

    /// A job of this connection is over.
    pub fn finish(&mut self, done: &JobDone) {
        self.forget(done.completion.id);
    }
}

// The message may hold a password.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("message_bytes", &self.request.message_bytes())
            .field("is_parked", &self.parked.is_some())
            .finish_non_exhaustive()
    }
}

/// What the connection must know when a job is over; give it to `Session::finish`.
#[derive(Debug)]
#[must_use]
pub struct JobDone {
    /// The end of the response, with the result. It comes with the word that the job is over: a
    /// client that has it may use the message id again at once (RFC 4511 §4.1.1.1).
    pub end: Vec<u8>,
    /// What the whole response says.
    pub completion: Completion,
}
