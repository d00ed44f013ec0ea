//! What each client address costs: its connections, and its guesses at passwords: binds that fail.
//!
//! Of a gateway, which binds for many people, each account counts alone: who fails there waits
//! alone.
//!
//! Who fails to bind again and again waits before the next bind of its address is looked at, longer
//! each time; a right password waits as long as a wrong one, so that the wait gives nothing away.
//!
//! Binds that have to wait stand in one line for each source. The first of them goes when its time
//! has come and there is room for one more under way; each failure moves that time on.
//!
//! Invariant: binds that wait for a hash count like failures until they are over. Of those that may
//! yet fail no more are under way than may fail, and one for each further worker that has begun one
//! before it saw those of others.
//! Invariant: guesses that another node looks at, or that wait for fresh data, count like failures
//! until they are answered, which may take long. So that none of those that are looked at here
//! waits for them, they are half of those that may fail at the most, or the only one, and no more
//! than [`HANDED_ON_MAX`].
//! Invariant: no bind waits longer than [`WAITING_MAX`] of the longest delays, whatever others do.
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
    /// When the next bind may be looked at.
    next_bind: Duration,
    /// Binds that may yet fail.
    under_way: u32,
    /// Guesses that others look at, or that wait for fresh data.
    handed_on: u32,
    /// Binds that wait, the oldest first.
    line: VecDeque<Waiting>,
    /// The number of the last one that came.
    last_number: u64,
}

/// A bind in the line of its source.
#[derive(Debug)]
struct Waiting {
    number: u64,
    arrived: Duration,
    /// Wakes it when it is the first, and there may be room.
    call: Option<oneshot::Sender<()>>,
}

/// Whether a bind may be looked at.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is counted as one under way, where anything is known of its source.
    Now(Option<Ticket>),
    /// When it is called, or else after so long, it is to be asked once more.
    Waits(Position, Duration),
    /// Too many wait already, or this one has waited for too long.
    Never,
}

/// The position of a bind in the line of its source. It has to be used, or given up.
#[must_use]
#[derive(Debug)]
pub(crate) struct Position {
    pub(crate) source: Source,
    number: u64,
    pub(crate) called: oneshot::Receiver<()>,
}

/// One bind under way. It has to be ended.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket(Source);

