//! All operations on one screen: controls first, then one `match`.

use std::mem;
use std::sync::Arc;

use aci::Privilege;
use ldap::ber::DecodeReason;
use ldap::message::{
    Control, Controls, ControlsBuf, DecodeFailure, DecodeLimits, Message, MessageId, OperationKind,
    Request,
};
use ldap::result::ResultCode;
use schema::DnKey;

use crate::access::guard::{Viewer, guarded};
use crate::bind::hashing::{HashDone, RequestHashes};
use crate::bind::{self, must_change, proxied, recheck};
use crate::config::{change_members, close_session, join, lockdown};
use crate::forward::asking;
use crate::read::fresh;
use crate::read::fresh::waiting::{ReadReady, Resumed};
use crate::read::search::parked::Parked;
use crate::request::cancel::{self, Ending};
use crate::request::completion::Completion;
use crate::request::controls::request::RequestControls;
use crate::request::controls::{self, Operation};
use crate::request::decoded::RequestParts;
use crate::request::extended;
use crate::request::extended::call::Call;
use crate::request::job::{Job, JobDone, Ran};
use crate::request::large_entry::LargeMessage;
use crate::request::quarantined;
use crate::request::received::{Envelope, Received};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::{self, Receiver, ResponseSink, Streamed};
use crate::request::worker::{Next, RequestState, Worker};
use crate::write::{self, named, submit};
use crate::{password_policy, read, tasks};

impl Worker {
    /// Handles one complete message (as `ldap::ber::frame` cut it) and appends to `out` what is to
    /// be sent.
    pub fn handle(&mut self, session: &mut Session, message: &[u8], out: &mut Vec<u8>) -> Next {
        let received = self.decode(message);
        self.handle_received(session, &received, out)
    }

    /// Decodes one whole message (as `ldap::ber::frame` cut it).
    pub fn decode<'m>(&self, message: &'m [u8]) -> Received<'m> {
        Received::decode(message, &self.directory.decode_limits)
    }

    /// Handles one message that is decoded already.
    pub fn handle_received(
        &mut self,
        session: &mut Session,
        received: &Received<'_>,
        out: &mut Vec<u8>,
    ) -> Next {
        self.request = RequestState::default();
        self.carry_out(session, received, out)
    }

    fn carry_out(
        &mut self,
        session: &mut Session,
        received: &Received<'_>,
        out: &mut Vec<u8>,
    ) -> Next {
        let start = out.len();
        let id = received.id().unwrap_or(MessageId::UNSOLICITED);
        let mut sink = ResponseSink::new(out, id, received.operation());
        let mut next = match &received.message {
            Ok(decoded) => dispatch(self, session, decoded, received.bytes, &mut sink),
            Err(failure) => {
                if received.operation() == Some(OperationKind::Bind) {
                    session.start_bind();
                }
                let next = refuse_undecodable(failure, &mut sink);
                // It may have been an update of any of them.
                for identifier in session.transactions().abort_all() {
                    let why = "a request of the connection could not be read";
                    sink.aborted_transaction(&identifier, ResultCode::ProtocolError, why);
                }
                next
            }
        };
        if let Next::Answered(completion) | Next::StartTls(completion) | Next::Close(completion) =
            &mut next
        {
            completion.bytes = (out.len() - start) as u64;
            completion.is_wrong_guess = self.request.is_wrong_guess;
            completion.claimed = self.request.claimed.take();
        }
        next
    }

    /// Refuses a message that is not carried out. After a bind the client is nobody, as after every
    /// bind that fails (RFC 4513 §4).
    pub fn refuse(
        &mut self,
        session: &mut Session,
        received: &Received<'_>,
        code: ResultCode,
        why: &'static str,
        out: &mut Vec<u8>,
    ) -> Completion {
        let operation = received.operation();
        if operation == Some(OperationKind::Bind) {
            session.refuse_bind();
        }
        let id = received.id().unwrap_or(MessageId::UNSOLICITED);
        sink::refuse(out, id, operation, Refusal::new(code, why))
    }

    /// Goes on with a request whose hashes are computed.
    pub fn resume(&mut self, session: &mut Session, done: HashDone, out: &mut Vec<u8>) -> Next {
        let HashDone { id, operation, message, answered, cancel, attempt } = done;
        session.forget(id);
        if cancel.is_set() {
            return Next::Answered(Completion::of(id, Some(operation)));
        }
        let hashing = RequestHashes::resumed(answered, attempt);
        // It was, before it asked for hashes.
        self.request = RequestState { hashing, is_fresh: true, ..RequestState::default() };
        let received = Received::decode(&message, &self.directory.decode_limits);
        self.carry_out(session, &received, out)
    }

    /// Goes on with a read that has waited until the data are fresh enough, or in vain.
    pub fn resume_read(
        &mut self,
        session: &mut Session,
        ready: ReadReady,
        out: &mut Vec<u8>,
    ) -> Next {
        let message = match ready.resume(session, out) {
            Resumed::Message(message) => message,
            Resumed::Over(completion) => return Next::Answered(completion),
        };
        self.request = RequestState { is_fresh: true, ..RequestState::default() };
        let received = Received::decode(&message, &self.directory.decode_limits);
        self.carry_out(session, &received, out)
    }

    /// Carries out a job on a pool thread, or goes on with one.
    pub fn run(&mut self, job: Job, receiver: &mut dyn Receiver) -> Ran {
        run(self, job, receiver)
    }

    /// Brings a session up to what its entry is now: its name, privileges and limits.
    ///
    /// # Errors
    /// Why the session has to end: its entry is gone or switched off, or it asked for something
    /// with rights that it has no more, and that is still under way.
    pub fn recheck(&mut self, session: &mut Session) -> Result<(), &'static str> {
        recheck::recheck(self, session).unwrap_or_else(|refusal| {
            tracing::warn!(reason = %refusal.diagnostic, "a session cannot be looked at");
            Err("the entry of this session cannot be read")
        })
    }
}

