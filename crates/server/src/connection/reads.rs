//! Requests of a connection that wait until the data are fresh enough. They hold no thread, and
//! later requests of the connection are handled meanwhile.

use std::rc::Rc;

use directory::{ReadReady, WaitingRead};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::time_slice::TimeSlice;
use super::{Attempt, Connection, Running};
use crate::pools::scan_pool::Delivery;
use crate::worker::Worker;

/// A request that has waited.
pub(super) struct Fresh {
    pub(super) ready: ReadReady,
    /// What it held while it waited is counted until it goes on.
    pub(super) _waited: Running,
}

impl Connection {
    /// Has a request wait; gives it back with the reason where that is refused. What it holds is
    /// counted until it goes on.
    pub(super) fn begin_read(
        &mut self,
        worker: &Worker,
        read: Box<WaitingRead>,
    ) -> Result<(), (Box<WaitingRead>, &'static str)> {
        let account = self.holding.account(&worker.shared, || worker.now());
        let Some(held) = account.try_hold(read.octets()) else { return Err((read, NO_ROOM)) };
        let id = read.id();
        let (addresses, now) = (&worker.shared.client_addresses, || worker.now());
        if !self.bind_throttle.hand_on(id, addresses, now) {
            return Err((read, TOO_MANY_GUESSES));
        }
        let (deliver, deliveries) = mpsc::channel(1);
        // The connection may be gone.
        let ready = move |ready| drop(deliver.try_send(Delivery::Fresh(ready)));
        if let Err(refused) = read.submit(Box::new(ready)) {
            self.bind_throttle.goes_on(id, addresses, now);
            return Err(refused);
        }
        self.jobs.push(Running::search(id, false, deliveries, held));
        Ok(())
    }

    /// Whether a request that has waited may go on: what it makes finds room, and it overtakes
    /// nothing that must not be, nor another one whose passwords are looked at.
    pub(super) fn may_resume(&self) -> bool {
        !self.fresh.is_empty()
            && !self.state.is_draining()
            && self.keeps_order().is_none()
            && !self.is_hashing()
            && self.output.waiting() < self.worker.shared.limits().output_buffer_max_bytes
    }

    /// Goes on with the one that has waited longest, as with a message that has just come.
    pub(super) fn resume_next(&mut self, slice: &mut TimeSlice) {
        let Some(Fresh { ready, _waited }) = self.fresh.pop_front() else { return };
        let worker = Rc::clone(&self.worker);
        slice.begin(Instant::now());
        let which = (ready.id(), Some(ready.operation()));
        let addresses = &worker.shared.client_addresses;
        self.bind_throttle.goes_on(which.0, addresses, || worker.now());
        let mut out = Vec::new();
        let next = worker.resume_read(&mut self.session, ready, &mut out);
        self.follow(&worker, next, which, Attempt::Again, 0, &mut out);
        slice.handled(out.len(), Instant::now);
        if !out.is_empty() {
            self.output.append(out);
        }
    }
}

const TOO_MANY_GUESSES: &str = "too many passwords of your address wait to be looked at";
const NO_ROOM: &str = "there is no memory for requests that wait for other servers";
