//! Batches: changes made one after the other on the newest state there is, sealed together.
//!
//! A batch writes into an open layer over everything that was sealed before it, published or not.
//! What its changes do to the rows is in `apply.rs`.
//!
//! Invariants: there is one batch at a time. Nobody sees what is in it before it is sealed, and
//! only later batches before it is published; a batch that is dropped leaves nothing, and so does a
//! change that fails. Sealing and publishing touch memory alone.

use std::cell::RefCell;
use std::sync::{Arc, MutexGuard};
use std::thread;

use schema::{Change, EntryId};

use crate::base::digest::DigestKey;
use crate::base::lmdb::PlainTable;
use crate::base::meta::{Counters, Mark};
use crate::base::position::{LogPosition, Lsn};
use crate::base::requests::KeptRequest;
use crate::error::StoreError;
use crate::overlay::layer::Layer;
use crate::overlay::memtable::{Memory, MemoryMark};
use crate::overlay::stack::{Ground, Stack};
use crate::overlay::version::{Footing, Versions};
use crate::read::view::{BatchParts, View};
use crate::rows::dictionary::Dictionary;
use crate::rows::names::{NameCache, Naming};
use crate::store::Store;

/// Changes that are sealed together, or not at all.
#[derive(Debug)]
pub struct Batch<'s> {
    store: &'s Store,
    /// Held, so that there is one batch at a time; gets back what the next batch can use.
    seat: MutexGuard<'s, Seat>,
    layers: Arc<[Arc<Layer>]>,
    epoch: u64,
    before: Lsn,
    pub(crate) memory: Memory,
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) counters: Counters,
    /// Of a store that keeps a digest.
    pub(crate) digest_key: Option<Arc<DigestKey>>,
    /// The requests of its records, where a digest is kept.
    requests: Vec<KeptRequest>,
    /// Which base of the store it is made over.
    base: u64,
    pub(crate) names: RefCell<NameCache>,
    /// The state after the last record.
    recorded: Point,
    savepoint: Option<Savepoint>,
    is_sealed: bool,
    pub(crate) scratch: Vec<u8>,
    pub(crate) row: Vec<u8>,
}

/// What batches hand on to each other, so that a small one costs little.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    memory: Memory,
    /// True for the line with this number.
    names: NameCache,
    epoch: u64,
    /// While there is a batch, the base that it reads.
    ground: Option<Ground>,
    scratch: Vec<u8>,
    row: Vec<u8>,
}

impl Seat {
    /// Gives up the base that the last batch read.
    pub(crate) fn release(&mut self) {
        self.ground = None;
    }
}

/// What became of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Applied {
    /// Its effects are in the batch.
    Done,
    /// It is not the next one, so it changed nothing. A log may hold such a record: a batch that
    /// was decided on another one that then was refused.
    Void,
}

/// A state of the batch.
#[derive(Clone, Debug)]
struct Point {
    memory: MemoryMark,
    counters: Counters,
    dictionary: Arc<Dictionary>,
}

#[derive(Debug)]
struct Savepoint {
    point: Point,
    recorded: Point,
}

impl<'s> Batch<'s> {
    pub(crate) fn begin(store: &'s Store) -> Result<Self, StoreError> {
        Self::begin_in(store, store.seat())
    }

    /// With the seat, nobody seals anything more on what is dropped.
    pub(crate) fn begin_on_published(store: &'s Store) -> Result<Self, StoreError> {
        let seat = store.seat();
        store.versions.drop_tentative();
        Self::begin_in(store, seat)
    }

    fn begin_in(store: &'s Store, mut seat: MutexGuard<'s, Seat>) -> Result<Self, StoreError> {
        let (footing, ground) = stand(&store.versions, seat.ground.take())?;
        seat.ground = Some(ground);
        let mut names = std::mem::take(&mut seat.names);
        if seat.epoch != footing.epoch {
            names = NameCache::default();
        }
        let Footing { version, layers, counters, dictionary, epoch } = footing;
        let names = names.renewed(version.naming(&counters));
        let digest_key = match counters.digest {
            Some(_) => Some(version.environment.digest_key()?),
            None => None,
        };
        let mut memory = std::mem::take(&mut seat.memory);
        memory.clear();
        let recorded =
            Point { memory: memory.mark(), counters, dictionary: Arc::clone(&dictionary) };
        Ok(Self {
            store,
            layers,
            epoch,
            before: Lsn(counters.lsn),
            memory,
            dictionary,
            counters,
            digest_key,
            requests: Vec::new(),
            base: version.number,
            names: RefCell::new(names),
            recorded,
            savepoint: None,
            is_sealed: false,
            scratch: std::mem::take(&mut seat.scratch),
            row: std::mem::take(&mut seat.row),
            seat,
        })
    }

