//! What the writer and the pools have made for a connection comes into its output.

use std::task::{Context, Poll};
use std::time::Duration;

use directory::Noted;
use ldap::result::ResultCode;

use super::Connection;
use crate::pools::scan_pool::Delivery;

impl Connection {
    /// Takes the answers the writer has left.
    pub(super) fn take_replies(&mut self) {
        // Nothing follows a notice of disconnection.
        while !self.state.is_draining()
            && let Some((id, answer)) = self.mailbox.take()
        {
            self.touch();
            self.session.forget(id);
            let recorder = &self.worker.recorder;
            recorder.part(&mut self.log, &answer);
            let outcome = (id, Noted::default(), Duration::ZERO);
            recorder.answered(&mut self.log, &self.session, outcome);
            self.output.append(answer);
        }
    }

    /// Takes what jobs have produced; says whether more waits that found no room.
    pub(super) fn take_chunks(&mut self, cx: &mut Context<'_>) -> bool {
        let mut index = 0;
        while !self.state.is_draining()
            && let Some(job) = self.jobs.get_mut(index)
        {
            if self.output.waiting() >= self.worker.shared.limits.output_buffer_max_bytes {
                return true;
            }
            match job.deliveries.poll_recv(cx) {
                Poll::Ready(Some(Delivery::Chunk(chunk))) => {
                    self.state.has_delivered();
                    self.take_chunk(chunk.take());
                }
                Poll::Ready(Some(Delivery::Done(mut done, waited))) => {
                    self.state.has_delivered();
                    self.take_chunk(done.take_end());
                    let outcome = (done.id(), done.noted(), waited);
                    self.session.finish(done);
                    self.worker.recorder.answered(&mut self.log, &self.session, outcome);
                    self.jobs.swap_remove(index);
                    self.touch();
                }
                Poll::Ready(Some(Delivery::Parked(parked))) => {
                    // All its chunks were taken, and there is room for more.
                    self.state.has_delivered();
                    let worker = &self.worker;
                    let account = self.holding.account(&worker.shared, || worker.now());
                    let by = (&self.session, &account);
                    job.deliveries = worker.shared.scan_pool.resume(by, *parked);
                }
                Poll::Ready(Some(Delivery::Hashed(done))) => {
                    self.state.has_delivered();
                    self.jobs.swap_remove(index);
                    self.touch();
                    self.resume(done);
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
                Poll::Pending => index += 1,
            }
        }
        false
    }

    /// Takes a part of the answer of a job; there may be nothing in it.
    fn take_chunk(&mut self, chunk: Vec<u8>) {
        let worker = &self.worker;
        worker.recorder.part(&mut self.log, &chunk);
        self.output.append(chunk);
    }
}
