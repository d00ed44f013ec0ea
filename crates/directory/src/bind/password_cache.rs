//! Passwords that were verified lately: who signs in again with one waits for no slow hash.
//!
//! What is kept of a password is a keyed digest (HMAC-SHA-256, with a key of this process) of the
//! account, of all its stored values, and of the password itself. It is of use to nobody who has
//! not the key as well, and nothing of it leaves memory.
//!
//! Invariant: what is found was verified before, for this entry under this name, with the very
//! values that are stored now, and no longer ago than the settings say.
//! Invariant: nothing is kept of passwords that were wrong, so no guess puts anything in here.
//! Invariant: memory is bounded, and what is dropped is wiped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use environment::{Chance, Clock};
use hmac::{Hmac, KeyInit as _, Mac as _};
use region::LockGuard;
use rustc_hash::FxHashMap;
use schema::{DnKey, EntryId};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// How long verified passwords are kept, and how many.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PasswordCacheOptions {
    /// Counted from the slow verification; zero: nothing is kept.
    pub age_max: Duration,
    /// Passwords, about 140 octets each.
    pub passwords_max: usize,
}

impl Default for PasswordCacheOptions {
    fn default() -> Self {
        Self { age_max: Duration::from_secs(600), passwords_max: 100_000 }
    }
}

/// What was counted since the start, and what is held now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PasswordCacheCounts {
    /// Slow passwords that had been verified lately.
    pub hits: u64,
    /// Those that had not.
    pub misses: u64,
    /// Passwords held.
    pub held: u64,
}

/// Whose password it is: names change hands, and entries their names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) id: EntryId,
    pub(crate) key: &'a DnKey,
}

/// What is remembered of the password that a client sends.
pub(crate) enum Remembered {
    /// It was found behind a stored value lately.
    This(Digest),
    /// Another one was, and the stored values are the same: who is not let in at once learns that
    /// this one is another. It may be right all the same: a form may look at a part of a password.
    Another(Digest),
    /// Nothing that would have let anybody in at once.
    Nothing,
}

/// The cache.
pub(crate) struct PasswordCache {
    secret: Secret,
    age_max: Duration,
    shards: Vec<Mutex<Shard>>,
    /// Ends the thread that sweeps, when it is dropped.
    _sweeps: Sender<()>,
    swept: Receiver<()>,
}

/// The key of the digests, on a page that is not written to the swap space where the system
/// allows it.
struct Secret {
    octets: Box<Zeroizing<[u8; KEY_BYTES]>>,
    _lock: Option<LockGuard>,
}

/// A part that is locked alone.
struct Shard {
    /// With room for all from the beginning: none leaves a copy behind when it grows.
    slots: Vec<Slot>,
    index: FxHashMap<Owner, usize>,
    passwords_max: usize,
    /// Where the next look for a slot to give away begins.
    hand: usize,
    counts: PasswordCacheCounts,
}

/// An account, and the place of the stored value that the password is behind.
type Owner = (EntryId, usize);

struct Slot {
    owner: Owner,
    digest: Digest,
    /// Of the account and its stored values alone.
    values: ValuesDigest,
    verified_at: Duration,
    /// It was found since the hand came by.
    is_used: bool,
}

/// What is kept of a password.
pub(crate) type Digest = Zeroizing<[u8; DIGEST_BYTES]>;

type ValuesDigest = [u8; VALUES_DIGEST_BYTES];

impl PasswordCache {
    /// An empty cache with a key of its own; none where the settings say so.
    pub(crate) fn new(options: PasswordCacheOptions, chance: &mut dyn Chance) -> Option<Self> {
        let PasswordCacheOptions { age_max, passwords_max } = options;
        if age_max.is_zero() || passwords_max == 0 {
            return None;
        }
        let shards = (passwords_max / SHARD_PASSWORDS_MIN).clamp(1, SHARDS_MAX);
        let of_each = passwords_max / shards;
        let (sweeps, swept) = bounded(0);
        Some(Self {
            secret: Secret::new(chance),
            age_max,
            shards: (0..shards).map(|_| Mutex::new(Shard::new(of_each))).collect(),
            _sweeps: sweeps,
            swept,
        })
    }

