//! Who is at the door: how many are not authenticated, who was refused, who is in.
//!
//! Invariant: what is counted in is counted out, on every path.
//! Invariant: whoever waits here keeps nobody out.
//! Invariant: what is computed for whoever comes is bounded by the second: for all strangers
//! together, and for each address where a member is known to be.
//! Invariant: whoever shares the address of a member keeps it out for a moment only: places by the
//! second come evenly, and whoever asks when there is one gets it.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::frame::Purpose;
use super::limits::ServerLimits;
use crate::unsaid::Unsaid;

/// Where the members are: where this side reached them, and where they came from.
#[derive(Clone, Default)]
pub(crate) struct MemberAddresses(Arc<Mutex<HashMap<(u64, Side), IpAddr>>>);

/// Who dialed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Side {
    /// This side.
    Here,
    /// The other.
    There,
}

impl MemberAddresses {
    /// A member is there; what was known of it before is forgotten.
    pub(crate) fn note(&self, node: u64, side: Side, address: IpAddr) {
        lock(&self.0).insert((node, side), address.to_canonical());
    }

    /// A member is one no more.
    pub(crate) fn forget(&self, node: u64) {
        lock(&self.0).retain(|(known, _), _| *known != node);
    }

    fn contains(&self, address: IpAddr) -> bool {
        lock(&self.0).values().any(|known| *known == address.to_canonical())
    }
}

/// The connections that are not authenticated. A new one takes the place of the oldest where there
/// are too many: a member says who it is in milliseconds, whoever sits there says nothing.
pub(crate) struct Door {
    limits: ServerLimits,
    members: MemberAddresses,
    /// Oldest first.
    inside: Arc<Mutex<VecDeque<Standing>>>,
    /// Strangers of the current second.
    budget: Mutex<Budget>,
    /// Of each address where a member is known to be.
    paces: Mutex<HashMap<IpAddr, Pace>>,
    turned_away: AtomicU64,
}

#[derive(Default)]
struct Budget {
    since: Option<Instant>,
    spent: u32,
}

impl Budget {
    fn takes(&mut self, max: u32, now: Instant) -> bool {
        let second = Duration::from_secs(1);
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= second) {
            *self = Self { since: Some(now), spent: 0 };
        }
        self.spent = self.spent.saturating_add(1);
        self.spent <= max
    }
}

/// When the next of an address is due, if all came evenly.
struct Pace(Instant);

impl Pace {
    /// One more in each `every`, and so many at once that `ahead` comes together.
    fn takes(&mut self, every: Duration, ahead: Duration, now: Instant) -> bool {
        let due = self.0.max(now);
        if due > now + ahead {
            return false;
        }
        self.0 = due + every;
        true
    }
}

#[derive(Clone)]
struct Standing {
    from: IpAddr,
    /// No member is known to be there.
    is_stranger: bool,
    end: Arc<Notify>,
}

/// One of them.
pub(crate) struct Entered {
    end: Arc<Notify>,
    inside: Arc<Mutex<VecDeque<Standing>>>,
}

impl Door {
    pub(crate) fn new(limits: ServerLimits, members: MemberAddresses) -> Self {
        Self {
            limits,
            members,
            inside: Arc::default(),
            budget: Mutex::default(),
            paces: Mutex::default(),
            turned_away: AtomicU64::new(0),
        }
    }

    /// Lets one in; the oldest of its address, or of all, must go where there are too many. None if
    /// too many came this second: of strangers, or from this address.
    pub(crate) fn enter(&self, from: IpAddr, now: Instant) -> Option<Entered> {
        let is_stranger = !self.members.contains(from);
        let takes = match is_stranger {
            true => lock(&self.budget).takes(self.limits.strangers_per_second, now),
            false => self.paces_in(from.to_canonical(), now),
        };
        if !takes {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.admit(from, is_stranger))
    }

    /// Whether one more may come from where a member is.
    fn paces_in(&self, from: IpAddr, now: Instant) -> bool {
        let every = Duration::from_secs(1) / self.limits.from_member_per_second.max(1);
        let ahead = every * self.limits.from_member_at_once.saturating_sub(1);
        let mut paces = lock(&self.paces);
        if !paces.contains_key(&from) {
            // Members may have moved.
            paces.retain(|address, _| self.members.contains(*address));
        }
        paces.entry(from).or_insert(Pace(now)).takes(every, ahead, now)
    }

    fn admit(&self, from: IpAddr, is_stranger: bool) -> Entered {
        let end = Arc::new(Notify::new());
        let mut inside = lock(&self.inside);
        let here = inside.iter().filter(|one| one.from == from).count();
        let here_max = match is_stranger {
            true => self.limits.unauthenticated_per_address,
            false => self.limits.unauthenticated_from_member,
        };
        let oldest = if here >= here_max {
            inside.iter().position(|one| one.from == from)
        } else if inside.len() >= self.limits.unauthenticated {
            // Strangers first: a member far away takes its time.
            Some(inside.iter().position(|one| one.is_stranger).unwrap_or(0))
        } else {
            None
        };
        if let Some(oldest) = oldest.and_then(|oldest| inside.remove(oldest)) {
            oldest.end.notify_one();
        }
        inside.push_back(Standing { from, is_stranger, end: Arc::clone(&end) });
        Entered { end, inside: Arc::clone(&self.inside) }
    }

