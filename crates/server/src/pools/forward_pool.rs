//! Threads that carry out updates which other members of the cluster hand on, and those that hash
//! passwords for them. Clients of this server have threads of their own, and wait for none of these.
//!
//! Invariant: what waits is bounded in requests and in octets; one more is answered `busy`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use directory::forward::{ForwardedDone, ForwardedHash, ForwardedUpdate, busy};
use directory::{Directory, HashDone};

use crate::error::ServerError;

/// Requests that may wait.
const QUEUE_MAX: usize = 8_192;
/// Octets that they may take.
const QUEUE_MAX_BYTES: usize = 256 << 20;
/// Threads for updates: deciding is one thread's work anyway, these decode and resolve.
const UPDATE_THREADS: usize = 2;
/// Threads for hashes.
const HASH_THREADS: usize = 2;
/// Hashes that may wait.
const HASHES_MAX: usize = 1_024;
/// How much hashing steps back behind the threads that answer requests.
const HASH_NICE: i32 = 10;

/// Where updates of other members are handed in. The threads end when the last clone is gone.
#[derive(Clone)]
pub(crate) struct ForwardPool {
    work: Sender<Work>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

enum Work {
    Begin { octets: Vec<u8>, done: ForwardedDone },
    Resume { rest: Box<ForwardedUpdate>, done: HashDone },
}

impl ForwardPool {
    /// Starts the threads.
    pub(crate) fn start(directory: &Arc<Directory>) -> Result<Self, ServerError> {
        let (work, taken) = unbounded();
        let (hashes, hashes_taken) = bounded::<ForwardedHash>(HASHES_MAX);
        let waiting = Arc::<Waiting>::default();
        for number in 0..UPDATE_THREADS {
            let (directory, taken, hashes) = (Arc::clone(directory), taken.clone(), hashes.clone());
            let waiting = Arc::clone(&waiting);
            thread::Builder::new()
                .name(format!("forward-{number}"))
                .spawn(move || carry_out(&directory, &taken, &hashes, &waiting))
                .map_err(ServerError::Thread)?;
        }
        for number in 0..HASH_THREADS {
            let (hashes, work) = (hashes_taken.clone(), work.clone());
            thread::Builder::new()
                .name(format!("forward-hash-{number}"))
                .spawn(move || hash(&hashes, &work))
                .map_err(ServerError::Thread)?;
        }
        Ok(Self { work, waiting })
    }

    /// Hands in a request; `done` gets the octets of the answer.
    pub(crate) fn submit(&self, octets: Vec<u8>, done: ForwardedDone) {
        let requests = self.waiting.requests.fetch_add(1, Ordering::AcqRel);
        let bytes = self.waiting.bytes.fetch_add(octets.len(), Ordering::AcqRel);
        if requests >= QUEUE_MAX || bytes + octets.len() > QUEUE_MAX_BYTES {
            self.waiting.took(octets.len());
            return done(busy("too many updates of other servers wait"));
        }
        // The threads end only when nobody can hand in anything.
        let _ = self.work.send(Work::Begin { octets, done });
    }
}

impl Waiting {
    fn took(&self, bytes: usize) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// What a thread for updates does.
fn carry_out(
    directory: &Arc<Directory>,
    work: &Receiver<Work>,
    hashes: &Sender<ForwardedHash>,
    waiting: &Waiting,
) {
    let mut worker = directory.worker();
    loop {
        let next = match work.try_recv() {
            Ok(next) => next,
            Err(_) => {
                worker.idle();
                let Ok(next) = work.recv() else { return };
                next
            }
        };
        let hash = match next {
            Work::Begin { octets, done } => {
                waiting.took(octets.len());
                worker.carry_out_forwarded(&octets, done)
            }
            Work::Resume { rest, done } => worker.resume_forwarded(*rest, done),
        };
        if let Some(hash) = hash
            && let Err(full) = hashes.try_send(hash)
        {
            full.into_inner().rest.refuse_busy("too many passwords wait to be hashed".to_owned());
        }
    }
}

/// What a thread for hashes does.
fn hash(hashes: &Receiver<ForwardedHash>, work: &Sender<Work>) {
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, HASH_NICE);
    while let Ok(ForwardedHash { job, rest }) = hashes.recv() {
        let done = job.run();
        let _ = work.send(Work::Resume { rest: Box::new(rest), done });
    }
}