    /// Whether `clear` was found behind one of the stored values, not too long before `now`.
    pub(crate) fn find(
        &self,
        account: Account<'_>,
        clear: &[u8],
        stored: &[Vec<u8>],
        now: Duration,
    ) -> Remembered {
        if stored.len() > VALUES_MAX {
            return Remembered::Nothing;
        }
        // Made for accounts that nothing is held of, too: they take as long.
        let digest = self.secret.digest(account, clear, stored);
        let mut shard = self.shard(account.id);
        let mut places = 0..stored.len();
        if places.any(|place| shard.find((account.id, place), &digest, now, self.age_max)) {
            shard.counts.hits += 1;
            return Remembered::This(digest);
        }
        shard.counts.misses += 1;
        let values = self.secret.values_digest(account, stored);
        match shard.holds_any(account.id, stored.len(), &values) {
            true => Remembered::Another(digest),
            false => Remembered::Nothing,
        }
    }

    /// What is kept of a password, whether anything is.
    pub(crate) fn digest(&self, account: Account<'_>, clear: &[u8], stored: &[Vec<u8>]) -> Digest {
        self.secret.digest(account, clear, stored)
    }

    /// Keeps that `clear` is behind the stored value at `place`, which was just verified.
    pub(crate) fn put(
        &self,
        account: Account<'_>,
        clear: &[u8],
        stored: &[Vec<u8>],
        place: usize,
        now: Duration,
    ) {
        if stored.len() > VALUES_MAX {
            return;
        }
        let digest = self.secret.digest(account, clear, stored);
        let values = self.secret.values_digest(account, stored);
        let (owner, is_used) = ((account.id, place), false);
        self.shard(account.id).put(Slot { owner, digest, values, verified_at: now, is_used });
    }

    /// Wipes what is held of an account.
    pub(crate) fn forget(&self, id: EntryId) {
        let mut shard = self.shard(id);
        for place in 0..VALUES_MAX {
            shard.remove((id, place));
        }
    }

    /// Wipes what is too old.
    fn sweep(&self, now: Duration) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.sweep(now, self.age_max);
        }
    }

    pub(crate) fn counts(&self) -> PasswordCacheCounts {
        self.shards.iter().fold(PasswordCacheCounts::default(), |sum, shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            PasswordCacheCounts {
                hits: sum.hits + shard.counts.hits,
                misses: sum.misses + shard.counts.misses,
                held: sum.held + shard.slots.len() as u64,
            }
        })
    }

    fn shard(&self, id: EntryId) -> MutexGuard<'_, Shard> {
        let number = usize::try_from(id.0).unwrap_or_default() % self.shards.len();
        let shard = self.shards.get(number).expect("there are so many shards");
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that wipes what nobody asks for any more; it ends with the cache.
pub(crate) fn start_sweeper(cache: &Arc<PasswordCache>, clock: Arc<dyn Clock>) {
    let every = (cache.age_max / SWEEPS_PER_AGE).clamp(SWEEP_EVERY_MIN, SWEEP_EVERY_MAX);
    let (weak, swept) = (Arc::downgrade(cache), cache.swept.clone());
    let thread = thread::Builder::new().name("password-cache".to_owned());
    if let Err(error) = thread.spawn(move || serve(&weak, &*clock, &swept, every)) {
        tracing::warn!(%error, "verified passwords are wiped only when their memory is needed");
    }
}

fn serve(cache: &Weak<PasswordCache>, clock: &dyn Clock, swept: &Receiver<()>, every: Duration) {
    while swept.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let Some(cache) = cache.upgrade() else { return };
        cache.sweep(clock.elapsed());
    }
}

impl Secret {
    fn new(chance: &mut dyn Chance) -> Self {
        // Locked before there is a key in it.
        let mut octets = Box::new(Zeroizing::new([0; KEY_BYTES]));
        let lock = region::lock(octets.as_ptr(), KEY_BYTES)
            .inspect_err(|error| {
                tracing::debug!(%error, "the key of the cache of passwords may be swapped out");
            })
            .ok();
        chance.fill(&mut **octets);
        Self { octets, _lock: lock }
    }

    /// What is kept of a password. No two questions have the same octets: each part but the last
    /// says how long it is.
    fn digest(&self, account: Account<'_>, clear: &[u8], stored: &[Vec<u8>]) -> Digest {
        let mut mac = self.mac_of(account, stored);
        mac.update(clear);
        Zeroizing::new(mac.finalize().into_bytes().into())
    }

