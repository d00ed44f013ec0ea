//! The pace of the overlay: how large it is, who is to be woken, and who has to wait.
//!
//! Invariant: publishing takes the lock only when somebody is to be woken: when there is something
//! to flush after there was nothing, when the overlay has grown enough, or when there are enough
//! layers to merge.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::position::Lsn;
use crate::error::StoreError;
use crate::overlay::layer::Layer;
use crate::overlay::merge;
use crate::overlay::version::{Version, Versions};

/// When the overlay is flushed.
#[derive(Clone, Debug)]
pub struct FlushOptions {
    /// So much memory the overlay may take, in bytes; who writes waits while it is full.
    pub overlay_max_bytes: u64,
    /// So large, in bytes, it is flushed. Large flushes cost less for each change.
    pub flush_bytes: u64,
    /// It is flushed, however small, when its oldest change is so old.
    pub flush_after: Duration,
    /// After a flush that failed it is so long until the next.
    pub retry_after: Duration,
    /// Building and removing indexes takes at most so much of the time, in percent.
    pub index_build_percent: u8,
}

impl FlushOptions {
    /// The defaults, with another bound.
    #[must_use]
    pub const fn with_overlay_max(overlay_max_bytes: u64) -> Self {
        Self {
            overlay_max_bytes,
            flush_bytes: overlay_max_bytes / 8 * 3,
            flush_after: Duration::from_secs(10),
            retry_after: Duration::from_secs(1),
            index_build_percent: 50,
        }
    }
}

impl Default for FlushOptions {
    fn default() -> Self {
        Self::with_overlay_max(256 << 20)
    }
}

/// How the overlay is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OverlayStatus {
    /// The memory it takes.
    pub bytes: u64,
    /// The memory it may take.
    pub bytes_max: u64,
    /// The memory that layers take which left the overlay, and which views still hold.
    pub retired_bytes: u64,
    /// How many layers a reader looks through.
    pub layers: usize,
    /// How many flushes there were.
    pub flushes: u64,
    /// How many flushes failed.
    pub failures: u64,
    /// How long the last flush took, in milliseconds.
    pub last_flush_ms: u64,
    /// How long all flushes took together.
    pub flushing: Duration,
    /// How long its oldest change has waited for a flush.
    pub oldest_change: Duration,
    /// Why the last flush failed; none when it did not.
    pub last_error: Option<String>,
    /// Whether it failed for want of room on the disk.
    pub is_disk_full: bool,
}

#[derive(Debug)]
pub(crate) struct Pace {
    /// What the layers of the version take.
    bytes: AtomicU64,
    /// So large the overlay may be; without a flusher as large as it gets.
    bytes_max: AtomicU64,
    /// The flusher is woken when the overlay is so large.
    flush_bytes: AtomicU64,
    /// The merger is woken when there are so many layers.
    merge_layers: AtomicU64,
    /// Something is published that is not in the base.
    is_dirty: AtomicBool,
    state: Mutex<State>,
    /// Wakes the flusher.
    flush: Condvar,
    /// Wakes the merger.
    merge: Condvar,
    /// Wakes who waits for room.
    room: Condvar,
    /// Wakes who works on indexes.
    index: Condvar,
    /// Whoever works on indexes waits until there is something to do.
    is_indexer_idle: AtomicBool,
    /// Held by whoever puts a layer in the place of others.
    merging: Mutex<()>,
    /// Layers that left the version; readers may still hold them. They are dropped here, so that it
    /// is not a reader who has to give so much memory back.
    retired: Mutex<Vec<Arc<Layer>>>,
}

