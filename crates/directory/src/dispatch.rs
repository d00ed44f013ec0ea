//! All operations on one screen: controls first, then one `match`.

use ldap::message::{Controls, Message, MessageId, Request, ResponseKind, StringsBuf};
use ldap::result::ResultCode;

use crate::controls::{self, Operation, RequestControls};
use crate::job::{Job, JobDone};
use crate::ops;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::sink::{Flow, ResponseSink};
use crate::worker::{Next, Worker};

/// Carries out one request as far as it goes on this thread.
pub(crate) fn dispatch(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Next {
    let (operation, kind) = match &message.op {
        Request::Unbind => {
            session.abandon_all();
            return Next::Close;
        }
        Request::Abandon(id) => {
            session.abandon(*id);
            return Next::Answered;
        }
        Request::Bind(_) => {
            session.start_bind();
            (Operation::Bind, ResponseKind::Bind)
        }
        Request::Search(_) => (Operation::Search, ResponseKind::SearchDone),
        Request::Compare(_) => (Operation::Compare, ResponseKind::Compare),
        Request::Add(_) => (Operation::Add, ResponseKind::Add),
        Request::Delete(_) => (Operation::Delete, ResponseKind::Delete),
        Request::Modify(_) => (Operation::Modify, ResponseKind::Modify),
        Request::ModifyDn(_) => (Operation::ModifyDn, ResponseKind::ModifyDn),
        Request::Extended(_) => (Operation::Extended, ResponseKind::Extended),
    };
    let id = message.id;
    let taken = check_id(session, id).and_then(|()| controls::take(&message.controls, operation));
    let controls = match taken {
        Ok(controls) => controls,
        Err(refusal) => return answer(out, id, kind, Err(refusal)),
    };
    match carry_out(worker, session, message, &controls, bytes, out) {
        Ok(next) => next,
        Err(refusal) => answer(out, id, kind, Err(refusal)),
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
    match &message.op {
        Request::Bind(bind) => ops::bind::start(worker, session, bind, id, bytes, out),
        Request::Search(search) => {
            ops::search::start(worker, session, search, controls, (id, bytes), out)
        }
        Request::Compare(compare) => {
            let outcome = ops::compare::run(worker, session, compare, controls)?;
            Ok(answer(out, id, ResponseKind::Compare, Ok(outcome)))
        }
        Request::Add(add) => ops::add::start(worker, session, add, controls, id),
        Request::Delete(delete) => ops::delete::start(worker, session, delete, controls, id),
        Request::Modify(modify) => ops::modify::start(worker, session, modify, controls, id),
        Request::ModifyDn(rename) => ops::modify_dn::start(worker, session, rename, controls, id),
        Request::Extended(extended) => ops::extended::start(worker, session, extended, id, out),
        // Handled before the controls: they have no answer.
        Request::Unbind | Request::Abandon(_) => Ok(Next::Answered),
    }
}

/// Carries out a job on a pool thread: the message is decoded again from the job's own copy.
pub(crate) fn run(
    worker: &mut Worker,
    job: Job,
    flush: &mut dyn FnMut(Vec<u8>) -> Flow,
) -> JobDone {
    let mut out = Vec::new();
    let decoded = Message::<Request<'_>>::decode(&job.message, &worker.directory.decode_limits);
    let mut identity = None;
    if let Ok(message) = decoded {
        match &message.op {
            Request::Search(search) => {
                ops::search::run_job(worker, &job, search, &message.controls, &mut out, flush);
            }
            Request::Bind(bind) => {
                let outcome = ops::bind::verify(worker, bind);
                identity = outcome.as_ref().ok().cloned();
                let result = outcome.map(|_| ResultCode::Success);
                let _ = answer(&mut out, job.id, ResponseKind::Bind, result);
            }
            Request::Unbind
            | Request::Abandon(_)
            | Request::Compare(_)
            | Request::Add(_)
            | Request::Delete(_)
            | Request::Modify(_)
            | Request::ModifyDn(_)
            | Request::Extended(_) => {}
        }
    }
    if !out.is_empty() {
        let _ = flush(out);
    }
    JobDone { id: job.id, identity }
}

/// Writes the final answer of an operation that has nothing but a result.
pub(crate) fn answer(
    out: &mut Vec<u8>,
    id: MessageId,
    kind: ResponseKind,
    outcome: Result<ResultCode, Refusal>,
) -> Next {
    // A code with nothing more to say has the same wire form as a refusal.
    let result = outcome.map_or_else(|refusal| refusal, |code| Refusal::new(code, ""));
    let mut urls = StringsBuf::new();
    let mut sink = ResponseSink::bounded(out, id, usize::MAX);
    sink.result(kind, &result.to_result(&mut urls), Controls::EMPTY);
    Next::Answered
}
