//! What the journal's thread and its callers share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::files::Files;
use crate::log::Log;
use crate::segment::{Segment, first_readable, locate};
use crate::{JournalError, JournalPosition, JournalStatus};

/// The state of an open journal.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) files: Files,
    state: Mutex<State>,
    poison: OnceLock<String>,
    pub(crate) counters: Counters,
}

/// What changes with every group.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) log: Log,
    pub(crate) durable: Option<JournalPosition>,
    /// Oldest first; the last one is being written.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Where recovery would begin after a power cut now: the sequence of a segment. What is only
    /// written may say that those from it on are not needed, and may be lost.
    pub(crate) needed_from: u64,
    pub(crate) is_full: bool,
}

/// Counts since the journal was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) groups: AtomicU64,
    pub(crate) appended: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_us: AtomicU64,
    pub(crate) longest_sync_us: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// A sync took so long.
    pub(crate) fn synced(&self, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self::add(&self.syncs, 1);
        Self::add(&self.sync_us, time_us);
        self.longest_sync_us.fetch_max(time_us, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(files: Files, log: Log, segments: Vec<Arc<Segment>>) -> Self {
        let mut state = State { log, durable: None, segments, needed_from: 0, is_full: false };
        state.synced();
        Self {
            files,
            state: Mutex::new(state),
            poison: OnceLock::new(),
            counters: Counters::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets runs that are not in any segment, which an earlier purge could not do.
    pub(crate) fn forget_runs(&mut self) {
        self.state().forget_runs();
    }

    /// Ends all appending. The first reason stays.
    pub(crate) fn poison(&self, reason: String) -> JournalError {
        let reason = self.poison.get_or_init(|| reason).clone();
        JournalError::Poisoned { reason }
    }

    /// An error once the journal is poisoned.
    pub(crate) fn check(&self) -> Result<(), JournalError> {
        match self.poison.get() {
            Some(reason) => Err(JournalError::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Gives up purged segments, oldest first, while more than `keep_bytes` of them are kept.
    pub(crate) fn give_up(&self) -> Result<(), JournalError> {
        let keep_bytes = self.files.options.keep_bytes;
        let take = || {
            let mut state = self.state();
            let needed_from = state.needed_from;
            let is_purged = |segment: &&Arc<Segment>| segment.sequence() < needed_from;
            let purged = || state.segments.iter().take_while(is_purged);
            let mut kept: u64 = purged().map(|segment| segment.opened.len).sum();
            let mut count = 0;
            for segment in purged() {
                if kept <= keep_bytes {
                    break;
                }
                kept -= segment.opened.len;
                count += 1;
            }
            state.segments.drain(..count).collect()
        };
        let put_back = |rest: Vec<Arc<Segment>>| drop(self.state().segments.splice(..0, rest));
        let given_up = self.files.recycle(take, put_back);
        self.state().forget_runs();
        given_up
    }

    /// The last index before the newest segments that take `bytes` together, or more by one
    /// segment; 0 if all take less. Of no bytes it is the last one.
    pub(crate) fn before_newest(&self, bytes: u64) -> u64 {
        let state = self.state();
        if bytes == 0 {
            return state.log.next.saturating_sub(1);
        }
        let (mut taken, mut first) = (0, u64::MAX);
        for segment in state.segments.iter().rev() {
            taken += segment.opened.len;
            // A later one begins before an earlier one where the end of the log was truncated.
            first = first.min(segment.first);
            if taken >= bytes {
                return first.saturating_sub(1);
            }
        }
        0
    }

    pub(crate) fn status(&self) -> JournalStatus {
        let state = self.state();
        JournalStatus {
            first: first_readable(&state.log, &state.segments),
            last: state.log.last,
            durable: state.durable,
            purged: state.log.purged,
            committed: state.log.committed,
            bytes: state.segments.iter().map(|segment| segment.opened.len).sum(),
            segments: state.segments.len() as u64,
            groups: self.counters.groups.load(Ordering::Relaxed),
            appended: self.counters.appended.load(Ordering::Relaxed),
            syncs: self.counters.syncs.load(Ordering::Relaxed),
            sync_us: self.counters.sync_us.load(Ordering::Relaxed),
            longest_sync_us: self.counters.longest_sync_us.load(Ordering::Relaxed),
            written_bytes: self.counters.written_bytes.load(Ordering::Relaxed),
            is_full: state.is_full,
            is_poisoned: self.poison.get().cloned(),
        }
    }
}

impl State {
    /// Notes that all that was written is durable.
    pub(crate) fn synced(&mut self) {
        self.durable = self.log.last;
        let needed = locate(&self.log, &self.segments, self.log.needed());
        if let Some(segment) = needed.and_then(|at| self.segments.get(at)) {
            self.needed_from = segment.sequence();
        }
    }

    /// Forgets the runs of entries whose segments are gone.
    pub(crate) fn forget_runs(&mut self) {
        let first = first_readable(&self.log, &self.segments);
        self.log.forget_runs_before(first);
    }
}
