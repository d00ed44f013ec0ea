//! Whether the server can do its work, for whoever sends clients to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use directory::ClusterState;

use super::meter::Meter;
use super::scrape::Metrics;

/// What speaks against sending clients here.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Readiness {
    /// Why it is not ready.
    pub(crate) refusals: Vec<String>,
    /// What somebody should look at, although clients are served.
    pub(crate) warnings: Vec<String>,
}

impl Metrics {
    /// The server stops: no new clients should come.
    pub(crate) fn stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Why the server should be started anew, if it should.
    pub(crate) fn stall(&self) -> Option<String> {
        let now = self.scrape()?.directory().clock().elapsed();
        let (number, silence) = stalled(&self.meters, now)?;
        Some(format!("worker {number} has been stuck for {} s", silence.as_secs()))
    }

    /// Whether the server is ready.
    pub(crate) fn readiness(&self) -> Readiness {
        let mut found = Readiness::default();
        let scrape = match self.scrape() {
            Some(scrape) if !self.is_stopping.load(Ordering::Relaxed) => scrape,
            _ => {
                found.refusals.push("the server is shutting down".to_owned());
                return found;
            }
        };
        if scrape.base().is_none() {
            found.refusals.push("the database cannot be read".to_owned());
        }
        found.refusals.extend(scrape.directory().quarantine().map(str::to_owned));
        if scrape.directory().is_locked_down() {
            found.refusals.push("the server is locked down".to_owned());
        }
        if let Some(state) = scrape.cluster() {
            found.refusals.extend(of_member(state));
        }
        let journal = scrape.journal();
        if let Some(reason) = &journal.is_poisoned {
            found.refusals.push(format!("nothing can be written until a restart: {reason}"));
        }
        if journal.is_full {
            found.warnings.push("the disk has no space for the journal".to_owned());
        }
        let overlay = scrape.overlay();
        if let Some(error) = &overlay.last_error {
            found.warnings.push(format!("the last flush failed: {error}"));
        }
        let certificate = scrape.shared.tls.state();
        let days = certificate.days_left(scrape.now().seconds());
        if days < 0 {
            found.warnings.push("the certificate has expired".to_owned());
        } else if days < DAYS_FEW {
            found.warnings.push(format!("the certificate expires in {days} days"));
        }
        if let Some(error) = certificate.error {
            found.warnings.push(format!("the changed certificate is not used: {error}"));
        }
        for log in scrape.logs() {
            if let Some(error) = &log.error {
                found.warnings.push(format!("the {} log cannot be written: {error}", log.name));
            }
        }
        found
    }
}

/// Why a member of a cluster is not ready, if it is not: its changes come from nowhere.
fn of_member(state: &ClusterState) -> Option<String> {
    match &state.error {
        Some(reason) => Some(format!("the log of the cluster has failed: {reason}")),
        None if state.role == "none" => {
            Some("no member of the cluster leads, as far as this one knows".to_owned())
        }
        None if !state.has_caught_up => {
            Some("this member has not had all that the cluster has acknowledged yet".to_owned())
        }
        None => None,
    }
}

/// A worker that stands still, and for how long. Each beats twice a second, idle or not.
fn stalled(meters: &[Arc<Meter>], now: Duration) -> Option<(usize, Duration)> {
    let silences = meters.iter().map(|meter| meter.silence(now)).enumerate();
    silences.max_by_key(|(_, silence)| *silence).filter(|(_, silence)| *silence >= STALLED_AFTER)
}

/// A worker that has not beaten for so long does not serve its clients.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// So many days before it expires, somebody should look at the certificate.
const DAYS_FEW: i64 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_ready_while_somebody_leads_and_its_log_is_well() {
        let state = |role, error| {
            let has_caught_up = true;
            ClusterState { role, error, has_caught_up, ..ClusterState::default() }
        };
        for role in ["leader", "follower", "learner"] {
            assert_eq!(of_member(&state(role, None)), None, "{role}");
        }
        let behind = ClusterState { has_caught_up: false, ..state("follower", None) };
        let behind = of_member(&behind).unwrap();
        assert!(behind.contains("has not had all"), "{behind}");
        let none = of_member(&state("none", None)).unwrap();
        assert!(none.starts_with("no member"), "{none}");
        let failed = of_member(&state("failed", Some("no medium".to_owned()))).unwrap();
        assert!(failed.ends_with("has failed: no medium"), "{failed}");
    }

    #[test]
    fn a_worker_without_a_turn_for_ten_seconds_stands_still() {
        let meters = [Arc::<Meter>::default(), Arc::default()];
        let at = Duration::from_secs;
        meters.iter().for_each(|meter| meter.beat(at(100)));
        assert_eq!(stalled(&meters, at(109)), None);
        meters[0].beat(at(109));
        assert_eq!(stalled(&meters, at(111)), Some((1, at(11))));
        meters[1].beat(at(111));
        assert_eq!(stalled(&meters, at(112)), None);
        assert_eq!(stalled(&meters, at(0)), None);
    }
}
