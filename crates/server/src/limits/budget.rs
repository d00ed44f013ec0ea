//! Memory for clients that do not take what they asked for: answers that are not sent, requests
//! that have not arrived in full, or wait.
//!
//! What a client takes at once is never counted; so a request that goes well touches nothing here.
//!
//! Invariant: it is counted by connection, by address, for all that have not authenticated, and for
//! all. At the limit of its own a connection waits. So it does when what it shares is used up, and
//! it holds more than [`ALWAYS_BYTES`]: others with little are never in its way, and with little it
//! is in nobody's.
//! Invariant: when that is not enough, the connection that has taken nothing for longest ends, of
//! the address that has most; who has taken something of late comes after all others.
//! Invariant: what is counted is given back when it is dropped, however that came about.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directory::{Live, Part};
use rustc_hash::FxHashMap;

use crate::connection::presence::{Presence, Why, millis, network};
use crate::metrics::counters::Counter;

/// What may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetLimits {
    /// For all connections.
    pub(crate) all_max_bytes: usize,
    /// For all that have not authenticated.
    pub(crate) anonymous_max_bytes: usize,
    /// For those of one address.
    pub(crate) address_max_bytes: usize,
}

/// What is held for all connections.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Live<BudgetLimits>,
    all: Sum,
    anonymous: Sum,
    holders: Mutex<Holders>,
    /// Octets that were ever given back.
    released: AtomicU64,
    /// Connections that were ended for their memory.
    pub(crate) ended: Counter,
}

#[derive(Debug, Default)]
struct Holders {
    next: u64,
    accounts: FxHashMap<u64, Arc<Account>>,
    /// What anonymous connections of an address hold, and how many accounts it has.
    addresses: FxHashMap<IpAddr, (Arc<Sum>, usize)>,
}

/// Octets that are held, and how many of them belong to connections that are to end.
#[derive(Debug, Default)]
struct Sum {
    held: AtomicUsize,
    leaving: AtomicUsize,
}

impl Sum {
    fn value(&self) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        held.saturating_sub(self.leaving.load(Ordering::Relaxed))
    }
}

/// What is held for one connection.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    number: u64,
    address: Option<IpAddr>,
    of_address: Option<Arc<Sum>>,
    presence: Arc<Presence>,
    held: AtomicUsize,
    /// Parts of answers that were made, and not taken.
    chunks: AtomicUsize,
    is_anonymous: AtomicBool,
    /// When the client last took something, or was asked to.
    taken_ms: AtomicU64,
    /// What was counted as leaving.
    left: Mutex<Option<Left>>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    octets: usize,
    is_anonymous: bool,
}

/// Octets that are counted as long as this lives.
#[derive(Debug)]
pub(crate) struct Held {
    account: Arc<Account>,
    octets: usize,
    is_anonymous: bool,
}

/// A part of an answer on its way to its connection.
pub(crate) struct Chunk {
    part: Part,
    held: Held,
}

impl Chunk {
    /// The part itself; who takes it counts its bytes.
    pub(crate) fn take(mut self) -> Part {
        std::mem::take(&mut self.part)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.held.account.chunks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("bytes", &self.part.bytes.len()).finish_non_exhaustive()
    }
}

impl Budget {
    pub(crate) fn new(limits: BudgetLimits) -> Arc<Self> {
        Arc::new(Self {
            limits: Live::new(limits),
            all: Sum::default(),
            anonymous: Sum::default(),
            holders: Mutex::default(),
            released: AtomicU64::new(0),
            ended: Counter::default(),
        })
    }

    /// Begins to count for a connection.
    pub(crate) fn open(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        presence: &Arc<Presence>,
        now: Duration,
    ) -> Arc<Account> {
        let address = address.map(network);
        let mut holders = self.lock();
        let of_address = address.map(|address| {
            let (sum, accounts) = holders.addresses.entry(address).or_default();
            *accounts += 1;
            Arc::clone(sum)
        });
        let number = holders.next;
        holders.next += 1;
        let account = Arc::new(Account {
            budget: Arc::clone(self),
            number,
            address,
            of_address,
            presence: Arc::clone(presence),
            held: AtomicUsize::new(0),
            chunks: AtomicUsize::new(0),
            is_anonymous: AtomicBool::new(true),
            taken_ms: AtomicU64::new(millis(now)),
            left: Mutex::default(),
        });
        holders.accounts.insert(number, Arc::clone(&account));
        account
    }

