//! What is told of the sinks: counts since the start, where each is, and what keeps it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use directory::sinks::Sink;
use environment::Timestamp;

/// All of them, by name.
#[derive(Debug, Default)]
pub(crate) struct SinkBoard(Mutex<BTreeMap<String, Arc<SinkFigures>>>);

/// What is told of one.
#[derive(Debug)]
pub(crate) struct SinkFigures {
    pub(crate) kind: &'static str,
    pub(crate) sent: AtomicU64,
    /// Attempts that failed.
    pub(crate) failed: AtomicU64,
    pub(crate) dead: AtomicU64,
    /// Changes that were gone before they could be told.
    pub(crate) missing: AtomicU64,
    /// The number of the change up to which it was told.
    pub(crate) position: AtomicU64,
    /// When the oldest change was made that it is being told; 0 for none.
    pending: AtomicU64,
    state: Mutex<Shown>,
}

/// What a sink does.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SinkState {
    /// Another server of the cluster has them at work.
    #[default]
    Standby,
    /// It sends, or waits for changes.
    Running,
    /// It tries again after a while.
    Waiting,
    /// It does nothing more until it is set up anew.
    Stopped,
}

#[derive(Clone, Debug, Default)]
struct Shown {
    state: SinkState,
    why: String,
}

impl SinkBoard {
    /// Keeps what is known of these, and forgets others.
    pub(super) fn keep(&self, sinks: &[Arc<Sink>]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|name, figures| {
            sinks.iter().any(|sink| sink.name == *name && sink.target.kind() == figures.kind)
        });
        for sink in sinks {
            let new = || Arc::new(SinkFigures::of(sink.target.kind()));
            all.entry(sink.name.clone()).or_insert_with(new);
        }
    }

    /// Those of one.
    pub(super) fn of(&self, sink: &Sink) -> Arc<SinkFigures> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(SinkFigures::of(sink.target.kind()));
        Arc::clone(all.entry(sink.name.clone()).or_insert_with(new))
    }

    /// All, in the order of their names.
    pub(crate) fn all(&self) -> Vec<(String, Arc<SinkFigures>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, figures)| (name.clone(), Arc::clone(figures))).collect()
    }
}

impl SinkFigures {
    fn of(kind: &'static str) -> Self {
        Self {
            kind,
            sent: AtomicU64::default(),
            failed: AtomicU64::default(),
            dead: AtomicU64::default(),
            missing: AtomicU64::default(),
            position: AtomicU64::default(),
            pending: AtomicU64::default(),
            state: Mutex::default(),
        }
    }

    /// It does something else now; `true` if it did before, or for another reason.
    pub(super) fn is(&self, state: SinkState, why: &str) -> bool {
        let mut shown = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = shown.state != state || shown.why != why;
        if is_new {
            *shown = Shown { state, why: why.to_owned() };
        }
        is_new
    }

    /// What it does, and why not more.
    pub(crate) fn state(&self) -> (SinkState, String) {
        let shown = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (shown.state, shown.why.clone())
    }

    /// The oldest change that it is being told was made then; none: it was told all.
    pub(super) fn is_behind(&self, since: Option<Timestamp>) {
        self.pending.store(since.map_or(0, |since| since.0), Ordering::Relaxed);
    }

    /// How old the oldest change is that it is being told, in microseconds.
    pub(crate) fn lag_us(&self, now: Timestamp) -> u64 {
        match self.pending.load(Ordering::Relaxed) {
            0 => 0,
            since => now.0.saturating_sub(since),
        }
    }
}

impl SinkState {
    /// Its word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
        }
    }
}
