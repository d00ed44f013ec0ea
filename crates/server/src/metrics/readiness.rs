//! Whether the server can do its work, for whoever sends clients to it.

use std::sync::atomic::Ordering;

use super::scene::Metrics;

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

    /// Whether the server is ready.
    pub(crate) fn readiness(&self) -> Readiness {
        let mut found = Readiness::default();
        let scene = match self.scene() {
            Some(scene) if !self.is_stopping.load(Ordering::Relaxed) => scene,
            _ => {
                found.refusals.push("the server is shutting down".to_owned());
                return found;
            }
        };
        if scene.base().is_none() {
            found.refusals.push("the database cannot be read".to_owned());
        }
        let journal = scene.journal();
        if let Some(reason) = &journal.is_poisoned {
            found.refusals.push(format!("nothing can be written until a restart: {reason}"));
        }
        if journal.is_full {
            found.warnings.push("the disk has no room for the journal".to_owned());
        }
        let overlay = scene.overlay();
        if let Some(error) = &overlay.last_error {
            found.warnings.push(format!("the last flush failed: {error}"));
        }
        let certificate = scene.shared.tls.state();
        let days = certificate.days_left(scene.now().seconds());
        if days < 0 {
            found.warnings.push("the certificate has expired".to_owned());
        } else if days < DAYS_FEW {
            found.warnings.push(format!("the certificate expires in {days} days"));
        }
        if let Some(error) = certificate.error {
            found.warnings.push(format!("the changed certificate is not used: {error}"));
        }
        for log in scene.logs() {
            if let Some(error) = &log.error {
                found.warnings.push(format!("the {} log cannot be written: {error}", log.name));
            }
        }
        found
    }
}

/// So many days before it expires, somebody should look at the certificate.
const DAYS_FEW: i64 = 14;