    /// The connection is gone.
    pub(crate) fn close(&self, account: &Account) {
        let mut holders = self.lock();
        holders.accounts.remove(&account.number);
        if let Some(address) = account.address
            && let Some((_, accounts)) = holders.addresses.get_mut(&address)
        {
            *accounts -= 1;
            if *accounts == 0 {
                holders.addresses.remove(&address);
            }
        }
        drop(holders);
        if let Some(left) = account.left.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let subtract = |sum: &Sum| sum.leaving.fetch_sub(left.octets, Ordering::Relaxed);
            account.each_sum(left.is_anonymous, |sum| {
                subtract(sum);
            });
        }
    }

    /// What is held: for all, and for those among them that have not authenticated.
    pub(crate) fn held(&self) -> (usize, usize) {
        let held = |sum: &Sum| sum.held.load(Ordering::Relaxed);
        (held(&self.all), held(&self.anonymous))
    }

    /// Octets that were ever given back: more than before means that there may be memory to return
    /// to the system.
    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// These hold from now on; what is held beyond ends connections when more is to be held.
    pub(crate) fn set_limits(&self, limits: BudgetLimits) {
        self.limits.set(limits);
    }

    /// Ends connections until what is held is within the limits, and a little below.
    fn make_room(&self) {
        let holders = self.lock();
        let accounts = || holders.accounts.values().filter(|account| account.may_be_ended());
        for (address, (sum, _)) in &holders.addresses {
            let of_it = |account: &&Arc<Account>| {
                account.is_anonymous() && account.address.as_ref() == Some(address)
            };
            self.relieve(sum, self.limits.get().address_max_bytes, || accounts().filter(of_it));
        }
        let is_anonymous = |account: &&Arc<Account>| account.is_anonymous();
        let max = self.limits.get().anonymous_max_bytes;
        self.relieve(&self.anonymous, max, || accounts().filter(is_anonymous));
        self.relieve(&self.all, self.limits.get().all_max_bytes, accounts);
    }

    fn relieve<'h, I>(&self, sum: &Sum, max: usize, accounts: impl Fn() -> I)
    where
        I: Iterator<Item = &'h Arc<Account>>,
    {
        if sum.value() <= max {
            return;
        }
        let taken = |account: &Account| account.taken_ms.load(Ordering::Relaxed);
        // Whoever was last took something about now.
        let now = accounts().map(|account| taken(account)).max().unwrap_or(0);
        let is_stalled = |account: &&Arc<Account>| taken(account) + STALLED_MS < now;
        self.relieve_by(sum, max, accounts().filter(is_stalled));
        self.relieve_by(sum, max, accounts().filter(|account| account.may_be_ended()));
    }

    fn relieve_by<'h>(
        &self,
        sum: &Sum,
        max: usize,
        accounts: impl Iterator<Item = &'h Arc<Account>>,
    ) {
        let mut by_address = FxHashMap::<Option<IpAddr>, (usize, Vec<&Arc<Account>>)>::default();
        for account in accounts {
            let (held, list) = by_address.entry(account.address).or_default();
            *held += account.held();
            list.push(account);
        }
        for (_, list) in by_address.values_mut() {
            // The one that has taken nothing for longest is the last.
            list.sort_by_key(|account| std::cmp::Reverse(account.taken_ms.load(Ordering::Relaxed)));
        }
        let enough = max - max / FRACTION;
        while sum.value() > enough {
            let Some((held, list)) = by_address.values_mut().max_by_key(|(held, _)| *held) else {
                return;
            };
            if let Some(account) = list.pop() {
                *held = held.saturating_sub(account.held());
                self.end(account);
            } else {
                by_address.retain(|_, (_, list)| !list.is_empty());
            }
        }
    }

    fn end(&self, account: &Account) {
        if !account.presence.end(Why::Memory) {
            return;
        }
        let left = Left { octets: account.held(), is_anonymous: account.is_anonymous() };
        *account.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        account.each_sum(left.is_anonymous, |sum| {
            sum.leaving.fetch_add(left.octets, Ordering::Relaxed);
        });
        let count = self.ended.add(1);
        if count.is_power_of_two() {
            let address = account.address.map_or("local".to_owned(), |address| address.to_string());
            tracing::warn!(
                address,
                octets = left.octets,
                count,
                "closing connections whose clients do not read: unread responses have reached \
                 limits.undelivered_max_bytes, or the limit for anonymous clients"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Counts octets.
    pub(crate) fn hold(self: &Arc<Self>, octets: usize) -> Held {
        let is_anonymous = self.is_anonymous();
        self.add(octets, is_anonymous);
        Held { account: Arc::clone(self), octets, is_anonymous }
    }

    /// Counts octets, if there is room for them; there always is for a few.
    pub(crate) fn try_hold(self: &Arc<Self>, octets: usize) -> Option<Held> {
        let is_little = self.held().saturating_add(octets) <= ALWAYS_BYTES;
        (is_little || self.shares_room(octets)).then(|| self.hold(octets))
    }

    /// A part of an answer, counted.
    pub(crate) fn chunk(self: &Arc<Self>, part: Part) -> Chunk {
        self.chunks.fetch_add(1, Ordering::Relaxed);
        Chunk { held: self.hold(part.bytes.capacity()), part }
    }

    /// Octets that are held for the connection.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether a request may be begun for the connection, as far as what it shares is concerned.
    pub(crate) fn has_room(&self) -> bool {
        self.held() <= ALWAYS_BYTES || self.shares_room(0)
    }

    /// Whether what it shares has room, when it holds so much more.
    fn shares_room(&self, more: usize) -> bool {
        let Budget { all, anonymous, .. } = &*self.budget;
        let limits = self.budget.limits.get();
        let of_address = self.of_address.as_ref().map_or(0, |sum| sum.value());
        let has_room = |held: usize, max: usize| held.saturating_add(more) < max;
        has_room(all.value(), limits.all_max_bytes)
            && (!self.is_anonymous()
                || (has_room(anonymous.value(), limits.anonymous_max_bytes)
                    && has_room(of_address, limits.address_max_bytes)))
    }

    /// How many parts of answers wait for the connection besides its output.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.load(Ordering::Relaxed)
    }

    /// The client has taken something.
    pub(crate) fn taken(&self, now: Duration) {
        self.taken_ms.store(millis(now), Ordering::Relaxed);
    }

    /// Whether the client has authenticated; for what is counted from now on.
    pub(crate) fn set_anonymous(&self, is_anonymous: bool) {
        self.is_anonymous.store(is_anonymous, Ordering::Relaxed);
    }

    fn is_anonymous(&self) -> bool {
        self.is_anonymous.load(Ordering::Relaxed)
    }

    /// Whether there is something to gain, and it was not ended before.
    fn may_be_ended(&self) -> bool {
        self.held() > 0 && self.presence.ended().is_none()
    }

    fn add(&self, octets: usize, is_anonymous: bool) {
        self.held.fetch_add(octets, Ordering::Relaxed);
        self.each_sum(is_anonymous, |sum| {
            sum.held.fetch_add(octets, Ordering::Relaxed);
        });
        let Budget { all, anonymous, .. } = &*self.budget;
        let limits = self.budget.limits.get();
        let of_address = self.of_address.as_ref().filter(|_| is_anonymous);
        let is_full = all.value() > limits.all_max_bytes
            || anonymous.value() > limits.anonymous_max_bytes
            || of_address.is_some_and(|sum| sum.value() > limits.address_max_bytes);
        if is_full {
            self.budget.make_room();
        }
    }

    fn subtract(&self, octets: usize, is_anonymous: bool) {
        self.held.fetch_sub(octets, Ordering::Relaxed);
        self.each_sum(is_anonymous, |sum| {
            sum.held.fetch_sub(octets, Ordering::Relaxed);
        });
        self.budget.released.fetch_add(octets as u64, Ordering::Relaxed);
    }

    fn each_sum(&self, is_anonymous: bool, change: impl Fn(&Sum)) {
        change(&self.budget.all);
        if is_anonymous {
            change(&self.budget.anonymous);
            self.of_address.iter().for_each(|sum| change(sum));
        }
    }
}

impl Held {
    /// They are so many now.
    pub(crate) fn resize(&mut self, octets: usize) {
        let before = std::mem::replace(&mut self.octets, octets);
        if octets > before {
            self.account.add(octets - before, self.is_anonymous);
        } else if octets < before {
            self.account.subtract(before - octets, self.is_anonymous);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.subtract(self.octets, self.is_anonymous);
    }
}

/// A connection that holds no more than that may always have a request begun.
const ALWAYS_BYTES: usize = 128 * 1024;

/// Who has taken nothing for so long is the first to end.
const STALLED_MS: u64 = 2_000;

/// So much of a limit is made free at once.
const FRACTION: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: BudgetLimits = BudgetLimits {
        all_max_bytes: 3_000_000,
        anonymous_max_bytes: 1_000_000,
        address_max_bytes: 600_000,
    };

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn account(budget: &Arc<Budget>, last: u8, since_s: u64) -> Arc<Account> {
        let now = Duration::from_secs(since_s);
        budget.open(address(last), &Arc::new(Presence::new(now)), now)
    }

    #[test]
    fn what_is_dropped_is_not_counted_any_more() {
        let budget = Budget::new(LIMITS);
        let (anonymous, other) = (account(&budget, 1, 0), account(&budget, 1, 0));
        other.set_anonymous(false);
        let mut held = anonymous.hold(1_000);
        let chunk = other.chunk(Part { bytes: vec![0; 500], ..Part::default() });
        assert_eq!(budget.held(), (1_500, 1_000));
        held.resize(3_000);
        held.resize(2_000);
        // What was counted for an anonymous one stays so.
        anonymous.set_anonymous(false);
        assert_eq!((budget.held(), anonymous.held()), ((2_500, 2_000), 2_000));
        assert_eq!(chunk.take().bytes.len(), 500);
        drop(held);
        assert_eq!((budget.held(), budget.released()), ((0, 0), 1_000 + 2_000 + 500));
        budget.close(&anonymous);
        budget.close(&other);
        assert!(budget.lock().accounts.is_empty() && budget.lock().addresses.is_empty());
    }

    #[test]
    fn the_greediest_address_gives_way_and_in_it_who_has_taken_nothing_for_longest() {
        let budget = Budget::new(LIMITS);
        let all = [(1, 0), (2, 5), (2, 3), (2, 4)].map(|(last, since)| {
            let account = account(&budget, last, since);
            (account.hold(190_000), account)
        });
        let ended = || all.each_ref().map(|(_, account)| account.presence.ended().is_some());
        assert_eq!(ended(), [false; 4]);
        // The address has too much.
        let more = account(&budget, 2, 9);
        let held = more.hold(100_000);
        assert_eq!(ended(), [false, false, true, false]);
        // All have too much; who has just begun is the last to end, though it has most.
        let third = account(&budget, 3, 9);
        let of_third = third.hold(500_000);
        let [.., was_ended, is_ended] = ended();
        assert!(was_ended && is_ended && third.presence.ended().is_none());
        assert_eq!(budget.ended.value(), 3);
        let more_of_third = third.hold(900_000);
        assert!(third.presence.ended().is_some());
        // What is there for those who have signed in is not touched by anonymous ones.
        let signed_in = account(&budget, 2, 0);
        signed_in.set_anonymous(false);
        let own = signed_in.hold(1_500_000);
        assert!(signed_in.has_room() && signed_in.presence.ended().is_none());
        drop((held, of_third, more_of_third, own));
        budget.close(&third);
        budget.close(&more);
        for (held, account) in all {
            drop(held);
            budget.close(&account);
        }
        assert_eq!(budget.held(), (0, 0));
        assert_eq!((budget.all.value(), budget.anonymous.leaving.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn who_holds_little_may_always_go_on() {
        let budget = Budget::new(LIMITS);
        let [one, other, third] = [1, 2, 3].map(|last| account(&budget, last, 0));
        let _held = (one.hold(500_000), other.hold(500_000));
        assert!(!one.has_room() && !other.has_room() && third.has_room());
        let _little = third.hold(1);
        assert!(third.has_room());
    }
}
