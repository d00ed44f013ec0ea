//! Copies of the state for members that lack what the log no longer has: the one that is sent, and
//! the one that is received (`arrival.rs`).
//!
//! Invariant: there is one copy to be sent at a time, and it goes when nobody has got on with it
//! for a while, or when another member's has taken the place of the data here. What is told to the
//! engine is of the copy, as long as there is one.
//! Invariant: nothing of it is done on the engine's own thread but in simulations.

#[cfg(any(test, feature = "test-support"))]
pub(crate) mod any;
mod arrival;
mod room;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use history::log::{ApplyError, StateCopy, StateMachine};
use sha2::{Digest as _, Sha256};
use store::{LogPosition, StoreError};
use tokio::time::Instant;

pub(crate) use self::arrival::Arrival;
use self::arrival::Arriving;
use self::room::Hindrances;
pub(crate) use self::room::{DiskRoom, NoCopy};
use crate::errands::Errands;
use crate::memberships::{Memberships, is_nobody};
use crate::types::{SnapshotMeta, Vote};

/// The longest piece of a copy, in bytes.
pub const COPY_PIECE_BYTES: usize = 1 << 20;
/// How long a copy is kept that nobody gets on with, to be gone on with.
pub const COPY_KEPT_FOR: Duration = Duration::from_secs(300);
/// How long what was received of a copy is kept when nothing more comes: longer than whoever sends
/// it keeps it, and not for long, since it takes the room of the next one.
pub const ARRIVAL_KEPT_FOR: Duration = Duration::from_secs(600);
/// The most octets of copies that a member sends in a second, by default.
pub const COPY_RATE_BYTES: u64 = 200 << 20;

/// How far a copy is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CopyProgress {
    /// The other member.
    pub member: u64,
    /// So many octets are there.
    pub bytes: u64,
    /// Of so many.
    pub of_bytes: u64,
}

/// The copies of one member.
pub(crate) struct Copies {
    state: Arc<dyn StateMachine>,
    /// Those of copies alone: each may take long.
    errands: Errands,
    /// Octets a second.
    pub(crate) rate_bytes: u64,
    kept: Mutex<Kept>,
    arriving: Arc<Mutex<Arriving>>,
    /// How far what is received was, as last seen: whoever receives may be at the disk for long.
    received: Arc<Mutex<Option<CopyProgress>>>,
    /// Where the log is to go on behind a copy that was put in place.
    installed: Mutex<Option<LogPosition>>,
    hindrances: Mutex<Hindrances>,
}

#[derive(Default)]
struct Kept {
    is_making: bool,
    copy: Option<KeptCopy>,
    /// Whom it is sent to.
    sending: BTreeMap<u64, CopyProgress>,
}

#[derive(Clone)]
struct KeptCopy {
    copy: Arc<dyn StateCopy>,
    meta: SnapshotMeta,
    hashing: Arc<Mutex<Hashing>>,
    /// When somebody got on with it last.
    used: Instant,
    users: usize,
    /// Who had it already when it was offered last.
    was_there: Option<u64>,
}

/// What was hashed of a copy, from its beginning.
#[derive(Default)]
struct Hashing {
    hash: Sha256,
    upto: u64,
}

/// A piece of a copy.
pub struct Piece {
    /// Its octets.
    pub octets: Vec<u8>,
    /// Their CRC-32C.
    pub sum: u32,
}

/// The copy, for one who sends it.
pub(crate) struct Lease {
    copies: Arc<Copies>,
    member: u64,
    pub(crate) copy: Arc<dyn StateCopy>,
    hashing: Arc<Mutex<Hashing>>,
}

