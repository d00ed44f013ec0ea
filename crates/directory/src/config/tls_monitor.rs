//! `cn=tls,cn=monitor`: the certificate that clients are shown. Whoever has it tells.

use environment::Timestamp;
use schema::Entry;

use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::TLS_MONITOR_DN;
use crate::request::refusal::Refusal;

/// Makes the entry, if there is TLS.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let Some(tell) = source.directory.monitors.certificate.get() else {
        return Ok(Vec::new());
    };
    let state = tell();
    let now_s = source.directory.clock.now().seconds();
    let expires = Timestamp(state.expires_s.saturating_mul(1_000_000)).generalized_time();
    let entry = source
        .entry(TLS_MONITOR_DN, &["top", "extensibleObject"])
        .value("roster-tls-subject", &state.subject)
        .value("roster-tls-sha256", &state.sha256)
        .value("roster-tls-expires", &expires)
        .value("roster-tls-expires-us", &state.expires_s.saturating_mul(1_000_000).to_string())
        .value("roster-tls-days", &state.days_left(now_s).to_string())
        .value("roster-tls-failed", if state.error.is_some() { "1" } else { "0" })
        .values("roster-tls-error", state.error);
    Ok(vec![entry.done()])
}
