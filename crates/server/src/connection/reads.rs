//! Requests of a connection that wait until the data are fresh enough. They hold no thread, and
//! later requests of the connection are handled meanwhile.

use std::rc::Rc;

use directory::{ReadReady, WaitingRead};
use tokio::sync::mpsc;

use super::{Attempt, Connection, Running};
use crate::pools::scan_pool::Delivery;
use crate::worker::Worker;

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
        let (deliver, deliveries) = mpsc::channel(1);
        // The connection may be gone.
        let ready = move |ready| drop(deliver.try_send(Delivery::Fresh(ready)));
        read.submit(Box::new(ready))?;
        self.jobs.push(Running::search(id, false, deliveries, held));
        Ok(())
    }

    /// Goes on with a request that has waited.
    pub(super) fn resume_read(&mut self, ready: ReadReady) {
        let worker = Rc::clone(&self.worker);
        let which = (ready.id(), Some(ready.operation()));
        let mut out = Vec::new();
        let next = worker.resume_read(&mut self.session, ready, &mut out);
        self.follow(&worker, next, which, Attempt::Again, 0, &mut out);
        if !out.is_empty() {
            self.output.append(out);
        }
    }
}

const NO_ROOM: &str = "there is no memory for requests that wait for other servers";
