//! What waits for the scan pool: those who ask take turns.
//!
//! Invariant: whoever has a hundred requests here waits for them itself. Another's request waits
//! for one of each that came before it, and strangers are one half of those at the most.
//! Invariant: what waits is bounded, over all, for strangers and for each who asks; one more is
//! refused, but for the administrator's and the only one of whoever has signed in. What goes on
//! after a pause was let in before: it is never refused, and there is no more of it than there are
//! requests under way.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directory::{Identity, Session};
use schema::EntryId;

use crate::presence::network;

/// Who has a turn.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Asker {
    /// The administrator.
    Root,
    /// All sessions of an entry.
    Entry(EntryId),
    /// Strangers of one address, or of one network of those.
    Address(IpAddr),
    /// Strangers on the Unix socket.
    Local,
}

impl Asker {
    /// Who asks in a session.
    pub(crate) fn of(session: &Session) -> Self {
        match (session.identity(), session.entry()) {
            (Identity::Root(_), _) => Self::Root,
            (Identity::Entry(_), Some(id)) => Self::Entry(id),
            (Identity::Entry(_) | Identity::Anonymous, _) => {
                session.ip().map_or(Self::Local, |ip| Self::Address(network(ip)))
            }
        }
    }

    fn is_stranger(self) -> bool {
        match self {
            Self::Root | Self::Entry(_) => false,
            Self::Address(_) | Self::Local => true,
        }
    }
}

/// What may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSize {
    /// Requests, over all.
    pub(crate) max: usize,
    /// Places among them that strangers do not take.
    pub(crate) reserved: usize,
    /// Requests of one who asks.
    pub(crate) asker_max: usize,
}

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
    size: QueueSize,
}

#[derive(Debug)]
struct Waiting<T> {
    signed_in: Line<T>,
    strangers: Line<T>,
    /// Whose turn it is, where a thread serves both.
    is_strangers_turn: bool,
    is_closed: bool,
}

/// Some who take turns.
#[derive(Debug)]
struct Line<T> {
    /// Those who wait for something, the next one first; each once.
    order: VecDeque<Asker>,
    of: HashMap<Asker, Own<T>>,
    /// How many requests wait that were not let in before.
    new: usize,
}

/// What waits for one of them.
#[derive(Debug)]
struct Own<T> {
    items: VecDeque<Item<T>>,
    new: usize,
}

#[derive(Debug)]
struct Item<T> {
    item: T,
    is_new: bool,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(size: QueueSize) -> Self {
        let waiting = Waiting {
            signed_in: Line::new(),
            strangers: Line::new(),
            is_strangers_turn: false,
            is_closed: false,
        };
        Self {
            waiting: Mutex::new(waiting),
            for_everybody: Condvar::new(),
            for_signed_in: Condvar::new(),
            size,
        }
    }

    /// How many requests wait to be begun, and how many may.
    pub(crate) fn depth(&self) -> (usize, usize) {
        (self.lock().new_count(), self.size.max)
    }

    /// A request comes; it is given back when too many are waiting.
    pub(crate) fn put(&self, asker: Asker, item: T) -> Result<(), T> {
        let QueueSize { max, reserved, asker_max } = self.size;
        let mut waiting = self.lock();
        let all = waiting.new_count();
        let strangers = waiting.strangers.new;
        let own = waiting.line(asker).new_count_of(asker);
        let is_full = match asker {
            Asker::Root => false,
            // Whoever has nothing here yet gets in, whatever others have: turns are for all.
            Asker::Entry(_) => all >= max && own > 0,
            Asker::Address(_) | Asker::Local => {
                all >= max || strangers >= max.saturating_sub(reserved)
            }
        };
        if is_full || own >= asker_max {
            return Err(item);
        }
        waiting.line(asker).put(asker, item, true);
        drop(waiting);
        self.wake(asker);
        Ok(())
    }

    /// A request goes on that was taken out before: it waits for its turn, and is never refused.
    pub(crate) fn put_back(&self, asker: Asker, item: T) {
        self.lock().line(asker).put(asker, item, false);
        self.wake(asker);
    }

    /// Whether anything waits for a thread but what this one has asked for.
    pub(crate) fn others_wait(&self, serves: Serves, asker: Asker) -> bool {
        let waiting = self.lock();
        let has_other = |line: &Line<T>| line.order.iter().any(|&one| one != asker);
        has_other(&waiting.signed_in)
            || (serves == Serves::Everybody && has_other(&waiting.strangers))
    }

    /// Takes out what `keep` does not want.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut waiting = self.lock();
        let mut gone = waiting.signed_in.retain(&keep);
        gone.extend(waiting.strangers.retain(&keep));
        // Freeing it takes time that others need not wait for.
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
    fn new_count(&self) -> usize {
        self.signed_in.new + self.strangers.new
    }

    fn line(&mut self, asker: Asker) -> &mut Line<T> {
        if asker.is_stranger() { &mut self.strangers } else { &mut self.signed_in }
    }

    fn next(&mut self, serves: Serves) -> Option<T> {
        if serves == Serves::SignedIn {
            return self.signed_in.next();
        }
        let are_strangers_first = self.is_strangers_turn;
        self.is_strangers_turn = !are_strangers_first;
        match are_strangers_first {
            true => self.strangers.next().or_else(|| self.signed_in.next()),
            false => self.signed_in.next().or_else(|| self.strangers.next()),
        }
    }
}

impl<T> Line<T> {
    fn new() -> Self {
        Self { order: VecDeque::new(), of: HashMap::new(), new: 0 }
    }

    fn new_count_of(&self, asker: Asker) -> usize {
        self.of.get(&asker).map_or(0, |own| own.new)
    }

    fn put(&mut self, asker: Asker, item: T, is_new: bool) {
        let own = self.of.entry(asker).or_insert_with(|| {
            self.order.push_back(asker);
            Own { items: VecDeque::new(), new: 0 }
        });
        own.items.push_back(Item { item, is_new });
        own.new += usize::from(is_new);
        self.new += usize::from(is_new);
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) -> Vec<Item<T>> {
        let mut gone = Vec::new();
        for own in self.of.values_mut() {
            if own.items.iter().all(|item| keep(&item.item)) {
                continue;
            }
            let (kept, lost) = own.items.drain(..).partition(|item| keep(&item.item));
            own.items = kept;
            let lost: VecDeque<Item<T>> = lost;
            let new = lost.iter().filter(|item| item.is_new).count();
            own.new -= new;
            self.new -= new;
            gone.extend(lost);
        }
        self.of.retain(|_, own| !own.items.is_empty());
        self.order.retain(|asker| self.of.contains_key(asker));
        gone
    }

    fn next(&mut self) -> Option<T> {
        let asker = self.order.pop_front()?;
        let own = self.of.get_mut(&asker)?;
        let Item { item, is_new } = own.items.pop_front()?;
        own.new -= usize::from(is_new);
        self.new -= usize::from(is_new);
        if own.items.is_empty() {
            self.of.remove(&asker);
        } else {
            self.order.push_back(asker);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests;
