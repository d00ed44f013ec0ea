//! What each client address costs: its connections, and its binds that fail.
//!
//! A gateway, which binds for many people, is told apart by accounts: who fails there waits alone.
//!
//! Who fails to bind again and again waits before the next bind of its address is looked at, longer
//! each time; a right password waits as long as a wrong one, so that the wait tells nothing.
//!
//! Invariant: what is kept is bounded, and no thread waits for anybody: whoever has to wait is told
//! until when.
//! Invariant: while nobody fails, a bind takes no lock here.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ldap::message::{Authentication, DecodeLimits, Message, Request};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::network::Network;
use crate::presence::network;

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

/// What the spellings of the name of one account have in common.
pub(crate) type Spelled = Box<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// The addresses that something is known of.
pub(crate) struct Addresses {
    limits: AddressLimits,
    gateways: Vec<Network>,
    spelled: Spelled,
    /// What accounts are told apart by: nobody can choose a name that counts as another's.
    names: RandomState,
    shards: Vec<Mutex<FxHashMap<Source, Known>>>,
    /// Addresses with binds that failed, or more.
    suspects: AtomicUsize,
}

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
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    connections: usize,
    /// Halved every [`HALF_LIFE`].
    failures: u32,
    /// When they were halved last.
    halved: Duration,
    /// When the next bind may be looked at.
    next_bind: Duration,
}

/// Whether a bind may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    /// After so long.
    After(Duration),
    /// Too many wait already.
    Never,
}

/// One connection's place in the table, as long as it lives.
#[derive(Debug)]
pub(crate) struct Place(Source);

