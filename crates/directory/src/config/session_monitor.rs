//! `cn=Sessions,cn=monitor`: an entry for each connection of a client.

use schema::{DnKey, Entry, Schema};

use crate::config::monitor_sources::SessionState;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::SESSIONS_DN;
use crate::request::refusal::Refusal;

/// Whether a worker should not make so many entries. A few it makes itself: whoever looks for a
/// client that keeps all threads of the pool busy must not wait for one.
pub(crate) fn is_slow(source: &BranchSource<'_>) -> bool {
    let count = source.directory.monitors.sessions.get().map_or(0, |teller| (teller.count)());
    count > FEW && !is_one(source)
}

/// Makes the entries, if there are connections at all.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let Some(teller) = source.directory.monitors.sessions.get() else { return Ok(Vec::new()) };
    let mut made = vec![source.entry(SESSIONS_DN, &["top", "extensibleObject"]).done()];
    let is_one = is_one(source);
    for state in (teller.list)() {
        let name = format!("cn={},{SESSIONS_DN}", state.number);
        let is_wanted =
            || DnKey::from_text(source.schema, &name).is_ok_and(|key| key == *source.base);
        if !is_one || is_wanted() {
            made.push(entry(source, &name, state));
        }
    }
    Ok(made)
}

fn entry(source: &BranchSource<'_>, name: &str, state: SessionState) -> Entry {
    let present = |text: String| (!text.is_empty()).then_some(text);
    source
        .entry(name, &["top", "extensibleObject"])
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
fn is_one(source: &BranchSource<'_>) -> bool {
    source.base.parent() == sessions_key(source.schema)
}

pub(crate) fn sessions_key(schema: &Schema) -> Option<DnKey> {
    DnKey::from_text(schema, SESSIONS_DN).ok()
}

/// Each costs some ten microseconds.
const FEW: usize = 256;
