//! What each client address costs: its connections, and its guesses at passwords: binds that fail.
//!
//! Of a gateway, which binds for many people, each account counts alone: who fails there waits
//! alone.
//!
//! Who fails to bind again and again waits before the next bind of its address is looked at, longer
//! each time; a right password waits as long as a wrong one, so that the wait gives nothing away.
//!
//! Invariant: binds that wait for a hash count like failures until they are over. Of those that may
//! yet fail no more are under way than may fail, and one for each further worker that has begun one
//! before it saw those of others; the next ones wait for one of them to end.
//! Invariant: what is kept is bounded, and no thread waits for anybody: whoever has to wait learns
//! until when, or is woken.
//! Invariant: while nobody fails and nothing is hashed, a bind takes no lock here.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use directory::Network;
use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::sync::oneshot;

use crate::connection::presence::network;

/// What one address may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressLimits {
    /// Connections at the same time; 0 = any number.
    pub(crate) connections_max: usize,
    /// Binds that may fail within some minutes before there is a wait; 0 = any number.
    pub(crate) bind_failures_max: u32,
    /// The longest wait before one bind.
    pub(crate) bind_delay_max: Duration,
}

/// The addresses that something is known of.
pub(crate) struct ClientAddresses {
    limits: AddressLimits,
    gateways: Vec<Network>,
    /// Keys the hashes of accounts: nobody can choose a name that counts as another's.
    names: RandomState,
    shards: Vec<Mutex<Shard>>,
    /// Sources with binds that failed or are under way.
    suspects: AtomicUsize,
}

type Shard = FxHashMap<Source, Known>;

/// What binds are counted for: an address, or one account of a gateway.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Source {
    address: IpAddr,
    account: Option<u64>,
}

impl Source {
    fn whole(address: IpAddr) -> Self {
        Self { address: network(address), account: None }
    }
}

/// What is known of an address.
#[derive(Debug, Default)]
struct Known {
    connections: usize,
    /// Halved every [`HALF_LIFE`].
    failures: u32,
    /// When they were halved last.
    halved: Duration,
    /// When the last one was.
    failed: Duration,
    /// When a bind that comes now may be looked at.
    next_bind: Duration,
    /// Binds that may yet fail.
    under_way: u32,
    /// Binds that wait for one of these to end, the oldest first.
    waiting: VecDeque<oneshot::Sender<Option<Ticket>>>,
}

/// Whether a bind may be looked at.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is counted as one under way, where anything is known of its source.
    Now(Option<Ticket>),
    /// After so long; then it is to be asked once more.
    After(Duration, Seen),
    /// When this gives a ticket. If it gives none it is to be asked once more.
    WhenGiven(oneshot::Receiver<Option<Ticket>>),
    /// Too many wait already.
    Never,
}

/// What was known of a source when a bind of it was given its delay: so many failures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Seen(u32);

/// One bind under way. It has to be ended.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket(Source);

/// One connection that is counted in the table, as long as it lives.
#[derive(Debug)]
pub(crate) struct CountedConnection(Source);

