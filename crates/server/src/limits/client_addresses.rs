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

use directory::{Live, Network};
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
    limits: Live<AddressLimits>,
    gateways: Live<Vec<Network>>,
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
    /// Binds from `gateways` are counted by account.
    pub(crate) fn new(limits: AddressLimits, gateways: Vec<Network>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (limits, gateways) = (Live::new(limits), Live::new(gateways));
        let names = RandomState::new();
        Self { limits, gateways, names, shards, suspects: AtomicUsize::new(0) }
    }

    /// These hold from now on; what is counted stays.
    pub(crate) fn set(&self, limits: AddressLimits, gateways: Vec<Network>) {
        self.limits.set(limits);
        self.gateways.set(gateways);
    }

    /// What a bind is counted for; none: nothing. Of a gateway that is the account whose password
    /// it tries; where that is none, the gateway.
    pub(crate) fn source(
        &self,
        address: Option<IpAddr>,
        account: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Source> {
        let whole = Source::whole(address?);
        if !self.gateways.get().iter().any(|gateway| address.is_some_and(|it| gateway.contains(it)))
        {
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
        let max = self.limits.get().connections_max;
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
        self.limits.get().bind_delay_max * WAITING_MAX
    }

    /// How many binds may be under way: so many that no more can fail than may; and one.
    fn under_way_max(&self, known: &Known) -> u32 {
        let most = self.limits.get().bind_failures_max.saturating_add(1);
        most.saturating_sub(known.failed_at_worst()).max(1)
    }

    /// A bind that was looked at waits for its hash.
    pub(crate) fn begin(&self, source: Option<Source>, now: Duration) -> Option<Ticket> {
        let source = source.filter(|_| self.limits.get().bind_failures_max > 0)?;
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
        let Some(source) = source.filter(|_| self.limits.get().bind_failures_max > 0) else {
            return Ok(None);
        };
        let may = self.with_new(source, now, |known| {
            let others = known.under_way.saturating_sub(u32::from(ticket.is_some()));
            let failures_max = self.limits.get().bind_failures_max;
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
        let Some(source) = source.filter(|_| self.limits.get().bind_failures_max > 0) else {
            return;
        };
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
        let AddressLimits { bind_failures_max, bind_delay_max, .. } = **self.limits.get();
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
mod tests;
