//! The scan pool: threads for requests that would delay their neighbours.
//!
//! Invariant: what waits is bounded. The queue has a length (beyond it a request is refused), and a
//! job holds at most [`CHUNKS_MAX`] chunks that its connection has not taken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use directory::{Directory, Flow, Job, JobDone, Worker};
use tokio::sync::mpsc;

use crate::counters::Counters;
use crate::error::ServerError;

/// What a job sends to its connection. A channel that closes without `Done` means that the job
/// panicked.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A part of the answer.
    Chunk(Vec<u8>),
    /// The job is over.
    Done(JobDone),
}

/// Where connections hand in their jobs.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    queue: Sender<Queued>,
}

struct Queued {
    job: Job,
    deliver: mpsc::Sender<Delivery>,
}

impl Pool {
    /// Starts `threads` threads; they end when the last `Pool` is dropped.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        counters: &Arc<Counters>,
        threads: usize,
        queue_max: usize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let (queue, jobs) = bounded(queue_max);
        let mut handles = Vec::new();
        for number in 0..threads {
            let (directory, counters, jobs) =
                (Arc::clone(directory), Arc::clone(counters), jobs.clone());
            let handle = thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || serve(&directory, &counters, &jobs))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((Self { queue }, handles))
    }

    /// Hands in a job; `None` when too many are waiting.
    pub(crate) fn submit(&self, job: Job) -> Option<mpsc::Receiver<Delivery>> {
        let (deliver, deliveries) = mpsc::channel(CHUNKS_MAX);
        self.queue.try_send(Queued { job, deliver }).ok().map(|()| deliveries)
    }
}

/// What one thread does until the queue closes.
fn serve(directory: &Arc<Directory>, counters: &Counters, jobs: &Receiver<Queued>) {
    let mut worker = directory.worker();
    loop {
        let queued = match jobs.try_recv() {
            Ok(queued) => queued,
            Err(_) => {
                // Nothing waits, or the queue is closed; `recv` tells which.
                worker.idle();
                let Ok(queued) = jobs.recv() else {
                    return;
                };
                queued
            }
        };
        let carried_out = catch_unwind(AssertUnwindSafe(|| carry_out(&mut worker, queued)));
        if carried_out.is_err() {
            counters.panics.add(1);
            tracing::error!("a request panicked on the scan pool; its session is closed");
            // It may have been left in any state.
            worker = directory.worker();
        }
    }
}

fn carry_out(worker: &mut Worker, queued: Queued) {
    let Queued { job, deliver } = queued;
    let done = worker.run(job, &mut |chunk| match deliver.blocking_send(Delivery::Chunk(chunk)) {
        Ok(()) => Flow::Continue,
        // The connection is gone.
        Err(_) => Flow::Stop,
    });
    let _ = deliver.blocking_send(Delivery::Done(done));
}

/// Chunks of one job (64 KiB each, about) that wait for its connection.
const CHUNKS_MAX: usize = 8;