impl ClientAddresses {
    pub(crate) fn new(limits: AddressLimits) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (gateways, names) = (Vec::new(), RandomState::new());
        Self { limits, gateways, names, shards, suspects: AtomicUsize::new(0) }
    }

    /// Binds from these networks are counted by account.
    pub(crate) fn with_gateways(self, gateways: Vec<Network>) -> Self {
        Self { gateways, ..self }
    }

    /// What a bind is counted for; none: nothing. Of a gateway that is the account whose password
    /// it tries; where that is none, the gateway.
    pub(crate) fn source(
        &self,
        address: Option<IpAddr>,
        account: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Source> {
        let whole = Source::whole(address?);
        if !self.gateways.iter().any(|gateway| address.is_some_and(|it| gateway.contains(it))) {
            return Some(whole);
        }
        let account = account().map(|account| self.names.hash_one(account));
        Some(Source { account, ..whole })
    }

    /// Counts a connection; `Err` when there are too many of its address. What has no address is
    /// not counted.
    pub(crate) fn connect(
        &self,
        address: Option<IpAddr>,
    ) -> Result<Option<CountedConnection>, TooMany> {
        let max = self.limits.connections_max;
        let Some(source) = address.map(Source::whole).filter(|_| max > 0) else { return Ok(None) };
        let mut shard = self.shard(source);
        let known = shard.entry(source).or_default();
        if known.connections >= max {
            return Err(TooMany);
        }
        known.connections += 1;
        Ok(Some(CountedConnection(source)))
    }

    /// The connection is gone.
    pub(crate) fn disconnect(&self, counted: Option<CountedConnection>) {
        let Some(CountedConnection(source)) = counted else { return };
        let mut shard = self.shard(source);
        if let Some(known) = shard.get_mut(&source) {
            known.connections = known.connections.saturating_sub(1);
            if known.connections == 0 && !known.is_suspect() {
                shard.remove(&source);
            }
        }
    }

    /// Whether a bind of this source may be looked at now; if not, its time is kept for it.
    pub(crate) fn admit_bind(&self, source: Option<Source>, now: Duration) -> Admission {
        let Some(source) = source.filter(|_| self.suspects.load(Ordering::Relaxed) > 0) else {
            return Admission::Now(None);
        };
        self.with(source, now, |known| {
            let delay = self.delay(known.failures);
            if delay.is_zero() {
                return self.give(source, known);
            }
            let due = known.next_bind.max(now);
            if due - now > self.limits.bind_delay_max * WAITING_MAX {
                return Admission::Never;
            }
            known.next_bind = due + delay;
            if due == now {
                return self.give(source, known);
            }
            Admission::After(due - now, Seen(known.failures))
        })
        .unwrap_or(Admission::Now(None))
    }

    /// The delay of a bind is over. If others have failed while it waited, it waits once more: as
    /// long after the last of them as if it had come then.
    pub(crate) fn admit_waited(
        &self,
        source: Option<Source>,
        seen: Seen,
        now: Duration,
    ) -> Admission {
        let Some(source) = source else { return Admission::Now(None) };
        self.with(source, now, |known| {
            let due = known.failed + self.delay(known.failures);
            if known.failures > seen.0 && due > now {
                return Admission::After(due - now, Seen(known.failures));
            }
            self.give(source, known)
        })
        .unwrap_or(Admission::Now(None))
    }

    /// A ticket, or a position in the queue of those that wait for one.
    fn give(&self, source: Source, known: &mut Known) -> Admission {
        if known.under_way < self.under_way_max(known) {
            known.under_way += 1;
            return Admission::Now(Some(Ticket(source)));
        }
        let (give, given) = oneshot::channel();
        known.waiting.push_back(give);
        Admission::WhenGiven(given)
    }

    /// How many binds may be under way: so many that no more can fail than may; and one.
    fn under_way_max(&self, known: &Known) -> u32 {
        let most = self.limits.bind_failures_max.saturating_add(1);
        most.saturating_sub(known.failures).max(1)
    }

    /// A bind that was looked at waits for its hash.
    pub(crate) fn begin(&self, source: Option<Source>, now: Duration) -> Option<Ticket> {
        let source = source.filter(|_| self.limits.bind_failures_max > 0)?;
        self.with_new(source, now, |known| {
            known.under_way += 1;
            Ticket(source)
        })
    }

    /// A bind is over: it has failed, or else its ticket is given to the next one.
    pub(crate) fn end(&self, ticket: Ticket, has_failed: bool, now: Duration) {
        let Ticket(source) = ticket;
        self.with(source, now, |known| {
            known.under_way = known.under_way.saturating_sub(1);
            if has_failed {
                self.fail(known, now);
            }
            self.call(source, known, has_failed);
        });
    }

    /// A bind of this source failed that was answered at once.
    pub(crate) fn bind_failed(&self, source: Option<Source>, now: Duration) {
        let Some(source) = source.filter(|_| self.limits.bind_failures_max > 0) else { return };
        self.with_new(source, now, |known| {
            self.fail(known, now);
            self.call(source, known, true);
        });
    }

    fn fail(&self, known: &mut Known, now: Duration) {
        known.failures = known.failures.saturating_add(1);
        known.failed = now;
        // The wait begins now.
        known.next_bind = known.next_bind.max(now + self.delay(known.failures));
    }

    /// Calls those that wait as far as there is room for them. Where failures make the next one
    /// wait, all of them are to ask once more.
    fn call(&self, source: Source, known: &mut Known, has_failed: bool) {
        let are_late = has_failed && !self.delay(known.failures).is_zero();
        while are_late || known.under_way < self.under_way_max(known) {
            let Some(next) = known.waiting.pop_front() else { return };
            let ticket = (!are_late).then_some(Ticket(source));
            // Who is gone takes none.
            if next.send(ticket).is_ok() && !are_late {
                known.under_way += 1;
            }
        }
    }

    /// Looks at what is known of a source; nothing when that is nothing.
    fn with<T>(
        &self,
        source: Source,
        now: Duration,
        look: impl FnOnce(&mut Known) -> T,
    ) -> Option<T> {
        let mut shard = self.shard(source);
        let known = shard.get_mut(&source)?;
        let was_suspect = known.is_suspect();
        known.decay(now);
        let seen = known.is_suspect().then(|| look(known));
        self.count_suspect((was_suspect, known.is_suspect()));
        if !known.is_suspect() && known.connections == 0 {
            shard.remove(&source);
        }
        seen
    }

    /// Looks at what is known of a source, and knows it from now on; nothing when there is no room.
    fn with_new<T>(
        &self,
        source: Source,
        now: Duration,
        look: impl FnOnce(&mut Known) -> T,
    ) -> Option<T> {
        let mut shard = self.shard(source);
        if shard.len() >= SHARD_MAX && !shard.contains_key(&source) {
            self.make_room(&mut shard, now);
            if shard.len() >= SHARD_MAX {
                return None;
            }
        }
        let known = shard.entry(source).or_insert(Known { halved: now, ..Known::default() });
        let was_suspect = known.is_suspect();
        known.decay(now);
        let seen = look(known);
        self.count_suspect((was_suspect, known.is_suspect()));
        Some(seen)
    }

    fn count_suspect(&self, (was, is): (bool, bool)) {
        match (was, is) {
            (false, true) => drop(self.suspects.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.suspects.fetch_sub(1, Ordering::Relaxed)),
            (true, true) | (false, false) => {}
        }
    }

    /// How long an address waits between its binds.
    fn delay(&self, failures: u32) -> Duration {
        let AddressLimits { bind_failures_max, bind_delay_max, .. } = self.limits;
        let over = failures.saturating_sub(bind_failures_max);
        if bind_failures_max == 0 || over == 0 {
            return Duration::ZERO;
        }
        (DELAY_FIRST * 2_u32.saturating_pow(over - 1)).min(bind_delay_max)
    }

    /// Forgets those that nothing is known of any more, or else those that failed least: whoever
    /// makes names up, to have others forgotten, has to fail with each as often as they did.
    fn make_room(&self, shard: &mut Shard, now: Duration) {
        let mut least = 0_u32;
        while shard.len() >= SHARD_MAX {
            shard.retain(|_, known| {
                let was_suspect = known.is_suspect();
                known.decay(now);
                let stays = known.connections > 0 || known.under_way > 0 || known.failures > least;
                self.count_suspect((was_suspect, stays && known.is_suspect()));
                stays
            });
            let Some(more) = least.checked_mul(2).map(|least| least + 1) else { return };
            least = more;
        }
    }

    fn shard(&self, source: Source) -> MutexGuard<'_, Shard> {
        let hash = FxBuildHasher.hash_one(source);
        // The high bits: the table itself uses the low ones.
        let index = (hash >> 32) as usize % SHARDS;
        let shard = self.shards.get(index).expect("the remainder is below their number");
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There are too many connections of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Known {
    fn is_suspect(&self) -> bool {
        self.failures > 0 || self.under_way > 0
    }

    fn decay(&mut self, now: Duration) {
        let since = now.saturating_sub(self.halved);
        let halvings = u32::try_from(since.as_secs() / HALF_LIFE.as_secs()).unwrap_or(u32::MAX);
        if halvings > 0 {
            self.failures = self.failures.checked_shr(halvings).unwrap_or(0);
            self.halved = now;
        }
    }
}

const SHARDS: usize = 16;

/// Addresses in one shard whose binds fail, at the most.
const SHARD_MAX: usize = 4_096;

/// The time in which failures are forgotten by half.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The first wait; each further failure doubles it.
const DELAY_FIRST: Duration = Duration::from_millis(100);

/// So many of the longest waits may be queued for one address; a bind beyond is refused.
const WAITING_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AddressLimits = AddressLimits {
        connections_max: 2,
        bind_failures_max: 3,
        bind_delay_max: Duration::from_secs(1),
    };

    fn four(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn of(address: Option<IpAddr>) -> Option<Source> {
        address.map(Source::whole)
    }

    /// What comes of a bind.
    #[derive(Debug, PartialEq, Eq)]
    enum Outcome {
        Now,
        After(Duration),
        Waits,
        Never,
    }

    /// A bind comes, and is right if it is looked at.
    fn outcome(table: &ClientAddresses, source: Option<Source>, now: Duration) -> Outcome {
        match table.admit_bind(source, now) {
            Admission::Now(ticket) => {
                ticket.into_iter().for_each(|ticket| table.end(ticket, false, now));
                Outcome::Now
            }
            Admission::After(wait, _) => Outcome::After(wait),
            Admission::WhenGiven(_) => Outcome::Waits,
            Admission::Never => Outcome::Never,
        }
    }

    /// One begins to wait for its hash.
    fn begun(table: &ClientAddresses, source: Option<Source>) -> Option<Ticket> {
        match table.admit_bind(source, at(0)) {
            Admission::Now(ticket) => ticket.or_else(|| table.begin(source, at(0))),
            Admission::After(..) | Admission::WhenGiven(_) | Admission::Never => None,
        }
    }

    fn given(table: &ClientAddresses, source: Option<Source>) -> oneshot::Receiver<Option<Ticket>> {
        match table.admit_bind(source, at(0)) {
            Admission::WhenGiven(given) => given,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_fails_behind_a_gateway_waits_alone() {
        let gateways = vec!["192.0.2.8/29".parse().unwrap()];
        let table = ClientAddresses::new(LIMITS).with_gateways(gateways);
        let source = |address, name: &str| {
            table.source(address, || (!name.is_empty()).then(|| name.as_bytes().to_vec()))
        };
        for _ in 0..8 {
            for address in [four(9), four(1)] {
                table.bind_failed(source(address, "anna"), at(0));
            }
        }
        let waits = |address, name| {
            matches!(outcome(&table, source(address, name), at(0)), Outcome::After(_))
        };
        assert!(waits(four(9), "anna"));
        assert!(!waits(four(9), "bert") && !waits(four(10), "anna"));
        // Elsewhere the address counts: one may guess the password of many.
        assert!(waits(four(1), "anna") && waits(four(1), "bert"));
        // What names nobody is counted for the gateway, beside its accounts.
        for _ in 0..8 {
            table.bind_failed(source(four(9), ""), at(0));
        }
        assert!(waits(four(9), "") && !waits(four(9), "bert"));
    }

    #[test]
    fn no_more_are_under_way_than_may_fail() {
        let table = ClientAddresses::new(LIMITS);
        let source = of(four(1));
        let mut tickets: Vec<_> = (0..4).map(|_| begun(&table, source).unwrap()).collect();
        let mut waiting: Vec<_> = (0..3).map(|_| given(&table, source)).collect();
        assert_eq!(outcome(&table, of(four(2)), at(0)), Outcome::Now);
        // A right one gives its ticket to the one that has waited for longest.
        table.end(tickets.pop().unwrap(), false, at(0));
        tickets.push(waiting.remove(0).try_recv().unwrap().unwrap());
        assert!(waiting[0].try_recv().is_err());
        // One that is gone takes none.
        drop(waiting.remove(0));
        table.end(tickets.pop().unwrap(), false, at(0));
        tickets.push(waiting.remove(0).try_recv().unwrap().unwrap());
        // What fails gives none; when too many have, those that wait wait as all that come.
        let mut last = given(&table, source);
        for ticket in tickets.drain(1..) {
            table.end(ticket, true, at(0));
            assert!(last.try_recv().is_err());
        }
        table.end(tickets.pop().unwrap(), true, at(0));
        assert_eq!(last.try_recv(), Ok(None));
        assert_eq!(outcome(&table, source, at(0)), Outcome::After(Duration::from_millis(100)));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn beyond_the_limit_one_is_under_way_and_its_failure_counts_for_those_in_line() {
        let table = ClientAddresses::new(LIMITS);
        let source = of(four(1));
        (0..4).for_each(|_| table.bind_failed(source, at(0)));
        let in_line: Vec<_> = (0..3)
            .map(|_| match table.admit_bind(source, at(0)) {
                Admission::After(_, seen) => seen,
                other => panic!("{other:?}"),
            })
            .collect();
        let comes = |number: usize, now| table.admit_waited(source, in_line[number], at(now));
        let Admission::Now(Some(ticket)) = comes(0, 100) else { panic!("its turn has come") };
        let Admission::WhenGiven(mut given) = comes(1, 200) else { panic!("one is under way") };
        table.end(ticket, true, at(250));
        assert_eq!(given.try_recv(), Ok(None));
        // Five have failed now, the last one at 250.
        let Admission::After(wait, seen) = comes(2, 300) else { panic!("another one has failed") };
        assert_eq!(wait, Duration::from_millis(150));
        let Admission::Now(Some(ticket)) = table.admit_waited(source, seen, at(450)) else {
            panic!("its turn has come")
        };
        table.end(ticket, false, at(450));
    }

    #[test]
    fn what_is_over_leaves_nothing() {
        let table = ClientAddresses::new(LIMITS);
        let ticket = begun(&table, of(four(1))).unwrap();
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
        table.end(ticket, false, at(0));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
        assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
        let table = ClientAddresses::new(AddressLimits { bind_failures_max: 0, ..LIMITS });
        assert!((0..100).all(|_| begun(&table, of(four(1))).is_none()));
    }

    #[test]
    fn names_that_are_made_up_have_nobody_forgotten() {
        let table = ClientAddresses::new(LIMITS);
        let source = |name: u64| {
            let address = IpAddr::from([192, 0, 2, 9]);
            Some(Source { address, account: Some(name) })
        };
        (0..20).for_each(|_| table.bind_failed(source(u64::MAX), at(0)));
        // Each fails as often as may be without a wait.
        for name in 0..(SHARDS * SHARD_MAX * 2) as u64 {
            (0..4).for_each(|_| table.bind_failed(source(name), at(0)));
        }
        assert!(matches!(outcome(&table, source(u64::MAX), at(0)), Outcome::After(_)));
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_secs(100_000) + Duration::from_millis(milliseconds)
    }

    #[test]
    fn connections_are_counted_by_address() {
        let table = ClientAddresses::new(LIMITS);
        let first = table.connect(four(1)).unwrap();
        let _second = table.connect(four(1)).unwrap();
        assert_eq!(table.connect(four(1)).unwrap_err(), TooMany);
        table.connect(four(2)).unwrap();
        table.disconnect(first);
        table.connect(four(1)).unwrap();
        // A network of 64 bits counts as one, and so does an IPv4 address in its IPv6 form.
        let six = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let _a = table.connect(six("2001:db8::1")).unwrap();
        let _b = table.connect(six("2001:db8::2:3:4:5")).unwrap();
        assert_eq!(table.connect(six("2001:db8::3")).unwrap_err(), TooMany);
        table.connect(six("2001:db8:1::3")).unwrap();
        assert_eq!(table.connect(six("::ffff:192.0.2.1")).unwrap_err(), TooMany);
        // The Unix socket has no address, and 0 stands for any number.
        for _ in 0..10 {
            table.connect(None).unwrap();
        }
        let table = ClientAddresses::new(AddressLimits { connections_max: 0, ..LIMITS });
        for _ in 0..10 {
            table.connect(four(1)).unwrap();
        }
    }

    #[test]
    fn who_fails_waits_longer_each_time_and_nobody_else_does() {
        let table = ClientAddresses::new(LIMITS);
        for _ in 0..3 {
            assert_eq!(outcome(&table, of(four(1)), at(0)), Outcome::Now);
            table.bind_failed(of(four(1)), at(0));
        }
        assert_eq!(outcome(&table, of(four(1)), at(0)), Outcome::Now);
        let mut now = 0;
        for delay in [100, 200, 400, 800, 1_000, 1_000] {
            table.bind_failed(of(four(1)), at(now));
            let wait = Duration::from_millis(delay);
            assert_eq!(outcome(&table, of(four(1)), at(now)), Outcome::After(wait));
            now += delay;
        }
        assert_eq!(outcome(&table, of(four(2)), at(now)), Outcome::Now);
        assert_eq!(outcome(&table, None, at(now)), Outcome::Now);
    }

    #[test]
    fn binds_at_the_same_time_wait_one_after_the_other_and_not_without_end() {
        let table = ClientAddresses::new(LIMITS);
        for _ in 0..10 {
            table.bind_failed(of(four(1)), at(0));
        }
        let waits = (0..8).map(|_| outcome(&table, of(four(1)), at(0))).collect::<Vec<_>>();
        let after = |seconds| Outcome::After(Duration::from_secs(seconds));
        let want = [after(1), after(2), after(3), after(4), Outcome::Never];
        assert_eq!(waits[..5], want);
        assert_eq!(waits[7], Outcome::Never);
    }

    #[test]
    fn failures_are_forgotten() {
        let table = ClientAddresses::new(LIMITS);
        for _ in 0..8 {
            table.bind_failed(of(four(1)), at(0));
        }
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
        // After a minute there are four, after two there are two.
        assert!(matches!(outcome(&table, of(four(1)), at(61_000)), Outcome::Now));
        assert!(matches!(outcome(&table, of(four(1)), at(61_000)), Outcome::After(_)));
        assert_eq!(outcome(&table, of(four(1)), at(130_000)), Outcome::Now);
        assert_eq!(outcome(&table, of(four(1)), at(130_000)), Outcome::Now);
        assert_eq!(outcome(&table, of(four(1)), at(1_000_000)), Outcome::Now);
        assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
        assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
        // One that is forgotten and fails again, before anybody has looked, is one.
        table.bind_failed(of(four(1)), at(2_000_000));
        table.bind_failed(of(four(1)), at(3_000_000));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_table_is_bounded_however_many_addresses_fail() {
        let table = ClientAddresses::new(LIMITS);
        for _ in 0..20 {
            table.bind_failed(of(four(1)), at(0));
        }
        for number in 0..300_000_u32 {
            table.bind_failed(of(Some(IpAddr::from(number.to_be_bytes()))), at(0));
        }
        let kept = table.shards.iter().map(|shard| shard.lock().unwrap().len()).sum::<usize>();
        assert!(kept <= SHARDS * SHARD_MAX, "{kept}");
        assert_eq!(table.suspects.load(Ordering::Relaxed), kept);
        // Those that failed most are still known.
        assert!(matches!(outcome(&table, of(four(1)), at(0)), Outcome::After(_)));
    }
}
