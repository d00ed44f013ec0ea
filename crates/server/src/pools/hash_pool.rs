//! The hash pool: threads for passwords that are slow to hash, and for nothing else.
//!
//! Invariant: clients are served one after the other: those who have signed in by their entry, all
//! others by their address. Whoever sends a thousand binds waits for them itself; another client's
//! bind waits for one hash of each that is in front of it.
//! Invariant: what waits is bounded, over all and for each who asks. One more is refused, or takes
//! the position of a request of whoever has most; who has nothing here always gets in.
//! Invariant: what nobody waits for any more leaves the queue (see [`HashPool::sweep`]).
//! Invariant: memory is bounded: no more hashes are computed at a time than there are threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use directory::HashJob;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::ServerError;
use crate::metrics::counters::Counters;
use crate::metrics::micros;
use crate::pools::fair_queue::{Asker, FairQueue, QueueSize, Serves, Shares};
use crate::pools::scan_pool::Delivery;

/// How large the pool is, and what may wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashPoolSize {
    pub(crate) threads: usize,
    pub(crate) queue: QueueSize,
}

/// Where connections hand in their jobs. The threads end when it is dropped.
#[derive(Debug)]
pub(crate) struct HashPool {
    queue: Arc<FairQueue<Queued>>,
}

#[derive(Debug)]
struct Queued {
    job: Box<HashJob>,
    deliver: Deliver,
}

/// Who gets what comes of a job.
enum Deliver {
    Connection(mpsc::Sender<Delivery>),
    /// Called once, or dropped where the hash panicked.
    Call(Call),
}

type Call = Box<dyn FnOnce(Delivery) + Send>;

impl Deliver {
    fn send(self, delivery: Delivery) {
        match self {
            Self::Connection(sender) => drop(sender.try_send(delivery)),
            Self::Call(call) => call(delivery),
        }
    }

    /// Whether nobody waits for it any more.
    fn is_closed(&self) -> bool {
        match self {
            Self::Connection(sender) => sender.is_closed(),
            Self::Call(_) => false,
        }
    }
}

impl std::fmt::Debug for Deliver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Connection(_) => "Connection",
            Self::Call(_) => "Call",
        };
        f.write_str(name)
    }
}

/// Hands in jobs of no connection.
#[derive(Clone, Debug)]
pub(crate) struct HashQueue(Arc<FairQueue<Queued>>);

impl HashQueue {
    /// Hands in a job; `call` gets what comes of it, on a thread of the pool. Where too many are
    /// waiting, the job is refused.
    pub(crate) fn submit(&self, asker: Asker, job: Box<HashJob>, call: Call) -> Result<(), Call> {
        let queued = Queued { job, deliver: Deliver::Call(call) };
        match self.0.put_or_displace(asker, queued) {
            Ok(None) => Ok(()),
            Ok(Some(Queued { job, deliver })) => {
                deliver.send(Delivery::Displaced(job));
                Ok(())
            }
            Err(Queued { deliver: Deliver::Call(call), .. }) => Err(call),
            Err(Queued { deliver: Deliver::Connection(_), .. }) => Ok(()),
        }
    }
}

impl HashPool {
    /// Starts the threads.
    pub(crate) fn start(
        counters: &Arc<Counters>,
        size: HashPoolSize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let pool = Self { queue: Arc::new(FairQueue::new(size.queue, Shares::ALL)) };
        let mut handles = Vec::new();
        for number in 0..size.threads {
            let (queue, counters) = (Arc::clone(&pool.queue), Arc::clone(counters));
            let handle = thread::Builder::new()
                .name(format!("hash-{number}"))
                .spawn(move || serve(&queue, &counters))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((pool, handles))
    }

    /// Where jobs of no connection are handed in.
    pub(crate) fn queue(&self) -> HashQueue {
        HashQueue(Arc::clone(&self.queue))
    }

    /// How many jobs wait, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.queue.depth()
    }

    /// Hands in a job; gives it back when too many are waiting. One that has to make room for it
    /// is delivered to its connection as it is.
    pub(crate) fn submit(
        &self,
        asker: Asker,
        job: Box<HashJob>,
    ) -> Result<mpsc::Receiver<Delivery>, Box<HashJob>> {
        let (deliver, deliveries) = mpsc::channel(1);
        let deliver = Deliver::Connection(deliver);
        let put = self.queue.put_or_displace(asker, Queued { job, deliver });
        if let Some(Queued { job, deliver }) = put.map_err(|queued| queued.job)? {
            deliver.send(Delivery::Displaced(job));
        }
        Ok(deliveries)
    }

    /// Gives up what waits of one who asks, where its connection is gone.
    pub(crate) fn sweep(&self, asker: Asker) {
        self.queue.retain_of(asker, |queued| !queued.deliver.is_closed());
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// What one thread does until the pool ends.
fn serve(queue: &FairQueue<Queued>, counters: &Counters) {
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, HASH_NICE);
    while let Some((Queued { job, deliver }, _turn)) = queue.take(Serves::Everybody, || None) {
        if deliver.is_closed() {
            continue;
        }
        let begin = Instant::now();
        // A channel that closes without a delivery stands for the panic.
        match catch_unwind(AssertUnwindSafe(|| job.run())) {
            Ok(done) => {
                counters.hashes.add(1);
                counters.hash_us.add(micros(begin.elapsed()));
                deliver.send(Delivery::Hashed(done));
            }
            Err(_) => {
                counters.panics.add(1);
                tracing::error!("a password hash panicked; the session is closed");
            }
        }
    }
}

/// How much hashing steps back behind the threads that answer requests: where there are not cores
/// enough for both, a search does not wait for the hashes of others.
const HASH_NICE: i32 = 10;