/// Carries out one request as far as it goes on this thread.
fn dispatch(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
    bytes: &[u8],
    sink: &mut ResponseSink<'_>,
) -> Next {
    match &message.op {
        Request::Unbind => {
            session.abandon_all();
            return Next::Close(sink.nothing());
        }
        Request::Abandon(id) => {
            session.abandon(*id);
            return Next::Answered(sink.nothing());
        }
        Request::Bind(_) => session.start_bind(),
        _ => {}
    }
    let Some(operation) = Operation::of(&message.op) else {
        return Next::Answered(sink.nothing());
    };
    let expired = session.transactions().expire(&*worker.directory.clock);
    let mut asks_policy = message.controls.iter().any(|one| one.oid == password_policy::REQUEST);
    let mut controls = RequestControls::default();
    let outcome = check(worker, session, message, &mut asks_policy, &mut controls)
        .and_then(|()| carry_out(worker, session, message, bytes, &controls, sink));
    session.resume();
    let next = outcome.unwrap_or_else(|refusal| {
        let code = refusal.code;
        let completion = refuse(sink, refusal, asks_policy.then_some(operation));
        abort_transaction(session, &message.controls, code, sink);
        Next::Answered(completion)
    });
    for identifier in expired {
        let (code, why) = (ResultCode::TimeLimitExceeded, "the transaction was idle for too long");
        sink.aborted_transaction(&identifier, code, why);
    }
    next
}

/// What is looked at before a request is carried out, whatever it asks for; its controls are taken.
fn check<'m>(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'m, Request<'m>>,
    asks_policy: &mut bool,
    controls: &mut RequestControls<'m>,
) -> Result<(), Refusal> {
    check_id(session, message.id)?;
    lockdown::check(&worker.directory, session, &message.op)?;
    quarantined::check(&worker.directory, session, &message.op)?;
    check_not_binding(session, &message.op)?;
    check_policy(worker, session, &message.op)?;
    must_change::check(worker, session, message)?;
    count_operation(session, &message.op)?;
    let denied = denied(&message.controls, worker, session)?;
    *asks_policy &= !denied.contains(&password_policy::REQUEST);
    if let Some(operation) = Operation::of(&message.op) {
        controls::take(controls, &message.controls, operation, denied)?;
    }
    proxied::assume(worker, session, controls)
}

