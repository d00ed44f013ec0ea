//! `cn=tls,cn=monitor`: the certificate that clients are shown. Whoever has it tells.

use std::sync::OnceLock;

use environment::Timestamp;
use schema::Entry;

use crate::read::virtual_tree::Site;
use crate::request::refusal::Refusal;

/// The name of the entry.
pub(crate) const TLS_MONITOR_DN: &str = "cn=tls,cn=monitor";

/// The certificate as it is now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CertificateState {
    /// Its subject, a DN.
    pub subject: String,
    /// Its last second, since 1970-01-01T00:00:00Z.
    pub expires_s: u64,
    /// Why files that have changed are not used; none when these are the files there are.
    pub error: Option<String>,
}

impl CertificateState {
    /// Whole days until it expires, from this second since 1970 on; negative when it has.
    #[must_use]
    pub fn days_left(&self, now_s: u64) -> i64 {
        let seconds = i64::try_from(self.expires_s).unwrap_or(i64::MAX);
        (seconds - i64::try_from(now_s).unwrap_or(i64::MAX)).div_euclid(SECONDS_PER_DAY)
    }
}

/// Tells how the certificate is, whenever it is asked.
pub type CertificateTeller = Box<dyn Fn() -> CertificateState + Send + Sync>;

/// Where whoever has the certificate says how to ask; nobody need.
#[derive(Default)]
pub(crate) struct TlsMonitor(OnceLock<CertificateTeller>);

impl TlsMonitor {
    /// The first who says it is asked.
    pub(crate) fn set(&self, teller: CertificateTeller) {
        let _ = self.0.set(teller);
    }
}

/// Makes the entry, if there is TLS.
pub(crate) fn entries(site: &Site<'_>) -> Result<Vec<Entry>, Refusal> {
    let Some(tell) = site.directory.tls_monitor.0.get() else {
        return Ok(Vec::new());
    };
    let state = tell();
    let now_s = site.directory.clock.now().seconds();
    let expires = Timestamp(state.expires_s.saturating_mul(1_000_000)).generalized_time();
    let entry = site
        .entry(TLS_MONITOR_DN, &["top", "extensibleObject"])
        .value("roster-tls-subject", &state.subject)
        .value("roster-tls-expires", &expires)
        .value("roster-tls-expires-us", &state.expires_s.saturating_mul(1_000_000).to_string())
        .value("roster-tls-days", &state.days_left(now_s).to_string())
        .value("roster-tls-failed", if state.error.is_some() { "1" } else { "0" })
        .values("roster-tls-error", state.error);
    Ok(vec![entry.done()])
}

const SECONDS_PER_DAY: i64 = 86_400;
