//! The hash pool: threads for passwords that are slow to hash, and for nothing else.
//!
//! Invariant: clients take turns. Whoever sends a thousand binds waits for them itself; another
//! client's bind waits for one hash of each that is in front of it.
//! Invariant: what waits is bounded, over all and for each address; one more is refused. So is
//! memory: no more hashes are computed at a time than there are threads.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use directory::HashJob;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::counters::Counters;
use crate::error::ServerError;
use crate::metrics::micros;
use crate::pool::Delivery;

/// Who has a turn.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Client {
    /// All connections of an address.
    Address(IpAddr),
    /// All that came through the Unix socket.
    Local,
}

impl Client {
    /// The client at an address as sessions have it, with or without a port.
    pub(crate) fn at(address: &str) -> Self {
        let with_port = address.parse::<SocketAddr>().map(|address| address.ip());
        with_port.or_else(|_| address.parse()).map_or(Self::Local, Self::Address)
    }
}

/// How large the pool is, and what may wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashPoolSize {
    pub(crate) threads: usize,
    /// Requests that wait, over all.
    pub(crate) queue_max: usize,
    /// Requests of one address that wait.
    pub(crate) queue_address_max: usize,
}

/// Where connections hand in their jobs. The threads end when it is dropped.
#[derive(Debug)]
pub(crate) struct HashPool {
    turns: Arc<Turns<Queued>>,
}

struct Queued {
    job: Box<HashJob>,
    deliver: mpsc::Sender<Delivery>,
}

/// What waits, and whose turn it is.
#[derive(Debug)]
struct Turns<T> {
    waiting: Mutex<Waiting<T>>,
    arrived: Condvar,
    size: HashPoolSize,
}

#[derive(Debug)]
struct Waiting<T> {
    /// The clients that wait for something, the next one first; each once.
    order: VecDeque<Client>,
    of: HashMap<Client, VecDeque<T>>,
    /// How many requests that is.
    total: usize,
    is_closed: bool,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.job.fmt(f)
    }
}

impl HashPool {
    /// Starts the threads.
    pub(crate) fn start(
        counters: &Arc<Counters>,
        size: HashPoolSize,
    ) -> Result<(Self, Vec<JoinHandle<()>>), ServerError> {
        let pool = Self { turns: Arc::new(Turns::new(size)) };
        let mut handles = Vec::new();
        for number in 0..size.threads {
            let (turns, counters) = (Arc::clone(&pool.turns), Arc::clone(counters));
            let handle = thread::Builder::new()
                .name(format!("hash-{number}"))
                .spawn(move || serve(&turns, &counters))
                .map_err(ServerError::Thread)?;
            handles.push(handle);
        }
        Ok((pool, handles))
    }

    /// How many jobs wait, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        (self.turns.lock().total, self.turns.size.queue_max)
    }

    /// Hands in a job; gives it back when too many are waiting.
    pub(crate) fn submit(
        &self,
        client: Client,
        job: Box<HashJob>,
    ) -> Result<mpsc::Receiver<Delivery>, Box<HashJob>> {
        let (deliver, deliveries) = mpsc::channel(1);
        self.turns.put(client, Queued { job, deliver }).map_err(|queued| queued.job)?;
        Ok(deliveries)
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.turns.lock().is_closed = true;
        self.turns.arrived.notify_all();
    }
}

impl<T> Turns<T> {
    fn new(size: HashPoolSize) -> Self {
        let (order, of) = (VecDeque::new(), HashMap::new());
        let waiting = Waiting { order, of, total: 0, is_closed: false };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new(), size }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what there is no room for.
    fn put(&self, client: Client, queued: T) -> Result<(), T> {
        let mut waiting = self.lock();
        let own = waiting.of.get(&client).map_or(0, VecDeque::len);
        if waiting.total >= self.size.queue_max || own >= self.size.queue_address_max {
            return Err(queued);
        }
        waiting.total += 1;
        if own == 0 {
            waiting.order.push_back(client);
        }
        waiting.of.entry(client).or_default().push_back(queued);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// The oldest job of the client whose turn it is; waits for one. `None` when the pool ends.
    fn take(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if let Some(queued) = waiting.next() {
                return Some(queued);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Waiting<T> {
    fn next(&mut self) -> Option<T> {
        let client = self.order.pop_front()?;
        let queue = self.of.get_mut(&client)?;
        let queued = queue.pop_front();
        if queue.is_empty() {
            self.of.remove(&client);
        } else {
            self.order.push_back(client);
        }
        self.total -= 1;
        queued
    }
}

/// What one thread does until the pool ends.
fn serve(turns: &Turns<Queued>, counters: &Counters) {
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, HASH_NICE);
    while let Some(Queued { job, deliver }) = turns.take() {
        let begin = Instant::now();
        // A channel that closes without a delivery tells of the panic.
        match catch_unwind(AssertUnwindSafe(|| job.run())) {
            Ok(done) => {
                counters.hashes.add(1);
                counters.hash_us.add(micros(begin.elapsed()));
                let _ = deliver.try_send(Delivery::Hashed(done));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_its_address_alone() {
        let at = |text: &str| Client::at(text);
        assert_eq!(at("192.0.2.1:389"), at("192.0.2.1:40000"));
        assert_eq!(at("[2001:db8::1]:389"), at("2001:db8::1"));
        assert_ne!(at("192.0.2.1:389"), at("192.0.2.2:389"));
        assert_eq!(at("local"), Client::Local);
    }

    #[test]
    fn clients_take_turns_and_nobody_fills_the_queue_alone() {
        let size = HashPoolSize { threads: 0, queue_max: 8, queue_address_max: 5 };
        let turns = Turns::new(size);
        let (one, two) = (Client::at("192.0.2.1:1"), Client::at("192.0.2.2:1"));
        for number in 0..5 {
            turns.put(one, ("one", number)).unwrap();
        }
        assert_eq!(turns.put(one, ("one", 5)), Err(("one", 5)), "no more of one address");
        turns.put(two, ("two", 0)).unwrap();
        turns.put(Client::Local, ("local", 0)).unwrap();
        turns.put(two, ("two", 1)).unwrap();
        assert_eq!(turns.put(two, ("two", 2)), Err(("two", 2)), "no more at all");
        let mut taken = Vec::new();
        for _ in 0..8 {
            taken.push(turns.take().unwrap());
        }
        let want = [
            ("one", 0),
            ("two", 0),
            ("local", 0),
            ("one", 1),
            ("two", 1),
            ("one", 2),
            ("one", 3),
            ("one", 4),
        ];
        assert_eq!(taken, want);
        assert_eq!(turns.lock().total, 0);
        turns.lock().is_closed = true;
        assert_eq!(turns.take(), None);
    }
}
