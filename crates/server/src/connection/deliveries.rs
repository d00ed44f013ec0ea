//! What the writer and the pools have made for a connection comes into its output.

use std::task::{Context, Poll};
use std::time::Duration;

use directory::{JobDone, Part, Stop, WriteDone};
use ldap::message::MessageId;
use ldap::result::ResultCode;

use super::Connection;
use super::reads::Fresh;
use crate::pools::scan_pool::Delivery;

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
        // What another one has made waits with it.
        let mut index = self.keeps_order().unwrap_or(0);
        while !self.state.is_draining()
            && let Some(job) = self.jobs.get_mut(index)
        {
            if self.output.waiting() >= self.worker.shared.limits.output_buffer_max_bytes {
                return true;
            }
            match job.deliveries.poll_recv(cx) {
                Poll::Ready(Some(Delivery::Chunk(chunk))) => {
                    self.state.has_delivered();
                    let (id, part) = (job.id, chunk.take());
                    if part.is_open && self.within.is_none() {
                        job.stop.iter().for_each(Stop::client_takes);
                    }
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
                    let worker = &self.worker;
                    let account = self.holding.account(&worker.shared, || worker.now());
                    let pool = &worker.shared.scan_pool;
                    job.deliveries = pool.resume(&self.session, &account, *parked);
                }
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