impl Copies {
    pub(crate) fn new(
        state: Arc<dyn StateMachine>,
        errands: Errands,
        rate_bytes: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            state,
            errands,
            rate_bytes,
            kept: Mutex::default(),
            arriving: Arc::new(Mutex::new(Arriving::new(Instant::now()))),
            received: Arc::default(),
            installed: Mutex::default(),
            hindrances: Mutex::default(),
        })
    }

    /// What the engine is told of the copy that is kept.
    pub(crate) fn kept(&self) -> Option<SnapshotMeta> {
        self.lock().copy.as_ref().map(|kept| kept.meta.clone())
    }

    /// The entries behind this one are needed, as the journal counts, by whoever gets the copy. As
    /// long as one is being made nobody knows where it ends: all are needed.
    pub(crate) fn needs_after(&self) -> Option<u64> {
        let kept = self.lock();
        if kept.is_making {
            return Some(0);
        }
        kept.copy.as_ref().map(|kept| kept.copy.head().mark.position.index)
    }

    /// Whoever was to get this copy has what is in it. If that is so once more, it lacks what the
    /// log no longer has behind the copy: this one goes, and the next one will do.
    pub(crate) fn was_there(self: &Arc<Self>, member: u64, id: &[u8; 16]) {
        let mut kept = self.lock();
        let known = kept.copy.as_mut().filter(|one| one.copy.head().id == *id);
        let is_again = known.is_some_and(|one| one.was_there.replace(member) == Some(member));
        let old = if is_again { kept.copy.take() } else { None };
        drop(kept);
        if let Some(old) = old {
            tracing::info!(member, "a copy of the data is given up: the log does not follow it");
            // Its file goes.
            self.errands.give(move || drop(old));
        }
    }

    /// The copy for a member, made if there is none; it is no older than `at_least`. None is made
    /// where the member has no `room` for it, as far as it says.
    ///
    /// # Errors
    /// Why there is none for the moment.
    pub(crate) async fn lend(
        self: &Arc<Self>,
        member: u64,
        at_least: &SnapshotMeta,
        room: Option<DiskRoom>,
    ) -> Result<Lease, NoCopy> {
        if let (Some(room), Some(bytes)) = (room, self.bytes().await) {
            room.take(member, bytes)?;
        }
        if let Some(lease) = self.lend_kept(member, at_least)? {
            return Ok(lease);
        }
        let copies = Arc::clone(self);
        let made = self.errands.run(move || copies.make()).await;
        made.unwrap_or_else(|| Err(NoCopy::Other(SHUTTING_DOWN.to_owned())))?;
        let lease = self.lend_kept(member, at_least)?;
        lease.ok_or_else(|| NoCopy::Other("the copy was given up".to_owned()))
    }

    /// How long the copy is, or would be.
    async fn bytes(&self) -> Option<u64> {
        let kept = self.lock().copy.as_ref().map(|kept| kept.copy.head().bytes);
        if kept.is_some() {
            return kept;
        }
        let state = Arc::clone(&self.state);
        self.errands.run(move || state.copy_bytes()).await.flatten()
    }

    fn lend_kept(
        self: &Arc<Self>,
        member: u64,
        at_least: &SnapshotMeta,
    ) -> Result<Option<Lease>, String> {
        let mut kept = self.lock();
        if kept.is_making {
            return Err("a copy of the data is being made".to_owned());
        }
        if let Some(one) = &mut kept.copy {
            let is_usable = one.meta.last_log_id >= at_least.last_log_id;
            if is_usable && (one.users > 0 || one.used.elapsed() < COPY_KEPT_FOR) {
                one.users += 1;
                let (copy, hashing) = (Arc::clone(&one.copy), Arc::clone(&one.hashing));
                return Ok(Some(Lease { copies: Arc::clone(self), member, copy, hashing }));
            }
            if one.users > 0 {
                return Err("an older copy of the data is being sent".to_owned());
            }
        }
        let old = kept.copy.take();
        kept.is_making = true;
        drop(kept);
        // Its file goes.
        self.errands.give(move || drop(old));
        Ok(None)
    }

    fn make(&self) -> Result<(), NoCopy> {
        tracing::info!("a copy of the data is made for a member that lacks what the log had");
        let made = self.state.copy().map_err(not_made).and_then(|copy| {
            let memberships = Memberships::decode(copy.membership());
            let memberships = memberships.map_err(|malformed| malformed.0.to_owned())?;
            let meta = memberships.meta(copy.head().mark.position);
            if is_nobody(&meta.last_membership) {
                let reason = "it does not say who took part when it was made: it is made again \
                              after the next change of the data";
                return Err(NoCopy::Other(reason.to_owned()));
            }
            let (hashing, used) = (Arc::default(), Instant::now());
            Ok(KeptCopy { copy, meta, hashing, used, users: 0, was_there: None })
        });
        let mut kept = self.lock();
        kept.is_making = false;
        made.map(|made| kept.copy = Some(made))
    }

    /// No copy came to `member`, or none from it, for this reason.
    pub(crate) fn failed(&self, member: u64, why: NoCopy) {
        lock(&self.hindrances).note(member, why, Instant::now());
    }

    /// A copy got on to `member`, or from it.
    pub(crate) fn got_on(&self, member: u64) {
        lock(&self.hindrances).clear(member);
    }

    /// Why copies do not get where they should, in a sentence for each other member.
    pub(crate) fn hindrances(&self) -> Vec<String> {
        lock(&self.hindrances).sentences(Instant::now())
    }

    /// Gives up what has been waiting for too long, and tells the state what the log has done;
    /// `purged` is the last entry that it gave up, as the journal counts.
    pub(crate) fn look(self: &Arc<Self>, purged: u64) {
        let mut kept = self.lock();
        let is_old = |kept: &KeptCopy| kept.users == 0 && kept.used.elapsed() >= COPY_KEPT_FOR;
        let old = kept.copy.take_if(|kept| is_old(kept));
        drop(kept);
        if let Some(old) = old {
            // Its file goes.
            self.errands.give(move || drop(old));
        }
        let installed = self.untold().take_if(|position| position.index <= purged);
        if installed.is_some() {
            let state = Arc::clone(&self.state);
            self.errands.give(move || state.settle_copied());
        }
        // Whoever receives may be at the disk.
        let stale = self.arriving.try_lock().is_ok_and(|one| one.is_stale(Instant::now()));
        if stale {
            let (arriving, state) = (Arc::clone(&self.arriving), Arc::clone(&self.state));
            *lock(&self.received) = None;
            self.errands.give(move || lock(&arriving).give_up(&*state));
        }
    }

    /// A copy was put in place, up to `position`. The one that was kept here to be sent goes: the
    /// log does not have what comes after it.
    pub(crate) fn installed(&self, position: LogPosition) {
        *self.untold() = Some(position);
        let old = self.lock().copy.take();
        // Its file goes.
        self.errands.give(move || drop(old));
    }

    /// A copy comes from `member`; how much of it is there.
    ///
    /// # Errors
    /// A sentence, when it is not wanted.
    pub(crate) async fn begin_arrival(&self, arrival: Arrival) -> Result<u64, String> {
        let state = Arc::clone(&self.state);
        let begin = move |arriving: &mut Arriving| {
            arriving.begin(|head| state.receive(head), arrival, Instant::now())
        };
        self.arrive(arrival.member, begin).await
    }

    /// A piece of it comes; how much is there then.
    ///
    /// # Errors
    /// A sentence, when it does not follow, or is damaged, or the disk fails.
    pub(crate) async fn piece_arrived(
        &self,
        member: u64,
        id: [u8; 16],
        offset: u64,
        piece: Piece,
    ) -> Result<u64, String> {
        let piece = move |arriving: &mut Arriving| arriving.piece(member, &id, offset, &piece);
        self.arrive(member, piece).await.inspect(|_| self.got_on(member))
    }

    /// All of it is there, with this digest; what the engine is told of it.
    ///
    /// # Errors
    /// A sentence, when it is not what was sent, or what was announced.
    pub(crate) async fn arrived(
        &self,
        member: u64,
        vote: Vote,
        id: [u8; 16],
        digest: [u8; 32],
    ) -> Result<SnapshotMeta, String> {
        self.arrive(member, move |arriving| arriving.finish(member, &vote, &id, &digest)).await
    }

    async fn arrive<T: Send + 'static>(
        &self,
        member: u64,
        work: impl FnOnce(&mut Arriving) -> Result<T, NoCopy> + Send + 'static,
    ) -> Result<T, String> {
        let (arriving, received) = (Arc::clone(&self.arriving), Arc::clone(&self.received));
        let work = move || {
            let mut arriving = lock(&arriving);
            let done = work(&mut arriving);
            *lock(&received) = arriving.progress();
            done
        };
        let done = self.errands.run(work).await;
        let done = done.unwrap_or_else(|| Err(NoCopy::Other(SHUTTING_DOWN.to_owned())));
        done.map_err(|why| {
            self.failed(member, why.clone());
            why.reason().to_owned()
        })
    }

    /// How far what is received is; none if nothing is.
    pub(crate) fn receives(&self) -> Option<CopyProgress> {
        *lock(&self.received)
    }

    /// Whom the copy is sent to, and how far it is.
    pub(crate) fn sends(&self) -> Vec<CopyProgress> {
        self.lock().sending.values().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    fn untold(&self) -> MutexGuard<'_, Option<LogPosition>> {
        lock(&self.installed)
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("kept", &self.kept()).finish_non_exhaustive()
    }
}