/// One guess that another node looks at, or that waits for fresh data. It has to be ended, or to
/// come back.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandedOn(Source);

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

    /// Whether a bind of this source may be looked at now; if not, it stands in line.
    pub(crate) fn admit_bind(&self, source: Option<Source>, now: Duration) -> Admission {
        let Some(source) = source.filter(|_| self.suspects.load(Ordering::Relaxed) > 0) else {
            return Admission::Now(None);
        };
        self.with(source, now, |known| {
            let ahead = u32::try_from(known.line.len()).unwrap_or(u32::MAX);
            let due = known.next_bind.max(now)
                + self.delay(known.failed_at_worst()).saturating_mul(ahead);
            if due - now > self.wait_max() || known.line.len() >= LINE_MAX {
                return Admission::Never;
            }
            known.last_number += 1;
            let number = known.last_number;
            known.line.push_back(Waiting { number, arrived: now, call: None });
            self.ask(source, known, number, now)
        })
        .unwrap_or(Admission::Now(None))
    }

    /// Whether a bind that has waited may be looked at now.
    pub(crate) fn admit_waited(&self, position: Position, now: Duration) -> Admission {
        let Position { source, number, called: _ } = position;
        self.with(source, now, |known| self.ask(source, known, number, now))
            .unwrap_or(Admission::Now(None))
    }

    fn ask(&self, source: Source, known: &mut Known, number: u64, now: Duration) -> Admission {
        let Some(place) = known.line.iter().position(|one| one.number == number) else {
            // The line was forgotten with all that was known of the source.
            return Admission::Now(None);
        };
        let arrived = known.line.get(place).map_or(now, |one| one.arrived);
        let last = arrived + self.wait_max();
        let delay = self.delay(known.failed_at_worst());
        let due = match delay.is_zero() {
            true => now,
            false => known.next_bind.max(arrived),
        };
        if place == 0 && due <= now && known.under_way < self.under_way_max(known) {
            known.next_bind = due + delay;
            known.under_way += 1;
            known.leave(number);
            return Admission::Now(Some(Ticket(source)));
        }
        if last <= now {
            known.leave(number);
            return Admission::Never;
        }
        let (call, called) = oneshot::channel();
        if let Some(waiting) = known.line.get_mut(place) {
            waiting.call = Some(call);
        }
        // Only the first one has a time of its own; what it waits for else calls it.
        let until = if place == 0 && due > now { due.min(last) } else { last };
        Admission::Waits(Position { source, number, called }, until - now)
    }

    /// A bind that waits is not made any more.
    pub(crate) fn give_up(&self, position: Position, now: Duration) {
        self.with(position.source, now, |known| known.leave(position.number));
    }

    /// How long a bind waits at the most.
    fn wait_max(&self) -> Duration {
        self.limits.bind_delay_max * WAITING_MAX
    }

    /// How many binds may be under way: so many that no more can fail than may; and one.
    fn under_way_max(&self, known: &Known) -> u32 {
        let most = self.limits.bind_failures_max.saturating_add(1);
        most.saturating_sub(known.failed_at_worst()).max(1)
    }

    /// A bind that was looked at waits for its hash.
    pub(crate) fn begin(&self, source: Option<Source>, now: Duration) -> Option<Ticket> {
        let source = source.filter(|_| self.limits.bind_failures_max > 0)?;
        self.with_new(source, now, |known| {
            known.under_way += 1;
            Ticket(source)
        })
    }

    /// A bind is over, and may have failed: there is room for the next one.
    pub(crate) fn end(&self, ticket: Ticket, has_failed: bool, now: Duration) {
        let Ticket(source) = ticket;
        self.with(source, now, |known| {
            known.under_way = known.under_way.saturating_sub(1);
            if has_failed {
                self.fail(known, now);
            }
            known.call_first();
        });
    }

    /// A guess of this source goes on elsewhere, and takes no place here any more; nothing where it
    /// is not counted.
    ///
    /// # Errors
    /// Its own ticket: too many of its source have gone on.
    pub(crate) fn hand_on(
        &self,
        ticket: Option<Ticket>,
        source: Option<Source>,
        now: Duration,
    ) -> Result<Option<HandedOn>, Option<Ticket>> {
        let Some(source) = source.filter(|_| self.limits.bind_failures_max > 0) else {
            return Ok(None);
        };
        let may = self.with_new(source, now, |known| {
            let others = known.under_way.saturating_sub(u32::from(ticket.is_some()));
            let failures_max = self.limits.bind_failures_max;
            let room = failures_max.saturating_sub(known.failures.saturating_add(others));
            let most = room.min(failures_max / 2).clamp(1, HANDED_ON_MAX);
            if known.handed_on >= most {
                return false;
            }
            (known.under_way, known.handed_on) = (others, known.handed_on + 1);
            known.next_bind = known.next_bind.max(now + self.delay(known.failed_at_worst()));
            known.call_first();
            true
        });
        match may {
            Some(true) => Ok(Some(HandedOn(source))),
            Some(false) => Err(ticket),
            // There is no room for another source.
            None => Ok(None),
        }
    }

    /// One that has waited is looked at here.
    pub(crate) fn come_back(&self, handed_on: HandedOn, now: Duration) -> Ticket {
        let HandedOn(source) = handed_on;
        self.with(source, now, |known| {
            known.handed_on = known.handed_on.saturating_sub(1);
            known.under_way += 1;
        });
        Ticket(source)
    }

    /// One that has gone on is answered, and may have failed.
    pub(crate) fn end_elsewhere(&self, handed_on: HandedOn, has_failed: bool, now: Duration) {
        let HandedOn(source) = handed_on;
        self.with(source, now, |known| {
            known.handed_on = known.handed_on.saturating_sub(1);
            if has_failed {
                self.fail(known, now);
            }
            known.call_first();
        });
    }

    /// A bind of this source failed that was answered at once.
    pub(crate) fn bind_failed(&self, source: Option<Source>, now: Duration) {
        let Some(source) = source.filter(|_| self.limits.bind_failures_max > 0) else { return };
        self.with_new(source, now, |known| self.fail(known, now));
    }

    fn fail(&self, known: &mut Known, now: Duration) {
        known.failures = known.failures.saturating_add(1);
        // The wait begins now.
        known.next_bind = known.next_bind.max(now + self.delay(known.failed_at_worst()));
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
        let seen = self.look(known, now, |known| known.is_suspect().then(|| look(known)));
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
        Some(self.look(known, now, look))
    }

    /// Looks at a source as it is now; whether it is a suspect may change by that.
    fn look<T>(&self, known: &mut Known, now: Duration, look: impl FnOnce(&mut Known) -> T) -> T {
        let was_suspect = known.is_suspect();
        known.decay(now);
        let seen = look(known);
        self.count_suspect(was_suspect, known.is_suspect());
        seen
    }

    fn count_suspect(&self, was: bool, is: bool) {
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
                let stays = known.connections > 0
                    || known.under_way > 0
                    || known.handed_on > 0
                    || !known.line.is_empty()
                    || known.failures > least;
                self.count_suspect(was_suspect, stays && known.is_suspect());
                stays
            });
            let Some(more) = least.checked_mul(2).map(|least| least + 1) else { return };
            least = more;
        }
    }

    /// How many binds of an address have failed, are under way, and wait in line.
    #[cfg(test)]
    pub(crate) fn binds(&self, address: IpAddr) -> [usize; 3] {
        let source = Source::whole(address);
        let shard = self.shard(source);
        shard.get(&source).map_or([0; 3], |known| {
            [known.failures as usize, known.under_way as usize, known.line.len()]
        })
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
    /// How many have failed when those that others look at have.
    fn failed_at_worst(&self) -> u32 {
        self.failures.saturating_add(self.handed_on)
    }

    fn is_suspect(&self) -> bool {
        self.failures > 0 || self.under_way > 0 || self.handed_on > 0 || !self.line.is_empty()
    }

    /// Takes a bind out of the line; who is the first then is called.
    fn leave(&mut self, number: u64) {
        let was_first = self.line.front().is_some_and(|first| first.number == number);
        self.line.retain(|one| one.number != number);
        if was_first {
            self.call_first();
        }
    }

    fn call_first(&mut self) {
        if let Some(call) = self.line.front_mut().and_then(|first| first.call.take()) {
            // Whoever is gone gives its position up.
            let _ = call.send(());
        }
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

/// Guesses of one source that other nodes look at, or that wait for fresh data, at the most.
const HANDED_ON_MAX: u32 = 8;

const SHARDS: usize = 16;

/// Addresses in one shard whose binds fail, at the most.
const SHARD_MAX: usize = 4_096;

/// The time in which failures are forgotten by half.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The first wait; each further failure doubles it.
const DELAY_FIRST: Duration = Duration::from_millis(100);

/// So many of the longest delays one bind waits in all; then it is refused, and at once where it
/// would have to wait longer.
const WAITING_MAX: u32 = 4;

/// Binds in one line at the most.
const LINE_MAX: usize = 1_024;

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
        Never,
    }

    /// A bind comes, and is right if it is looked at.
    fn outcome(table: &ClientAddresses, source: Option<Source>, now: Duration) -> Outcome {
        match table.admit_bind(source, now) {
            Admission::Now(ticket) => {
                ticket.into_iter().for_each(|ticket| table.end(ticket, false, now));
                Outcome::Now
            }
            Admission::Waits(position, wait) => {
                table.give_up(position, now);
                Outcome::After(wait)
            }
            Admission::Never => Outcome::Never,
        }
    }

    /// One begins to wait for its hash.
    fn begun(table: &ClientAddresses, source: Option<Source>) -> Option<Ticket> {
        match table.admit_bind(source, at(0)) {
            Admission::Now(ticket) => ticket.or_else(|| table.begin(source, at(0))),
            Admission::Waits(..) | Admission::Never => None,
        }
    }

    /// A bind that comes, and has to wait.
    fn in_line(table: &ClientAddresses, source: Option<Source>, now: Duration) -> Position {
        match table.admit_bind(source, now) {
            Admission::Waits(position, _) => position,
            other => panic!("{other:?}"),
        }
    }

    /// A bind that has waited is called, and has to wait once more.
    fn again(table: &ClientAddresses, position: Position, now: Duration) -> (Position, Duration) {
        match table.admit_waited(position, now) {
            Admission::Waits(position, wait) => (position, wait),
            other => panic!("{other:?}"),
        }
    }

    /// A bind that has waited is looked at.
    fn admitted(table: &ClientAddresses, position: Position, now: Duration) -> Ticket {
        match table.admit_waited(position, now) {
            Admission::Now(Some(ticket)) => ticket,
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
        let mut waiting: Vec<_> = (0..4).map(|_| in_line(&table, source, at(0))).collect();
        assert_eq!(outcome(&table, of(four(2)), at(0)), Outcome::Now);
        assert!(waiting.iter_mut().all(|one| one.called.try_recv().is_err()));
        // A right one makes room for the one that has waited for longest.
        table.end(tickets.pop().unwrap(), false, at(0));
        assert_eq!(waiting[0].called.try_recv(), Ok(()));
        tickets.push(admitted(&table, waiting.remove(0), at(0)));
        // One that is gone takes none.
        table.end(tickets.pop().unwrap(), false, at(0));
        assert_eq!(waiting[0].called.try_recv(), Ok(()));
        table.give_up(waiting.remove(0), at(0));
        assert_eq!(waiting[0].called.try_recv(), Ok(()));
        tickets.push(admitted(&table, waiting.remove(0), at(0)));
        // What fails makes none; when too many have, the first one waits for its time.
        let mut last = waiting.remove(0);
        for ticket in tickets.drain(1..) {
            table.end(ticket, true, at(0));
            (last, _) = again(&table, last, at(0));
        }
        table.end(tickets.pop().unwrap(), true, at(0));
        assert_eq!(last.called.try_recv(), Ok(()));
        let (last, wait) = again(&table, last, at(0));
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
        table.end(admitted(&table, last, at(100)), false, at(100));
    }

    #[test]
    fn beyond_the_limit_one_is_under_way_and_its_failure_counts_for_those_in_line() {
        let table = ClientAddresses::new(LIMITS);
        let source = of(four(1));
        (0..4).for_each(|_| table.bind_failed(source, at(0)));
        let first = in_line(&table, source, at(0));
        let second = in_line(&table, source, at(0));
        let third = in_line(&table, source, at(0));
        let ticket = admitted(&table, first, at(100));
        // Its time has come, and one is under way.
        let (mut second, _) = again(&table, second, at(200));
        table.end(ticket, true, at(250));
        assert_eq!(second.called.try_recv(), Ok(()));
        // Five have failed now, the last one at 250.
        let (second, wait) = again(&table, second, at(300));
        assert_eq!(wait, Duration::from_millis(150));
        // Nobody overtakes it.
        let (third, _) = again(&table, third, at(450));
        table.end(admitted(&table, second, at(450)), false, at(450));
        let (third, wait) = again(&table, third, at(450));
        assert_eq!(wait, Duration::from_millis(200));
        table.end(admitted(&table, third, at(650)), false, at(650));
    }

    #[test]
    fn no_bind_waits_longer_than_four_of_the_longest_delays() {
        // A hundred come while the delay is still the shortest, and all but the last are wrong.
        let table = ClientAddresses::new(LIMITS);
        let source = of(four(1));
        (0..4).for_each(|_| table.bind_failed(source, at(0)));
        let mut line = VecDeque::new();
        let mut refused = 0;
        for _ in 0..100 {
            match table.admit_bind(source, at(0)) {
                Admission::Waits(position, _) => line.push_back(position),
                Admission::Never => refused += 1,
                Admission::Now(_) => panic!("it has to wait"),
            }
        }
        assert_eq!((line.len(), refused), (40, 60));
        let (mut now, mut guesses) = (0, 0);
        while let Some(position) = line.pop_front() {
            match table.admit_waited(position, at(now)) {
                Admission::Now(Some(ticket)) => {
                    guesses += 1;
                    table.end(ticket, true, at(now));
                }
                Admission::Waits(position, wait) => {
                    line.push_front(position);
                    now += u64::try_from(wait.as_millis()).unwrap();
                }
                Admission::Never => assert!(now >= 4_000, "{now}"),
                Admission::Now(None) => panic!("it is known"),
            }
        }
        assert_eq!((now, guesses), (4_000, 6));
        // Who comes now waits for one of the longest delays.
        assert!(
            matches!(outcome(&table, source, at(now)), Outcome::After(wait) if wait.as_secs() < 1)
        );
    }

    #[test]
    fn what_waits_for_those_under_way_is_bounded_too() {
        let table = ClientAddresses::new(LIMITS);
        let source = of(four(1));
        let tickets: Vec<_> = (0..4).map(|_| begun(&table, source).unwrap()).collect();
        let mut line: Vec<_> = (0..LINE_MAX).map(|_| in_line(&table, source, at(0))).collect();
        assert!(matches!(table.admit_bind(source, at(0)), Admission::Never));
        let (first, wait) = again(&table, line.remove(0), at(1_000));
        assert_eq!(wait, Duration::from_secs(3));
        assert!(matches!(table.admit_waited(first, at(4_000)), Admission::Never));
        line.into_iter().for_each(|position| table.give_up(position, at(4_000)));
        tickets.into_iter().for_each(|ticket| table.end(ticket, false, at(4_000)));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
        assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }

    /// They took the places of binds that are looked at here, for as long as nobody leads.
    #[test]
    fn guesses_that_go_on_elsewhere_leave_places_to_others() {
        let table = ClientAddresses::new(AddressLimits { bind_failures_max: 20, ..LIMITS });
        let source = of(four(1));
        let hand_on = || table.hand_on(begun(&table, source), source, at(0));
        let mut gone: Vec<_> = (0..HANDED_ON_MAX).map(|_| hand_on().unwrap().unwrap()).collect();
        let ticket = hand_on().unwrap_err().unwrap();
        table.end(ticket, false, at(0));
        let now = || match table.admit_bind(source, at(0)) {
            Admission::Now(Some(ticket)) => ticket,
            other => panic!("{other:?}"),
        };
        // One after the other, and side by side.
        for _ in 0..100 {
            table.end(now(), false, at(0));
        }
        let mut tickets: Vec<_> = (0..13).map(|_| now()).collect();
        let mut waiting = in_line(&table, source, at(0));
        // Whoever waits gets the place of one that was right.
        table.end_elsewhere(gone.pop().unwrap(), false, at(0));
        assert_eq!(waiting.called.try_recv(), Ok(()));
        tickets.push(admitted(&table, waiting, at(0)));
        // What all of them may be wrong about is no more than before.
        for ticket in tickets {
            table.end(ticket, true, at(0));
        }
        let (last, wait) = again(&table, in_line(&table, source, at(0)), at(0));
        assert_eq!(wait, Duration::from_millis(100));
        table.give_up(last, at(0));
        for one in gone {
            table.end_elsewhere(one, true, at(0));
        }
        assert_eq!(table.binds(four(1).unwrap()), [21, 0, 0]);
        let (last, wait) = again(&table, in_line(&table, source, at(0)), at(0));
        assert_eq!(wait, Duration::from_millis(100));
        table.give_up(last, at(0));
    }

    #[test]
    fn of_guesses_that_go_on_elsewhere_one_may_where_too_many_have_failed() {
        let table = ClientAddresses::new(LIMITS);
        let source = of(four(1));
        let hand_on = || table.hand_on(table.begin(source, at(0)), source, at(0));
        (0..3).for_each(|_| table.bind_failed(source, at(0)));
        let one = hand_on().unwrap().unwrap();
        let ticket = hand_on().unwrap_err().unwrap();
        table.end(ticket, false, at(0));
        // It may be the one that is too many.
        let waiting = in_line(&table, source, at(0));
        table.end(admitted(&table, waiting, at(100)), false, at(100));
        // One that comes back is one of those here.
        let ticket = table.come_back(one, at(100));
        assert_eq!(table.binds(four(1).unwrap()), [3, 1, 0]);
        table.end(ticket, true, at(100));
        assert_eq!(table.binds(four(1).unwrap()), [4, 0, 0]);
        // Where nothing is counted there is no limit.
        let table = ClientAddresses::new(AddressLimits { bind_failures_max: 0, ..LIMITS });
        assert!((0..100).all(|_| table.hand_on(None, source, at(0)) == Ok(None)));
        // What is over leaves nothing.
        let table = ClientAddresses::new(LIMITS);
        let one = table.hand_on(None, source, at(0)).unwrap().unwrap();
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
        table.end_elsewhere(one, false, at(0));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
        assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
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
        let source = of(four(1));
        let line: Vec<_> = (0..4).map(|_| in_line(&table, source, at(0))).collect();
        assert_eq!(outcome(&table, source, at(0)), Outcome::Never);
        for (position, second) in line.into_iter().zip(1..) {
            let (position, wait) = again(&table, position, at(second * 1_000 - 1));
            assert_eq!(wait, Duration::from_millis(1));
            table.end(admitted(&table, position, at(second * 1_000)), false, at(second * 1_000));
        }
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