#[derive(Debug, Default)]
struct State {
    membership: Option<Arc<[u8]>>,
    /// Layers up to this change are being flushed.
    frozen: Lsn,
    /// Since when something has been published that is not in the base.
    dirty_since: Option<Instant>,
    /// Before this the flusher does not try again.
    not_before: Option<Instant>,
    /// A flush is wanted now, if there is anything to flush.
    is_flush_wanted: bool,
    /// Why the last step on indexes failed; none when it did not.
    index_error: Option<String>,
    is_stopping: bool,
    flushes: u64,
    failures: u64,
    last_flush: Duration,
    /// All flushes together.
    flushing: Duration,
    last_error: Option<String>,
    /// The last flush failed for want of room on the disk.
    is_disk_full: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
            flush_bytes: AtomicU64::new(u64::MAX),
            merge_layers: AtomicU64::new(u64::MAX),
            is_dirty: AtomicBool::new(false),
            state: Mutex::default(),
            flush: Condvar::new(),
            merge: Condvar::new(),
            room: Condvar::new(),
            index: Condvar::new(),
            is_indexer_idle: AtomicBool::new(false),
            merging: Mutex::default(),
            retired: Mutex::default(),
        }
    }
}

impl Pace {
    /// The version has other layers now.
    pub(crate) fn note(&self, versions: &Versions) {
        let (bytes, layers) = self.measure(versions);
        let is_first = layers > 0 && !self.is_dirty.swap(true, Ordering::AcqRel);
        if is_first {
            self.state().dirty_since = Some(now());
            self.flush.notify_all();
        } else if bytes >= self.flush_bytes.load(Ordering::Acquire) {
            drop(self.state());
            self.flush.notify_all();
        }
        if layers >= self.merge_layers.load(Ordering::Acquire) {
            drop(self.state());
            self.merge.notify_all();
        }
    }

    /// How large the overlay is, and how many layers it has.
    fn measure(&self, versions: &Versions) -> (u64, u64) {
        loop {
            let exchanges = versions.exchanges();
            let (bytes, layers) =
                versions.with(|version| (bytes_of(version), version.layers.len() as u64));
            self.bytes.store(bytes, Ordering::Release);
            // Else somebody may have stored the size of the next version before this was.
            if versions.exchanges() == exchanges {
                return (bytes, layers);
            }
        }
    }

    /// What is to be flushed: the merger keeps off it from now on.
    pub(super) fn freeze(&self, versions: &Versions) -> Arc<Version> {
        let mut state = self.state();
        let version = versions.load();
        state.frozen = Lsn(version.counters.lsn);
        version
    }

    /// A flush has come to its end.
    pub(super) fn flushed(&self, versions: &Versions, begin: Instant, error: Option<&StoreError>) {
        let mut state = self.state();
        state.frozen = Lsn(0);
        state.is_flush_wanted = false;
        let time = begin.elapsed();
        state.last_flush = time;
        state.flushing += time;
        match error {
            None => {
                state.flushes += 1;
                state.dirty_since = None;
                state.last_error = None;
                state.is_disk_full = false;
                state.not_before = None;
            }
            Some(error) => {
                state.failures += 1;
                state.last_error = Some(error.to_string());
                state.is_disk_full = matches!(error, StoreError::Full);
            }
        }
        // Before the version is looked at: what is published from now on notices that it is the
        // first, and waits for the lock to say so.
        self.is_dirty.store(false, Ordering::SeqCst);
        let (_, layers) = self.measure(versions);
        if layers > 0 {
            self.is_dirty.store(true, Ordering::SeqCst);
            state.dirty_since.get_or_insert(begin);
        }
        // It looks anew at how many layers there are.
        self.merge_layers.store(0, Ordering::Release);
        drop(state);
        self.room.notify_all();
        self.merge.notify_all();
        self.index.notify_all();
        self.sweep();
    }

    /// The layers that the merger should make one, and their tier: those of tiers below `below`
    /// that came after the change `after` and are not being flushed.
    pub(super) fn layers_to_merge(
        &self,
        versions: &Versions,
        below: u32,
        after: Lsn,
    ) -> Option<(Vec<Arc<Layer>>, u32)> {
        let state = self.state();
        let version = versions.load();
        let after = after.max(state.frozen);
        let is_free = |layer: &&Arc<Layer>| layer.first() > after;
        let free: Vec<Arc<Layer>> = version.layers.iter().filter(is_free).cloned().collect();
        let sizes: Vec<usize> = free.iter().map(|layer| layer.bytes()).collect();
        let due = merge::due(&sizes, below);
        if due.is_none() {
            let more = merge::layers_until_due(&sizes) as u64;
            self.merge_layers.store(version.layers.len() as u64 + more, Ordering::Release);
        }
        let (run, tier) = due?;
        Some((free.get(run)?.to_vec(), tier))
    }

