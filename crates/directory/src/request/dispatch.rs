//! All operations on one screen: controls first, then one `match`.

use ldap::encode;
use ldap::message::{
    Control, Controls, ControlsBuf, Message, MessageId, Request, ResponseKind, StringsBuf,
};
use ldap::result::ResultCode;

use crate::bind;
use crate::bind::must_change;
use crate::config::session_monitor;
use crate::password_policy;
use crate::read;
use crate::request::cancel;
use crate::request::controls::{self, Operation, RequestControls, proxied};
use crate::request::extended;
use crate::request::extended::Call;
use crate::request::job::{Job, JobDone, Ran};
use crate::request::refusal::Refusal;
use crate::request::session::{Ending, Session};
use crate::request::sink::{Receiver, ResponseSink};
use crate::request::worker::{Next, Worker};
use crate::write;
use crate::write::update::{self, Asked};

/// Carries out one request as far as it goes on this thread.
pub(crate) fn dispatch(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Next {
    match &message.op {
        Request::Unbind => {
            session.abandon_all();
            return Next::Close;
        }
        Request::Abandon(id) => {
            session.abandon(*id);
            return Next::Answered;
        }
        Request::Bind(_) => session.start_bind(),
        _ => {}
    }
    let (Some(operation), Some(kind)) = (Operation::of(&message.op), message.op.answered_by())
    else {
        return Next::Answered;
    };
    let expired = session.transactions().expire(&*worker.directory.clock);
    let id = message.id;
    worker.hashing.forget_questions();
    let mut asks_policy = message.controls.iter().any(|one| one.oid == password_policy::REQUEST);
    let outcome = check_id(session, id)
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
            carry_out(worker, session, message, &controls, bytes, out)
        });
    session.resume();
    let next = match outcome {
        Ok(next) => next,
        Err(refusal) => {
            if let Some(error) = refusal.policy {
                worker.note.policy(error);
            }
            let aborted = abort_transaction(session, &message.controls, &refusal);
            let next = refuse(out, (id, kind), &refusal, asks_policy.then_some(operation));
            out.extend_from_slice(&aborted);
            next
        }
    };
    for identifier in expired {
        let (code, why) = (ResultCode::TimeLimitExceeded, "the transaction was not used for long");
        encode::aborted_transaction(out, &identifier, code, why);
    }
    next
}

