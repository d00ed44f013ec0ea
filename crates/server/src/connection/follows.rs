//! Searches of a connection that go on with what changes. While nothing changes they are here: they
//! hold no thread, and nothing wakes the connection for them.

use directory::{ChangeWait, Passed};
use tokio::sync::mpsc;

use super::Connection;
use crate::pools::scan_pool::{Delivery, ParkedJob};

/// A search that waits for a change.
pub(super) struct Follows {
    parked: Box<ParkedJob>,
    /// Has the connection woken.
    _wait: Option<ChangeWait>,
}

impl Follows {
    /// Whether nobody waits for it any more.
    pub(super) fn is_over(&self) -> bool {
        self.parked.is_abandoned()
    }
}

impl Connection {
    /// A search has parked until there is a change that may concern it.
    pub(super) fn wait_for_change(&mut self, index: usize, parked: Box<ParkedJob>) {
        let Some(job) = self.jobs.get_mut(index) else { return };
        let (deliver, deliveries) = mpsc::channel(1);
        job.deliveries = deliveries;
        // The connection may be gone.
        let wake = move |passed| drop(deliver.try_send(Delivery::Changed(passed)));
        let wait = parked.wait_for_change(&self.worker.shared.directory, Box::new(wake));
        job.follows = Some(Follows { parked, _wait: wait });
    }

    /// It goes on: there is a change, or it has to end.
    pub(super) fn go_on(&mut self, index: usize, passed: Option<Passed>) {
        let follows = self.jobs.get_mut(index).and_then(|job| job.follows.take());
        let Some(Follows { mut parked, .. }) = follows else { return };
        if let Some(passed) = passed {
            parked.pass(passed);
        }
        self.hand_in(index, *parked);
    }
}