    /// What is kept of an account's stored values: half of what would be kept of no password.
    fn values_digest(&self, account: Account<'_>, stored: &[Vec<u8>]) -> ValuesDigest {
        let digest = self.digest(account, b"", stored);
        digest.first_chunk().copied().expect("the half of it is shorter")
    }

    fn mac_of(&self, account: Account<'_>, stored: &[Vec<u8>]) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&**self.octets);
        let mut mac = mac.expect("a key of HMAC may have any length");
        let mut part = |octets: &[u8]| {
            mac.update(&(octets.len() as u64).to_be_bytes());
            mac.update(octets);
        };
        part(&account.id.0.to_be_bytes());
        part(account.key.as_bytes());
        part(&(stored.len() as u64).to_be_bytes());
        stored.iter().for_each(|one| part(one));
        mac
    }
}

impl Shard {
    fn new(passwords_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            index: FxHashMap::default(),
            passwords_max,
            hand: 0,
            counts: PasswordCacheCounts::default(),
        }
    }

    fn find(&mut self, owner: Owner, digest: &Digest, now: Duration, age_max: Duration) -> bool {
        let at = self.index.get(&owner).copied();
        let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) else { return false };
        if slot.is_too_old(now, age_max) {
            self.remove(owner);
            return false;
        }
        let is_it = bool::from(slot.digest.ct_eq(&**digest));
        slot.is_used |= is_it;
        is_it
    }

    /// Whether any password of an account with so many stored values is held, and these are they.
    fn holds_any(&self, id: EntryId, count: usize, values: &ValuesDigest) -> bool {
        let mut places = (0..count).filter_map(|place| self.index.get(&(id, place)));
        places.any(|at| self.slots.get(*at).is_some_and(|slot| slot.values == *values))
    }

    fn put(&mut self, slot: Slot) {
        let at = match self.index.get(&slot.owner) {
            Some(at) => *at,
            None if self.slots.len() < self.passwords_max => {
                if self.slots.capacity() == 0 {
                    self.slots.reserve_exact(self.passwords_max);
                }
                self.index.insert(slot.owner, self.slots.len());
                return self.slots.push(slot);
            }
            None => {
                let at = self.give_away();
                let before = self.slots.get(at).map(|slot| slot.owner);
                before.map(|owner| self.index.remove(&owner));
                self.index.insert(slot.owner, at);
                at
            }
        };
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    /// The next slot that was not used since the hand came by; it comes by twice at the most.
    fn give_away(&mut self) -> usize {
        loop {
            let at = self.hand % self.slots.len().max(1);
            self.hand = at + 1;
            match self.slots.get_mut(at) {
                Some(slot) if slot.is_used => slot.is_used = false,
                Some(_) | None => return at,
            }
        }
    }

    fn remove(&mut self, owner: Owner) {
        let Some(at) = self.index.remove(&owner) else { return };
        let last = self.slots.len().saturating_sub(1);
        self.slots.swap(at, last);
        // Wiped where it stands: what is moved out leaves its octets.
        self.slots.truncate(last);
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.owner, at);
        }
    }

    fn sweep(&mut self, now: Duration, age_max: Duration) {
        let mut at = 0;
        while let Some(slot) = self.slots.get(at) {
            match slot.is_too_old(now, age_max) {
                true => self.remove(slot.owner),
                false => at += 1,
            }
        }
    }
}

impl Slot {
    fn is_too_old(&self, now: Duration, age_max: Duration) -> bool {
        now.saturating_sub(self.verified_at) >= age_max
    }
}

/// Octets of the key and of a digest.
const KEY_BYTES: usize = 32;
const DIGEST_BYTES: usize = 32;
const VALUES_DIGEST_BYTES: usize = 16;

/// Of an entry with more passwords none is kept: all of them are part of each digest.
const VALUES_MAX: usize = 4;

/// Parts that are locked alone, where there are passwords enough for each.
const SHARDS_MAX: usize = 16;
const SHARD_PASSWORDS_MIN: usize = 64;

/// How often what is too old is wiped.
const SWEEPS_PER_AGE: u32 = 10;
const SWEEP_EVERY_MIN: Duration = Duration::from_secs(1);
const SWEEP_EVERY_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