/// A transaction that lost one of its updates is given up: what would be left of it is not what
/// the client asked for. Returns the notice (RFC 5805 §2.4).
fn abort_transaction(session: &mut Session, controls: &Controls<'_>, refusal: &Refusal) -> Vec<u8> {
    let mut notice = Vec::new();
    for control in controls.iter().filter(|one| one.oid == write::transaction::SPECIFICATION) {
        let identifier = control.value.unwrap_or_default();
        if session.transactions().take(identifier).is_ok() {
            let why = "an update of the transaction was refused";
            encode::aborted_transaction(&mut notice, identifier, refusal.code, why);
        }
    }
    notice
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

/// The operations. Each answers in `out` itself, or returns what is still to be done.
fn carry_out(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
    controls: &RequestControls<'_>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<Next, Refusal> {
    let id = message.id;
    let asked = |kind| Asked { id, kind, bytes };
    if !matches!(message.op, Request::Search(_) | Request::Compare(_)) {
        worker.schema_generation = worker.directory.state.load().schema.generation();
    }
    match &message.op {
        Request::Bind(bind) => bind::start(worker, session, bind, controls, (id, bytes), out),
        Request::Search(search) => {
            read::search::start(worker, session, search, controls, (id, bytes), out)
        }
        Request::Compare(compare) => {
            read::compare::start(worker, session, compare, controls, (id, bytes), out)
        }
        Request::Add(add) => {
            let op = write::add::resolve(worker, session, add)?;
            update::submit(worker, session, controls, &asked(ResponseKind::Add), op, out)
        }
        Request::Delete(delete) => {
            let named = update::named(worker, delete.name)?;
            if let Some(closed) = session_monitor::close(worker, session, &named, controls)? {
                return Ok(answer(out, id, ResponseKind::Delete, Ok(closed)));
            }
            let op = write::delete::resolve(named, controls)?;
            update::submit(worker, session, controls, &asked(ResponseKind::Delete), op, out)
        }
        Request::Modify(modify) => {
            let op = write::modify::resolve(worker, session, controls, modify)?;
            update::submit(worker, session, controls, &asked(ResponseKind::Modify), op, out)
        }
        Request::ModifyDn(rename) => {
            let op = write::modify_dn::resolve(worker, rename)?;
            update::submit(worker, session, controls, &asked(ResponseKind::ModifyDn), op, out)
        }
        Request::Extended(extended) => {
            let call = Call { id, controls, bytes };
            extended::start(worker, session, extended, &call, out)
        }
        // Handled before the controls: they have no answer.
        Request::Unbind | Request::Abandon(_) => Ok(Next::Answered),
    }
}

/// Carries out a job on a pool thread: the message is decoded again from the job's own copy.
pub(crate) fn run(worker: &mut Worker, mut job: Job, receiver: &mut dyn Receiver) -> Ran {
    let mut out = Vec::new();
    // Nothing that another job left.
    worker.note.restore(job.parked.as_ref().map(|parked| parked.noted).unwrap_or_default());
    let mut kind = ResponseKind::SearchDone;
    let decoded = Message::<Request<'_>>::decode(&job.message, &worker.directory.decode_limits);
    if let Ok(message) = decoded {
        kind = message.op.answered_by().unwrap_or(kind);
        match &message.op {
            _ if job.stop.is_abandoned() => {}
            Request::Search(search) => {
                let controls = &message.controls;
                let ran = read::search::run_job(worker, &job, search, controls, &mut out, receiver);
                if let Some(mut parked) = ran {
                    debug_assert!(out.is_empty(), "a search parks when all it has was taken");
                    parked.noted = worker.noted();
                    job.parked = Some(parked);
                    return Ran::Parked(job);
                }
            }
            Request::Compare(compare) => {
                read::compare::run_job(worker, &job, compare, &message.controls, &mut out);
            }
            Request::Unbind
            | Request::Abandon(_)
            | Request::Bind(_)
            | Request::Add(_)
            | Request::Delete(_)
            | Request::Modify(_)
            | Request::ModifyDn(_)
            | Request::Extended(_) => {}
        }
    }
    if job.stop.decide() == Ending::Canceled {
        out.clear();
        let _ = answer(&mut out, job.id, kind, Ok(ResultCode::Canceled));
    }
    Ran::Done(JobDone { id: job.id, noted: worker.noted(), end: out })
}

/// The answer to a request that is refused, with what a password policy has to say of it where that
/// was asked of an operation.
fn refuse(
    out: &mut Vec<u8>,
    (id, kind): (MessageId, ResponseKind),
    refusal: &Refusal,
    asked_of: Option<Operation>,
) -> Next {
    let mut list = ControlsBuf::new();
    if let Some(operation) = asked_of {
        password_policy::add_to(&mut list, operation.tells_policy(), refusal.policy);
    }
    if kind == ResponseKind::Bind
        && let Some((oid, value)) = bind::login::unasked(refusal)
    {
        list.push(Control { oid, critical: false, value: Some(&value) });
    }
    let mut urls = StringsBuf::new();
    let mut sink = ResponseSink::bounded(out, id, usize::MAX);
    sink.result(kind, &refusal.to_result(&mut urls), list.as_ref());
    Next::Answered
}

/// Writes the final answer of an operation that has nothing but a result.
pub(crate) fn answer(
    out: &mut Vec<u8>,
    id: MessageId,
    kind: ResponseKind,
    outcome: Result<ResultCode, Refusal>,
) -> Next {
    answer_with(out, (id, kind), outcome, Controls::EMPTY)
}

/// The same with controls.
pub(crate) fn answer_with(
    out: &mut Vec<u8>,
    (id, kind): (MessageId, ResponseKind),
    outcome: Result<ResultCode, Refusal>,
    controls: Controls<'_>,
) -> Next {
    // A code with nothing more to say has the same wire form as a refusal.
    let result = outcome.map_or_else(|refusal| refusal, |code| Refusal::new(code, ""));
    let mut urls = StringsBuf::new();
    let mut sink = ResponseSink::bounded(out, id, usize::MAX);
    sink.result(kind, &result.to_result(&mut urls), controls);
    Next::Answered
}