impl Lease {
    /// The piece that begins at `offset`; none behind the end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn piece(&self, offset: u64) -> Result<Option<Piece>, String> {
        let left = self.copy.head().bytes.saturating_sub(offset);
        let length = usize::try_from(left).map_or(COPY_PIECE_BYTES, |it| it.min(COPY_PIECE_BYTES));
        if length == 0 {
            return Ok(None);
        }
        let (copy, hashing) = (Arc::clone(&self.copy), Arc::clone(&self.hashing));
        let read = self.copies.errands.run(move || {
            let mut octets = vec![0; length];
            copy.read_at(offset, &mut octets)?;
            let mut hashing = lock(&hashing);
            if hashing.upto == offset {
                hashing.hash.update(&octets);
                hashing.upto += octets.len() as u64;
            }
            drop(hashing);
            let sum = crc32c::crc32c(&octets);
            Ok(Piece { octets, sum })
        });
        let read: io::Result<Piece> = read.await.ok_or(SHUTTING_DOWN)?;
        read.map(Some).map_err(|error| error.to_string())
    }

    /// The digest of all of it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn digest(&self) -> Result<[u8; 32], String> {
        loop {
            let upto = lock(&self.hashing).upto;
            // What nobody was sent has not been read.
            if self.piece(upto).await?.is_none() {
                return Ok(lock(&self.hashing).hash.clone().finalize().into());
            }
        }
    }

    /// So many octets of it are there.
    pub(crate) fn note(&self, bytes: u64) {
        let of_bytes = self.copy.head().bytes;
        let progress = CopyProgress { member: self.member, bytes, of_bytes };
        let mut kept = self.copies.lock();
        let before = kept.sending.insert(self.member, progress);
        let got_on = before.is_none_or(|before| before.bytes < bytes) && bytes > 0;
        if let Some(one) = kept.copy.as_mut().filter(|_| got_on) {
            one.used = Instant::now();
            drop(kept);
            self.copies.got_on(self.member);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut kept = self.copies.lock();
        kept.sending.remove(&self.member);
        if let Some(one) = kept.copy.as_mut() {
            one.users = one.users.saturating_sub(1);
        }
    }
}