    /// How many did not get in.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    pub(crate) fn inside(&self) -> usize {
        lock(&self.inside).len()
    }
}

impl Entered {
    /// Ends when a newer connection took the place of this one.
    pub(crate) async fn superseded(&self) {
        self.end.notified().await;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        lock(&self.inside).retain(|one| !Arc::ptr_eq(&one.end, &self.end));
    }
}

/// Counts who was refused; the log gets a line a minute at most.
#[derive(Default)]
pub(crate) struct Strangers {
    count: AtomicU64,
    unsaid: Mutex<Unsaid>,
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

    fn must_go(end: impl Future<Output = ()>) -> bool {
        let mut end = std::pin::pin!(end);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        end.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn strangers_are_counted_by_the_second_and_members_are_not() {
        let members = MemberAddresses::default();
        let limits = ServerLimits { strangers_per_second: 3, ..ServerLimits::default() };
        let door = Door::new(limits, members.clone());
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let enters = |last, ms| door.enter(address(last), at(ms)).is_some();
        assert_eq!([1, 2, 3, 4, 1].map(|last| enters(last, 0)), [true, true, true, false, false]);
        members.note(2, Side::Here, address(7));
        members.note(3, Side::There, Ipv4Addr::new(192, 0, 2, 8).to_ipv6_mapped().into());
        assert_eq!([7, 8, 9].map(|last| enters(last, 999)), [true, true, false]);
        assert!(enters(9, 1_000));
        // They stay where strangers have to go.
        let limits = ServerLimits { unauthenticated: 2, ..limits };
        let door = Door::new(limits, members.clone());
        let enter = |last| door.enter(address(last), at(0)).unwrap();
        let all = [enter(7), enter(1), enter(8)];
        let must_go = all.each_ref().map(|one| must_go(one.superseded()));
        assert_eq!(must_go, [false, true, false]);
        // It has moved.
        members.note(2, Side::Here, address(10));
        assert_eq!([1, 2, 7, 10].map(|last| enters(last, 1_001)), [true, true, false, true]);
    }

    #[test]
    fn who_comes_from_where_a_member_is_comes_evenly() {
        let members = MemberAddresses::default();
        for (node, last) in [(2, 7), (3, 8)] {
            members.note(node, Side::Here, address(last));
        }
        let limits = ServerLimits {
            from_member_per_second: 10,
            from_member_at_once: 3,
            unauthenticated_from_member: 5,
            ..ServerLimits::default()
        };
        let door = Door::new(limits, members.clone());
        let start = Instant::now();
        let enter = |last, ms| door.enter(address(last), start + Duration::from_millis(ms));
        let enters = |last, ms| enter(last, ms).is_some();
        assert_eq!([0, 0, 0, 0, 99].map(|ms| enters(7, ms)), [true, true, true, false, false]);
        // Others are not in its way.
        assert!(enters(8, 0) && enters(9, 0));
        // Whoever comes when one is due gets in, as often as that is.
        let came = (100..1_100).filter(|ms| enters(7, *ms)).count();
        assert_eq!(came, 10);
        assert_eq!(door.turned_away(), 2 + 990);
        assert_eq!([5_000; 4].map(|ms| enters(7, ms)), [true, true, true, false]);
        // More are inside than of strangers; the oldest goes.
        let all: Vec<_> = (0..6).map(|at| enter(8, 10_000 + 100 * at).unwrap()).collect();
        let must_go: Vec<_> = all.iter().map(|one| must_go(one.superseded())).collect();
        assert_eq!(must_go, [true, false, false, false, false, false]);
        // What is known of members is bounded by their addresses.
        members.note(2, Side::Here, address(10));
        assert!(enters(10, 20_000));
        assert_eq!(lock(&door.paces).len(), 2);
    }

    #[test]
    fn a_few_are_inside_at_a_time_and_the_oldest_goes_for_a_new_one() {
        let limits = ServerLimits {
            unauthenticated: 3,
            unauthenticated_per_address: 2,
            ..ServerLimits::default()
        };
        let door = Door::new(limits, MemberAddresses::default());
        let enter = |last| door.enter(address(last), Instant::now()).unwrap();
        let first = enter(1);
        let second = enter(1);
        let third = enter(1);
        assert_eq!(
            [&first, &second, &third].map(|it| must_go(it.superseded())),
            [true, false, false]
        );
        assert_eq!(door.inside(), 2, "two from there are inside");
        let fourth = enter(2);
        let fifth = enter(3);
        assert_eq!(door.inside(), 3, "three are inside");
        let all = [&second, &third, &fourth, &fifth].map(|it| must_go(it.superseded()));
        assert_eq!(all, [true, false, false, false]);
        drop((first, second, third, fourth, fifth));
        assert_eq!(door.inside(), 0);
    }

    #[test]
    fn the_oldest_visit_goes_first() {
        let visitors = Visitors::default();
        let peer = Peer { node: 1, purpose: Purpose::Log };
        let [first, second, third] = [(); 3].map(|()| visitors.enter(peer, 2));
        let asked = visitors.enter(Peer { purpose: Purpose::Asks, ..peer }, 2);
        assert_eq!(visitors.count(), 3);
        let is_over = |visit: &Visit| must_go(visit.superseded());
        assert_eq!([&first, &second, &third, &asked].map(is_over), [true, false, false, false]);
        drop((first, second, third, asked));
        assert!(lock(&visitors.all).is_empty());
    }
}
