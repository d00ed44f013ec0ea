//! What the writer and the pools have made for a connection comes into its output.

use std::task::{Context, Poll};
use std::time::Duration;

use directory::{JobDone, Part, WriteDone};
use ldap::message::MessageId;
use ldap::result::ResultCode;

use super::follows::Follows;
use super::reads::Fresh;
use super::{Connection, Running};
use crate::pools::scan_pool::{Delivery, ParkedJob};

impl Connection {
    /// Takes the answers the writer has left.
    pub(super) fn take_replies(&mut self) {
        // Nothing follows a notice of disconnection.
        while !self.state.is_draining()
            && self.keeps_order().is_none()
            && let Some(WriteDone { bytes, completion }) = self.mailbox.take()
        {
            self.touch();
            self.session.forget(completion.id);
            let (worker, id, is_wrong) = (&self.worker, completion.id, completion.is_wrong_guess);
            let addresses = &worker.shared.client_addresses;
            self.bind_throttle.answered_later(id, is_wrong, addresses, || worker.now());
            let recorder = &self.worker.recorder;
            recorder.answered(&mut self.log, &self.session, completion, Duration::ZERO);
            self.output.append(bytes);
        }
    }

    /// Takes what jobs have produced; says whether more waits that found no room.
    pub(super) fn take_chunks(&mut self, cx: &mut Context<'_>) -> bool {
        // What a state of the store is held for does not wait until others are sent.
        if let Some(index) = self.sends_in_parts() {
            self.jobs.swap(0, index);
        }
        // What another one has made waits with it.
        let mut index = self.keeps_order().unwrap_or(0);
        while !self.state.is_draining()
            && let Some(job) = self.jobs.get_mut(index)
        {
            if self.output.waiting() >= self.worker.shared.limits().output_buffer_max_bytes {
                return true;
            }
            if job.waits {
                index += 1;
                continue;
            }
            if job.follows.as_ref().is_some_and(Follows::is_over) {
                // It has an end to make, if no more than that it makes none.
                self.go_on(index, None);
                continue;
            }
            match job.deliveries.poll_recv(cx) {
                Poll::Ready(Some(Delivery::Chunk(chunk))) => {
                    self.state.has_delivered();
                    let (id, part) = (job.id, chunk.take());
                    // Nothing comes between the parts of a message.
                    self.within = part.is_open.then_some(id);
                    self.take_part(id, part);
                }
                Poll::Ready(Some(Delivery::Done(done, waited))) => {
                    self.state.has_delivered();
                    self.session.finish(&done);
                    let JobDone { end, completion } = done;
                    self.output.append(end);
                    let recorder = &self.worker.recorder;
                    recorder.answered(&mut self.log, &self.session, completion, waited);
                    let job = self.jobs.swap_remove(index);
                    self.touch();
                    self.resume_waiting();
                    if job.keeps_order {
                        return self.take_all(cx);
                    }
                }
                Poll::Ready(Some(Delivery::Released)) => {
                    job.keeps_order = false;
                    return self.take_all(cx);
                }
                Poll::Ready(Some(Delivery::Parked(parked))) => {
                    // All its chunks were taken, and there is room for more.
                    self.state.has_delivered();
                    self.has_parked(index, parked);
                }
                Poll::Ready(Some(Delivery::Changed(passed))) => self.go_on(index, Some(passed)),
                Poll::Ready(Some(Delivery::Broken)) => {
                    self.jobs.swap_remove(index);
                    self.dismiss(ResultCode::Other, "the rest of an entry cannot be sent");
                }
                Poll::Ready(Some(Delivery::Hashed(done))) => {
                    self.state.has_delivered();
                    self.jobs.swap_remove(index);
                    self.touch();
                    self.resume(done);
                }
                Poll::Ready(Some(Delivery::Fresh(ready))) => {
                    self.state.has_delivered();
                    let waited = self.jobs.swap_remove(index);
                    self.touch();
                    self.fresh.push_back(Fresh { ready, _waited: waited });
                }
                Poll::Ready(Some(Delivery::Displaced(job))) => {
                    self.jobs.swap_remove(index);
                    self.touch();
                    self.displaced(&job);
                }
                Poll::Ready(None) => {
                    // The job panicked.
                    self.jobs.swap_remove(index);
                    self.dismiss(ResultCode::Other, "internal error");
                }
                Poll::Pending if job.keeps_order || self.within.is_some() => return false,
                Poll::Pending => index += 1,
            }
        }
        false
    }

    /// A job has parked: it goes on, unless it is to wait for others.
    fn has_parked(&mut self, index: usize, mut parked: Box<ParkedJob>) {
        // If it has sent an entry in parts, others may.
        parked.renew(&self.session);
        if parked.waits_for_change() {
            self.resume_waiting();
            return self.wait_for_change(index, parked);
        }
        if parked.waits_for_turn() && !self.session.may_send_in_parts() {
            self.jobs.get_mut(index).into_iter().for_each(|job| job.waits = true);
            return self.waiting.push_back(parked);
        }
        // They have waited longer.
        self.resume_waiting();
        self.hand_in(index, *parked);
    }

    /// The next one goes on that waits to send an entry in parts, if none is sent.
    fn resume_waiting(&mut self) {
        if !self.session.may_send_in_parts() {
            return;
        }
        let Some(parked) = self.waiting.pop_front() else { return };
        let is_meant = |job: &Running| job.waits && job.id == parked.id();
        if let Some(index) = self.jobs.iter().position(is_meant) {
            self.hand_in(index, *parked);
        }
    }

    pub(super) fn hand_in(&mut self, index: usize, parked: ParkedJob) {
        let Some(job) = self.jobs.get_mut(index) else { return };
        let worker = &self.worker;
        let account = self.holding.account(&worker.shared, || worker.now());
        job.deliveries = worker.shared.scan_pool.resume(&self.session, &account, parked);
        job.waits = false;
    }

    /// Nothing keeps the order any more: takes what has waited for that.
    fn take_all(&mut self, cx: &mut Context<'_>) -> bool {
        self.take_replies();
        self.take_chunks(cx)
    }

    /// Takes a part of the response of a job.
    fn take_part(&mut self, id: MessageId, part: Part) {
        self.worker.recorder.part(&mut self.log, id, &part);
        self.output.append(part.bytes);
    }
}
