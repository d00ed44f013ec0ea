//! The scan pool: threads for requests that would delay their neighbours.
//!
//! Invariant: what waits is bounded. The queue has a length (beyond it a request is refused), and a
//! job holds at most [`CHUNKS_MAX`] chunks that its connection has not taken.
//! Invariant: a client that does not read holds a thread no longer than until its request is
//! abandoned or its time is up: the end of a job always finds room.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use directory::{Directory, Flow, HashDone, Job, JobDone, Stop, Worker};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::budget::{Account, Budget, Chunk};
use crate::counters::Counters;
use crate::error::ServerError;
use crate::memory::Releases;

/// What a job sends to its connection. A channel that closes without `Done` means that the job
/// panicked.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// A part of the answer.
    Chunk(Chunk),
    /// The job is over; before it was begun, it waited so long.
    Done(JobDone, Duration),
    /// The password hashes of a request are computed.
    Hashed(HashDone),
}

/// Where connections hand in their jobs.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    queue: Sender<Queued>,
}

struct Queued {
    job: Job,
    deliver: mpsc::Sender<Delivery>,
    since: Instant,
    account: Arc<Account>,
}

impl Pool {
    /// Starts `threads` threads; they end when the last `Pool` is dropped.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        (counters, budget): (&Arc<Counters>, &Arc<Budget>),
        threads: usize,
        queue_max: usize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let (queue, jobs) = bounded(queue_max);
        let mut handles = Vec::new();
        for number in 0..threads {
            let (directory, counters, jobs) =
                (Arc::clone(directory), Arc::clone(counters), jobs.clone());
            let budget = Arc::clone(budget);
            let timer =
                Builder::new_current_thread().enable_time().build().map_err(ServerError::Thread)?;
            let handle = thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || serve(&directory, (&counters, &budget), &jobs, &timer))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((Self { queue }, handles))
    }

    /// How many jobs wait, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        (self.queue.len(), self.queue.capacity().unwrap_or(usize::MAX))
    }

    /// Hands in a job; `None` when too many are waiting.
    pub(crate) fn submit(
        &self,
        job: Job,
        account: &Arc<Account>,
    ) -> Option<mpsc::Receiver<Delivery>> {
        let (deliver, deliveries) = mpsc::channel(CHUNKS_MAX + END_MAX);
        let since = Instant::now();
        let account = Arc::clone(account);
        self.queue.try_send(Queued { job, deliver, since, account }).ok().map(|()| deliveries)
    }
}

/// What one thread does until the queue closes.
fn serve(
    directory: &Arc<Directory>,
    (counters, budget): (&Counters, &Budget),
    jobs: &Receiver<Queued>,
    timer: &Runtime,
) {
    let mut worker = directory.worker();
    let mut releases = Releases::default();
    loop {
        let queued = match jobs.try_recv() {
            Ok(queued) => queued,
            Err(_) => {
                // Nothing waits, or the queue is closed; `recv` tells which.
                worker.idle();
                let Some(queued) = releases.receive(jobs, budget) else {
                    return;
                };
                queued
            }
        };
        let carried_out = catch_unwind(AssertUnwindSafe(|| carry_out(&mut worker, queued, timer)));
        if carried_out.is_err() {
            counters.panics.add(1);
            tracing::error!("a request panicked on the scan pool; its session is closed");
            // It may have been left in any state.
            worker = directory.worker();
        }
    }
}

fn carry_out(worker: &mut Worker, queued: Queued, timer: &Runtime) {
    let Queued { job, deliver, since, account } = queued;
    let waited = since.elapsed();
    let end = (0..END_MAX).map_while(|_| deliver.clone().try_reserve_owned().ok()).collect();
    let mut way = Way { deliver, end, stop: job.stop(), timer, account };
    let done = worker.run(job, &mut |chunk| way.chunk(chunk));
    way.last(Delivery::Done(done, waited));
}

/// The way from a job to its connection.
struct Way<'t> {
    deliver: mpsc::Sender<Delivery>,
    /// Room kept for the end of the job.
    end: Vec<mpsc::OwnedPermit<Delivery>>,
    stop: Stop,
    timer: &'t Runtime,
    account: Arc<Account>,
}

impl Way<'_> {
    /// Hands a chunk on; blocks while the connection has no room for it and the job goes on.
    fn chunk(&mut self, chunk: Vec<u8>) -> Flow {
        loop {
            let room = async {
                if !self.account.has_room_for_chunk() {
                    // It is looked at again when the time of this look is over.
                    pending::<()>().await;
                }
                self.deliver.reserve().await
            };
            match self.timer.block_on(async { timeout(LOOK_EVERY, room).await }) {
                Ok(Ok(permit)) => {
                    permit.send(Delivery::Chunk(self.account.chunk(chunk)));
                    return Flow::Continue;
                }
                // The connection is gone.
                Ok(Err(_)) => return Flow::Stop,
                Err(_) if self.stop.is_abandoned() => return Flow::Stop,
                Err(_) if self.stop.is_late() => {
                    // The other is for the end of the answer.
                    if self.end.len() > 1
                        && let Some(permit) = self.end.pop()
                    {
                        permit.send(Delivery::Chunk(self.account.chunk(chunk)));
                    }
                    return Flow::Stop;
                }
                Err(_) => {}
            }
        }
    }

    /// Delivers into the room that was kept.
    fn last(&mut self, delivery: Delivery) {
        if let Some(permit) = self.end.pop() {
            permit.send(delivery);
        }
    }
}

/// Chunks of one job (64 KiB each, about) that wait for its connection.
const CHUNKS_MAX: usize = 8;
/// Deliveries that end a job: the chunk that found no room when its time was up, and that it is
/// done, with the end of the answer.
const END_MAX: usize = 2;
/// How often a job that waits for its connection looks whether it has to stop.
const LOOK_EVERY: Duration = Duration::from_millis(2);