/// A transaction that lost one of its updates is given up: what would be left of it is not what
/// the client asked for (RFC 5805 §2.4).
fn abort_transaction(
    session: &mut Session,
    controls: &Controls<'_>,
    code: ResultCode,
    sink: &mut ResponseSink<'_>,
) {
    for control in controls.iter().filter(|one| one.oid == controls::transaction::SPECIFICATION) {
        let identifier = control.value.unwrap_or_default();
        if session.transactions().take(identifier).is_ok() {
            let why = "an update of the transaction was refused";
            sink.aborted_transaction(identifier, code, why);
        }
    }
}

/// Of the controls that were sent, those that the asker may not use.
fn denied(
    controls: &Controls<'_>,
    worker: &mut Worker,
    session: &Session,
) -> Result<Vec<&'static str>, Refusal> {
    let access = session.access();
    if access.has(Privilege::BypassAcl) || controls.iter().next().is_none() {
        return Ok(Vec::new());
    }
    let directory = &worker.directory;
    let state = directory.state.load();
    let viewer = Viewer { directory, access, view: worker.snapshot.view()?, schema: &state.schema };
    Ok(guarded(&viewer, &DnKey::root(), |guard| controls::denied(controls, guard)))
}

/// RFC 4511 §4.1.1.1: an id may not be used again while its request is in progress, and 0 is the
/// server's.
fn check_id(session: &Session, id: MessageId) -> Result<(), Refusal> {
    if id.0 == 0 || session.is_outstanding(id) {
        return Err(Refusal::new(
            ResultCode::ProtocolError,
            "the message id is 0 or that of a request still in progress",
        ));
    }
    Ok(())
}