    /// The values of a setting, see [`View::setting_at_hand`].
    pub fn setting_at_hand(&self, name: &str) -> Option<&Arc<[String]>> {
        self.dictionary.setting(name)
    }

    /// The state that the changes so far have led to.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View::of_batch(BatchParts {
            ground: self.ground(),
            layers: Arc::clone(&self.layers),
            memory: &self.memory,
            dictionary: Arc::clone(&self.dictionary),
            counters: self.counters,
            names: &self.names,
            uses: &self.store.holds.writer,
        })
    }

    /// An index is added: what was counted of its id was another one's.
    pub(crate) fn begin_index_uses(&self, id: u16) {
        self.store.holds.begin_index(id);
    }

    /// The id for the next entry that is added. The same until one is added.
    #[must_use]
    pub const fn next_entry_id(&self) -> EntryId {
        EntryId(self.counters.next_entry_id)
    }

    /// The place of the last record in the history, those of this batch included.
    #[must_use]
    pub const fn last(&self) -> Mark {
        self.counters.mark()
    }

    /// The memory that the rows of the batch take, in bytes. A row that is changed again takes it
    /// again, whole, until the batch ends: small changes of a large entry take much.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.memory.row_bytes()
    }

    /// Remembers the state, to come back to it. There is one savepoint at a time.
    pub fn savepoint(&mut self) {
        assert!(self.savepoint.is_none(), "a savepoint is rolled back or released before the next");
        let recorded = self.recorded.clone();
        self.savepoint = Some(Savepoint { point: self.point(), recorded });
    }

    /// Goes back to the savepoint: of changes and records since then nothing stays.
    pub fn rollback(&mut self) {
        let savepoint = self.savepoint.take().expect("a savepoint is set before it is rolled back");
        self.go_back(&savepoint.point);
        self.recorded = savepoint.recorded;
    }

    /// Forgets the savepoint: what was done since then stays.
    pub fn release(&mut self) {
        self.savepoint = None;
    }

    /// Makes a change. It was decided on what [`Self::view`] showed, so it fits; when it does not,
    /// nothing of it stays.
    pub fn change(&mut self, change: &Change) -> Result<(), StoreError> {
        let before = self.point();
        let result = self.make(change);
        if result.is_err() {
            self.go_back(&before);
        }
        result
    }

    /// Says that the changes since the last record are this one. When it is not the next, they are
    /// taken back.
    pub fn record(&mut self, mark: Mark) -> Result<Applied, StoreError> {
        if mark.lsn.0 != self.recorded.counters.lsn + 1 {
            let recorded = self.recorded.clone();
            self.go_back(&recorded);
            return Ok(Applied::Void);
        }
        self.counters.set_mark(&mark);
        self.recorded = self.point();
        if let Some(point) = self.counters.digest_point() {
            self.store.digests.note(point);
        }
        Ok(Applied::Done)
    }

    /// Says which request the last record is of, where a digest is kept: [`Store::requests`] tells
    /// it from then on.
    #[inline]
    pub fn keep_request(&mut self, id: [u8; 16]) {
        if self.digest_key.is_some() {
            let Mark { lsn, time_us, .. } = self.counters.mark();
            self.requests.push(KeptRequest { id, lsn, time_us });
        }
    }

    /// Makes the changes of a record of the log. One that is not the next changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Diverged`] when the record was made on another history; any error leaves
    /// nothing of the record.
    pub fn apply_record(
        &mut self,
        prev_hash: u64,
        mark: Mark,
        changes: &[Change],
    ) -> Result<Applied, StoreError> {
        assert!(self.is_recorded(), "changes are recorded before the next record is applied");
        if mark.lsn.0 != self.counters.lsn + 1 {
            return Ok(Applied::Void);
        }
        if prev_hash != self.counters.hash {
            return Err(StoreError::Diverged { lsn: mark.lsn });
        }
        for change in changes {
            if let Err(error) = self.change(change) {
                let recorded = self.recorded.clone();
                self.go_back(&recorded);
                return Err(error);
            }
        }
        self.record(mark)
    }

    /// Makes a change and records it, for those who write without a journal.
    pub fn apply(&mut self, change: &Change) -> Result<(), StoreError> {
        self.change(change)?;
        let Mark { lsn, hash, time_us, position } = self.last();
        let lsn = Lsn(lsn.0 + 1);
        let position = LogPosition { index: lsn.0, ..position };
        self.record(Mark { lsn, hash, time_us, position }).map(|_| ())
    }

    /// Ends the batch: later batches go on from its last record, readers do not see it yet. Should
    /// the layers it was made on have been dropped, it is, too.
    pub fn seal(mut self) -> Mark {
        let mark = self.last();
        if let Some(layer) = self.take_layer() {
            let dictionary = Arc::clone(&self.dictionary);
            self.is_sealed = self.store.versions.seal(self.epoch, layer, dictionary);
        }
        mark
    }

    /// Ends the batch and makes it visible in one step; returns its last record. For one that was
    /// begun with [`Store::begin_on_published`]; dropping what is tentative does not touch it.
    pub fn publish(mut self) -> Mark {
        let mark = self.last();
        if let Some(layer) = self.take_layer() {
            self.store.versions.append(layer, Arc::clone(&self.dictionary));
            self.store.note_published();
            self.is_sealed = true;
        }
        mark
    }

    /// Ends the batch and makes it, and all before it, durable in LMDB and visible; returns the
    /// number of the last change. For those who write without a journal.
    ///
    /// # Errors
    /// When LMDB fails; then nothing of the batch stays.
    pub fn commit(mut self) -> Result<Lsn, StoreError> {
        let lsn = self.last().lsn;
        if let Some(layer) = self.take_layer() {
            self.store.settle(self.epoch, layer, &self.dictionary)?;
            self.is_sealed = true;
            self.seat.release();
        }
        Ok(lsn)
    }

    /// The layer of the batch; none when nothing was recorded.
    fn take_layer(&mut self) -> Option<Arc<Layer>> {
        assert!(self.is_recorded(), "a batch is sealed when all its changes are recorded");
        if self.last().lsn == self.before {
            return None;
        }
        let first = Lsn(self.before.0 + 1);
        let layer = self.memory.seal(first, self.counters);
        Some(Arc::new(layer.with_requests(std::mem::take(&mut self.requests))))
    }

    fn is_recorded(&self) -> bool {
        self.memory.mark() == self.recorded.memory
    }

    fn point(&self) -> Point {
        let dictionary = Arc::clone(&self.dictionary);
        Point { memory: self.memory.mark(), counters: self.counters, dictionary }
    }

    fn go_back(&mut self, point: &Point) {
        if self.memory.mark() != point.memory {
            self.memory.undo(&point.memory);
            // Perhaps it knows names that are gone now.
            *self.names.get_mut() = NameCache::default();
        }
        self.counters = point.counters;
        while self.requests.last().is_some_and(|request| request.lsn.0 > self.counters.lsn) {
            self.requests.pop();
        }
        self.forget_moved_names();
        self.dictionary = Arc::clone(&point.dictionary);
    }

    /// Forgets names that moved.
    pub(crate) fn forget_moved_names(&mut self) {
        let naming = Naming { base: self.base, moved: self.counters.names_moved };
        self.names.get_mut().renew(naming);
    }

    /// Reads a row.
    #[inline]
    pub(crate) fn get(&self, table: PlainTable, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        let stack =
            Stack { memory: Some(&self.memory), layers: &self.layers, ground: self.ground() };
        stack.get(table, key)
    }

    #[inline]
    fn ground(&self) -> &Ground {
        self.seat.ground.as_ref().expect("a batch has a base until it ends")
    }

    /// Changes a row; none removes it.
    #[inline]
    pub(crate) fn put(&mut self, table: PlainTable, key: &[u8], value: Option<&[u8]>) {
        self.memory.put(table, key, value);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let is_untouched = self.memory.mark() == MemoryMark::default();
        self.seat.names = if self.is_sealed || is_untouched {
            std::mem::take(self.names.get_mut())
        } else {
            NameCache::default()
        };
        self.seat.epoch = self.epoch;
        // A base that has moved on is given up now: the next batch may be far.
        let ground = self.seat.ground.take();
        let is_current = |ground: &Ground| self.store.versions.with(|now| now.fits(ground));
        self.seat.ground = ground.filter(is_current);
        self.seat.memory = std::mem::take(&mut self.memory);
        self.seat.scratch = std::mem::take(&mut self.scratch);
        self.seat.row = std::mem::take(&mut self.row);
    }
}

/// The newest state, and a base that its layers fit over: `known` if they still do.
fn stand(versions: &Versions, mut known: Option<Ground>) -> Result<(Footing, Ground), StoreError> {
    loop {
        let footing = versions.footing();
        let ground = match known.take() {
            Some(ground) if footing.version.fits(&ground) => ground,
            Some(_) | None => Ground::take(&footing.version)?,
        };
        if footing.version.fits(&ground) {
            return Ok((footing, ground));
        }
        // The base has moved on in between, and the version is just about to.
        thread::yield_now();
    }
}
