//! Requests of a connection that wait for the hash pool.

use std::rc::Rc;

use directory::{HashDone, HashJob};
use ldap::result::ResultCode;

use super::{Attempt, Connection, Running};
use crate::pools::fair_queue::Asker;
use crate::worker::Worker;

impl Connection {
    /// Hands a request in; gives it back with the reason where that is refused. What it holds is
    /// counted until it is done: a message is as long as its client likes.
    pub(super) fn begin_hash(
        &mut self,
        worker: &Worker,
        job: Box<HashJob>,
    ) -> Result<(), (Box<HashJob>, &'static str)> {
        let account = self.holding.account(&worker.shared, || worker.now());
        let Some(held) = account.try_hold(job.octets()) else { return Err((job, NO_ROOM)) };
        self.bind_throttle.begins(&worker.shared.client_addresses, || worker.now());
        let (asker, silence_tells) = (Asker::of(&self.session), job.silence_tells());
        let id = job.id();
        let submitted = worker.shared.hash_pool.submit(asker, job);
        let deliveries = submitted.map_err(|job| (job, TOO_MANY))?;
        let hashes_for = Some(asker);
        let waiting = Running::search(id, false, deliveries, held);
        self.jobs.push(Running { hashes_for, silence_tells, ..waiting });
        Ok(())
    }

    /// Goes on with a message whose password hashes are computed.
    pub(super) fn resume(&mut self, done: HashDone) {
        let worker = Rc::clone(&self.worker);
        let which = (done.id(), Some(done.operation()));
        let mut out = Vec::new();
        let next = worker.resume(&mut self.session, done, &mut out);
        self.follow(&worker, next, which, Attempt::Again, 0, &mut out);
        if !out.is_empty() {
            self.output.append(out);
        }
    }

    /// The passwords of a message are not looked at. That counts as a failure only where its client
    /// learns that they are wrong: from being told busy, or from nothing at all.
    pub(super) fn unanswered(&mut self, worker: &Worker, job: &HashJob) {
        let addresses = &worker.shared.client_addresses;
        self.bind_throttle.ends(job.silence_tells(), addresses, || worker.now());
    }

    /// Refuses a message that had to make room for another one.
    pub(super) fn displaced(&mut self, job: &HashJob) {
        let worker = Rc::clone(&self.worker);
        self.session.forget(job.id());
        let mut out = Vec::new();
        let completion = match job.is_abandoned() {
            true => job.abandoned(),
            false => job.refuse(&mut out, ResultCode::Busy, format!("{TOO_MANY}; try again")),
        };
        self.unanswered(&worker, job);
        self.record_answer(&worker, Attempt::Again, completion);
        if !out.is_empty() {
            self.output.append(out);
        }
    }
}

const TOO_MANY: &str = "too many passwords are waiting to be hashed";
const NO_ROOM: &str = "there is no memory for requests that wait for a password to be hashed";
