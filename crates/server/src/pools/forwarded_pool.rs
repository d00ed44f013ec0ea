//! The pool for updates that other nodes have handed on: threads that resolve them as a worker
//! resolves those of its connections, away from the listeners.
//!
//! Invariant: what waits is bounded in requests and in octets; one more is answered `busy`, and
//! nothing of it has happened.
//! Invariant: no thread waits for a password hash: the hash pool computes it, and the request goes
//! on when it is done.
//! Invariant: every request is answered, also when the pool is closed before its hash is there:
//! then nothing of it has happened, and whoever decides next is asked.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use directory::forward::answer::ForwardedAnswer;
use directory::forward::{ForwardedDone, ForwardedHash, ForwardedUpdate};
use directory::{Directory, HashDone, Worker};
use ldap::result::ResultCode;
use zeroize::Zeroizing;

use crate::error::ServerError;
use crate::pools::hash_pool::HashQueue;
use crate::pools::scan_pool::Delivery;

/// How many threads there are, and what may wait for them.
#[derive(Clone, Copy, Debug)]
pub struct ForwardedPoolSize {
    /// Threads.
    pub threads: usize,
    /// Requests that wait.
    pub requests_max: usize,
    /// Octets that they take.
    pub bytes_max: usize,
}

impl Default for ForwardedPoolSize {
    fn default() -> Self {
        Self { threads: 2, requests_max: 10_000, bytes_max: 256 << 20 }
    }
}

/// Takes updates of other nodes, until it is closed.
#[derive(Clone)]
pub struct ForwardedPool(Arc<Queue>);

struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    size: ForwardedPoolSize,
    hashes: HashQueue,
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    /// Of those that are new.
    requests: usize,
    bytes: usize,
    is_closed: bool,
}

enum Item {
    New(Zeroizing<Vec<u8>>, ForwardedDone),
    /// It goes on; it is never refused.
    Hashed(Box<(ForwardedUpdate, HashDone)>),
}

impl ForwardedPool {
    /// Starts the threads.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        hashes: HashQueue,
        size: ForwardedPoolSize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let waiting = Mutex::default();
        let queue = Arc::new(Queue { waiting, arrived: Condvar::new(), size, hashes });
        let pool = Self(Arc::clone(&queue));
        let mut handles = Vec::new();
        for number in 0..size.threads {
            let (directory, queue) = (Arc::clone(directory), Arc::clone(&queue));
            let handle = thread::Builder::new()
                .name(format!("forwarded-{number}"))
                .spawn(move || serve(&directory, &queue))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((pool, handles))
    }

    /// Has a request carried out; `done` gets the octets of the answer. Returns at once.
    pub fn carry_out(&self, octets: Zeroizing<Vec<u8>>, done: ForwardedDone) {
        let queue = &self.0;
        let mut waiting = queue.lock();
        let bytes = waiting.bytes + octets.len();
        let is_full = waiting.requests >= queue.size.requests_max
            || (waiting.bytes > 0 && bytes > queue.size.bytes_max);
        if waiting.is_closed {
            drop(waiting);
            // Whoever decides next carries it out.
            return done(ForwardedAnswer::NotDeciding { leader: None }.encode());
        }
        if is_full {
            drop(waiting);
            return done(busy("too many writes of other servers are waiting; try again"));
        }
        waiting.requests += 1;
        waiting.bytes = bytes;
        waiting.items.push_back(Item::New(octets, done));
        drop(waiting);
        queue.arrived.notify_one();
    }

    /// Carries out what waits, and nothing more; then the threads end.
    pub(crate) fn close(&self) {
        self.0.lock().is_closed = true;
        self.0.arrived.notify_all();
    }

    /// How many requests wait, and how many may.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        (self.0.lock().requests, self.0.size.requests_max)
    }
}

impl fmt::Debug for ForwardedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedPool").field("depth", &self.depth()).finish()
    }
}

impl Queue {
    /// The next one; waits for it. Before it waits it calls `idle`. None when the pool is closed.
    fn take(&self, idle: impl FnOnce()) -> Option<Item> {
        let mut waiting = self.lock();
        if waiting.items.is_empty() {
            drop(waiting);
            idle();
            let waits = |waiting: &mut Waiting| waiting.items.is_empty() && !waiting.is_closed;
            let waited = self.arrived.wait_while(self.lock(), waits);
            waiting = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let item = waiting.items.pop_front()?;
        if let Item::New(octets, _) = &item {
            waiting.requests -= 1;
            waiting.bytes -= octets.len();
        }
        Some(item)
    }

    /// Has the hash pool compute what a request waits for.
    fn hash(self: &Arc<Self>, hash: ForwardedHash) {
        let ForwardedHash { job, rest } = hash;
        if self.lock().is_closed {
            // Nothing is hashed any more, or nobody would go on with it.
            return rest.give_back();
        }
        let (queue, asker) = (Arc::clone(self), rest.asker());
        let call = move |delivery| match delivery {
            Delivery::Hashed(done) => queue.go_on(rest, done),
            Delivery::Displaced(_) => rest.refuse_busy(TOO_MANY_HASHES.to_owned()),
            Delivery::Chunk(_)
            | Delivery::Done(..)
            | Delivery::Released
            | Delivery::Parked(_)
            | Delivery::Fresh(_) => {}
        };
        // A request that is dropped is refused, since nothing of it has happened.
        drop(self.hashes.submit(asker, job, Box::new(call)));
    }

    /// Has a request go on; where the pool is closed, whoever decides next carries it out.
    fn go_on(&self, rest: ForwardedUpdate, done: HashDone) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            drop(waiting);
            return rest.give_back();
        }
        waiting.items.push_back(Item::Hashed(Box::new((rest, done))));
        drop(waiting);
        self.arrived.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one thread does until the pool is closed.
fn serve(directory: &Arc<Directory>, queue: &Arc<Queue>) {
    let mut worker = directory.worker();
    while let Some(item) = queue.take(|| worker.idle()) {
        // A request that panics is refused when it is dropped.
        match catch_unwind(AssertUnwindSafe(|| carry_out(&mut worker, item))) {
            Ok(Some(hash)) => queue.hash(hash),
            Ok(None) => {}
            Err(_) => {
                tracing::error!("an update of another server panicked; it is refused");
                worker = directory.worker();
            }
        }
    }
}

fn carry_out(worker: &mut Worker, item: Item) -> Option<ForwardedHash> {
    match item {
        Item::New(octets, done) => worker.carry_out_forwarded(&octets, done),
        Item::Hashed(hashed) => {
            let (rest, done) = *hashed;
            worker.resume_forwarded(rest, done)
        }
    }
}

fn busy(why: &str) -> Zeroizing<Vec<u8>> {
    ForwardedAnswer::Refused { code: ResultCode::Busy, diagnostic: why.to_owned() }.encode()
}

const TOO_MANY_HASHES: &str = "too many passwords are waiting to be hashed; try again";
