//! The pool for updates that other nodes have handed on: threads that resolve them as a worker
//! resolves those of its connections, away from the listeners.
//!
//! Invariant: those who ask take turns, whichever node they have asked: whoever sends a thousand
//! costly updates waits for them itself, and has no more threads at once than [`Shares`] says.
//! Invariant: what waits, also for its hash, is bounded in requests and in octets, over all and for
//! each who asks; one more of those who have too many is answered `busy`, and nothing of it has
//! happened.
//! Invariant: no thread waits for a password hash: the hash pool computes it, and the request goes
//! on when it is done.
//! Invariant: every request is answered, also when the pool is closed before its hash is there:
//! then nothing of it has happened, and whoever decides next is asked.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use directory::forward::answer::ForwardedAnswer;
use directory::forward::request;
use directory::forward::{ForwardedDone, ForwardedHash, ForwardedUpdate};
use directory::{AskerBytes, AskerHeld, Directory, HashDone, Worker};
use ldap::result::ResultCode;
use zeroize::Zeroizing;

use crate::error::ServerError;
use crate::pools::fair_queue::{Asker, FairQueue, QueueSize, Serves, Shares};
use crate::pools::hash_pool::HashQueue;
use crate::pools::scan_pool::Delivery;

/// How many threads there are, and what may wait for them.
#[derive(Clone, Copy, Debug)]
pub struct ForwardedPoolSize {
    /// Threads.
    pub threads: usize,
    /// Threads that serve only those who have signed in.
    pub threads_reserved: usize,
    /// Requests that wait.
    pub queue: QueueSize,
    /// Octets that they take.
    pub bytes_max: usize,
}

impl Default for ForwardedPoolSize {
    fn default() -> Self {
        // As many as may wait for the writer.
        let queue = QueueSize { max: 10_000, reserved: 5_000, asker_max: 2_500 };
        Self { threads: 3, threads_reserved: 1, queue, bytes_max: 256 << 20 }
    }
}

/// Takes updates of other nodes, until it is closed.
#[derive(Clone)]
pub struct ForwardedPool(Arc<Parts>);

struct Parts {
    queue: FairQueue<Item>,
    /// What the requests take until they are answered, or with the writer.
    bytes: Arc<Mutex<AskerBytes>>,
    hashes: HashQueue,
}

enum Item {
    New(Box<New>),
    /// It goes on; it is never refused.
    Hashed(Box<Hashed>),
}

struct New {
    octets: Zeroizing<Vec<u8>>,
    done: ForwardedDone,
    held: AskerHeld,
}

struct Hashed {
    rest: ForwardedUpdate,
    done: HashDone,
    held: AskerHeld,
}

impl ForwardedPool {
    /// Starts the threads.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        hashes: HashQueue,
        size: ForwardedPoolSize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let shares = Shares::of(size.threads, size.threads_reserved);
        let bytes = Arc::new(Mutex::new(AskerBytes::new(size.bytes_max)));
        let parts = Arc::new(Parts { queue: FairQueue::new(size.queue, shares), bytes, hashes });
        let mut handles = Vec::new();
        for number in 0..size.threads {
            let (directory, parts) = (Arc::clone(directory), Arc::clone(&parts));
            let is_reserved = number < size.threads_reserved;
            let serves = if is_reserved { Serves::SignedIn } else { Serves::Everybody };
            let handle = thread::Builder::new()
                .name(format!("forwarded-{number}"))
                .spawn(move || serve(&directory, &parts, serves))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((Self(parts), handles))
    }

