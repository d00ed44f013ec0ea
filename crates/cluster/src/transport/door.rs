//! Who is at the door: how many are not authenticated, who was refused, who is in.
//!
//! Invariant: what is counted in is counted out, on every path.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::frame::Purpose;

/// The log says at most once in this time that connections were refused, in seconds.
const LOG_EVERY_S: u64 = 60;

/// Counts connections that are not authenticated.
pub(crate) struct Door {
    max: usize,
    max_per_address: usize,
    inside: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One of them.
pub(crate) struct Entered {
    from: IpAddr,
    inside: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Door {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Self { max, max_per_address, inside: Arc::default() }
    }

    /// Counts one in, none if there are too many.
    pub(crate) fn enter(&self, from: IpAddr) -> Option<Entered> {
        let mut inside = lock(&self.inside);
        let here = inside.get(&from).copied().unwrap_or(0);
        if inside.values().sum::<usize>() >= self.max || here >= self.max_per_address {
            return None;
        }
        inside.insert(from, here + 1);
        Some(Entered { from, inside: Arc::clone(&self.inside) })
    }

    pub(crate) fn inside(&self) -> usize {
        lock(&self.inside).values().sum()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inside = lock(&self.inside);
        match inside.get_mut(&self.from) {
            Some(here) if *here > 1 => *here -= 1,
            Some(_) | None => drop(inside.remove(&self.from)),
        }
    }
}

/// Counts who was refused; the log gets a line a minute at most.
#[derive(Default)]
pub(crate) struct Strangers {
    count: AtomicU64,
    unsaid: Mutex<Unsaid>,
}

#[derive(Default)]
struct Unsaid {
    count: u64,
    said: Option<Instant>,
}

impl Strangers {
    pub(crate) fn refuse(&self, from: IpAddr, reason: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = lock(&self.unsaid).due(Instant::now()) {
            tracing::warn!(count, %from, reason, "connections were refused; this was the last");
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Unsaid {
    /// One more; how many the log is to speak of now.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        let every = Duration::from_secs(LOG_EVERY_S);
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < every) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

/// Who is at the other end, and for what.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Peer {
    pub(crate) node: u64,
    pub(crate) purpose: Purpose,
}

/// The authenticated connections.
#[derive(Default)]
pub(crate) struct Visitors {
    /// Oldest first.
    all: Arc<Mutex<HashMap<Peer, VecDeque<Arc<Notify>>>>>,
}

/// One of them.
pub(crate) struct Visit {
    peer: Peer,
    end: Arc<Notify>,
    all: Arc<Mutex<HashMap<Peer, VecDeque<Arc<Notify>>>>>,
}

impl Visitors {
    /// Counts one in; the oldest of that peer must go when there are more than `max`.
    pub(crate) fn enter(&self, peer: Peer, max: usize) -> Visit {
        let end = Arc::new(Notify::new());
        let mut all = lock(&self.all);
        let here = all.entry(peer).or_default();
        here.push_back(Arc::clone(&end));
        while here.len() > max
            && let Some(oldest) = here.pop_front()
        {
            oldest.notify_one();
        }
        Visit { peer, end, all: Arc::clone(&self.all) }
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.all).values().map(VecDeque::len).sum()
    }
}

impl Visit {
    /// Ends when newer connections took the place of this one.
    pub(crate) async fn superseded(&self) {
        self.end.notified().await;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut all = lock(&self.all);
        if let Some(here) = all.get_mut(&self.peer) {
            here.retain(|end| !Arc::ptr_eq(end, &self.end));
            if here.is_empty() {
                all.remove(&self.peer);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    #[test]
    fn a_few_are_inside_at_a_time_and_fewer_from_one_address() {
        let door = Door::new(3, 2);
        let first = door.enter(address(1)).unwrap();
        let second = door.enter(address(1)).unwrap();
        assert!(door.enter(address(1)).is_none(), "two from there are inside");
        let third = door.enter(address(2)).unwrap();
        assert!(door.enter(address(3)).is_none(), "three are inside");
        drop(first);
        assert_eq!(door.inside(), 2);
        let fourth = door.enter(address(1)).unwrap();
        drop((second, third, fourth));
        assert_eq!(door.inside(), 0);
        assert!(lock(&door.inside).is_empty());
    }

    #[test]
    fn the_log_gets_a_line_a_minute_that_counts_all() {
        let mut unsaid = Unsaid::default();
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        assert_eq!(unsaid.due(start), Some(1));
        assert_eq!(unsaid.due(start), None);
        assert_eq!(unsaid.due(after(59)), None);
        assert_eq!(unsaid.due(after(60)), Some(3));
        assert_eq!(unsaid.due(after(61)), None);
    }

    #[test]
    fn the_oldest_visit_goes_first() {
        let visitors = Visitors::default();
        let peer = Peer { node: 1, purpose: Purpose::Log };
        let [first, second, third] = [(); 3].map(|()| visitors.enter(peer, 2));
        let asked = visitors.enter(Peer { purpose: Purpose::Asks, ..peer }, 2);
        assert_eq!(visitors.count(), 3);
        let is_over = |visit: &Visit| {
            let mut superseded = std::pin::pin!(visit.superseded());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            superseded.as_mut().poll(&mut context).is_ready()
        };
        assert_eq!([&first, &second, &third, &asked].map(is_over), [true, false, false, false]);
        drop((first, second, third, asked));
        assert!(lock(&visitors.all).is_empty());
    }
}
