//! `cn=logs,cn=monitor`: how the logs of requests and changes are. Whoever writes them tells.

use std::sync::OnceLock;

use schema::Entry;

use crate::read::virtual_tree::Site;
use crate::request::refusal::Refusal;

/// The entry above them.
pub(crate) const LOG_MONITOR_DN: &str = "cn=logs,cn=monitor";

/// How one log is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogState {
    /// `access` or `audit`.
    pub name: &'static str,
    /// The file that is being written.
    pub file: String,
    /// Lines (changes, in the audit log) written since the start.
    pub lines: u64,
    /// Octets written since the start.
    pub bytes: u64,
    /// What could not be logged since the start.
    pub dropped: u64,
    /// The last change that is durable in the log, where changes are logged.
    pub lsn: Option<u64>,
    /// Why nothing can be written at the moment.
    pub error: Option<String>,
}

/// Tells how the logs are, whenever it is asked.
pub type LogStates = Box<dyn Fn() -> Vec<LogState> + Send + Sync>;

/// Where whoever writes the logs says how to ask; nobody need.
#[derive(Default)]
pub(crate) struct LogMonitor(OnceLock<LogStates>);

impl LogMonitor {
    /// The first who says it is asked.
    pub(crate) fn set(&self, states: LogStates) {
        let _ = self.0.set(states);
    }

    pub(crate) fn states(&self) -> Vec<LogState> {
        self.0.get().map(|states| states()).unwrap_or_default()
    }
}

/// Makes the entries.
pub(crate) fn entries(site: &Site<'_>) -> Result<Vec<Entry>, Refusal> {
    let mut made = vec![site.entry(LOG_MONITOR_DN, &["top", "extensibleObject"]).done()];
    let states = site.directory.log_monitor.states();
    for state in states {
        let name = format!("cn={},{LOG_MONITOR_DN}", state.name);
        let entry = site
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
