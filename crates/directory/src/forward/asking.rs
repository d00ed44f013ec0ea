//! The node that was asked for an update: where another one decides, what came is handed on, before
//! anything of it is resolved or hashed.
//!
//! Invariant: what settings of this node say of the connection is looked at here, and nowhere else.

use std::sync::Arc;

use ldap::message::{Message, Request};
use zeroize::Zeroizing;

use super::outgoing::Forwarding;
use super::request::{Forwardable, Messages};
use crate::config::close_session;
use crate::request::controls::request::RequestControls;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::{Next, Worker};
use crate::write::queue::PendingWrite;
use crate::write::{named, submit};

/// Hands on an update by one of the LDAP operations, if another node decides it.
pub(crate) fn update(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
) -> Result<Option<Next>, Refusal> {
    let Some(forwarding) = taking(worker, session) else { return Ok(None) };
    let name = match &message.op {
        Request::Add(add) => add.name,
        Request::Modify(modify) => modify.name,
        Request::ModifyDn(rename) => rename.name,
        Request::Delete(delete) => {
            // The connections are those of this node.
            let named = named::named(&worker.directory, delete.name)?;
            if close_session::is_session(&named) {
                return Ok(None);
            }
            delete.name
        }
        Request::Bind(_)
        | Request::Unbind
        | Request::Search(_)
        | Request::Compare(_)
        | Request::Abandon(_)
        | Request::Extended(_) => return Ok(None),
    };
    let update = Update { name: Some(name), may_hash: sends_password(worker, &message.op) };
    one(worker, session, controls, envelope, &forwarding, update)
}

/// Whether a password is among what a message sends.
fn sends_password(worker: &Worker, request: &Request<'_>) -> bool {
    let state = worker.directory.state.load();
    let is_password = |attribute: &str| {
        let description = state.schema.describe(attribute);
        description.is_ok_and(|description| description.is_password())
    };
    match request {
        Request::Add(add) => add.attributes.iter().any(|one| is_password(one.description)),
        Request::Modify(modify) => {
            modify.changes.iter().any(|one| is_password(one.attribute.description))
        }
        _ => false,
    }
}

/// What is known of an update before it is resolved.
struct Update<'a> {
    /// The name of the entry it is about.
    name: Option<&'a str>,
    /// Whether whoever decides may have to hash a password for it.
    may_hash: bool,
}

/// Hands on the update that a message asks for, if another node decides it; `name` is that of the
/// entry it is about.
pub(crate) fn extended(
    worker: &mut Worker,
    session: &mut Session,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
    name: Option<&str>,
) -> Result<Option<Next>, Refusal> {
    let Some(forwarding) = taking(worker, session) else { return Ok(None) };
    one(worker, session, controls, envelope, &forwarding, Update { name, may_hash: true })
}

/// Hands on an update, unless it is one of a transaction.
fn one(
    worker: &mut Worker,
    session: &mut Session,
    controls: &RequestControls<'_>,
    envelope: Envelope<'_>,
    forwarding: &Forwarding,
    update: Update<'_>,
) -> Result<Option<Next>, Refusal> {
    if controls.transaction.is_some() {
        // It is kept until the transaction ends.
        return Ok(None);
    }
    submit::check_controls(session, controls)?;
    if let Some(refusal) = forwarding.referral(update.name) {
        return Err(refusal);
    }
    let messages = vec![Zeroizing::new(envelope.bytes.to_vec())];
    Ok(Some(hand_on(worker, session, envelope, messages, update.may_hash)))
}

/// Hands on the end of a transaction with its updates, if another node decides it; else gives the
/// messages back.
pub(crate) fn transaction(
    worker: &mut Worker,
    session: &mut Session,
    envelope: Envelope<'_>,
    mut messages: Messages,
) -> Result<Result<Next, Messages>, Refusal> {
    let Some(forwarding) = taking(worker, session) else { return Ok(Err(messages)) };
    if let Some(refusal) = forwarding.referral(None) {
        return Err(refusal);
    }
    messages.push(Zeroizing::new(envelope.bytes.to_vec()));
    Ok(Ok(hand_on(worker, session, envelope, messages, true)))
}

/// What hands on the next update of this session; none where it is decided here.
fn taking(worker: &Worker, session: &Session) -> Option<Arc<Forwarding>> {
    let forwarding = worker.directory.queue.forwarding()?;
    let is_taken = !session.is_elsewhere() && forwarding.takes(session.number());
    is_taken.then(|| Arc::clone(forwarding))
}

fn hand_on(
    worker: &mut Worker,
    session: &mut Session,
    envelope: Envelope<'_>,
    messages: Messages,
    may_hash: bool,
) -> Next {
    let mut id = [0; 16];
    worker.chance.fill(&mut id);
    let forwardable = Forwardable::new(session, id, messages, may_hash);
    let cancel = session.begin(envelope.id);
    Next::Write(PendingWrite::elsewhere(&worker.directory.queue, forwardable, envelope, cancel))
}