/// What the policy of the connection says (see `policy.rs`).
fn check_policy(
    worker: &Worker,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<(), Refusal> {
    let directory = &worker.directory;
    if directory.rules.policies.is_empty() {
        return Ok(());
    }
    directory.rules.policies.check(session, request, &directory.state.load().schema)
}

/// Counts the request among the operations of its identity; a bind changes who that is.
fn count_operation(session: &mut Session, request: &Request<'_>) -> Result<(), Refusal> {
    match request {
        Request::Bind(_) => Ok(()),
        // It makes room for others.
        Request::Extended(extended) if extended.oid == cancel::OID => Ok(()),
        _ => session.count_operation(),
    }
}

/// RFC 4511 §4.2.1: a client sends nothing but binds until an exchange of SASL messages is over.
fn check_not_binding(session: &Session, request: &Request<'_>) -> Result<(), Refusal> {
    if session.is_binding() && !matches!(request, Request::Bind(_)) {
        return Err(Refusal::new(
            ResultCode::OperationsError,
            "a SASL bind is in progress: end it, or begin another",
        ));
    }
    Ok(())
}

/// The operations. Each answers in `sink` itself, or returns what is still to be done.
fn carry_out(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
    bytes: &[u8],
    controls: &RequestControls<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let is_read = matches!(message.op, Request::Search(_) | Request::Compare(_));
    let generation = || worker.directory.state.load().schema.generation();
    let schema_generation = (!is_read).then(generation);
    let (id, operation) = (message.id, message.op.kind());
    let envelope = Envelope { id, operation, bytes, schema_generation };
    if !is_read && let Some(done) = tasks::request::asked(worker, session, &message.op, controls)? {
        return Ok(Next::Answered(sink.end(Refusal::new(done, ""), Controls::EMPTY)));
    }
    if !is_read
        && worker.directory.queue.forwarding().is_some()
        && let Some(next) = asking::update(worker, session, message, controls, envelope)?
    {
        return Ok(next);
    }
    if is_read
        && (controls.read_level.is_some() || worker.directory.fresh_reads.is_some())
        && let Some(next) = fresh::wait(worker, session, &message.op, controls, envelope)?
    {
        return Ok(next);
    }
    let resolved = match &message.op {
        Request::Bind(bind) => {
            return bind::start(worker, session, bind, controls, envelope, sink);
        }
        Request::Search(search) => {
            return read::search::start(worker, session, search, controls, envelope, sink);
        }
        Request::Compare(compare) => {
            return read::compare::start(worker, session, compare, controls, envelope, sink);
        }
        Request::Extended(extended) => {
            let call = Call { controls, envelope };
            return extended::start(worker, session, extended, &call, sink);
        }
        // Handled before the controls: they have no answer.
        Request::Unbind | Request::Abandon(_) => return Ok(Next::Answered(sink.nothing())),
        Request::Add(add) => write::add::resolve(worker, session, controls, add)?,
        Request::Delete(delete) => {
            let named = named::named(&worker.directory, delete.name)?;
            if let Some(closed) = close_session::close(worker, session, &named, controls)? {
                let result = Refusal::new(closed, "");
                return Ok(Next::Answered(sink.end(result, Controls::EMPTY)));
            }
            write::delete::resolve(&worker.directory, named, controls)?.into()
        }
        Request::Modify(modify) => write::modify::resolve(worker, session, controls, modify)?,
        Request::ModifyDn(rename) => write::modify_dn::resolve(worker, rename)?.into(),
    };
    submit::submit(worker, session, controls, envelope, resolved, sink)
}

/// Carries out a job on a pool thread, or goes on with it.
fn run(worker: &mut Worker, mut job: Job, receiver: &mut dyn Receiver) -> Ran {
    let mut end = Vec::new();
    let new = || Completion::of(job.id, Some(job.operation));
    let so_far = job.parked.as_mut().map_or_else(new, |parked| parked.so_far.clone());
    worker.request = RequestState::default();
    let directory = Arc::clone(&worker.directory);
    let mut sink =
        ResponseSink::flushed(&mut end, so_far, directory.limits().chunk_bytes, receiver);
    if job.keeps_order {
        sink.keep_order();
    }
    if let Some(large) = job.large.take() {
        return stream(job, large, &mut sink);
    }
    let request = mem::take(&mut job.request)
        .decoded(|message| read_request(message, &directory.decode_limits, &job.denied));
    let mut completion = match request {
        Err(refusal) => sink.end(refusal, Controls::EMPTY),
        Ok(request) => match run_on(worker, &mut job, request.parts(), &mut sink) {
            Ok(completion) => completion,
            Err(mut parked) => {
                job.keeps_order = sink.keeps_order();
                parked.deferred = sink.take_deferred();
                if !sink.is_large() {
                    parked.so_far = sink.parked();
                }
                let budget = &directory.budgets.parked;
                let max = directory.limits().parked_requests_max_bytes();
                let large = sink.take_large();
                job.park(request, parked, budget, max);
                let Some(large) = large else { return Ran::Parked(job) };
                let time_max = large.time_max();
                let message = worker.snapshot.detach().and_then(|view| large.begin(view));
                let Some(message) = message else {
                    let why = "the entry cannot be read again";
                    let completion =
                        sink.end(Refusal::new(ResultCode::Other, why), Controls::EMPTY);
                    return Ran::Done(JobDone { end, completion });
                };
                job.stop.set_time_to_take(Some(time_max));
                return stream(job, Box::new(message), &mut sink);
            }
        },
    };
    if job.stop.decide() == Ending::Canceled {
        sink.take_back();
        completion = sink.end(Refusal::new(ResultCode::Canceled, ""), Controls::EMPTY);
    }
    Ran::Done(JobDone { end, completion })
}

/// Sends parts of an entry that is sent in parts; afterwards the search goes on when its client has
/// taken them, with the state of then.
fn stream(mut job: Job, mut large: Box<LargeMessage>, sink: &mut ResponseSink<'_>) -> Ran {
    let streamed = sink.stream(&mut large);
    match streamed {
        Streamed::Whole => {
            job.stop.set_time_to_take(None);
            job.turn = Some(large.into_turn());
        }
        Streamed::Parked => job.large = Some(large),
        Streamed::Stopped => {
            job.stop.set_time_to_take(None);
            let (end, completion) = (Vec::new(), sink.nothing());
            return Ran::Done(JobDone { end, completion });
        }
        Streamed::Failed(error) => {
            tracing::error!(%error, "a connection ends: the rest of an entry cannot be sent");
            return Ran::Broken;
        }
    }
    if let Some(parked) = &mut job.parked {
        parked.so_far = sink.parked();
    }
    Ran::Parked(job)
}

/// Reads the message of a job, which was read before it became one.
fn read_request<'m>(
    message: &'m [u8],
    limits: &DecodeLimits,
    denied: &[&'static str],
) -> Result<RequestParts<'m>, Refusal> {
    #[cfg(test)]
    crate::request::job::tests::note_decoded();
    let unreadable = || Refusal::new(ResultCode::Other, "the request cannot be read again");
    let message = Message::<Request<'_>>::decode(message, limits).map_err(|_| unreadable())?;
    let operation = Operation::of(&message.op).ok_or_else(unreadable)?;
    let mut controls = RequestControls::default();
    controls::take(&mut controls, &message.controls, operation, denied.to_vec())?;
    Ok(RequestParts { op: message.op, controls })
}

