//! `cn=Sessions,cn=monitor`: an entry for each connection of a client. To delete one is to close
//! the connection. Whoever has the connections tells, and closes.
//!
//! Invariant: a session has a number that no other one of the process has, so that what is meant
//! for one closes no other.

use std::sync::Arc;

use aci::Privilege;
use ldap::result::ResultCode;
use schema::{DnKey, Entry, Schema};

use crate::bind::recheck;
use crate::config::monitor_sources::SessionState;
use crate::read::virtual_tree::branch::Site;
use crate::read::virtual_tree::names::SESSIONS_DN;
use crate::request::controls::RequestControls;
use crate::request::refusal::Refusal;
use crate::request::session::{Session, Who};
use crate::request::worker::Worker;
use crate::write::update::Named;

/// Whether a worker should not make so many entries. A few it makes itself: whoever looks for a
/// client that keeps all threads of the pool busy must not wait for one.
pub(crate) fn is_slow(site: &Site<'_>) -> bool {
    let count = site.directory.monitors.sessions.get().map_or(0, |teller| (teller.count)());
    count > FEW && !is_one(site)
}

/// Makes the entries, if there are connections at all.
pub(crate) fn entries(site: &Site<'_>) -> Result<Vec<Entry>, Refusal> {
    let Some(teller) = site.directory.monitors.sessions.get() else { return Ok(Vec::new()) };
    let mut made = vec![site.entry(SESSIONS_DN, &["top", "extensibleObject"]).done()];
    let is_one = is_one(site);
    for state in (teller.list)() {
        let name = format!("cn={},{SESSIONS_DN}", state.number);
        let is_wanted = || DnKey::from_text(site.schema, &name).is_ok_and(|key| key == *site.base);
        if !is_one || is_wanted() {
            made.push(entry(site, &name, state));
        }
    }
    Ok(made)
}

fn entry(site: &Site<'_>, name: &str, state: SessionState) -> Entry {
    let present = |text: String| (!text.is_empty()).then_some(text);
    site.entry(name, &["top", "extensibleObject"])
        .value("roster-session-address", &state.address)
        .value("roster-session-listener", state.listener)
        .values("roster-session-tls", state.tls.map(str::to_owned))
        .values("roster-session-bind-dn", present(state.bind_dn))
        .values("roster-session-mechanism", present(state.mechanism))
        .value("roster-session-since", &state.since.generalized_time())
        .value("roster-session-last-activity", &state.last_activity.generalized_time())
        .value("roster-session-operations", &state.operations.to_string())
        .value("roster-session-outstanding", &state.outstanding.to_string())
        .value("roster-session-waiting-bytes", &state.waiting_bytes.to_string())
        .done()
}

/// Whether the entry of one session is asked for.
fn is_one(site: &Site<'_>) -> bool {
    site.base.parent() == sessions_key(site.schema)
}

pub(crate) fn sessions_key(schema: &Schema) -> Option<DnKey> {
    DnKey::from_text(schema, SESSIONS_DN).ok()
}

/// Closes a session, if that is what a delete of this entry is; nothing, when it is another entry.
pub(crate) fn close(
    worker: &mut Worker,
    session: &Session,
    named: &Named,
    controls: &RequestControls<'_>,
) -> Result<Option<ResultCode>, Refusal> {
    let Named { state, key, .. } = named;
    if !state.virtual_trees.hold(key) || key.parent() != sessions_key(&state.schema) {
        return Ok(None);
    }
    let directory = Arc::clone(&worker.directory);
    let access = session.access();
    if !access.has(Privilege::DisconnectClient) {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "closing a session needs the privilege disconnect-client",
        ));
    }
    recheck::check((&directory, state), worker.snapshot.view()?, access)?;
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

/// Each costs some ten microseconds.
const FEW: usize = 256;
