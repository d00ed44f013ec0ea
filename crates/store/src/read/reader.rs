//! Readers: what a thread reads with.
//!
//! Invariant: taking a view takes no lock and waits for nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::awaited::Caught;
use crate::overlay::flush::now;
use crate::overlay::stack::Ground;
use crate::read::row_cache::Remembered;
use crate::read::uses::{CacheUses, Uses, UsesSum, has_place};
use crate::read::view::{Memories, View, ViewParts};
use crate::store::Store;

/// What one thread reads with; it keeps its view while nothing is published, and what the view
/// reads of LMDB until that has moved on.
#[derive(Debug)]
pub struct StoreReader {
    store: Arc<Store>,
    /// As of this exchange of the version.
    exchanges: u64,
    view: Option<View<'static>>,
    /// Kept here while there is no view.
    memories: Memories,
    /// For whoever asks who keeps old pages.
    hold: Arc<Hold>,
}

/// Which commit of LMDB a reader holds.
#[derive(Debug, Default)]
struct Hold {
    /// 0 while it holds none.
    commit: AtomicU64,
    /// Since when, in µs since the store was opened.
    since_us: AtomicU64,
    /// How many names it remembers.
    names: AtomicU64,
    uses: Arc<Uses>,
}

/// What the readers of a store hold, and what they use.
#[derive(Debug)]
pub(crate) struct Holds {
    opened: std::time::Instant,
    all: Mutex<All>,
    /// What the writer uses.
    pub(crate) writer: Uses,
}

#[derive(Debug, Default)]
struct All {
    holds: Vec<Weak<Hold>>,
    /// What readers used that are gone.
    ended: UsesSum,
    /// What was counted of each index before it was added: its id was another one's.
    before: UsesSum,
}

impl Default for Holds {
    fn default() -> Self {
        Self { opened: now(), all: Mutex::default(), writer: Uses::default() }
    }
}

impl Holds {
    fn add(&self) -> Arc<Hold> {
        let hold = Arc::<Hold>::default();
        let mut all = self.all();
        all.holds.retain(|hold| hold.strong_count() > 0);
        all.holds.push(Arc::downgrade(&hold));
        hold
    }

    /// A reader is gone; what it has used was used nevertheless.
    fn end(&self, hold: &Arc<Hold>) {
        let mut all = self.all();
        all.holds.retain(|one| !std::ptr::eq(one.as_ptr(), Arc::as_ptr(hold)));
        all.ended.add(&hold.uses);
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sum(&self, all: &All) -> UsesSum {
        let mut sum = all.ended.clone();
        sum.add(&self.writer);
        all.holds.iter().filter_map(Weak::upgrade).for_each(|hold| sum.add(&hold.uses));
        sum
    }

    /// An index is added: from now on the id is its own.
    pub(crate) fn begin_index(&self, id: u16) {
        // The place of several is nobody's to begin anew.
        if has_place(id) {
            let mut all = self.all();
            let sum = self.sum(&all);
            all.before.set_index(id, &sum);
        }
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn names(&self) -> u64 {
        let all = self.all();
        let all = all.holds.iter().filter_map(Weak::upgrade);
        all.map(|hold| hold.names.load(Ordering::Relaxed)).sum()
    }

    /// How long a reader has held pages that would be free without it: those of a commit before
    /// `last`.
    pub(crate) fn oldest(&self, last: u64) -> Duration {
        let now_us = self.elapsed_us();
        let all = self.all();
        let held = all.holds.iter().filter_map(Weak::upgrade).filter(|hold| {
            let commit = hold.commit.load(Ordering::Relaxed);
            commit > 0 && commit < last
        });
        let since = held.map(|hold| hold.since_us.load(Ordering::Relaxed)).min();
        Duration::from_micros(since.map_or(0, |since| now_us.saturating_sub(since)))
    }
}

impl Store {
    /// What a thread reads with.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> StoreReader {
        let store = Arc::clone(self);
        let memories = Memories { rows: Some(Remembered::default()), ..Memories::default() };
        let hold = self.holds.add();
        StoreReader { store, exchanges: 0, view: None, memories, hold }
    }

    /// How often each index was asked, by its id: since the store was opened, or since the index
    /// was added. Those of ids from some hundreds on have one count together, and no id.
    #[must_use]
    pub fn index_uses(&self) -> IndexUses {
        let all = self.holds.all();
        IndexUses { now: self.holds.sum(&all), before: all.before.clone() }
    }

    /// How often names of superiors were wanted.
    #[must_use]
    pub fn name_uses(&self) -> CacheUses {
        let all = self.holds.all();
        self.holds.sum(&all).names
    }

    /// How often readers wanted rows of the base that lead to one entry or none: remembered, or
    /// read and remembered from then on.
    #[must_use]
    pub fn row_uses(&self) -> CacheUses {
        let all = self.holds.all();
        self.holds.sum(&all).rows
    }

    /// A view of what is published; nobody counts what it uses.
    pub(crate) fn snapshot(&self, memories: Memories) -> Result<View<'static>, StoreError> {
        self.view(memories, Arc::default())
    }