    /// Whether there are so many layers that some may have to be merged.
    pub(super) fn has_many(&self, versions: &Versions) -> bool {
        let layers = versions.with(|version| version.layers.len()) as u64;
        layers >= self.merge_layers.load(Ordering::Acquire)
    }

    /// Held while layers are merged and put in place.
    pub(super) fn merging(&self) -> MutexGuard<'_, ()> {
        self.merging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One layer has come in the place of others, and may be smaller.
    pub(super) fn merged(&self, versions: &Versions) {
        self.measure(versions);
        drop(self.state());
        self.room.notify_all();
    }

    /// Keeps layers that left the version until no reader has them.
    pub(super) fn retire<'l>(&self, layers: impl Iterator<Item = &'l Arc<Layer>>) {
        self.retired().extend(layers.cloned());
    }

    /// Drops the layers that no reader has any more.
    pub(super) fn sweep(&self) {
        let mut retired = self.retired();
        let (held, free) = retired.drain(..).partition(|layer| Arc::strong_count(layer) > 1);
        *retired = held;
        drop(retired);
        let free: Vec<Arc<Layer>> = free;
        drop(free);
    }

    pub(super) fn set_membership(&self, membership: Vec<u8>) {
        self.state().membership = Some(membership.into());
    }

    /// What was set counts no more: another base has its own.
    pub(crate) fn forget_membership(&self) {
        self.state().membership = None;
    }

    /// What was set and is not in the base yet.
    pub(super) fn membership(&self) -> Option<Arc<[u8]>> {
        self.state().membership.clone()
    }

    pub(super) fn membership_written(&self, written: Option<Arc<[u8]>>) {
        let mut state = self.state();
        let is_same = |one: &Arc<[u8]>| written.as_ref().is_some_and(|own| Arc::ptr_eq(one, own));
        if state.membership.as_ref().is_some_and(is_same) {
            state.membership = None;
        }
    }

    pub(super) fn wait_for_room(&self, timeout: Duration) -> bool {
        let max = self.bytes_max.load(Ordering::Acquire);
        let slow_from = max / 4 * 3;
        let bytes = self.bytes.load(Ordering::Acquire);
        if bytes < slow_from {
            return true;
        }
        if bytes < max {
            let share = (bytes - slow_from) as f64 / (max - slow_from) as f64;
            let delay = SLOW_DOWN_MAX.mul_f64(share).min(timeout);
            return self.wait_while(delay, |bytes| bytes >= slow_from) < max;
        }
        // There is nothing to wait for while the disk has no room for the flush either.
        let timeout = if self.state().is_disk_full { Duration::ZERO } else { timeout };
        self.wait_while(timeout, |bytes| bytes >= max) < max
    }

    /// Waits while the size of the overlay is such; returns the size in the end.
    fn wait_while(&self, timeout: Duration, is_such: impl Fn(u64) -> bool) -> u64 {
        let is_such = |_: &mut State| is_such(self.bytes.load(Ordering::Acquire));
        let waited = self.room.wait_timeout_while(self.state(), timeout, is_such);
        drop(waited);
        self.bytes.load(Ordering::Acquire)
    }

    pub(super) fn status(&self, versions: &Versions) -> OverlayStatus {
        let retired_bytes = self.retired().iter().map(|layer| layer.bytes() as u64).sum();
        let layers = versions.with(|version| version.layers.len());
        let state = self.state();
        OverlayStatus {
            bytes: self.bytes.load(Ordering::Acquire),
            bytes_max: self.bytes_max.load(Ordering::Acquire),
            retired_bytes,
            layers,
            flushes: state.flushes,
            failures: state.failures,
            last_flush_ms: u64::try_from(state.last_flush.as_millis()).unwrap_or(u64::MAX),
            flushing: state.flushing,
            oldest_change: state.dirty_since.map_or(Duration::ZERO, |since| since.elapsed()),
            last_error: state.last_error.clone(),
            is_disk_full: state.is_disk_full,
        }
    }

    pub(super) fn begin(&self, options: &FlushOptions) {
        self.state().is_stopping = false;
        self.bytes_max.store(options.overlay_max_bytes, Ordering::Release);
        self.flush_bytes.store(options.flush_bytes, Ordering::Release);
        self.merge_layers.store(0, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.state().is_stopping = true;
        for limit in [&self.bytes_max, &self.flush_bytes, &self.merge_layers] {
            limit.store(u64::MAX, Ordering::Release);
        }
        self.flush.notify_all();
        self.merge.notify_all();
        self.room.notify_all();
        self.index.notify_all();
    }

    /// Waits until there is something to flush; false when it is to stop.
    pub(super) fn wait_for_flush(&self, options: &FlushOptions) -> bool {
        let mut state = self.state();
        while !state.is_stopping {
            let now = now();
            let is_large = self.bytes.load(Ordering::Acquire) >= options.flush_bytes;
            let due = match (is_large, state.dirty_since) {
                (true, _) => Some(now),
                (false, Some(_)) if state.is_flush_wanted => Some(now),
                (false, Some(since)) => Some(since + options.flush_after),
                (false, None) => None,
            };
            let due = due.map(|due| state.not_before.map_or(due, |other| due.max(other)));
            let wait = match due {
                Some(due) if due <= now => return true,
                Some(due) => due - now,
                None => options.flush_after,
            };
            state = self
                .flush
                .wait_timeout(state, wait)
                .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
        false
    }

    /// The flusher rests after a failure.
    pub(super) fn not_before(&self, when: Instant) {
        self.state().not_before = Some(when);
    }

    /// Waits until there may be layers to merge; false when it is to stop.
    pub(super) fn wait_for_merge(&self, versions: &Versions) -> bool {
        let mut state = self.state();
        while !state.is_stopping {
            if self.has_many(versions) {
                return true;
            }
            state = self.merge.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state().is_stopping
    }

    /// There is something to do on indexes.
    pub(crate) fn wake_builder(&self) {
        if self.is_indexer_idle.swap(false, Ordering::AcqRel) {
            drop(self.state());
            self.index.notify_all();
        }
    }

    /// Waits until there may be something to do on indexes. `has_work` is asked after it was said
    /// that somebody waits: what comes then wakes it.
    pub(crate) fn wait_for_index_work(&self, has_work: impl Fn() -> bool) {
        // Exchanged, not stored: whoever found it false before has published before.
        self.is_indexer_idle.swap(true, Ordering::SeqCst);
        if has_work() {
            self.is_indexer_idle.store(false, Ordering::SeqCst);
            return;
        }
        let is_idle =
            |state: &mut State| !state.is_stopping && self.is_indexer_idle.load(Ordering::Acquire);
        drop(self.index.wait_while(self.state(), is_idle));
    }

    /// Wants a flush now, and waits for its end, but not longer than this.
    pub(crate) fn flush_soon(&self, timeout: Duration) {
        let mut state = self.state();
        let flushes = state.flushes;
        state.is_flush_wanted = true;
        self.flush.notify_all();
        let is_such = |state: &mut State| !state.is_stopping && state.flushes == flushes;
        drop(self.index.wait_timeout_while(state, timeout, is_such));
    }

    /// Waits, but not when it is to stop.
    pub(crate) fn rest(&self, time: Duration) {
        let is_such = |state: &mut State| !state.is_stopping;
        drop(self.index.wait_timeout_while(self.state(), time, is_such));
    }

    /// A step on indexes has come to its end.
    pub(crate) fn index_step_ended(&self, error: Option<&StoreError>) {
        let error = error.map(StoreError::to_string);
        let mut state = self.state();
        if state.index_error != error {
            state.index_error = error;
        }
    }

    /// Why the last step on indexes failed.
    pub(crate) fn index_error(&self) -> Option<String> {
        self.state().index_error.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Arc<Layer>>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time by which flushes are due. It decides when something is written, never what.
#[allow(clippy::disallowed_methods, reason = "what is stored does not depend on it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn bytes_of(version: &Version) -> u64 {
    version.layers.iter().map(|layer| layer.bytes() as u64).sum()
}

/// The longest that a batch is delayed when the overlay is nearly full.
const SLOW_DOWN_MAX: Duration = Duration::from_millis(10);