    /// Has a request carried out; `done` gets the octets of the answer. Returns at once.
    pub fn carry_out(&self, octets: Zeroizing<Vec<u8>>, done: ForwardedDone) {
        let parts = &self.0;
        // One that cannot be read costs nothing: it is refused when it is looked at.
        let asker = request::asker(&octets).unwrap_or(Asker::Root);
        let mut held = AskerHeld::new(&parts.bytes, asker);
        if !held.grow(octets.len()) {
            return done(busy(TOO_LARGE));
        }
        let put = parts.queue.put(asker, Item::New(Box::new(New { octets, done, held })));
        let Err(Item::New(refused)) = put else { return };
        let is_closed = parts.queue.is_closed();
        (refused.done)(match is_closed {
            // Whoever decides next carries it out.
            true => ForwardedAnswer::NotDeciding { leader: None }.encode(),
            false => busy(TOO_MANY),
        });
    }

    /// Carries out what waits, and nothing more; then the threads end.
    pub(crate) fn close(&self) {
        self.0.queue.close();
    }

    /// How many requests wait, those that go on included, and how many new ones may.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        self.0.queue.depth()
    }
}

impl fmt::Debug for ForwardedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedPool").field("depth", &self.depth()).finish()
    }
}

impl Parts {
    /// Has the hash pool compute what a request waits for.
    fn hash(self: &Arc<Self>, hash: ForwardedHash, held: AskerHeld) {
        let ForwardedHash { job, rest } = hash;
        if self.queue.is_closed() {
            // Nothing is hashed any more, or nobody would go on with it.
            return rest.give_back();
        }
        let (parts, asker) = (Arc::clone(self), rest.asker());
        let call = move |delivery| match delivery {
            Delivery::Hashed(done) => parts.go_on(asker, Hashed { rest, done, held }),
            Delivery::Displaced(_) => rest.refuse_busy(TOO_MANY_HASHES.to_owned()),
            Delivery::Chunk(_)
            | Delivery::Done(..)
            | Delivery::Released
            | Delivery::Parked(_)
            | Delivery::Broken
            | Delivery::Changed(_)
            | Delivery::Fresh(_) => {}
        };
        // A request that is dropped is refused, since nothing of it has happened.
        drop(self.hashes.submit(asker, job, Box::new(call)));
    }

    /// Has a request go on; where the pool is closed, whoever decides next carries it out.
    fn go_on(&self, asker: Asker, hashed: Hashed) {
        let put = self.queue.put_back_open(asker, Item::Hashed(Box::new(hashed)));
        if let Err(Item::Hashed(hashed)) = put {
            hashed.rest.give_back();
        }
    }
}

/// What one thread does until the pool is closed.
fn serve(directory: &Arc<Directory>, parts: &Arc<Parts>, serves: Serves) {
    let mut worker = directory.worker();
    loop {
        let idle = || {
            worker.idle();
            None
        };
        let Some((item, _turn)) = parts.queue.take(serves, idle) else { return };
        // A request that panics is refused when it is dropped.
        match catch_unwind(AssertUnwindSafe(|| carry_out(&mut worker, item))) {
            Ok(Some((hash, held))) => parts.hash(hash, held),
            Ok(None) => {}
            Err(_) => {
                tracing::error!("an update of another server panicked; it is refused");
                worker = directory.worker();
            }
        }
    }
}

fn carry_out(worker: &mut Worker, item: Item) -> Option<(ForwardedHash, AskerHeld)> {
    let (hash, held) = match item {
        Item::New(new) => {
            let New { octets, done, held } = *new;
            (worker.carry_out_forwarded(&octets, done), held)
        }
        Item::Hashed(hashed) => {
            let Hashed { rest, done, held } = *hashed;
            (worker.resume_forwarded(rest, done), held)
        }
    };
    Some((hash?, held))
}

fn busy(why: &str) -> Zeroizing<Vec<u8>> {
    ForwardedAnswer::Refused { code: ResultCode::Busy, diagnostic: why.to_owned() }.encode()
}

const TOO_MANY: &str = "too many writes of other servers are waiting; try again";
const TOO_LARGE: &str = "writes of other servers that wait take too much memory; try again";
const TOO_MANY_HASHES: &str = "too many passwords are waiting to be hashed; try again";
