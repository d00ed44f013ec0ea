//! A resolved update on its way: to the writer, to the hash pool, or into its transaction.

use std::sync::Arc;

use ldap::result::ResultCode;
use zeroize::Zeroizing;

use crate::bind::hashing::Questions;
use crate::forward::request::Forwardable;
use crate::request::cancel::Cancel;
use crate::request::controls::position::PositionRequest;
use crate::request::controls::request::RequestControls;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::password_modify::value;
use crate::write::queue::PendingWrite;
use crate::write::request::{WriteOp, WriteRequest};
use crate::write::response::WriteResponse;
use crate::write::transactions::UpdateMessage;

/// What resolving an update leads to.
pub(crate) enum Resolution {
    Op(WriteOp),
    /// Passwords are to be hashed, which takes long: it is resolved again with the answers.
    NeedsHash(Questions),
}

impl From<WriteOp> for Resolution {
    fn from(op: WriteOp) -> Self {
        Self::Op(op)
    }
}

/// Hands a resolved operation to the writer, or keeps it for the end of its transaction.
pub(crate) fn submit(
    worker: &mut Worker,
    session: &mut Session,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
    resolved: Resolution,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    check_controls(session, controls)?;
    let op = match resolved {
        Resolution::Op(op) => op,
        Resolution::NeedsHash(questions) => {
            let rules = worker.directory.hash_rules();
            return Ok(Next::Hash(questions.job(rules, session.begin(envelope.id), envelope)));
        }
    };
    let Envelope { id, operation, bytes, schema_generation } = envelope;
    let mut request = [0; 16];
    worker.chance.fill(&mut request);
    let mut request = WriteRequest {
        id,
        operation,
        access: Arc::clone(session.access()),
        cancel: Cancel::default(),
        is_lazy: controls.lazy,
        request,
        who: Arc::clone(session.who()),
        controls: controls.resolve(&worker.directory.state.load().schema)?,
        schema_generation,
        forwardable: None,
        is_forwarded: false,
        op,
    };
    let has_forwarding = worker.directory.queue.forwarding().is_some();
    if let Some(identifier) = controls.transaction {
        check_position(controls)?;
        // It counts as done when it is accepted; whether it is, the end of the transaction tells.
        let accepted = WriteResponse { value: request.op.value(), ..WriteResponse::success() };
        let now = worker.directory.clock.elapsed();
        let asks_policy = request.asks_policy();
        // That of another node is sent again by that one.
        let is_kept = has_forwarding && !session.is_elsewhere();
        let decode_limits = &worker.directory.decode_limits;
        let told = match &request.op {
            // What the client is told now has to be what it will be.
            WriteOp::PasswordModify(op) if is_kept => {
                op.generated().and_then(|made| value::with_generated(bytes, decode_limits, made))
            }
            _ => None,
        };
        let bytes = told.as_deref().map_or(bytes, Vec::as_slice);
        let message = UpdateMessage { bytes, is_kept };
        session.transactions().add(identifier, request, message, now)?;
        return Ok(Next::Answered(accepted.send(asks_policy, sink)));
    }
    if has_forwarding && !session.is_elsewhere() {
        request.forwardable = Some(Box::new(forwardable(session, &mut request, bytes)));
    }
    request.cancel = session.begin(id);
    let pending = PendingWrite::here(&worker.directory.queue, request, session, bytes.len());
    Ok(Next::Write(pending.guessing(worker.request.is_wrong_guess)))
}

/// What an update of a transaction leaves has a position when the transaction has ended.
fn check_position(controls: &RequestControls<'_>) -> Result<(), Refusal> {
    match controls.position {
        Some(PositionRequest { critical: true }) => Err(Refusal::new(
            ResultCode::UnavailableCriticalExtension,
            "the position of a transaction is told at its end",
        )),
        Some(PositionRequest { critical: false }) | None => Ok(()),
    }
}

/// What another node has to be sent, should it be the one to decide.
fn forwardable(session: &Session, request: &mut WriteRequest, bytes: &[u8]) -> Forwardable {
    let mut messages = match &mut request.op {
        WriteOp::Transaction(transaction) => std::mem::take(&mut transaction.messages),
        _ => Vec::new(),
    };
    messages.push(Zeroizing::new(bytes.to_vec()));
    Forwardable::new(session, request.request, messages, request.op.may_hash())
}

/// Refuses controls that this session may not use, or not together.
pub(crate) fn check_controls(
    session: &Session,
    controls: &RequestControls<'_>,
) -> Result<(), Refusal> {
    if controls.relax && !session.access().is_root() {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "only the administrator may relax the rules",
        ));
    }
    if controls.no_op && controls.transaction.is_some() {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "an update of a transaction has an effect or is left out of it",
        ));
    }
    Ok(())
}
