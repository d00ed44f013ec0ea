//! All operations on one screen: controls first, then one `match`.

use ldap::message::{Control, Controls, ControlsBuf, Message, MessageId, OperationKind, Request};
use ldap::result::ResultCode;

use crate::bind;
use crate::bind::must_change;
use crate::config::session_monitor;
use crate::password_policy;
use crate::read::search::Parked;
use crate::request::cancel::Ending;
use crate::request::completion::Completion;
use crate::request::controls::{self, Operation, RequestControls, proxied};
use crate::request::extended::Call;
use crate::request::job::{Job, JobDone, Ran};
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::{Receiver, ResponseSink};
use crate::request::worker::{Next, RequestState, Worker};
use crate::request::{cancel, extended};
use crate::write::update;
use crate::{read, write};

/// Carries out one request as far as it goes on this thread.
pub(crate) fn dispatch(
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
    let outcome = check_id(session, message.id)
        .and_then(|()| check_not_binding(session, &message.op))
        .and_then(|()| check_policy(worker, session, &message.op))
        .and_then(|()| must_change::check(worker, session, message))
        .and_then(|()| take_turn(session, &message.op))
        .and_then(|()| controls::denied(&message.controls, worker, session))
        .and_then(|denied| {
            asks_policy &= !denied.contains(&password_policy::REQUEST);
            controls::take(&message.controls, operation, &denied)
        })
        .and_then(|controls| {
            proxied::assume(worker, session, &controls)?;
            carry_out(worker, session, (message, bytes), &controls, sink)
        });
    session.resume();
    let next = outcome.unwrap_or_else(|refusal| {
        let code = refusal.code;
        let completion = refuse(sink, refusal, asks_policy.then_some(operation));
        abort_transaction(session, &message.controls, code, sink);
        Next::Answered(completion)
    });
    for identifier in expired {
        let (code, why) = (ResultCode::TimeLimitExceeded, "the transaction was not used for long");
        sink.aborted_transaction(&identifier, code, why);
    }
    next
}

/// A transaction that lost one of its updates is given up: what would be left of it is not what
/// the client asked for (RFC 5805 §2.4).
fn abort_transaction(
    session: &mut Session,
    controls: &Controls<'_>,
    code: ResultCode,
    sink: &mut ResponseSink<'_>,
) {
    for control in controls.iter().filter(|one| one.oid == write::transaction::SPECIFICATION) {
        let identifier = control.value.unwrap_or_default();
        if session.transactions().take(identifier).is_ok() {
            let why = "an update of the transaction was refused";
            sink.aborted_transaction(identifier, code, why);
        }
    }
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
    if directory.policies.is_empty() {
        return Ok(());
    }
    directory.policies.check(session, request, &directory.state.load().schema)
}

/// Counts the request among the operations of its identity; a bind changes who that is.
fn take_turn(session: &mut Session, request: &Request<'_>) -> Result<(), Refusal> {
    match request {
        Request::Bind(_) => Ok(()),
        // It makes room for others.
        Request::Extended(extended) if extended.oid == cancel::OID => Ok(()),
        _ => session.take_turn(),
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
    (message, bytes): (&Message<'_, Request<'_>>, &[u8]),
    controls: &RequestControls<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let is_read = matches!(message.op, Request::Search(_) | Request::Compare(_));
    let generation = || worker.directory.state.load().schema.generation();
    let schema_generation = (!is_read).then(generation);
    let (id, operation) = (message.id, message.op.kind());
    let envelope = Envelope { id, operation, bytes, schema_generation };
    let resolved = match &message.op {
        Request::Bind(bind) => {
            return bind::start(worker, session, bind, (controls, envelope), sink);
        }
        Request::Search(search) => {
            return read::search::start(worker, session, search, (controls, envelope), sink);
        }
        Request::Compare(compare) => {
            return read::compare::start(worker, session, compare, (controls, envelope), sink);
        }
        Request::Extended(extended) => {
            let call = Call { controls, envelope };
            return extended::start(worker, session, extended, &call, sink);
        }
        // Handled before the controls: they have no answer.
        Request::Unbind | Request::Abandon(_) => return Ok(Next::Answered(sink.nothing())),
        Request::Add(add) => write::add::resolve(worker, session, add)?,
        Request::Delete(delete) => {
            let named = update::named(worker, delete.name)?;
            if let Some(closed) = session_monitor::close(worker, session, &named, controls)? {
                let result = Refusal::new(closed, "");
                return Ok(Next::Answered(sink.end(result, Controls::EMPTY)));
            }
            write::delete::resolve(named, controls)?.into()
        }
        Request::Modify(modify) => write::modify::resolve(worker, session, controls, modify)?,
        Request::ModifyDn(rename) => write::modify_dn::resolve(worker, rename)?.into(),
    };
    update::submit(worker, session, (controls, envelope), resolved, sink)
}

/// Carries out a job on a pool thread: the message is decoded again from the job's own copy.
pub(crate) fn run(worker: &mut Worker, mut job: Job, receiver: &mut dyn Receiver) -> Ran {
    let mut end = Vec::new();
    let new = || Completion::of(job.id, Some(job.operation));
    let so_far = job.parked.as_mut().map_or_else(new, |parked| parked.so_far.clone());
    worker.request = RequestState::default();
    let chunk_bytes = worker.directory.limits.chunk_bytes;
    let mut sink = ResponseSink::flushed(&mut end, so_far, chunk_bytes, receiver);
    if job.keeps_order {
        sink.keep_order();
    }
    let mut completion = match run_on(worker, &job, &mut sink) {
        Ok(completion) => completion,
        Err(mut parked) => {
            job.keeps_order = sink.keeps_order();
            parked.so_far = sink.parked();
            job.parked = Some(parked);
            return Ran::Parked(job);
        }
    };
    if job.stop.decide() == Ending::Canceled {
        sink.take_back();
        completion = sink.end(Refusal::new(ResultCode::Canceled, ""), Controls::EMPTY);
    }
    Ran::Done(JobDone { end, completion })
}

/// Carries out the operation of a job as far as it goes; says where it parks.
fn run_on(
    worker: &mut Worker,
    job: &Job,
    sink: &mut ResponseSink<'_>,
) -> Result<Completion, Box<Parked>> {
    let decoded = Message::<Request<'_>>::decode(&job.message, &worker.directory.decode_limits);
    let Ok(Message { op, controls, .. }) = &decoded else { return Ok(sink.nothing()) };
    match op {
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
        | Request::ModifyDn(_)
        | Request::Extended(_) => Ok(sink.nothing()),
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