/// Carries out the operation of a job as far as it goes; says where it parks.
fn run_on(
    worker: &mut Worker,
    job: &mut Job,
    request: &RequestParts<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Completion, Box<Parked>> {
    let controls = &request.controls;
    match &request.op {
        _ if job.stop.is_abandoned() => Ok(sink.nothing()),
        Request::Search(search) => read::search::run_job(worker, job, search, controls, sink),
        Request::Compare(compare) => {
            Ok(read::compare::run_job(worker, job, compare, controls, sink))
        }
        Request::Unbind
        | Request::Abandon(_)
        | Request::Bind(_)
        | Request::Add(_)
        | Request::Delete(_)
        | Request::Modify(_)
        | Request::ModifyDn(_) => Ok(sink.nothing()),
        Request::Extended(extended) if extended.oid == join::OID => {
            Ok(join::run_job(worker, extended, sink))
        }
        Request::Extended(extended) => Ok(change_members::run_job(worker, job, extended, sink)),
    }
}

/// The answer to a request that is refused, with what a password policy has to say of it where that
/// was asked of an operation.
fn refuse(
    sink: &mut ResponseSink<'_>,
    refusal: Refusal,
    asked_of: Option<Operation>,
) -> Completion {
    let mut list = ControlsBuf::new();
    if let Some(operation) = asked_of {
        password_policy::add_to(&mut list, operation.tells_policy(), refusal.policy);
    }
    if sink.operation() == Some(OperationKind::Bind)
        && let Some((oid, value)) = bind::login::unasked(&refusal)
    {
        list.push(Control { oid, critical: false, value: Some(&value) });
    }
    sink.end(refusal, list.as_ref())
}

/// RFC 4511 §4.1.1: broken structure ends the session with a notice of disconnection; where only
/// the content of a known request is at fault, that request is answered, and more may follow.
fn refuse_undecodable(failure: &DecodeFailure, sink: &mut ResponseSink<'_>) -> Next {
    let diagnostic = failure.error.to_string();
    let kind = sink.operation().and_then(OperationKind::answered_by);
    match (failure.id, kind, code_of_content(failure.error.reason)) {
        (Some(_), Some(_), Some(code)) => {
            Next::Answered(sink.end(Refusal::new(code, diagnostic), Controls::EMPTY))
        }
        _ => {
            let refusal = Refusal::new(ResultCode::ProtocolError, diagnostic);
            Next::Close(sink.notice_of_disconnection(refusal))
        }
    }
}

/// What a message is answered that was well framed and whose content is not acceptable.
fn code_of_content(reason: DecodeReason) -> Option<ResultCode> {
    match reason {
        // Nothing is wrong with it but its size.
        DecodeReason::TooDeep
        | DecodeReason::TooManyTerms
        | DecodeReason::TooManyControls
        | DecodeReason::TooManyAttributes
        | DecodeReason::TooManyModifications => Some(ResultCode::AdminLimitExceeded),
        DecodeReason::BadUtf8
        | DecodeReason::OutOfRange
        | DecodeReason::EmptyList
        | DecodeReason::SubstringOrder
        | DecodeReason::EmptySubstring
        | DecodeReason::EmptyMatchingRule
        | DecodeReason::NameTooLong => Some(ResultCode::ProtocolError),
        DecodeReason::Truncated
        | DecodeReason::IndefiniteLength
        | DecodeReason::LengthTooLong
        | DecodeReason::MessageTooLong
        | DecodeReason::HighTagNumber
        | DecodeReason::UnexpectedTag(_)
        | DecodeReason::BadBoolean
        | DecodeReason::BadInteger
        | DecodeReason::BadNull
        | DecodeReason::TrailingBytes => None,
    }
}
