//! What waits for one of the pools, and the threads that wait for it.
//!
//! Invariant: who is next, and what is refused, is as `directory::AskerQueues` says. There is no
//! more of what goes on after a pause than there are requests under way.
//! Invariant: nobody has more threads at once than [`Shares`] says. What is held back for that
//! keeps its position, and delays nobody.
//! Invariant: nothing new is taken when the queue is closed: nobody might come for it.

use std::collections::hash_map::Entry;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directory::AskerQueues;
pub(crate) use directory::{Asker, QueueSize};
use rustc_hash::FxHashMap;

/// Whose requests a thread takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Serves {
    Everybody,
    /// Those who have signed in.
    SignedIn,
}

/// How many threads one who asks has at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shares {
    pub(crate) signed_in_max: usize,
    /// Of one that has not signed in.
    pub(crate) anonymous_max: usize,
}

impl Shares {
    /// Any number.
    pub(crate) const ALL: Self = Self { signed_in_max: usize::MAX, anonymous_max: usize::MAX };

    /// All but one, where there is another one: so that somebody else soon finds one that is free,
    /// whatever one asks for. `reserved` threads serve only those who have signed in.
    pub(crate) fn of(threads: usize, reserved: usize) -> Self {
        let all_but_one = |threads: usize| threads.saturating_sub(1).max(1);
        let for_anonymous = threads.saturating_sub(reserved);
        Self { signed_in_max: all_but_one(threads), anonymous_max: all_but_one(for_anonymous) }
    }

    fn of_asker(self, asker: Asker) -> usize {
        if asker.is_stranger() { self.anonymous_max } else { self.signed_in_max }
    }
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
    shares: Shares,
    /// Threads that those have who have any.
    running: FxHashMap<Asker, usize>,
    is_closed: bool,
}

/// The time that one who asks has a thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ThreadLease<'q, T> {
    queue: &'q FairQueue<T>,
    asker: Asker,
}

impl<T> Drop for ThreadLease<'_, T> {
    fn drop(&mut self) {
        // This thread may serve another one next.
        if self.queue.lock().end_lease(self.asker) {
            self.queue.wake(self.asker);
        }
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn new(size: QueueSize, shares: Shares) -> Self {
        let (queues, running) = (AskerQueues::new(size), FxHashMap::default());
        let waiting = Waiting { queues, shares, running, is_closed: false };
        Self {
            waiting: Mutex::new(waiting),
            for_everybody: Condvar::new(),
            for_signed_in: Condvar::new(),
        }
    }

    /// How many requests wait, those that go on included, and how many new ones may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        self.lock().queues.depth()
    }

    /// A request comes; it is given back when too many are waiting, or the queue is closed.
    pub(crate) fn put(&self, asker: Asker, item: T) -> Result<(), T> {
        self.if_open(asker, item, |queues, item| queues.put(asker, item))
    }

    /// A request comes; where too many are waiting, one who has more gives up his newest, which is
    /// returned. It is given back when nobody has, or the queue is closed.
    pub(crate) fn put_or_displace(&self, asker: Asker, item: T) -> Result<Option<T>, T> {
        self.if_open(asker, item, |queues, item| queues.put_or_displace(asker, item))
    }

    /// A request goes on that was taken out before: it waits for a thread, and is never refused.
    pub(crate) fn put_back(&self, asker: Asker, item: T) {
        self.lock().queues.put_back(asker, item);
        self.wake(asker);
    }

    /// The same of one that somebody else than a thread of the pool puts back; it is given back
    /// when the queue is closed: the threads may have ended.
    pub(crate) fn put_back_open(&self, asker: Asker, item: T) -> Result<(), T> {
        self.if_open(asker, item, |queues, item| {
            queues.put_back(asker, item);
            Ok(())
        })
    }

    fn if_open<R>(
        &self,
        asker: Asker,
        item: T,
        put: impl FnOnce(&mut AskerQueues<T>, T) -> Result<R, T>,
    ) -> Result<R, T> {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return Err(item);
        }
        let done = put(&mut waiting.queues, item)?;
        drop(waiting);
        self.wake(asker);
        Ok(done)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Whether anything waits for a thread, and may have it, but what this one has asked for.
    pub(crate) fn others_wait(&self, serves: Serves, asker: Asker) -> bool {
        let Waiting { queues, shares, running, .. } = &*self.lock();
        let (signed_in, anonymous) = queues.others(asker, |one| may_run(*shares, running, one));
        signed_in || (serves == Serves::Everybody && anonymous)
    }

    /// Takes out what `keep` does not want.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut waiting = self.lock();
        let gone = waiting.queues.retain(keep);
        // Freeing it takes time that others need not wait for.
        drop(waiting);
        drop(gone);
    }

    /// Takes out what `is_meant`, whoever has asked for it, and whether or not it is next.
    pub(crate) fn take_out(&self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        self.lock().queues.retain(|item| !is_meant(item))
    }

    /// Takes out what `keep` does not want, of what one who asks has here.
    pub(crate) fn retain_of(&self, asker: Asker, keep: impl Fn(&T) -> bool) {
        let mut waiting = self.lock();
        let gone = waiting.queues.retain_of(asker, keep);
        drop(waiting);
        drop(gone);
    }

    /// The oldest request of the one who is next; waits for one. Before it waits it calls
    /// `idle`, and again when the time that this gave is over. `None` when the queue is closed and
    /// empty.
    pub(crate) fn take(
        &self,
        serves: Serves,
        mut idle: impl FnMut() -> Option<Duration>,
    ) -> Option<(T, ThreadLease<'_, T>)> {
        let arrived = match serves {
            Serves::Everybody => &self.for_everybody,
            Serves::SignedIn => &self.for_signed_in,
        };
        if let Some(taken) = self.try_take(serves) {
            return Some(taken);
        }
        loop {
            let pause = idle();
            let mut waiting = self.lock();
            loop {
                if let Some((asker, item)) = waiting.next(serves) {
                    return Some((item, ThreadLease { queue: self, asker }));
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

    fn try_take(&self, serves: Serves) -> Option<(T, ThreadLease<'_, T>)> {
        let (asker, item) = self.lock().next(serves)?;
        Some((item, ThreadLease { queue: self, asker }))
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
    fn next(&mut self, serves: Serves) -> Option<(Asker, T)> {
        let Self { queues, shares, running, .. } = self;
        let may = |asker| may_run(*shares, running, asker);
        let (asker, item) = match serves {
            Serves::Everybody => queues.take_if(may),
            Serves::SignedIn => queues.take_signed_in_if(may),
        }?;
        *running.entry(asker).or_default() += 1;
        Some((asker, item))
    }

    /// Whether another one waits that could not begin before.
    fn end_lease(&mut self, asker: Asker) -> bool {
        let Entry::Occupied(mut running) = self.running.entry(asker) else { return false };
        let before = *running.get();
        match before {
            0 | 1 => drop(running.remove()),
            more => *running.get_mut() = more - 1,
        }
        before >= self.shares.of_asker(asker) && self.queues.waits(asker)
    }
}

fn may_run(shares: Shares, running: &FxHashMap<Asker, usize>, asker: Asker) -> bool {
    running.get(&asker).is_none_or(|threads| *threads < shares.of_asker(asker))
}

#[cfg(test)]
mod tests;