/// Why the state could not be copied.
fn not_made(error: ApplyError) -> NoCopy {
    match error {
        ApplyError::Store(StoreError::NoRoom { .. }) => {
            NoCopy::NoRoom(format!("on the disk of whoever leads, {error}"))
        }
        error => NoCopy::Other(error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHUTTING_DOWN: &str = "the server is shutting down";

#[cfg(test)]
mod tests {
    use history::recovery::StoreMachine;
    use schema::Schema;
    use store::{IndexConfig, Store, StoreOptions};

    use super::*;

    fn copies(folder: &std::path::Path) -> Arc<Copies> {
        let (options, schema) = (StoreOptions::default(), Schema::builtin());
        let store = Store::create(folder, &options, schema, IndexConfig::none(), &[]).unwrap();
        let state: Arc<dyn StateMachine> = Arc::new(StoreMachine::new(Arc::new(store)));
        Copies::new(state, Errands::inline(), COPY_RATE_BYTES)
    }

    fn keep(copies: &Copies) -> [u8; 16] {
        let copy = copies.state.copy().unwrap();
        let (id, meta) = (copy.head().id, SnapshotMeta::default());
        let (hashing, used) = (Arc::default(), Instant::now());
        copies.lock().copy =
            Some(KeptCopy { copy, meta, hashing, used, users: 0, was_there: None });
        id
    }

    /// The log was purged while a copy was made, beyond its end: who got it lacked what came after
    /// it, was sent the same copy again and again, and waited for five minutes.
    #[test]
    fn the_log_stays_while_a_copy_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let copies = copies(folder.path());
        assert_eq!(copies.needs_after(), None);
        assert!(copies.lend_kept(2, &SnapshotMeta::default()).unwrap().is_none());
        assert_eq!(copies.needs_after(), Some(0));
        // This one cannot be kept, as it says of no members: nothing is needed any more.
        assert!(copies.make().is_err());
        assert_eq!(copies.needs_after(), None);
    }

    #[test]
    fn a_copy_that_is_there_already_and_still_wanted_goes() {
        let folder = tempfile::tempdir().unwrap();
        let copies = copies(folder.path());
        let id = keep(&copies);
        copies.was_there(2, &[0; 16]);
        copies.was_there(2, &id);
        copies.was_there(3, &id);
        assert!(copies.kept().is_some(), "an answer may be lost on its way");
        copies.was_there(3, &id);
        assert!(copies.kept().is_none());
        let other = keep(&copies);
        copies.was_there(3, &other);
        assert!(copies.kept().is_some());
    }
}
