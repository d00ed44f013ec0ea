//! What is of this machine and follows its settings while the server runs: listeners, TLS, the
//! rules of connections that begin, and those of the logs' files.
//!
//! Invariant: all that other settings ask for is at hand before any of it begins; what cannot be
//! had leaves everything as it was.

use std::rc::Rc;
use std::sync::{Arc, Weak};

use super::worker_thread::WorkerThread;
use crate::admin::{Admins, OtherAdmins};
use crate::error::ServerError;
use crate::listen::accept;
use crate::listen::listeners::{Addresses, Listener, Listening, OtherListeners};
use crate::listen::tls::{OtherTls, Tls};
use crate::log::LogRules;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::settings::file_watch::{self, FileWatch};
use crate::worker::{AcceptRules, Order, Shared, Worker};

/// What follows the settings of this machine.
pub(crate) struct Machine {
    pub(super) listening: Listening,
    pub(super) admins: Admins,
    pub(super) tls: Arc<Tls>,
    pub(super) files: FileWatch,
    pub(super) log_rules: LogRules,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shared: Weak<Shared>,
    pub(super) workers: Vec<WorkerThread>,
}

/// What other settings ask for, at hand.
pub(crate) struct OtherMachine {
    listeners: OtherListeners,
    admins: OtherAdmins,
    tls: Option<OtherTls>,
}

impl Machine {
    /// Opens and loads what these settings ask for.
    ///
    /// # Errors
    /// An address that cannot be listened on, files that cannot be used.
    pub(crate) fn prepare(&self, settings: &Settings) -> Result<OtherMachine, ServerError> {
        Ok(OtherMachine {
            tls: self.tls.load_other(settings)?,
            listeners: self.listening.open(settings, self.workers.len())?,
            admins: self.admins.open(&settings.admin.listen, &self.metrics)?,
        })
    }

    /// Has it in use from now on.
    pub(crate) fn begin(&mut self, settings: &Settings, other: OtherMachine) {
        let before = self.addresses();
        if let Some(tls) = other.tls {
            self.tls.begin(tls, file_watch::now());
        }
        self.files.look_soon(settings.tls.reload_interval);
        self.log_rules.begin(settings);
        if let Some(shared) = self.shared.upgrade() {
            shared.accept_rules.set(AcceptRules::of(settings));
        }
        let per_worker = self.listening.begin(other.listeners).unwrap_or_else(|error| {
            tracing::error!(%error, "the listeners of before stay");
            Vec::new()
        });
        for (worker, listeners) in self.workers.iter().zip(per_worker) {
            if !listeners.is_empty() {
                worker.send(Order::Run(Box::new(|worker| accept_on(worker, listeners))));
            }
        }
        self.admins.begin(other.admins);
        let addresses = self.addresses();
        if addresses != before {
            tracing::info!("serving {addresses} now");
        }
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> Addresses {
        let mut addresses = self.listening.addresses();
        addresses.admin = self.admins.addresses();
        addresses
    }
}

fn accept_on(worker: &Rc<Worker>, listeners: Vec<Listener>) {
    for listener in listeners {
        if let Err(error) = accept::start(worker, listener) {
            tracing::error!(%error, "a listener cannot be used by one of the workers");
        }
    }
}