    fn view(&self, memories: Memories, uses: Arc<Uses>) -> Result<View<'static>, StoreError> {
        loop {
            let version = self.versions.load();
            let ground = Ground::take(&version)?;
            if version.fits(&ground) {
                return Ok(View::of_reader(ground, &version, memories, uses));
            }
            // The base has moved on in between, and the version is just about to.
            thread::yield_now();
        }
    }
}

impl Store {
    /// A view of a state that was caught, for as long as the hold is kept.
    pub(crate) fn view_caught(&self, caught: Caught) -> (View<'static>, HeldPages) {
        let Caught { ground, version } = caught;
        let hold = self.holds.add();
        let uses = Arc::clone(&hold.uses);
        let view = View::of_reader(ground, &version, Memories::default(), uses);
        hold.since_us.store(self.holds.elapsed_us(), Ordering::Relaxed);
        hold.commit.store(view.commit(), Ordering::Relaxed);
        (view, HeldPages(hold))
    }
}

/// Says that pages are held, as long as it is there.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there until it goes")]
pub(crate) struct HeldPages(Arc<Hold>);

impl StoreReader {
    /// The view of what is published.
    #[inline]
    pub fn view(&mut self) -> Result<&View<'static>, StoreError> {
        let exchanges = self.store.versions.exchanges();
        if self.view.is_none() || self.exchanges != exchanges {
            self.refresh(exchanges)?;
        }
        Ok(self.view.as_ref().expect("a refreshed reader has a view"))
    }

    #[inline(never)]
    fn refresh(&mut self, exchanges: u64) -> Result<(), StoreError> {
        // Read before the version is: a later exchange makes for another look, never for none.
        self.exchanges = exchanges;
        if let Some(view) = &mut self.view
            && self.store.versions.with(|version| view.move_to(version))
        {
            return Ok(());
        }
        self.release();
        let uses = Arc::clone(&self.hold.uses);
        let view = self.store.view(std::mem::take(&mut self.memories), uses)?;
        self.hold.since_us.store(self.store.holds.elapsed_us(), Ordering::Relaxed);
        self.hold.commit.store(view.commit(), Ordering::Relaxed);
        self.view = Some(view);
        Ok(())
    }

    /// Gives the view up, so that its pages and layers can be used again. Call it before waiting
    /// for long.
    pub fn release(&mut self) {
        if let Some(view) = self.view.take() {
            self.memories = view.into_memories();
            self.hold.names.store(self.memories.names.len() as u64, Ordering::Relaxed);
            self.hold.commit.store(0, Ordering::Relaxed);
        }
    }
}

/// A view that its reader has given away: it stays what it is, on whichever thread it is read.
///
/// LMDB reuses none of its pages until it is dropped.
#[derive(Debug)]
pub struct DetachedView {
    /// None only while it is read.
    parts: Option<ViewParts>,
    store: Arc<Store>,
    hold: Arc<Hold>,
}

impl StoreReader {
    /// Gives the view away, if there is one; what it remembers stays here.
    pub fn detach(&mut self) -> Option<DetachedView> {
        let view = self.view.take()?;
        let commit = view.commit();
        let mut parts = view.into_parts()?;
        self.memories = parts.forget();
        self.hold.names.store(self.memories.names.len() as u64, Ordering::Relaxed);
        self.hold.commit.store(0, Ordering::Relaxed);
        let hold = self.store.holds.add();
        hold.since_us.store(self.hold.since_us.load(Ordering::Relaxed), Ordering::Relaxed);
        hold.commit.store(commit, Ordering::Relaxed);
        Some(DetachedView { parts: Some(parts), store: Arc::clone(&self.store), hold })
    }
}

impl DetachedView {
    /// The number of the last change that is in it; none after reading it has panicked.
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        self.parts.as_ref().map(ViewParts::lsn)
    }

    /// Reads it; none after reading it has panicked.
    pub fn read<T>(&mut self, read: impl FnOnce(&View<'static>) -> T) -> Option<T> {
        let view = self.parts.take()?.into_view(Arc::clone(&self.hold.uses));
        let found = read(&view);
        self.parts = view.into_parts();
        Some(found)
    }
}

impl Drop for DetachedView {
    fn drop(&mut self) {
        self.store.holds.end(&self.hold);
    }
}

impl Drop for StoreReader {
    fn drop(&mut self) {
        self.store.holds.end(&self.hold);
    }
}

/// How often indexes were asked.
#[derive(Clone, Debug)]
pub struct IndexUses {
    now: UsesSum,
    before: UsesSum,
}

impl IndexUses {
    /// Look-ups of the index with this id: parts of filters, sorted searches, questions of the
    /// server's own. None for one that is not counted by itself.
    #[must_use]
    pub fn of(&self, id: u16) -> Option<u64> {
        has_place(id).then(|| self.now.index(id).saturating_sub(self.before.index(id)))
    }

    /// Those of all indexes that are not counted each by itself.
    #[must_use]
    pub fn of_others(&self) -> u64 {
        self.now.index(u16::MAX)
    }
}
