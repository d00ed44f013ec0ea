//! Transactions (RFC 5805): started and ended by extended operations.

use ldap::control_value::{self, TransactionEnd};
use ldap::message::{ControlsBuf, ExtendedRequest, MessageId};
use ldap::result::ResultCode;

use crate::forward::asking;
use crate::request::asker_queues::Asker;
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::request::WriteOp;
use crate::write::response::WriteResponse;
use crate::write::submit;

/// Start transaction (RFC 5805 §2.1).
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    _call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    if request.value.is_some() {
        return Err(Refusal::new(ResultCode::ProtocolError, "start transaction has no value"));
    }
    if session.identity().dn().is_none() {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "an anonymous session changes nothing; bind first",
        ));
    }
    let now = worker.directory.clock.elapsed();
    let asker = Asker::of(session);
    let all = &worker.directory.budgets.transactions;
    let identifier = session.transactions().start(&mut *worker.chance, all, asker, now)?;
    Ok(Next::Answered(sink.extended(None, Some(identifier))))
}

/// End transaction (RFC 5805 §2.3): forgets the updates, or hands them to the writer together.
pub(crate) fn end(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    let end =
        request.value.and_then(|value| TransactionEnd::decode(value).ok()).ok_or_else(|| {
            Refusal::new(ResultCode::ProtocolError, "the end transaction value is malformed")
        })?;
    let mut transaction = session.transactions().take(end.identifier)?;
    if !end.commit || transaction.updates.is_empty() {
        return Ok(Next::Answered(sink.extended(None, None)));
    }
    if worker.directory.queue.forwarding().is_some() {
        let messages = std::mem::take(&mut transaction.messages);
        match asking::transaction(worker, session, call.envelope, messages)? {
            Ok(next) => return Ok(next),
            Err(messages) => transaction.messages = messages,
        }
    }
    let op = WriteOp::Transaction(transaction);
    submit::submit(worker, session, call.controls, call.envelope, op.into(), sink)
}

/// The answer to the end of a transaction: `refused` names the update that failed, and why.
pub(crate) fn answer(
    refused: Option<(MessageId, Refusal)>,
    updates: &[(MessageId, ControlsBuf)],
) -> WriteResponse {
    let updates = updates.iter().map(|(id, list)| (*id, list.as_ref())).collect::<Vec<_>>();
    let (failed, result) = match refused {
        Some((id, refusal)) => (Some(id), refusal),
        None => (None, Refusal::new(ResultCode::Success, "")),
    };
    let value = control_value::transaction_ended(failed, &updates);
    WriteResponse { value: (!value.is_empty()).then_some(value), ..WriteResponse::from(result) }
}
