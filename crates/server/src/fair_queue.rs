//! What waits for the scan pool, or the hash pool, and the threads that wait for it.
//!
//! Invariant: who has a turn, and what is refused, is as `directory::AskerQueues` says. There is no
//! more of what goes on after a pause than there are requests under way.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directory::AskerQueues;
pub(crate) use directory::{Asker, QueueSize};

/// Whose requests a thread takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Serves {
    Everybody,
    /// Those who have signed in.
    SignedIn,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    waiting: Mutex<Waiting<T>>,
    /// Wakes threads that serve everybody, and those that do not.
    for_everybody: Condvar,
    for_signed_in: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    queues: AskerQueues<T>,
    is_closed: bool,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(size: QueueSize) -> Self {
        let waiting = Waiting { queues: AskerQueues::new(size), is_closed: false };
        Self {
            waiting: Mutex::new(waiting),
            for_everybody: Condvar::new(),
            for_signed_in: Condvar::new(),
        }
    }

    /// How many requests wait to be begun, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.lock().queues.depth()
    }

    /// A request comes; it is given back when too many are waiting.
    pub(crate) fn put(&self, asker: Asker, item: T) -> Result<(), T> {
        self.lock().queues.put(asker, item)?;
        self.wake(asker);
        Ok(())
    }

    /// A request comes; where too many are waiting, one who has more gives up his newest, which is
    /// returned. It is given back when nobody has.
    pub(crate) fn put_or_displace(&self, asker: Asker, item: T) -> Result<Option<T>, T> {
        let displaced = self.lock().queues.put_or_displace(asker, item)?;
        self.wake(asker);
        Ok(displaced)
    }

    /// A request goes on that was taken out before: it waits for its turn, and is never refused.
    pub(crate) fn put_back(&self, asker: Asker, item: T) {
        self.lock().queues.put_back(asker, item);
        self.wake(asker);
    }

    /// Whether anything waits for a thread but what this one has asked for.
    pub(crate) fn others_wait(&self, serves: Serves, asker: Asker) -> bool {
        let (signed_in, strangers) = self.lock().queues.others(asker);
        signed_in || (serves == Serves::Everybody && strangers)
    }

    /// Takes out what `keep` does not want.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut waiting = self.lock();
        let gone = waiting.queues.retain(keep);
        // Freeing it takes time that others need not wait for.
        drop(waiting);
        drop(gone);
    }

    /// The same, of what one who asks has here.
    pub(crate) fn retain_of(&self, asker: Asker, keep: impl Fn(&T) -> bool) {
        let mut waiting = self.lock();
        let gone = waiting.queues.retain_of(asker, keep);
        drop(waiting);
        drop(gone);
    }

    /// The oldest request of the one whose turn it is; waits for one. Before it waits it calls
    /// `idle`, and again when the time that this gave is over. `None` when the queue is closed and
    /// empty.
    pub(crate) fn take(
        &self,
        serves: Serves,
        mut idle: impl FnMut() -> Option<Duration>,
    ) -> Option<T> {
        let arrived = match serves {
            Serves::Everybody => &self.for_everybody,
            Serves::SignedIn => &self.for_signed_in,
        };
        if let Some(item) = self.lock().next(serves) {
            return Some(item);
        }
        loop {
            let pause = idle();
            let mut waiting = self.lock();
            loop {
                if let Some(item) = waiting.next(serves) {
                    return Some(item);
                }
                if waiting.is_closed {
                    return None;
                }
                let Some(pause) = pause else {
                    waiting = arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let waited = arrived.wait_timeout(waiting, pause);
                let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
                waiting = guard;
                if result.timed_out() {
                    break;
                }
            }
        }
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.for_everybody.notify_all();
        self.for_signed_in.notify_all();
    }

    // Each request wakes one thread of each kind that may take it: one of them finds it.
    fn wake(&self, asker: Asker) {
        self.for_everybody.notify_one();
        if !asker.is_stranger() {
            self.for_signed_in.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Waiting<T> {
    fn next(&mut self, serves: Serves) -> Option<T> {
        match serves {
            Serves::Everybody => self.queues.take(),
            Serves::SignedIn => self.queues.take_signed_in(),
        }
    }
}

#[cfg(test)]
mod tests;
