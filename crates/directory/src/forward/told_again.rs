//! What is answered to an update that was carried out before, and whose answer was lost.
//!
//! Invariant: what is told of an entry is what the change has left. Where that is not there any
//! more, the client is told that it is lost, and that the change was made.

use std::sync::Arc;

use ldap::message::{Message, Request};
use schema::{DnKey, EntryRead};
use store::{Lsn, Resolved};

use crate::access::guard::{Viewer, guarded};
use crate::request::controls::read_entry::{POST_READ, PRE_READ};
use crate::request::controls::request::RequestControls;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::{self, Operation, uniqueness};
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::write::named;
use crate::write::read_entry::Room;
use crate::write::response::WriteResponse;

/// What an update wants to be told of its entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reads {
    Nothing,
    /// What it is after the change.
    After,
    /// What it was before, or what else cannot be found out any more.
    Before,
}

impl Reads {
    /// That of a message.
    pub(super) fn of(message: &Message<'_, Request<'_>>) -> Self {
        let has = |oid: &str| message.controls.iter().any(|control| control.oid == oid);
        match (has(PRE_READ) || uniqueness::tells_conflicts(&message.controls), has(POST_READ)) {
            (true, _) => Self::Before,
            (false, true) => Self::After,
            (false, false) => Self::Nothing,
        }
    }
}

/// The answer to an update that wants to be told what its entry is after the change, of which
/// `lsn` is the record.
pub(super) fn read_after(
    worker: &mut Worker,
    session: &Session,
    message: &Message<'_, Request<'_>>,
    lsn: Lsn,
) -> WriteResponse {
    match post_read(worker, session, message, lsn) {
        Ok(Some(read)) => WriteResponse { controls: vec![read], ..WriteResponse::success() },
        Ok(None) | Err(_) => Refusal::value_lost().into(),
    }
}

/// The control, where the entry is as the record has left it.
fn post_read(
    worker: &mut Worker,
    session: &Session,
    message: &Message<'_, Request<'_>>,
    lsn: Lsn,
) -> Result<Option<ResponseControl>, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load();
    let head = directory.queue.forwarding().and_then(|forwarding| forwarding.record(lsn));
    let (Some(head), Some(name)) = (head, target(message)?) else { return Ok(None) };
    let key = named::key(&state.schema, &name)?;
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(&key)? else { return Ok(None) };
    let Some(stored) = view.entry(id)? else { return Ok(None) };
    let known = state.schema.well_known();
    let (csn, mut is_left) = (head.csn.to_string(), false);
    stored.visit_values(&known.entry_csn, &mut |_, value| {
        is_left |= value == csn.as_bytes();
        true
    });
    let Some(operation) = Operation::of(&message.op).filter(|_| is_left) else { return Ok(None) };
    let access = session.access();
    let viewer = Viewer { directory: &directory, access, view, schema: &state.schema };
    guarded(&viewer, &DnKey::root(), |guard| {
        let mut taken = RequestControls::default();
        let denied = controls::denied(&message.controls, guard);
        controls::take(&mut taken, &message.controls, operation, denied)?;
        // It was made as somebody else.
        if taken.proxied.is_some() {
            return Ok(None);
        }
        let Some(wanted) = taken.resolve(&state.schema)?.post_read else { return Ok(None) };
        let mut room = Room::new(directory.limits().read_entry_max_bytes);
        wanted.read(POST_READ, &mut room, view, &stored, known, guard).map(Some)
    })
}

/// The name that the entry of an update has after it; none where that is not told here.
fn target(message: &Message<'_, Request<'_>>) -> Result<Option<ldap::dn::Dn>, Refusal> {
    let name = match &message.op {
        Request::Add(add) => add.name,
        Request::Modify(modify) => modify.name,
        _ => return Ok(None),
    };
    Ok(Some(ldap::dn::Dn::parse(name)?))
}
