//! A delete of an entry below `cn=Sessions,cn=monitor` closes the connection that it stands for.
//!
//! Invariant: a session has a number that no other one of the process has, so that what is meant
//! for one closes no other.

use std::sync::Arc;

use aci::Privilege;
use ldap::result::ResultCode;

use super::session_monitor::sessions_key;
use crate::bind::recheck;
use crate::read::virtual_tree::names::SESSIONS_DN;
use crate::request::controls::request::RequestControls;
use crate::request::refusal::Refusal;
use crate::request::session::{Session, Who};
use crate::request::worker::Worker;
use crate::write::named::Named;

/// Closes a session, if that is what a delete of this entry is; nothing, when it is another entry.
pub(crate) fn close(
    worker: &mut Worker,
    session: &Session,
    named: &Named,
    controls: &RequestControls<'_>,
) -> Result<Option<ResultCode>, Refusal> {
    if !is_session(named) {
        return Ok(None);
    }
    let state = &named.state;
    let directory = Arc::clone(&worker.directory);
    let access = session.access();
    if !access.has(Privilege::DisconnectClient) {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "closing a session needs the privilege disconnect-client",
        ));
    }
    recheck::check(&directory, state, worker.snapshot.view()?, access)?;
    let has_conditions = controls.assertion.is_some() || controls.pre_read.is_some();
    if has_conditions || controls.no_op || controls.transaction.is_some() {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "a session is closed at once, and without conditions",
        ));
    }
    let missing = || Refusal::no_such_object(SESSIONS_DN.to_owned(), "there is no such session");
    let number = number(named).ok_or_else(missing)?;
    let teller = directory.monitors.sessions.get().ok_or_else(missing)?;
    let reason = reason(session.who());
    if !(teller.close)(number, &reason) {
        return Err(missing());
    }
    tracing::info!(connection = number, "{reason}");
    Ok(Some(ResultCode::Success))
}

/// Whether a name is that of a session.
pub(crate) fn is_session(named: &Named) -> bool {
    let Named { state, key, .. } = named;
    state.virtual_trees.hold(key) && key.parent() == sessions_key(&state.schema)
}

/// The number in the name of an entry below `cn=Sessions`.
fn number(named: &Named) -> Option<u64> {
    let [ava] = named.dn.rdns().first()?.avas() else { return None };
    let kind = named.state.schema.attribute_type(&ava.attribute)?;
    let text = std::str::from_utf8(&ava.value).ok()?;
    let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text)?;
    (kind.name() == "cn").then_some(number)
}

/// What the access log says of a session that was closed.
fn reason(by: &Who) -> String {
    let acting = if by.authz.is_empty() { String::new() } else { format!(" as {}", by.authz) };
    format!("closed by {}{acting}, connection {}", by.dn, by.session)
}
