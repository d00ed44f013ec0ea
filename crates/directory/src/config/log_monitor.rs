//! `cn=logs,cn=monitor`: how the logs of requests and changes are. Whoever writes them tells.

use schema::Entry;

use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::LOG_MONITOR_DN;
use crate::request::refusal::Refusal;

/// Makes the entries.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let mut made = vec![source.entry(LOG_MONITOR_DN, &["top", "extensibleObject"]).done()];
    let states = source.directory.monitors.logs();
    for state in states {
        let name = format!("cn={},{LOG_MONITOR_DN}", state.name);
        let entry = source
            .entry(&name, &["top", "extensibleObject"])
            .value("roster-log-file", &state.file)
            .value("roster-log-lines", &state.lines.to_string())
            .value("roster-log-bytes", &state.bytes.to_string())
            .value("roster-log-dropped", &state.dropped.to_string())
            .value("roster-log-failed", if state.error.is_some() { "1" } else { "0" })
            .values("roster-log-lsn", state.lsn.map(|lsn| lsn.to_string()))
            .values("roster-log-error", state.error);
        made.push(entry.done());
    }
    Ok(made)
}