impl Addresses {
    pub(crate) fn new(limits: AddressLimits) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (gateways, names) = (Vec::new(), RandomState::new());
        let spelled: Spelled = Box::new(|name| name.as_bytes().to_vec());
        Self { limits, gateways, spelled, names, shards, suspects: AtomicUsize::new(0) }
    }

    /// Binds from these networks are counted by account, whose names `spelled` makes one spelling
    /// of.
    pub(crate) fn with_gateways(self, gateways: Vec<Network>, spelled: Spelled) -> Self {
        Self { gateways, spelled, ..self }
    }

    /// What a bind is counted for; none: nothing. Of a gateway that is the account that is named
    /// with the password; where none is, the gateway.
    pub(crate) fn source(&self, address: Option<IpAddr>, bind: &[u8]) -> Option<Source> {
        let whole = Source::whole(address?);
        if !self.gateways.iter().any(|gateway| address.is_some_and(|it| gateway.contains(it))) {
            return Some(whole);
        }
        let account = name_of(bind).map(|name| self.names.hash_one((self.spelled)(&name)));
        Some(Source { account, ..whole })
    }

    /// Counts a connection; `Err` when there are too many of its address. What has no address is
    /// not counted.
    pub(crate) fn connect(&self, address: Option<IpAddr>) -> Result<Option<Place>, TooMany> {
        let max = self.limits.connections_max;
        let Some(source) = address.map(Source::whole).filter(|_| max > 0) else { return Ok(None) };
        let mut shard = self.shard(source);
        let known = shard.entry(source).or_default();
        if known.connections >= max {
            return Err(TooMany);
        }
        known.connections += 1;
        Ok(Some(Place(source)))
    }

    /// The connection is gone.
    pub(crate) fn disconnect(&self, place: Option<Place>) {
        let Some(Place(source)) = place else { return };
        let mut shard = self.shard(source);
        if let Some(known) = shard.get_mut(&source) {
            known.connections = known.connections.saturating_sub(1);
            if known.connections == 0 && known.failures == 0 {
                shard.remove(&source);
            }
        }
    }

    /// Whether a bind of this source may be looked at now; if not, its turn is kept for it.
    pub(crate) fn admit_bind(&self, source: Option<Source>, now: Duration) -> Admission {
        if self.suspects.load(Ordering::Relaxed) == 0 {
            return Admission::Now;
        }
        let Some(source) = source else { return Admission::Now };
        let mut shard = self.shard(source);
        let Some(known) = shard.get_mut(&source) else { return Admission::Now };
        let had = known.failures;
        known.decay(now);
        if had > 0 && known.failures == 0 {
            self.suspects.fetch_sub(1, Ordering::Relaxed);
            if known.connections == 0 {
                shard.remove(&source);
            }
            return Admission::Now;
        }
        let delay = self.delay(known.failures);
        if delay.is_zero() {
            return Admission::Now;
        }
        let turn = known.next_bind.max(now);
        if turn - now > self.limits.bind_delay_max * WAITING_MAX {
            return Admission::Never;
        }
        known.next_bind = turn + delay;
        if turn == now { Admission::Now } else { Admission::After(turn - now) }
    }

    /// A bind of this source failed.
    pub(crate) fn bind_failed(&self, source: Option<Source>, now: Duration) {
        let Some(source) = source.filter(|_| self.limits.bind_failures_max > 0) else { return };
        let mut shard = self.shard(source);
        if shard.len() >= SHARD_MAX && !shard.contains_key(&source) {
            self.make_room(&mut shard, now);
            if shard.len() >= SHARD_MAX {
                return;
            }
        }
        let known = shard.entry(source).or_insert(Known { halved: now, ..Known::default() });
        let had = known.failures;
        known.decay(now);
        if had == 0 {
            self.suspects.fetch_add(1, Ordering::Relaxed);
        }
        known.failures = known.failures.saturating_add(1);
        // The wait begins now.
        known.next_bind = known.next_bind.max(now + self.delay(known.failures));
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

    /// Forgets those that nothing is known of any more, or else those that failed least.
    fn make_room(&self, shard: &mut FxHashMap<Source, Known>, now: Duration) {
        let mut forgotten = 0;
        for least in [0, 1, u32::MAX] {
            shard.retain(|_, known| {
                let had = known.failures;
                known.decay(now);
                let stays = known.connections > 0 || known.failures > least;
                if had > 0 && (!stays || known.failures == 0) {
                    known.failures = 0;
                    forgotten += 1;
                }
                stays
            });
            if shard.len() < SHARD_MAX {
                break;
            }
        }
        self.suspects.fetch_sub(forgotten, Ordering::Relaxed);
    }

    fn shard(&self, source: Source) -> MutexGuard<'_, FxHashMap<Source, Known>> {
        let hash = FxBuildHasher.hash_one(source);
        // The high bits: the table itself uses the low ones.
        let index = (hash >> 32) as usize % SHARDS;
        let shard = self.shards.get(index).expect("the remainder is below their number");
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The account that a bind names with its password: by a simple bind, or by PLAIN.
fn name_of(bind: &[u8]) -> Option<String> {
    let message = Message::<Request<'_>>::decode(bind, &DecodeLimits::default()).ok()?;
    let Request::Bind(request) = message.op else { return None };
    let name = match request.authentication {
        Authentication::Simple(_) => return Some(request.name.to_owned()),
        // authzid NUL authcid NUL passwd (RFC 4616 §2).
        Authentication::Sasl { mechanism: "PLAIN", credentials } => {
            credentials?.split(|octet| *octet == 0).nth(1)?
        }
        Authentication::Sasl { .. } | Authentication::Other(_) => return None,
    };
    Some(String::from_utf8_lossy(name).into_owned())
}

/// There are too many connections of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Known {
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
    use ldap::message::{BindRequest, Controls, MessageId};

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

    fn bind(name: &str) -> Vec<u8> {
        let authentication = Authentication::Simple(b"wrong");
        let op = Request::Bind(BindRequest { version: 3, name, authentication });
        let mut out = Vec::new();
        Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut out);
        out
    }

    #[test]
    fn who_fails_behind_a_gateway_waits_alone() {
        let spelled = |name: &str| name.trim().to_lowercase().into_bytes();
        let gateways = vec!["192.0.2.8/29".parse().unwrap()];
        let table = Addresses::new(LIMITS).with_gateways(gateways, Box::new(spelled));
        let source = |address, name| table.source(address, &bind(name));
        for _ in 0..8 {
            for address in [four(9), four(1)] {
                table.bind_failed(source(address, "uid=anna"), at(0));
            }
        }
        let waits = |address, name| {
            matches!(table.admit_bind(source(address, name), at(0)), Admission::After(_))
        };
        assert!(waits(four(9), "uid=anna") && waits(four(9), " UID=Anna"));
        assert!(!waits(four(9), "uid=bert") && !waits(four(10), "uid=anna"));
        // Elsewhere the address counts: one may guess the password of many.
        assert!(waits(four(1), "uid=anna") && waits(four(1), "uid=bert"));
        // What names nobody is counted for the gateway, beside its accounts.
        for _ in 0..8 {
            table.bind_failed(table.source(four(9), b"0"), at(0));
        }
        let of_gateway = table.source(four(9), b"0");
        assert!(matches!(table.admit_bind(of_gateway, at(0)), Admission::After(_)));
        assert!(!waits(four(9), "uid=bert"));
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_secs(100_000) + Duration::from_millis(milliseconds)
    }

    #[test]
    fn connections_are_counted_by_address() {
        let table = Addresses::new(LIMITS);
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
        let table = Addresses::new(AddressLimits { connections_max: 0, ..LIMITS });
        for _ in 0..10 {
            table.connect(four(1)).unwrap();
        }
    }

    #[test]
    fn who_fails_waits_longer_each_time_and_nobody_else_does() {
        let table = Addresses::new(LIMITS);
        for _ in 0..3 {
            assert_eq!(table.admit_bind(of(four(1)), at(0)), Admission::Now);
            table.bind_failed(of(four(1)), at(0));
        }
        assert_eq!(table.admit_bind(of(four(1)), at(0)), Admission::Now);
        let mut now = 0;
        for delay in [100, 200, 400, 800, 1_000, 1_000] {
            table.bind_failed(of(four(1)), at(now));
            let wait = Duration::from_millis(delay);
            assert_eq!(table.admit_bind(of(four(1)), at(now)), Admission::After(wait));
            now += delay;
        }
        assert_eq!(table.admit_bind(of(four(2)), at(now)), Admission::Now);
        assert_eq!(table.admit_bind(None, at(now)), Admission::Now);
    }

    #[test]
    fn binds_at_the_same_time_wait_one_after_the_other_and_not_without_end() {
        let table = Addresses::new(LIMITS);
        for _ in 0..10 {
            table.bind_failed(of(four(1)), at(0));
        }
        let waits = (0..8).map(|_| table.admit_bind(of(four(1)), at(0))).collect::<Vec<_>>();
        let after = |seconds| Admission::After(Duration::from_secs(seconds));
        let want = [after(1), after(2), after(3), after(4), Admission::Never];
        assert_eq!(waits[..5], want);
        assert_eq!(waits[7], Admission::Never);
    }

    #[test]
    fn failures_are_forgotten() {
        let table = Addresses::new(LIMITS);
        for _ in 0..8 {
            table.bind_failed(of(four(1)), at(0));
        }
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
        // After a minute there are four, after two there are two.
        assert!(matches!(table.admit_bind(of(four(1)), at(61_000)), Admission::Now));
        assert!(matches!(table.admit_bind(of(four(1)), at(61_000)), Admission::After(_)));
        assert_eq!(table.admit_bind(of(four(1)), at(130_000)), Admission::Now);
        assert_eq!(table.admit_bind(of(four(1)), at(130_000)), Admission::Now);
        assert_eq!(table.admit_bind(of(four(1)), at(1_000_000)), Admission::Now);
        assert_eq!(table.suspects.load(Ordering::Relaxed), 0);
        assert!(table.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
        // One that is forgotten and fails again, before anybody has looked, is one.
        table.bind_failed(of(four(1)), at(2_000_000));
        table.bind_failed(of(four(1)), at(3_000_000));
        assert_eq!(table.suspects.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_table_is_bounded_however_many_addresses_fail() {
        let table = Addresses::new(LIMITS);
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
        assert!(matches!(table.admit_bind(of(four(1)), at(0)), Admission::After(_)));
    }
}
